/* Byte-pair encoding from the command line: train, translate, tokenize, and all that can be wrong with merges. */
#include "support.h"

#define LEVELS                                                                                               \
    "-s data.src.level=bpe -s data.trg.level=bpe -s data.src.max_length=30 -s data.trg.max_length=30 "
#define MERGES "-s data.src.num_merges=2 -s data.trg.num_merges=3 "

/* Enters a tiny task whose words have two letters. */
static void enter_task(void)
{
    enter_tiny_task();
    run_ok("sed -i 's/ //g' train.tsv dev.tsv");
}

TestSuite(bpe, .init = enter_task);

Test(bpe, a_run_that_is_copied_translates)
{
    run_ok("qkv train c.yaml -q " LEVELS MERGES
           "&& mkdir away && mv run away/ && mv train.tsv dev.tsv away/");
    cr_expect(lacks(run_ok("printf 'abcde\\n\\nzq ab\\n' | qkv translate -q away/run"), "@@"));
    cr_expect(lacks(run_ok("qkv evaluate away/run away/dev.tsv"), "@@"));
    cr_expect(shows(run_ok("printf abcde | qkv tokenize away/run"), "@@"));
    cr_expect(shows(run("echo '?zq !' | qkv translate away/run").error,
                    "qkv: <stdin>:1: not in the vocabulary: ?, z, q, !; --as-trained reads it as: zq\n"));
    /* Maps and explanations show pieces. */
    cr_expect(shows(run_ok("qkv attention away/run abcde"), "@@") &&
              shows(run_ok("qkv explain away/run abcde"), "@@"));
}

Test(bpe, tokenize_prints_tokens)
{
    write_text(".", "s.codes", "#version: 0.2\na b\nab c</w>\n");
    write_text(".", "t.codes", "#version: 0.2\nA B\n");
    run_ok("qkv train c.yaml -q " LEVELS "-s data.src.bpe_codes=s.codes -s data.trg.bpe_codes=t.codes");
    run_ok("rm ?.codes");
    write_text(".", "lines", "abc  abd\n\nABC abc\n");
    cr_expect_str_eq(run_ok("qkv tokenize run lines"), "abc ab@@ d\n\nA@@ B@@ C abc\n");
    cr_expect_str_eq(run_ok("qkv tokenize run --side trg <lines"),
                     "a@@ b@@ c a@@ b@@ d\n\nAB@@ C a@@ b@@ c\n");
    cr_expect_str_eq(run_ok("cat run/source.codes"), "#version: 0.2\na b\nab c</w>\n");
    cr_expect_eq(run("qkv tokenize run lines --side both").exit_code, 2);
    cr_expect(refused(run("printf 'a\\nb\\377\\n' | qkv tokenize run 2>&1 >/dev/null | cat >&2; exit 2"),
                      "qkv: <stdin>:2:2: byte 0xFF is not valid UTF-8"));
    struct outcome outcome = run("echo '\U0001F600 zq' | qkv tokenize run");
    cr_expect_str_eq(outcome.output, "\U0001F600 z@@ q\n");
    cr_expect_str_eq(outcome.error, "qkv: <stdin>:1: not in the vocabulary: \U0001F600, z, q\n");
    outcome = run("echo 'abc xyz' | qkv tokenize run --side trg");
    cr_expect_str_eq(outcome.error, "qkv: <stdin>:1: not in the target vocabulary: a, b, c, x, y, z\n");
    cr_expect_str_empty(run("echo zq | qkv tokenize run -q").error);
    /* Runs of other levels have tokens, too. */
    enter(tiny_run("words", 1));
    cr_expect_str_eq(run_ok("echo 'a  b' | qkv tokenize run"), "a b\n");
    cr_expect_str_eq(run("printf 'a\\tb\\nb\\ta\\n' | qkv tokenize run").error,
                     "qkv: <stdin>:1: has a tab, but a line is one sentence: give one column (cut -f1)\n");
}

Test(bpe, training_resumes_with_the_merges_of_the_run)
{
    expect_equal_bits("c.yaml " LEVELS MERGES, "", 6);
    run_ok("cat one/source.codes one/target.codes >codes && cat stopped/source.codes stopped/target.codes | "
           "cmp - codes");
    static const char *const cases[][2] = {
        {"qkv train c.yaml --resume -s training.model_dir=one " LEVELS MERGES "-s data.src.num_merges=1",
         "one/last.safetensors: was trained with data.src.num_merges 2, but the config has 1: put it back"},
        {"sed -i 's/^\\(.\\) /z /' three/target.codes && echo ab | qkv translate three",
         ": was trained with other target merges: their checksum was "},
        {"rm three/target.codes && echo ab | qkv translate three",
         "qkv: three/target.codes: cannot be read: No such file or directory\n"},
    };
    EXPECT_FAILURES("", cases);
    /* A run of another level that replaces it keeps no merges. */
    run_ok("qkv train c.yaml -q --overwrite -s training.model_dir=three && ! ls three/source.codes 2>&1");
}

