/* qkv score: metrics, options, scores of sentences, and the comparison of systems. tests/metrics/ tests the numbers. */
#include "json.h"

/* Each test has the translations a and b, and the references r, of which the second has two. */
static void enter_texts(void)
{
    const char *folder = enter(scratch("texts"));
    write_text(folder, "a", "the cat sat on a mat\nA dog barks\nno\n");
    write_text(folder, "b", "the cat sat on the mat\nA dog is sleeping\nno\n");
    write_text(folder, "r", "The cat sat on the mat\nthe dog barks\tA dog is barking\nno\n");
}

TestSuite(score, .init = enter_texts);

Test(score, computes_the_metrics_that_are_asked_for)
{
    cr_expect(lacks(run_ok("qkv score a r"), "TER"));
    char *text = run_ok("qkv score a r -m ter --metrics bleu,chrf --chrf-word-order 2");
    cr_expect(shows(text, "TER                19.05  (nrefs:var|case:lc|tok:tercom|"));
    cr_expect(shows(text, "\nchrF++             ") && shows(text, "|nw:2|"));
    const cJSON *object = json_by("qkv score a r -m ter,bleu --json --tokenize intl");
    cr_expect_null(json_at(object, "chrf"));
    cr_expect_eq(json_number(object, "ter_details.edits"), 2);
    cr_expect_eq(json_number(object, "ter_details.reference_length"), 10.5);
    cr_expect_eq(json_number(object, "bleu_details.hypothesis_length"), 10);
    cr_expect_eq(json_number(object, "bleu_details.reference_length"), 10);
    cr_expect_eq(json_number(object, "bleu_details.brevity_penalty"), 1);
    cr_expect_eq(json_size(object, "bleu_details.precisions"), 4);
    cr_expect(shows(json_text(object, "bleu_signature"), "|tok:intl|"));
}

Test(score, gives_the_same_scores_as_evaluate)
{
    enter(tiny_run("score", 100));
    const char *evaluated = run_ok("qkv evaluate run dev.tsv");
    char *scored = run_ok(
        "cut -f1 dev.tsv | qkv translate run >out.txt && cut -f2 dev.tsv >reference.txt && qkv score "
        "out.txt reference.txt && qkv score - reference.txt <out.txt && qkv score out.txt - <reference.txt");
    int lines = 0, text_metrics = 0;
    for (const char *line = strtok(scored, "\n"); line; line = strtok(NULL, "\n"), lines++)
        cr_expect(shows(evaluated, format("\n%s\n", line)));
    for (int m = 0; m < QKV_METRIC_COUNT; m++)
        text_metrics +=
            qkv_metric_info((enum qkv_metric)m)->of_texts && !qkv_metric_info((enum qkv_metric)m)->on_request;
    cr_expect_eq(lines, 3 * text_metrics);
}

/* Every option reaches its metric: the signature says so, and the score changes. */
Test(score, passes_its_options_on)
{
    static const char *const cases[][3] = {
        {"-m bleu --lowercase", "-m bleu", "|case:lc|"},
        {"-m bleu --tokenize char", "-m bleu", "|tok:char|"},
        {"-m bleu --smooth-method floor", "-m bleu", "|smooth:floor[0.10]|"},
        {"-m bleu --smooth-method add-k --smooth-value 0.4", "-m bleu", "|smooth:add-k[0.40]|"},
        {"-m bleu --smooth-method none", "-m bleu", "|smooth:none|"},
        {"-m chrf --chrf-char-order 3", "-m chrf", "|nc:3|"},
        {"-m chrf --chrf-word-order 1", "-m chrf", "|nw:1|"},
        {"-m chrf --chrf-beta 1", "-m chrf", "|beta:1|"},
        {"-m ter --ter-normalized", "-m ter", "|norm:yes|"},
        {"-m ter --ter-no-punct", "-m ter", "|punct:no|"},
        {"-m ter --ter-case-sensitive", "-m ter", "|case:mixed|"},
    };
    const char *folder = enter(scratch("options"));
    write_text(folder, "a", "The dog, in the sun, sleeps\n");
    write_text(folder, "r", "the dog , sleeps in a sun\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *with = run_ok("qkv score a r %s", cases[i][0]);
        char *without = run_ok("qkv score a r %s", cases[i][1]);
        cr_expect(shows(with, cases[i][2]), "%s", cases[i][0]);
        cr_expect(lacks(without, cases[i][2]));
        *strchr(with, '(') = *strchr(without, '(') = '\0';
        cr_expect_str_neq(with, without, "%s", cases[i][0]);
    }
    write_text(folder, "a", "the dog\n");
    write_text(folder, "r", "the dog\n");
    cr_expect(shows(run_ok("qkv score a r"), "BLEU               0.00  ("));
    cr_expect(shows(run_ok("qkv score a r --effective-order"), "BLEU               100.00  ("));
}

