/* qkv translate: lines in, lines out, whatever the lines are. */
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

/* Translates what printf makes of `text` (its backslashes mean what they mean there). */
static struct outcome translate(const char *folder, const char *text, const char *options)
{
    return run("cd '%s' && printf '%s' | qkv translate run %s", folder, text, options);
}

static int count(const char *text, char wanted)
{
    int found = 0;
    for (; *text; text++) found += *text == wanted;
    return found;
}

Test(translate, prints_one_line_per_line_in_order)
{
    const char *folder = enter(learned_run("learned"));
    struct outcome outcome = translate(folder, "a b\\nc\\n\\ne d\\n", "");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_eq(outcome.output, "A B\nC\n\nE D\n");
    cr_expect_str_empty(outcome.error);
    static const char *const others[] = {"-",    "- --batch 1", "--beam 1 -",
                                         "-b 3", "-q",          "--checkpoint last.safetensors"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_str_eq(translate(folder, "a b\\nc\\n\\ne d\\n", others[i]).output, outcome.output, "%s",
                         others[i]);
    /* Windows lines, a byte order mark, and a last line without an end. */
    cr_expect_str_eq(translate(folder, "\\357\\273\\277a b\\r\\nc\\r\\n\\r\\ne d", "").output,
                     outcome.output);
    /* From a file, with options before and behind, and behind `--`. */
    write_text(folder, "in.txt", "a b\nc\n\ne d\n");
    cr_expect_str_eq(run("qkv translate --beam=1 run -q in.txt").output, outcome.output);
    cr_expect_str_eq(run("qkv translate -q -- run in.txt").output, outcome.output);
    cr_expect_str_eq(run("cp in.txt ./-q && qkv translate run -- -q").output, outcome.output);
}

/* More lines than one thread takes at a time, of all lengths, some empty: in order, and the same scores on
 * any number of threads. */
Test(translate, keeps_the_order_on_any_number_of_threads)
{
    const char *folder = enter(learned_run("threads"));
    run("for i in $(seq 500); do case $((i %% 5)) in 0) echo ;; 1) echo a b;; 2) echo c;; 3) echo e d;; 4) "
        "echo a b;; esac; done >in.txt");
    char *one = run_ok("qkv translate run in.txt --scores --threads 1 -b 7");
    cr_expect_eq(count(one, '\n'), 500);
    for (int threads = 2; threads <= 5; threads++)
        cr_expect_str_eq(run("qkv translate run in.txt --scores -j %d -b 7", threads).output, one,
                         "%d threads", threads);
    struct outcome text = run("qkv translate run in.txt | sort | uniq -c | tr -s ' '");
    cr_expect_str_eq(text.output, " 100 \n 200 A B\n 100 C\n 100 E D\n");
    cr_expect(refused(translate(folder, "a\\n", "--threads 0"),
                      "qkv: --threads is 0, but must lie between 1 and 1024"));
}

Test(translate, empty_input_gives_empty_output)
{
    enter(tiny_run("nothing", 1));
    struct outcome outcome = run("qkv translate run </dev/null && qkv translate run /dev/null");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_empty(outcome.output);
    cr_expect_str_empty(outcome.error);
}

Test(translate, lists_the_best_with_their_scores)
{
    const char *folder = enter(learned_run("n_best"));
    struct outcome outcome = translate(folder, "a b\\n\\nc\\n", "--beam 4 --n-best 2 --scores");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_eq(count(outcome.output, '\n'), 5, "%s", outcome.output);
    cr_expect(!strncmp(outcome.output, "1\t-", 3), "%s", outcome.output);
    cr_expect(shows(outcome.output, "\tA B\n1\t-"));
    cr_expect(shows(outcome.output, "\n2\t0.000000\t\n3\t-"));
    cr_expect(refused(translate(folder, "a\\n", "--n-best 3"),
                      "qkv: --n-best is 3, but must not exceed the beam size, 1: raise --beam"));
    run_ok("sed -i 's/n_best: 1/n_best: 3/; s/beam_size: 1/beam_size: 4/' run/config.yaml");
    cr_expect(refused(run("echo a | qkv translate run --beam 2"),
                      "qkv: testing.n_best of the run is 3, but must not exceed the beam size, 2: raise "
                      "--beam, or give --n-best"));
}

Test(translate, warns_about_unknown_words)
{
    const char *folder = enter(tiny_run("unknown", 1));
    struct outcome outcome = translate(folder, "a\\nyak b zebra yak\\n1 2 3 4 5 6 7 8 9 10 1\\n", "");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_eq(count(outcome.output, '\n'), 3);
    cr_expect_str_eq(outcome.error,
                     "qkv: <stdin>:2: not in the vocabulary: yak, zebra\n"
                     "qkv: <stdin>:3: not in the vocabulary: 1, 2, 3, 4, 5, 6, 7, 8 and 2 more\n");
    cr_expect_str_empty(translate(folder, "yak\\n", "--quiet").error);
    /* Nothing that a terminal would obey. */
    cr_expect_str_eq(translate(folder, "\\033[2Jx \\302\\233y\\n", "").error,
                     "qkv: <stdin>:1: not in the vocabulary: \\x1B[2Jx, \\x9By\n");
    cr_expect(refused(run("qkv translate \"$(printf 'run\\033[2J\\n\\nx')\""),
                      "qkv: run\\x1B[2J\\x0A\\x0Ax: there is no such run"));
    /* A word of a megabyte is not shown in full, nor cut within a character. */
    outcome = run("{ printf x; yes ñ | head -500000 | tr -d '\\n'; echo; } | qkv translate run");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.error,
                     "qkv: <stdin>:1: not in the vocabulary: xñññññññññññññññññññññññññññññ...\n");
}

