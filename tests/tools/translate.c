/* qkv translate: lines in, lines out, whatever the lines are. tests/tools/mistakes.c tests wrong arguments. */
#include "support.h"

/* Translates what printf makes of `text` (its backslashes mean what they mean there). */
static struct outcome translate(const char *text, const char *options)
{
    return run("printf '%s' | qkv translate run %s", text, options);
}

Test(translate, prints_one_line_per_line_in_order)
{
    enter(learned_run("learned"));
    struct outcome outcome = translate("a b\\nc\\n\\ne d\\n", "");
    cr_expect_str_eq(outcome.output, "A B\nC\n\nE D\n");
    cr_expect_str_empty(outcome.error);
    static const char *const others[] = {"-",    "- --batch 1", "--beam 1 -",
                                         "-b 3", "-q",          "--checkpoint last.safetensors"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_str_eq(translate("a b\\nc\\n\\ne d\\n", others[i]).output, outcome.output, "%s", others[i]);
    /* A last line without an end; a file, with options before and behind, and behind `--`. */
    cr_expect_str_eq(translate("a b\\nc\\n\\ne d", "").output, outcome.output);
    write_text(".", "in.txt", "a b\nc\n\ne d\n");
    cr_expect_str_eq(run("qkv translate --beam=1 run -q in.txt").output, outcome.output);
    cr_expect_str_eq(run("cp in.txt ./-q && qkv translate -q -- run -q").output, outcome.output);
    cr_expect_str_empty(run_ok("qkv translate run </dev/null 2>&1 && qkv translate run /dev/null 2>&1"));
    /* More lines than one thread takes at a time, of all lengths, some empty: in order, and the same scores on any number
     * of threads. */
    run_ok("for i in $(seq 500); do case $((i %% 5)) in 0) echo ;; 1) echo a b;; 2) echo c;; 3) echo e d;; "
           "4) echo a b;; esac; done >many.txt");
    const char *one = run_ok("qkv translate run many.txt --scores --threads 1 -b 7");
    cr_expect_eq(occurrences(one, "\n"), 500);
    for (int threads = 2; threads <= 5; threads++)
        cr_expect_str_eq(run("qkv translate run many.txt --scores -j %d -b 7", threads).output, one,
                         "%d threads", threads);
    cr_expect_str_eq(run_ok("qkv translate run many.txt | sort | uniq -c | tr -s ' '"),
                     " 100 \n 200 A B\n 100 C\n 100 E D\n");
}

Test(translate, lists_the_best_with_their_scores)
{
    enter(learned_run("n_best"));
    cr_expect_str_eq(run_ok("printf 'a b\\n\\nc\\n' | qkv translate run --beam 4 --n-best 2 --scores | "
                            "sed 's/-[0-9.]*/S/; s/[^\\t]*$/T/'"),
                     "1\tS\tT\n1\tS\tT\n2\t0.000000\tT\n3\tS\tT\n3\tS\tT\n");
    cr_expect(shows(translate("a b\\n\\nc\\n", "--beam 4 --n-best 2 --scores").output, "\tA B\n1\t-"));
    cr_expect(refused(translate("a\\n", "--n-best 3"),
                      "qkv: --n-best is 3, but must not exceed the beam size, 1: raise --beam"));
    run_ok("sed -i 's/n_best: 1/n_best: 3/; s/beam_size: 1/beam_size: 4/' run/config.yaml");
    cr_expect(refused(translate("a\\n", "--beam 2"),
                      "qkv: testing.n_best of the run is 3, but must not exceed "
                      "the beam size, 2: raise --beam, or give --n-best"));
}

/* What follows the warnings about unknown words. The example is the first sentence of the training text with three words. */
static const char *known_words(void)
{
    return format("qkv: note: a sentence that the model knows: %s; its words: qkv inspect run --vocabulary\n",
                  run_ok("printf %%s \"$(awk -F '\\t' 'split($1, word, \" \") >= 3 {print $1; exit}' "
                         "train.tsv)\""));
}

/* What is said of lines: one note for each, of which the rest of the output says nothing. */
Test(translate, says_what_is_odd_about_a_line)
{
    static const char *const cases[][2] = {
        {"printf 'a\\nyak b zebra yak\\n1 2 3 4 5 6 7 8 9 10 1\\n'",
         "qkv: <stdin>:2: not in the vocabulary: yak, zebra\n"
         "qkv: <stdin>:3: not in the vocabulary: 1, 2, 3, 4, 5, 6, 7, 8 and 2 more\n"},
        /* Nothing that a terminal would obey; a word of a megabyte is not shown in full, nor cut within a character. */
        {"printf '\\033[2Jx \\302\\233y\\n'", "qkv: <stdin>:1: not in the vocabulary: \\x1B[2Jx, \\x9By\n"},
        {"{ printf x; yes ñ | head -500000 | tr -d '\\n'; echo; }",
         "qkv: <stdin>:1: not in the vocabulary: xñññññññññññññññññññññññññññññ...\n"},
        {"{ echo a; yes a | head -100000 | tr '\\n' ' '; echo; echo b; }",
         "qkv: <stdin>:2: has 100000 tokens, but the model has positions for 511; the rest of the line is "
         "ignored\n"},
        /* A file of pairs, given for one of sentences; once is enough. */
        {"printf 'a b\\na\\ta\\nb\\tb\\n'", "qkv: <stdin>:2: has a tab, but a line is one sentence: give one "
                                            "column (cut -f1), or pairs to `qkv evaluate`\n"},
    };
    enter(tiny_run("odd", 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome = run("%s >in; qkv translate run <in 2>err; code=$?; grep -v 'at the limit of "
                                     "their length' err >&2; exit $code",
                                     cases[i][0]);
        cr_expect_eq(outcome.exit_code, 0);
        cr_expect_eq(occurrences(outcome.output, "\n"), occurrences(read_file("in", NULL), "\n"), "%s",
                     cases[i][0]);
        bool has_unknown = strstr(cases[i][1], "vocabulary") != NULL;
        cr_expect_str_eq(outcome.error, format("%s%s", cases[i][1], has_unknown ? known_words() : ""));
    }
    cr_expect_str_empty(run("printf 'yak\\na\\ta\\n' | qkv translate run --quiet").error);
    cr_expect(refused(run("qkv translate \"$(printf 'run\\033[2J\\n\\nx')\""),
                      "qkv: run\\x1B[2J\\x0A\\x0Ax: there is no such run"));
}

/* Ten lines are named. A line with an unknown source and an unknown prefix is one line. */
Test(translate, does_not_name_all_lines_with_unknown_words)
{
    static const char *const commands[] = {"translate run", "tokenize run"};
    const char *rest = "%sqkv: %s that are not in the vocabulary; -q leaves these notes out\n%s";
    enter(tiny_run("many", 1));
    for (int c = 0; c < 2; c++) {
        const char *all = format("{ echo a; yes zap | head -%%d; } | qkv %s", commands[c]);
        struct outcome ten = run(all, 10), eleven = run(all, 11), many = run(all, 73); /* NOLINT */
        const char *end = c ? "" : known_words();
        cr_expect_eq(occurrences(ten.error, "\n"), c ? 10 : 11, "%s", ten.error);
        const char *named = format("%.*s", (int)(strlen(ten.error) - strlen(end)), ten.error);
        cr_expect_str_eq(ten.error, format("%s%s", named, end));
        cr_expect_str_eq(eleven.error, format(rest, named, "1 more line has words", end));
        cr_expect_str_eq(many.error, format(rest, named, "63 more lines have words", end));
        cr_expect_eq(occurrences(many.output, "\n"), 74);
        cr_expect_str_empty(run("yes zap | head -20 | qkv %s -q", commands[c]).error);
    }
    const char *prefixes = run("yes \"$(printf 'zap\\tyak')\" | head -11 | qkv translate run --prefix").error;
    cr_expect_eq(occurrences(prefixes, "\n"), 22, "%s", prefixes);
}

/* Words are read in the case and with the marks of the training text only where the option says so; a note names it. */
Test(translate, reads_words_as_the_training_text_has_them)
{
    enter(learned_run("as_trained"));
    const char *text = "A b.\\nc zap!\\n\\na b\\n";
    struct outcome kept = translate(text, ""), changed = translate(text, "--as-trained");
    cr_expect_str_eq(kept.error,
                     format("qkv: <stdin>:1: not in the vocabulary: A, b.; --as-trained reads it as: a b\n"
                            "qkv: <stdin>:2: not in the vocabulary: zap!\n%s",
                            known_words()));
    cr_expect_str_eq(changed.error, format("qkv: <stdin>:2: not in the vocabulary: zap!\n%s", known_words()));
    cr_expect(shows(changed.output, "A B\n"));
    cr_expect_str_eq(translate("a b\\nc zap!\\n\\na b\\n", "").output, changed.output);
    cr_expect_str_neq(kept.output, changed.output);
    write_text(".", "lines", "A b.\n");
    cr_expect_str_eq(run_ok("qkv translate run lines --as-trained"), "A B\n");
    cr_expect_str_empty(run("qkv translate run lines -q").error);
    /* Prefixes are kept as they are, and words that are put in for <unk> are those that were read. */
    cr_expect(shows(run_ok("printf 'A b.\\tD\\n' | qkv translate run --as-trained --prefix"), "D"));
    /* A run of short sentences, and one of an earlier version, has no example. */
    run_ok("sed -i 's/^\\(.\\).*\\t\\(.\\).*/\\1\\t\\2/' train.tsv && qkv train c.yaml -q --overwrite -s "
           "training.updates=1");
    cr_expect_str_eq(run("echo zap | qkv translate run").error,
                     "qkv: <stdin>:1: not in the vocabulary: zap\n"
                     "qkv: note: the words that the model knows: qkv inspect run --vocabulary\n");
}

Test(translate, a_bad_line_ends_the_command_after_the_lines_before_it)
{
    enter(learned_run("no_text"));
    struct outcome outcome = translate("a\\nb\\nc \\377\\nd\\n", "");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(outcome.output, "A\nB\n");
    cr_expect_str_eq(outcome.error, "qkv: <stdin>:3:3: byte 0xFF is not valid UTF-8\n");
}

Test(translate, refuses_unreadable_runs)
{
    static const char *const cases[][2] = {
        {"none", "qkv: none: there is no such run"},
        {"file", "qkv: file: is a file, but a run is a folder"},
        {"run/..", "qkv: run/..: not a run, but it holds runs, such as run/../run"},
        {"run none.txt", "qkv: none.txt: cannot be read: No such file or directory"},
        {"run --checkpoint none", "qkv: run: there is no checkpoint none; it has best, last, update-1"},
        {"run --checkpoint ./file", "qkv: ./file: byte 2: the file ends within its header: it was cut short, "
                                    "or is not a safetensors file"},
    };
    enter(tiny_run("unreadable", 1));
    write_text(".", "file", "x\n");
    EXPECT_REFUSALS("qkv translate", cases);
}

/* Positions that are looked up in a table end with it; the others do not. */
Test(translate, models_without_position_tables_have_no_longest_sentence)
{
    static const char *const types[] = {"alibi", "relative", "none"};
    enter(tiny_task("longer"));
    run_ok("yes a | head -600 | tr '\\n' ' ' >long");
    for (int i = 0; i < 3; i++)
        cr_expect_str_empty(run_ok(
            "{ for side in encoder decoder; do echo \"-s model.$side.positions.type=%s -s "
            "model.$side.positions.max_length=3\"; done; } >options && qkv train c.yaml -q --overwrite $(cat "
            "options) && qkv translate run long --max-length 5 2>&1 >translated && qkv attention run 'a b c "
            "d e f' --target 'A B C D E' -f json >map && qkv evaluate run train.tsv >scores",
            types[i]));
    cr_expect(refused(
        run("qkv train c.yaml -q --overwrite -s model.encoder.positions.max_length=3"),
        "qkv: train.tsv:2: the source has 6 tokens with </s>, but model.encoder.positions.max_length is 3"));
}