Test(score, scores_each_sentence)
{
    char *table = run_ok("qkv score a r -m bleu,ter --sentence-level");
    cr_expect_str_eq(table,
                     "line\tbleu\tter\n1\t34.3295\t16.6667\n2\t79.3701\t28.5714\n3\t100.0000\t0.0000\n");
    const cJSON *object = json_by("qkv score a r -m bleu,ter --sentence-level --json");
    cr_assert_eq(json_size(object, "sentences"), 3);
    cr_expect_float_eq(json_number(object, "sentences.1.ter"), 100 / 3.5, 1e-12);
    cr_expect(shows(json_text(object, "bleu_signature"), "|eff:yes|"));
    cr_expect_gt(json_number(object, "bleu"), 10);
}

Test(score, compares_systems)
{
    char *text = run_ok("qkv score a r --against b --against a -m ter");
    cr_expect(shows(text, "TER  (nrefs:var|bs:1000|seed:12345|case:lc|"));
    cr_expect(shows(text, "   score      mean +- 95 %        p  system\n   19.05 "));
    cr_expect(shows(text, "  a\n    9.52 ") && shows(text, "   same  a\n"));
    const cJSON *object = json_by("qkv score a r --against b --samples 50 --seed 7 --json");
    cr_expect_eq(json_number(object, "samples"), 50);
    cr_expect_eq(json_number(object, "seed"), 7);
    cr_assert_eq(json_size(object, "systems"), 2);
    cr_expect_str_eq(json_text(object, "systems.1.system"), "b");
    cr_assert_not_null(json_at(object, "systems.0.bleu_bootstrap"));
    cr_expect_null(json_at(object, "systems.0.bleu_bootstrap.p_value"));
    double p = json_number(object, "systems.1.chrf_bootstrap.p_value");
    cr_expect(p >= 1. / 51 && p <= 1);
    cr_expect_eq(json_number(json_by("qkv score b r --json"), "bleu"), json_number(object, "systems.1.bleu"));
}

/* As in sacreBLEU: an empty column is no reference, unless there is no other. */
Test(score, reads_every_reference_of_a_line)
{
    run_ok(
        "cut -f1 r >one && sed 's/$/\t/' one >right && sed 's/^/\t\t/' one >left && printf 'a\n\n' >two && "
        "printf 'a\n\t\n' >tab && { for i in $(seq 99); do printf 'x y z\t'; done; head -1 a; } >hundred");
    char *one = run_ok("qkv score a one -m bleu,chrf,ter");
    cr_expect_str_eq(run_ok("qkv score a right -m bleu,chrf,ter"), one);
    cr_expect_str_eq(run_ok("qkv score a left -m bleu,chrf,ter 2>&1"), one, "an empty column is no source");
    cr_expect_str_eq(run_ok("qkv score two tab"), run_ok("qkv score two two"));
    cr_expect(shows(run_ok("head -1 a | qkv score - hundred"), "BLEU               100.00"));
}