/* Ten lines are named. A line with an unknown source and an unknown prefix is one line. */
Test(translate, does_not_name_all_lines_with_unknown_words)
{
    static const char *const commands[] = {"translate run", "tokenize run"};
    enter(tiny_run("many", 1));
    for (int c = 0; c < 2; c++) {
        const char *all = format("{ echo a; yes zap | head -%%d; } | qkv %s", commands[c]);
        struct outcome ten = run(all, 10), eleven = run(all, 11), many = run(all, 73);
        cr_expect_eq(count(ten.error, '\n'), 10, "%s", ten.error);
        cr_expect_str_eq(
            eleven.error,
            format("%sqkv: 1 more line has words that are not in the vocabulary; -q leaves these notes out\n",
                   ten.error));
        cr_expect_str_eq(
            many.error,
            format(
                "%sqkv: 63 more lines have words that are not in the vocabulary; -q leaves these notes out\n",
                ten.error));
        cr_expect_eq(count(many.output, '\n'), 74);
        cr_expect_str_empty(run("yes zap | head -20 | qkv %s -q", commands[c]).error);
    }
    struct outcome prefixes = run("yes \"$(printf 'zap\\tyak')\" | head -11 | qkv translate run --prefix");
    cr_expect_eq(count(prefixes.error, '\n'), 21, "%s", prefixes.error);
}

Test(translate, accepts_a_line_of_100000_words)
{
    enter(tiny_run("long", 1));
    struct outcome outcome = run("{ echo a; yes a | head -100000 | tr '\\n' ' '; echo; echo b; } >in.txt; "
                                 "qkv translate run in.txt --beam 2");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_eq(count(outcome.output, '\n'), 3);
    cr_expect_str_eq(outcome.error, "qkv: in.txt:2: has 100000 tokens, but the model has positions for 511; "
                                    "the rest of the line is ignored\n");
}

