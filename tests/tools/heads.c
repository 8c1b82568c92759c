/* qkv heads, and --without, which silences heads. tests/report/heads.c tests the numbers. */
#include "json.h"
#include "zeroed_head.h"

/* Each test has a tiny run, with gold links of dev.tsv: word i with word i. */
static void enter_heads(void)
{
    enter(tiny_run("heads", 100));
    write_links("dev.tsv", "gold");
}

TestSuite(heads, .init = enter_heads);

static char *heads(const char *options)
{
    return run_ok("qkv heads run dev.tsv %s", options);
}

/* The value in column `column` of line `line` of a TSV, from 0; NaN: empty. */
static double field(const char *tsv, int line, int column)
{
    for (; line; line--) tsv = strchr(tsv, '\n') + 1;
    for (; column; column--) tsv = strchr(tsv, '\t') + 1;
    return *tsv == '\t' || *tsv == '\n' ? (double)NAN : strtod(tsv, NULL);
}

Test(heads, json_and_tsv_have_the_same_numbers)
{
    static const char *const names[] = {"encoder.1.1", "encoder.1.2", "decoder.1.1",
                                        "decoder.1.2", "cross.1.1",   "cross.1.2"};
    char *tsv = heads("--links gold --format tsv");
    const cJSON *object = json_by("qkv heads run dev.tsv --links gold -f json");
    cr_expect_str_eq(json_text(object, "run"), "tiny");
    cr_expect_str_eq(json_text(object, "test"), "dev.tsv");
    cr_expect_str_eq(json_text(object, "measure"), "weights");
    cr_expect_eq(json_number(object, "sentences"), 8);
    cr_assert_eq(json_size(object, "heads"), 6);
    cr_expect(begins(tsv, "head\tentropy\tsharpness\tprevious\t"));
    for (int i = 0; i < 6; i++) {
        const cJSON *head = json_at(object, format("heads.%d", i));
        cr_expect_str_eq(json_text(head, "name"), names[i]);
        cr_expect_str_eq(format("%s.%.0f.%.0f", json_text(head, "kind"), json_number(head, "layer"),
                                json_number(head, "head")),
                         names[i]);
        cr_expect(shows(tsv, format("\n%s\t", names[i])));
        for (int m = 0; m < QKV_HEAD_MEASURES; m++) {
            const char *name = qkv_head_measure_info((enum qkv_head_measure)m)->name;
            double number = field(tsv, i + 1, m + 1);
            if (cJSON_IsNull(json_at(head, name)))
                cr_expect(isnan(number), "%s, %s", names[i], name);
            else
                cr_expect_float_eq(json_number(head, name), number, 1e-12, "%s, %s", names[i], name);
            bool of_links = m >= QKV_HEAD_ERROR_PREDICTED && m <= QKV_HEAD_VARIATION_READ;
            bool of_repeats = m >= QKV_HEAD_PREFIX_MATCHING; /* of language models */
            if (m != QKV_HEAD_COPIED)
                cr_expect_eq(isnan(number), (of_links && i < 4) || of_repeats, "%s, %s", names[i], name);
        }
    }
}

Test(heads, text_has_two_tables_of_what_was_measured)
{
    char *text = heads("--links gold -q"), *tsv = heads("--links gold -f tsv");
    cr_expect(begins(text, "6 heads, 8 sentences, "));
    cr_expect(shows(text, "\nWhat each head attends to, by weights:\nhead         entropy  sharp"));
    cr_expect(shows(text, "\nhead            AER AER read    off off read    loss   BLEU importance\n"));
    /* The error is a percentage in text only. */
    char *row = strstr(strstr(text, "AER read"), "\ncross.1.1");
    cr_assert_not_null(row, "%s", text);
    cr_expect_float_eq(strtod(row + 11, NULL), 100 * field(tsv, 5, 1 + QKV_HEAD_ERROR_PREDICTED), 0.0051);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect_leq(strlen(line), 80, "%s", line);
    char *fewer = heads("--no-translation");
    cr_expect(lacks(fewer, "AER") && lacks(fewer, "BLEU "));
    cr_expect(shows(heads("--no-translation --measure norms"), "by norms of weighted values:"));
}