Test(score, refuses)
{
    static const char *const cases[][2] = {
        {"a r -m x", "qkv: --metrics is 'x', but must be one of bleu, chrf, ter"},
        {"a r --tokenize into", "qkv: --tokenize is 'into'; did you mean intl"},
        {"a r --smooth-method add", "qkv: --smooth-method is 'add'; did you mean add-k"},
        {"a r --smooth-value 1",
         "qkv: --smooth-value has no effect with --smooth-method exp: choose floor or add-k"},
        {"a r --ter-normalized", "qkv: --ter-normalized has no effect without ter: add it to --metrics"},
        {"a r -m ter --lowercase",
         "qkv: --lowercase has no effect without bleu or chrf: add it to --metrics"},
        {"a r -m ter --chrf-beta 3", "qkv: --chrf-beta has no effect without chrf: add it to --metrics"},
        {"a r -m ter --tokenize none", "qkv: --tokenize has no effect without bleu: add it to --metrics"},
        {"a r --chrf-char-order 11", "qkv: --chrf-char-order is 11, but must lie between 1 and 10"},
        {"a r --samples 10", "qkv: --samples has no effect without --against or --confidence"},
        {"a r --seed 1", "qkv: --seed has no effect without --against or --confidence"},
        {"a r --against b --sentence-level",
         "qkv: --sentence-level has the scores of sentences: give it without --against and --confidence"},
        {"a r --against -", "qkv: r: has more lines than <stdin>, which ends after line 0"},
        {"- r --against -", "qkv: standard input can hold only one of the texts"},
        {"- -", "qkv: standard input can hold the translations or the references, not both"},
        {"a r --against none", "qkv: none: cannot be read: No such file or directory"},
        {"a r --against short", "qkv: r: has more lines than short, which ends after line 1"},
        {"a r --against long", "qkv: long: has more lines than r, which ends after line 3"},
        {"none r", "qkv: none: cannot be read: No such file or directory"},
        {"a none", "qkv: none: cannot be read: No such file or directory"},
        {"empty empty", "qkv: empty: the file is empty"},
        {"short a", "qkv: a: has more lines than short, which ends after line 1"},
        {"long - <a", "qkv: long: has more lines than <stdin>, which ends after line 3"},
        {"nul a", "qkv: nul:2:1: a NUL byte is not allowed in text"},
        {"bad a", "qkv: bad:1:4: byte 0xFF is not valid UTF-8"},
        {"a bad", "qkv: bad:1:4: byte 0xFF is not valid UTF-8"},
    };
    run_ok("echo a >short && printf 'a\nb\nc\nd\n' >long && : >empty && printf 'a\n\\000\n' >nul && "
           "printf 'a b\\377\n' >bad");
    EXPECT_REFUSALS("</dev/null qkv score", cases);
}

/* ---- notes about texts that may not be what they seem ---- */

/* Commands, and the beginning of the only note that each prints, or nothing. */
static void expect_notes(const char *const cases[][2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct outcome outcome = run("qkv %s", cases[i][0]);
        const char *note = *cases[i][1] ? format("qkv: note: %s", cases[i][1]) : "";
        size_t lines = *note ? 1 : 0;
        cr_expect(outcome.exit_code == 0 && !strncmp(outcome.error, note, strlen(note)), "%s: %s",
                  cases[i][0], outcome.error);
        for (const char *at = outcome.error; (at = strchr(at, '\n')); at++) lines--;
        cr_expect_eq(lines, 0, "%s: %s", cases[i][0], outcome.error);
    }
}
#define EXPECT_NOTES(cases) expect_notes(cases, sizeof cases / sizeof *cases)

#define SOURCE                                                                                               \
    " shares hardly any words with the translations, but each of the 2 columns counts as a reference: is "   \
    "it the source (cut -f2 takes one column)"
#define TOKENIZED "3 of 4 references look tokenized. BLEU with the tokenizer 13a"
#define CUT(piece, joining)                                                                                  \
    "the references are cut into pieces (such as " piece "), which scores count as words: join the pieces "  \
    "of both texts first: " joining