Test(translate, a_bad_line_ends_the_command_after_the_lines_before_it)
{
    const char *folder = learned_run("no_text");
    struct outcome outcome = translate(folder, "a\\nb\\nc \\377\\nd\\n", "");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(outcome.output, "A\nB\n");
    cr_expect_str_eq(outcome.error, "qkv: <stdin>:3:3: byte 0xFF is not valid UTF-8\n");
    outcome = translate(folder, "a\\nb \\000 c\\n", "");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(outcome.output, "A\n");
    cr_expect_str_eq(outcome.error, "qkv: <stdin>:2:3: a NUL byte is not allowed in text\n");
}

Test(translate, a_closed_pipe_ends_the_command_quietly)
{
    enter(tiny_run("pipe", 1));
    struct outcome outcome =
        run("yes 'a b' | head -20000 >in.txt; qkv translate run in.txt -b 10 | head -1 | wc -l");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_eq(count(outcome.output, '1'), 1, "%s", outcome.output);
    cr_expect_str_empty(outcome.error);
}

Test(translate, refuses_unreadable_runs_and_files)
{
    const char *folder = enter(tiny_run("unreadable", 1));
    write_text(folder, "file", "x\n");
    static const char *const cases[][2] = {
        {"none", "qkv: none: there is no such run"},
        {"file", "qkv: file: is a file, but a run is a folder"},
        {"run/..", "qkv: run/..: not a run, but it holds runs, such as run/../run"},
        {"run 'a sentence.'", "qkv: there is no file 'a sentence.'; a sentence is read from standard input: "
                              "echo \"a sentence.\" | qkv translate run"},
        {"run word", "qkv: there is no file 'word'; a sentence is read from standard input: echo \"word\" | "
                     "qkv translate run"},
        {"run none.txt", "qkv: none.txt: cannot be read: No such file or directory"},
        {"run run", "qkv: run: cannot be read: it is a folder"},
        {"run --checkpoint none", "qkv: run: there is no checkpoint none; it has best, last, update-1"},
        {"run --checkpoint ./file", "qkv: ./file: byte 2: the file ends within its header: it was cut short, "
                                    "or is not a safetensors file"},
        {"run <&-", "qkv: <stdin>: cannot be read: Bad file descriptor"},
    };
    EXPECT_REFUSALS("qkv translate ", cases);
    run("rm '%s'/run/*.safetensors", folder);
    cr_expect(
        refused(run("qkv translate run"), "qkv: run: holds no checkpoint: training has not saved one yet"));
}

Test(translate, refuses_bad_arguments)
{
    static const char *const cases[][2] = {
        {"", "qkv: RUN is missing (usage: qkv translate RUN [FILE] [options])"},
        {"a b c", "qkv: unexpected operand 'c'; a sentence is read from standard input (usage: qkv translate "
                  "RUN [FILE] [options])"},
        {"a --b 2", "qkv: unknown option '--b'; did you mean --beam, --beam-alpha, --batch (see `qkv "
                    "translate --help`)"},
        {"a --beam", "qkv: option '--beam' needs a value (see `qkv translate --help`)"},
        {"a -k", "qkv: option '-k' needs a value (see `qkv translate --help`)"},
        {"a --beam 0", "qkv: --beam is 0, but must lie between 1 and 1000"},
        {"a -k1e3", "qkv: --beam needs a whole number, but got '1e3'"},
        {"a --beam=-99999999999999999999",
         "qkv: --beam is -99999999999999999999, but must lie between 1 and 1000"},
        {"a --beam-alpha nan", "qkv: --beam-alpha needs a number, but got 'nan'"},
        {"a --beam-alpha 1,5", "qkv: --beam-alpha needs a number, but got '1,5'"},
        {"a --beam-alpha 1e999", "qkv: --beam-alpha is 1e999, but must lie between 0 and 10"},
        {"a --beam-alpha=-1", "qkv: --beam-alpha is -1, but must lie between 0 and 10"},
        {"a --scores=1", "qkv: option '--scores' takes no value"},
        {"a --help=1", "qkv: option '--help' takes no value"},
        {"a -x", "qkv: unknown option '-x' (see `qkv translate --help`)"},
        {"a --beem 3", "qkv: unknown option '--beem'; did you mean --beam (see `qkv translate --help`)"},
        {"a --frobnicate", "qkv: unknown option '--frobnicate' (see `qkv translate --help`)"},
    };
    EXPECT_REFUSALS("qkv translate", cases);
    cr_expect(refused(run("qkv transalte"),
                      "qkv: unknown command 'transalte'; did you mean translate (see `qkv --help`)"));
    cr_expect(refused(run("qkv version"),
                      "qkv: unknown command 'version'; did you mean --version (see `qkv --help`)"));
    cr_expect(refused(run("qkv help transalte"), "qkv: COMMAND is 'transalte'; did you mean translate"));
    cr_expect_str_eq(run("qkv help translate").output, run("qkv translate --help").output);
    cr_expect(refused(run("qkv --frobnicate"), "qkv: unknown option '--frobnicate' (see `qkv --help`)"));
    cr_expect_eq(run("qkv").exit_code, 2);
    cr_expect_eq(
        run("qkv --help && qkv -h && qkv --version && qkv translate -h && qkv translate x --help").exit_code,
        0);
}