Test(bpe, a_run_keeps_its_frequent_pieces)
{
    write_text(".", "s.codes", "#version: 0.2\na b</w>\n");
    write_text(".", "few.tsv", "cd cd\tab cd\nab cd\tab ab\n");
    run_ok("qkv train c.yaml -q " LEVELS
           "-s data.train=few.tsv -s data.src.bpe_codes=s.codes -s data.trg.bpe_codes=s.codes -s "
           "data.src.bpe_min_freq=2 -s data.trg.bpe_min_freq=3 -s data.dev= -s training.batch_size=1");
    cr_expect_str_eq(run_ok("cat run/target.pieces"), "ab 3\n");
    cr_expect_str_eq(run_ok("cat run/source.pieces"), "c@@ 3\nd 3\n");
    cr_expect_str_eq(run_ok("echo ab cd | qkv tokenize run"), "a@@ b c@@ d\n");
    cr_expect_str_eq(run_ok("echo ab cd | qkv tokenize run --side trg"), "ab c@@ d\n");
    run_ok("sed -i '1d' run/source.pieces");
    cr_expect(shows(run("echo ab | qkv translate run").error,
                    ": was trained with other source merges: their checksum was "));
    run_ok("rm run/source.pieces");
    cr_expect(refused(run("echo ab | qkv translate run"),
                      "qkv: run/source.pieces: cannot be read: No such file or directory"));
}

Test(bpe, refuses_merges_that_cannot_be)
{
    static const char *const cases[][2] = {
        {"", "-s data.src.level=bpe: data.src.level is bpe, but needs data.src.num_merges above 0 or "
             "data.src.bpe_codes\n"
             "-s data.trg.level=bpe: data.trg.level is bpe, but needs data.trg.num_merges above 0 or "
             "data.trg.bpe_codes"},
        {MERGES "-s data.src.bpe_codes=x",
         "-s data.src.bpe_codes=x: data.src.bpe_codes is x and data.src.num_merges is 2, but merges are "
         "either learned or read: give one of them"},
        {MERGES "-s data.joint_vocabulary=true",
         "-s data.trg.num_merges=3: data.trg.num_merges is 3, but with a joint vocabulary must equal "
         "data.src.num_merges (2)"},
        {MERGES "-s data.src.num_merges=5000",
         "data.src.num_merges: 5000 merges are wanted, but the text has only "},
        {MERGES "-s data.src.num_merges=-1", "data.src.num_merges is -1, but must be between 0 and 1000000"},
        {"-s data.src.bpe_codes=bad.codes -s data.trg.num_merges=3",
         "bad.codes:1: holds byte-pair codes of version 0.1, but this qkv reads version 0.2"},
        {MERGES "-s data.src.level=word",
         "data.src.num_merges is 2, but has an effect only when data.src.level is bpe (it is word)"},
        {MERGES "-s data.trg.bpe_min_freq=100000",
         "data.trg.bpe_min_freq: no piece of the text occurs 100000 times"},
        {MERGES "-s data.src.bpe_min_freq=2 -s data.src.bpe_dropout=0.1",
         "data.src.bpe_min_freq is 2, but needs data.src.bpe_dropout to be 0: BPE dropout makes pieces of "
         "any frequency"},
        {MERGES "-s data.train=/dev/stdin",
         "/dev/stdin: level bpe reads the training text twice, once to learn merges: give a file, or merges "
         "in data.src.bpe_codes and data.trg.bpe_codes"},
    };
    write_text(".", "bad.codes", "#version: 0.1\n");
    EXPECT_FAILURES("<train.tsv qkv train c.yaml " LEVELS, cases);
    cr_expect_str_empty(run("ls run").output);
}

Test(bpe, gradcheck_learns_merges_as_training_does)
{
    run_ok("qkv config c.yaml " LEVELS MERGES
           ">b.yaml && qkv gradcheck b.yaml && qkv train b.yaml -q && qkv gradcheck run");
}