#define NO_SPACES "2 of 3 references have no spaces between words"
#define CAPITALS                                                                                             \
    "the translations have no capital letters, but 6 of 12 references do: BLEU and chrF count each as an "   \
    "error; --lowercase ignores case"

Test(score, notes_what_the_texts_may_be)
{
    static const char *const cases[][2] = {
        /* A file of sentence pairs, whose sources count as references; several references get no note. */
        {"score a pairs", "column 1 of pairs" SOURCE},
        {"score a pairs.gz --against b", "column 1 of pairs.gz" SOURCE},
        {"score pairs one --against a", "3 of 3 lines of pairs have a tab, which counts as white space: are "
                                        "they sentence pairs (cut -f2 takes one column)"},
        {"score a two", ""},
        {"score a r", ""}, /* not all lines have two columns */
        {"score a one", ""},
        /* Text of the tokenizer of Moses; of the columns, 4 of 12 look like it. */
        {"score moses moses", TOKENIZED},
        {"score moses moses --tokenize none", ""},
        {"score moses moses -m chrf", ""},
        {"score plain plain", ""},
        {"score plain columns", ""},
        /* Text that a program has cut into pieces, where not every sentence has a piece; with the command that joins them. */
        {"score bpe bpe", CUT("un@@", "sed -E 's/(@@ )|(@@ ?$)//g'")},
        {"score wordpiece wordpiece --against bpe", CUT("##ing", "sed 's/ ##//g'")},
        {"score sentencepiece plain.4 -m chrf", ""},
        {"score plain.4 sentencepiece -m chrf", CUT("\u2581the", "sed 's/ //g; s/\u2581/ /g'")},
        {"score joiner joiner", CUT("walk\uFFED", "sed -E 's/ ?\uFFED ?//g'")},
        {"score headings headings", ""},
        {"score zh zh", NO_SPACES},
        {"score zh zh --tokenize char", ""},
        {"score zh zh -m chrf", ""},
        {"score de de", ""},
        /* At least half of the references have capitals, and no translation has; not in a few sentences. */
        {"score lower capital", CAPITALS},
        {"score lower capital --against lower", CAPITALS},
        {"score lower.4 capital.4", ""},
        {"score lower capital --lowercase", ""},
        {"score lower capital -m ter", ""},
        {"score few capital", ""},
        {"score lower few", ""},
    };
    write_text(".", "german", "die Katze saß auf der Matte\nder Hund bellt\nnein\n");
    write_text(".", "moses", "it &apos;s a well @-@ known dog .\nI see , he said .\n\" Hi &quot; .\nyes\n");
    write_text(".", "bpe", "yes\nthe un@@ kind\nno\n");
    write_text(".", "wordpiece", "Yes\nwe are go ##ing\nno\n");
    write_text(".", "sentencepiece", "\u2581Yes\n\u2581we \u2581are \u2581go ing\n\u2581no\n");
    write_text(".", "joiner", "Yes\nwe are go\uFFED ing\nno\n");
    write_text(".", "headings", "## Yes\n##We are going @@ home @ 8, # 9\nno\n");
    write_text(".", "plain.4", "Yes\nwe are going\nno\n");
    write_text(".", "plain", "It's a well-known dog.\nI see, he said.\nA B. C .\nyes ?\n");
    write_text(".", "columns",
               "Hi.\tHi there.\tHi .\nA dog.\tThe dog.\tA dog .\nNo.\tNot.\tNo .\nYes.\tYeah.\tYes .\n");
    write_text(".", "zh", "他是我的好老师。\n我很喜欢你的书。\n好\n");
    write_text(".", "de", "Straßenübergänge\nÄÄÄÄÄÄÄÄ\n안녕 하세요 여러분\n");
    write_text(".", "capital.4", "A dog\n\303\211t\303\251\nno\nyes\n");
    write_text(".", "lower.4", "a dog\n\303\251t\303\251\nno\nyes\n");
    write_text(".", "few.4", "a dog\n\303\251t\303\251\nno\nYes\n");
    run_ok("cut -f1 r >one && paste german one >pairs && gzip -k pairs && paste b one >two && for name in "
           "capital lower few; do cat $name.4 $name.4 $name.4 >$name; done");
    EXPECT_NOTES(cases);
    cr_expect_eq(json_number(json_by("qkv score moses moses --tokenize none --json"),
                             "bleu_details.hypothesis_length"),
                 8 + 6 + 4 + 1, "&apos;s and @-@ are words");
}