/* A file of pairs, given for one of sentences: the tab would be white space in a sentence. */
Test(translate, says_that_a_line_with_a_tab_is_one_sentence)
{
    enter(tiny_task("tab"));
    run_ok("qkv train c.yaml -q --threads 1");
    struct outcome outcome = run("printf 'a b\\na\\tA\\nb\\tB\\n' | qkv translate run");
    cr_expect_eq(outcome.exit_code, 0);
    char *note = "qkv: <stdin>:2: has a tab, but a line is one sentence: give one column (cut -f1), or pairs "
                 "to `qkv evaluate`\n";
    cr_expect(shows(outcome.error, note));
    cr_expect(lacks(outcome.error, "<stdin>:3: has a tab"), "once is enough");
    outcome = run("printf 'a\\tA\\n' | qkv translate run --quiet");
    cr_expect_str_empty(outcome.error);
}

/* Positions that are looked up in a table end with it; the others do not. */
Test(translate, models_without_position_tables_have_no_longest_sentence)
{
    static const char *const TYPE[] = {"alibi", "relative", "none"};
    enter(tiny_task("longer"));
    for (int i = 0; i < 3; i++) {
        const char *settings =
            format("-s model.encoder.positions.type=%s -s model.decoder.positions.type=%s -s "
                   "model.encoder.positions.max_length=3 -s model.decoder.positions.max_length=3",
                   TYPE[i], TYPE[i]);
        struct outcome outcome = run("qkv train c.yaml -q --overwrite --threads 1 %s", settings);
        cr_expect_eq(outcome.exit_code, 0, "%s: %s", TYPE[i], outcome.error);
        cr_expect_str_eq(outcome.error, "", "%s", TYPE[i]);
        outcome = run("for i in $(seq 600); do printf 'a '; done > long && echo >> long && qkv translate run "
                      "long --max-length 5");
        cr_expect_eq(outcome.exit_code, 0, "%s: %s", TYPE[i], outcome.error);
        cr_expect_str_eq(outcome.error, "", "%s", TYPE[i]);
        outcome = run("qkv attention run 'a b c d e f' --target 'A B C D E' -f json");
        cr_expect_eq(outcome.exit_code, 0, "%s: %s", TYPE[i], outcome.error);
        outcome = run("qkv evaluate run train.tsv");
        cr_expect_eq(outcome.exit_code, 0, "%s: %s", TYPE[i], outcome.error);
    }
    struct outcome outcome =
        run("qkv train c.yaml -q --overwrite --threads 1 -s model.encoder.positions.max_length=3");
    cr_expect(refused(
        outcome,
        "qkv: train.tsv:2: the source has 6 tokens with </s>, but model.encoder.positions.max_length is 3"));
}