Test(heads, are_the_same_for_all_threads)
{
    run_ok("for i in 1 2 3 4 5 6 7 8 9; do cat train.tsv; done >many.tsv");
    cr_expect_str_eq(run_ok("qkv heads run many.tsv -f tsv -j 5"),
                     run_ok("qkv heads run many.tsv -f tsv -j 1"));
}

Test(heads, are_sorted)
{
    char *loss = heads("-f tsv --sort loss"), *by_error = heads("-f tsv --links gold --sort error_predicted");
    for (int i = 1; i < 6; i++)
        cr_expect_geq(field(loss, i, 1 + QKV_HEAD_LOSS), field(loss, i + 1, 1 + QKV_HEAD_LOSS), "%s", loss);
    cr_expect_geq(field(by_error, 1, 1 + QKV_HEAD_ERROR_PREDICTED),
                  field(by_error, 2, 1 + QKV_HEAD_ERROR_PREDICTED));
    cr_expect(shows(by_error, "\nencoder.1.1\t"));
    cr_expect(begins(strchr(by_error, '\n') + 1, "cross"), "%s", by_error);
    cr_expect_gt(strstr(by_error, "\nencoder.1.2\t"), strstr(by_error, "\nencoder.1.1\t"));
}

Test(heads, output_chooses_the_format)
{
    static const char *const files[][2] = {
        {"h.tsv", "tsv"}, {"h.json", "json"}, {"h.txt", "text"}, {"h", "text"}};
    for (int i = 0; i < 4; i++) {
        cr_expect_str_empty(heads(format("-o %s --no-translation", files[i][0])));
        cr_expect_str_eq(read_file(files[i][0], NULL), heads(format("-f %s --no-translation", files[i][1])),
                         "%s", files[i][0]);
    }
    cr_expect_str_empty(heads("-f json -o h.dat --no-translation"));
    json_by("cat h.dat");
}

Test(heads, refuses)
{
    static const char *const cases[][2] = {
        {"-o h.png", "qkv: --output h.png: measures of heads are written as .txt, .json or .tsv; --format "
                     "chooses another"},
        {"--links-from 0", "qkv: --links-from needs --links"},
        {"-o ./dev.tsv", "qkv: ./dev.tsv: is an input, too: write to another file"},
        {"--sort error_read", "qkv: --sort error_read needs gold links: give --links"},
        {"--sort bleu --no-translation", "qkv: --sort bleu needs translations: leave out --no-translation"},
        {"--repeat 5",
         "qkv: run: is a translator, but random sequences that come twice are for language models"},
        {"--sort best_matching",
         "qkv: run: is a translator, but random sequences that come twice are for language models"},
        {"--links missing", "qkv: missing: cannot be read: No such file or directory"},
    };
    EXPECT_REFUSALS("qkv heads run dev.tsv", cases);
    cr_expect_eq(run("qkv heads run dev.tsv --sort size").exit_code, 2);
    cr_expect_eq(run("qkv heads run").exit_code, 2);
}

/* ---- silent heads: they do what zeros in their rows of the output projection do ---- */

/* Runs a command with --without, and on the checkpoint in which the same heads are zeroed. */
static void expect_zeroed(const char *names, const char *command)
{
    char *silent = run_ok("qkv %s --without %s", command, names);
    cr_expect_str_eq(silent, run_ok("qkv %s --checkpoint zeroed", command), "%s, %s", command, names);
    cr_expect_str_neq(silent, run_ok("qkv %s", command), "%s, %s", command, names);
}