/* A run that joins its translations to plain text cannot be compared with tokenized references in every metric. */
Test(score, notes_that_translations_are_joined_and_references_tokenized)
{
    static const char *const notes[] = {
        "note: 2 of 2 references look tokenized. BLEU with the tokenizer 13a",
        "note: 2 of 2 references look tokenized, but the translations do not: "};
    enter(tiny_task("joined"));
    write_text(".", "moses.tsv", "a b\tit &apos;s a dog .\nc d\tyes , a well @-@ known dog .\n");
    for (int joined = 0; joined < 2; joined++) {
        run_ok("qkv train c.yaml -q --overwrite -s training.updates=2 -s data.train=moses.tsv -s data.dev= "
               "-s data.trg.lowercase=true -s data.trg.split_punctuation=%s",
               joined ? "true" : "false");
        struct outcome outcome = run("qkv evaluate run moses.tsv --metrics bleu,ter");
        cr_expect(shows(outcome.error, notes[joined]) && lacks(outcome.error, notes[!joined]));
        outcome = run("qkv evaluate run moses.tsv --tokenize none");
        cr_expect_eq(!!strstr(outcome.error, notes[1]), joined, "%s", outcome.error);
        cr_expect(lacks(outcome.error, notes[0]));
    }
    cr_expect(
        shows(run("printf 'a b\tun@@ kind\n' | qkv evaluate run -").error, "cut into pieces (such as un@@)"));
    cr_expect(shows(run("for i in 1 2 3 4 5 6; do printf 'a\tA\nb\tB\n'; done | qkv evaluate run -").error,
                    "have no capital letters, but 12 of 12 references do"));
}

/* The figures are those of sacreBLEU 2.6.0, corpus_score(n_bootstrap=1000), which rounds to float32. */
Test(score, has_the_interval_of_one_system)
{
    enter(scratch("confidence"));
    write_text(".", "a",
               "the cat sat on a mat\nA dog barks at the moon\nno one knows what happened here\nwe walk to "
               "the old house\nit rains again today\nshe reads a long book\nthey play in the garden\nhe "
               "sells fresh bread\n");
    write_text(".", "r",
               "The cat sat on the mat\nA dog is barking at the moon\nnobody knows what has happened "
               "here\nwe walk to the old house\nit is raining again today\nshe read a very long book\nthey "
               "play in a garden\nhe sells the fresh bread\n");
    const cJSON *system = json_at(json_by("qkv score a r --confidence --json"), "systems.0");
    cr_expect_float_eq(json_number(system, "bleu"), 34.10240962637404, 1e-9);
    cr_expect_float_eq(json_number(system, "bleu_bootstrap.mean"), 32.55159703946163, 1e-4);
    cr_expect_float_eq(json_number(system, "bleu_bootstrap.interval"), 22.727228120124458, 1e-4);
    cr_expect_float_eq(json_number(system, "chrf_bootstrap.mean"), 66.529976, 1e-4);
    cr_expect_float_eq(json_number(system, "chrf_bootstrap.interval"), 9.830973, 1e-4);
    cr_expect(
        shows(run_ok("qkv score a r -m bleu --confidence --samples 300"), "   34.10     33.16 +- 24.19 "));
    cr_expect(shows(run_ok("qkv score a r -m bleu --confidence"), "(nrefs:1|bs:1000|seed:12345|case:mixed|"));
    cr_expect(
        fails(run("qkv score a r --confidence --sentence-level"), 2, "--sentence-level has the scores"));
}