Test(heads, that_are_silent_are_not_seen)
{
    static const char *const names[] = {"cross.1.2", "decoder.1.1", "encoder.1.2,cross.1.1"};
    static const char *const keys[] = {"loss", "token_accuracy", "bleu"};
    run_ok("cut -f1 dev.tsv >in.txt");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        save_zeroed(names[i]);
        expect_zeroed(names[i], "translate run in.txt -q --scores");
        expect_zeroed(names[i], "translate run in.txt -q --scores --beam 3 --n-best 3");
        if (i) /* the only layer of cross attention changes no map */
            expect_zeroed(names[i], "attention run 'a b c' -t 'C C B' -q -f csv");
    }
    save_zeroed("cross.1.1,cross.1.2");
    const cJSON *silent = json_by("qkv evaluate run dev.tsv --json --without cross.1.2 --without cross.1.1"),
                *zeroed = json_by("qkv evaluate run dev.tsv --json --checkpoint zeroed");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect_float_eq(json_number(silent, keys[i]), json_number(zeroed, keys[i]), 1e-6, "%s", keys[i]);
    cr_expect_str_eq(remember(cJSON_PrintUnformatted(json_at(silent, "without"))),
                     "[\"cross.1.1\",\"cross.1.2\"]");
    cr_expect_null(json_at(zeroed, "without"));
    cr_expect(shows(run_ok("qkv evaluate run dev.tsv --without cross.1.2,decoder.1.1"),
                    "\nwithout            decoder.1.1, cross.1.2\nsentences "));
}

/* The maps of the untrained model in what --versus random prints. */
static char *random_maps(char *text)
{
    char *from = strstr(text, "random:"), *to = strstr(text, "learned:");
    cr_assert(from && to, "%s", text);
    *to = '\0';
    return from;
}

Test(heads, that_are_silent_are_named_and_both_models_lack_them)
{
    const char *command = "qkv attention run 'a b' -t 'A B' -q --versus random %s";
    char *silent = run_ok(command, "--without encoder.1.2"), *all = run_ok(command, ""); /* NOLINT */
    cr_expect(shows(silent, "a b → A B, without encoder.1.2\n") && shows(all, "a b → A B\n"));
    cr_expect_str_neq(random_maps(silent), random_maps(all));
    const cJSON *report = json_by("qkv attention run a -q -f json --without cross.1.2,encoder.1.2");
    cr_expect_str_eq(remember(cJSON_PrintUnformatted(json_at(report, "without"))),
                     "[\"encoder.1.2\",\"cross.1.2\"]");
    cr_expect_null(json_at(json_by("qkv attention run a -q -f json"), "without"));
}

#define NO_HEAD(name)                                                                                        \
    "qkv: --without: there is no head '" name "': the heads of the model are encoder.1.1 to encoder.1.2, "   \
    "decoder.1.1 to decoder.1.2, cross.1.1 to cross.1.2"

Test(heads, that_do_not_exist_cannot_be_silent)
{
    static const char *const cases[][2] = {
        {"evaluate run dev.tsv --without cross.2.1", NO_HEAD("cross.2.1")},
        {"attention run a --without cross.1.3", NO_HEAD("cross.1.3")},
        {"translate run --without decoder.1.1,cross.1.3", NO_HEAD("cross.1.3")},
        {"translate run --without cross.1", NO_HEAD("cross.1")},
        {"translate run --without cross.1.0", NO_HEAD("cross.1.0")},
        {"translate run --without cross.01.1", NO_HEAD("cross.01.1")},
        {"translate run --without cross.1.1,", NO_HEAD("")},
        {"translate run --without Cross.1.1", NO_HEAD("Cross.1.1")},
        {"translate run --with run --without cross.1.1",
         "qkv: --with and --without exclude each other: heads of several runs cannot be told apart"},
        {"translate recurrent --without cross.2.1",
         "qkv: --without: there is no head 'cross.2.1': the heads of the model are cross.1.1"},
    };
    train_recurrent("recurrent", "", ", attention: {score: general}", 5);
    EXPECT_REFUSALS("qkv", cases);
    run_ok("echo a | qkv translate recurrent --without cross.1.1");
}
