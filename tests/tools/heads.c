/* qkv heads: its formats, its options, what it refuses. tests/report/heads.c tests the numbers. */
#include "json.h"
#include "support.h"

#include "qkv/heads.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tiny run with gold links of dev.tsv: word i with word i. */
static const char *folder_of(const char *name)
{
    const char *folder = tiny_run(name, 100);
    run_ok("cd '%s' && cut -f1 dev.tsv | awk '{for (i = 1; i <= NF; i++) printf \"%%d-%%d \", i - 1, i - 1; "
           "print \"\"}' >gold",
           folder);
    return folder;
}

static char *heads(const char *folder, const char *options)
{
    return run_ok("cd '%s' && qkv heads run dev.tsv %s", folder, options);
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
    const char *folder = folder_of("formats");
    char *tsv = heads(folder, "--links gold --format tsv");
    cJSON *object = json_parsed(heads(folder, "--links gold -f json")),
          *list = cJSON_GetObjectItem(object, "heads");
    cr_expect_str_eq(cJSON_GetObjectItem(object, "run")->valuestring, "tiny");
    cr_expect_str_eq(cJSON_GetObjectItem(object, "test")->valuestring, "dev.tsv");
    cr_expect_str_eq(cJSON_GetObjectItem(object, "measure")->valuestring, "weights");
    cr_expect_eq(cJSON_GetObjectItem(object, "sentences")->valueint, 8);
    cr_assert_eq(cJSON_GetArraySize(list), 6);
    cr_expect_eq(strncmp(tsv, "head\tentropy\tsharpness\tprevious\t", 32), 0, "%s", tsv);
    for (int i = 0; i < 6; i++) {
        static const char *const NAMES[] = {"encoder.1.1", "encoder.1.2", "decoder.1.1",
                                            "decoder.1.2", "cross.1.1",   "cross.1.2"};
        cJSON *head = cJSON_GetArrayItem(list, i);
        char kind[64];
        cr_expect_str_eq(cJSON_GetObjectItem(head, "name")->valuestring, NAMES[i]);
        snprintf(kind, sizeof kind, "%s.%d.%d", cJSON_GetObjectItem(head, "kind")->valuestring,
                 cJSON_GetObjectItem(head, "layer")->valueint, cJSON_GetObjectItem(head, "head")->valueint);
        cr_expect_str_eq(kind, NAMES[i]);
        cr_expect(shows(tsv, format("\n%s\t", NAMES[i])));
        for (int m = 0; m < QKV_HEAD_MEASURES; m++) {
            const char *name = qkv_head_measure_info((enum qkv_head_measure)m)->name;
            cJSON *value = cJSON_GetObjectItem(head, name);
            double number = field(tsv, i + 1, m + 1);
            cr_assert_not_null(value, "%s", name);
            if (cJSON_IsNull(value))
                cr_expect(isnan(number), "%s, %s", NAMES[i], name);
            else
                cr_expect_float_eq(value->valuedouble, number, 1e-12, "%s, %s", NAMES[i], name);
            bool of_links = m >= QKV_HEAD_ERROR_PREDICTED && m <= QKV_HEAD_VARIATION_READ;
            if (m != QKV_HEAD_COPIED)
                cr_expect_eq(isnan(number), of_links && i < 4, "%s, %s", NAMES[i], name);
        }
    }
    cJSON_Delete(object);
}

Test(heads, text_has_two_tables_of_what_was_measured)
{
    const char *folder = folder_of("text");
    char *text = heads(folder, "--links gold -q"), *tsv = heads(folder, "--links gold -f tsv");
    cr_expect_eq(strncmp(text, "6 heads, 8 sentences, ", 22), 0, "%s", text);
    cr_expect(shows(text, "\nWhat each head attends to, by weights:\nhead         entropy  sharp"));
    cr_expect(shows(text, "\nhead            AER AER read    off off read    loss   BLEU importance\n"));
    /* The error is a percentage in text only. */
    char *row = strstr(strstr(text, "AER read"), "\ncross.1.1");
    cr_assert_not_null(row, "%s", text);
    cr_expect_float_eq(strtod(row + 11, NULL), 100 * field(tsv, 5, 1 + QKV_HEAD_ERROR_PREDICTED), 0.0051);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect_leq(strlen(line), 80, "%s", line);
    char *fewer = heads(folder, "--no-translation");
    cr_expect(lacks(fewer, "AER"));
    cr_expect(lacks(fewer, "BLEU "));
    cr_expect(shows(heads(folder, "--no-translation --measure norms"), "by norms of weighted values:"));
}

Test(heads, are_the_same_for_all_threads)
{
    enter(folder_of("threads"));
    run_ok("for i in 1 2 3 4 5 6 7 8 9; do cat train.tsv; done >many.tsv");
    char *one = run_ok("qkv heads run many.tsv -f tsv -j 1");
    cr_expect_str_eq(run_ok("qkv heads run many.tsv -f tsv -j 5"), one);
}

Test(heads, are_sorted)
{
    const char *folder = folder_of("sorted");
    char *loss = heads(folder, "-f tsv --sort loss"),
         *error = heads(folder, "-f tsv --links gold --sort error_predicted");
    for (int i = 1; i < 6; i++)
        cr_expect_geq(field(loss, i, 1 + QKV_HEAD_LOSS), field(loss, i + 1, 1 + QKV_HEAD_LOSS), "%s", loss);
    cr_expect_geq(field(error, 1, 1 + QKV_HEAD_ERROR_PREDICTED),
                  field(error, 2, 1 + QKV_HEAD_ERROR_PREDICTED));
    cr_expect(shows(error, "\nencoder.1.1\t"));
    cr_expect_eq(strncmp(strchr(error, '\n') + 1, "cross", 5), 0, "%s", error);
    cr_expect_gt(strstr(error, "\nencoder.1.2\t"), strstr(error, "\nencoder.1.1\t"));
}

Test(heads, output_chooses_the_format)
{
    const char *folder = enter(folder_of("output"));
    static const char *const FILES[][2] = {
        {"h.tsv", "tsv"}, {"h.json", "json"}, {"h.txt", "text"}, {"h", "text"}};
    for (int i = 0; i < 4; i++) {
        cr_expect_str_empty(heads(folder, format("-o %s --no-translation", FILES[i][0])));
        cr_expect_str_eq(read_file(format("%s", FILES[i][0]), NULL),
                         heads(folder, format("-f %s --no-translation", FILES[i][1])), "%s", FILES[i][0]);
    }
    cr_expect_str_eq(heads(folder, "-f json -o h.dat --no-translation"), "");
    cJSON_Delete(json_parsed(read_file("h.dat", NULL)));
}

Test(heads, refuses)
{
    const char *folder = enter(folder_of("refused"));
    static const char *const CASES[][2] = {
        {"-o h.png", "qkv: --output h.png: measures of heads are written as .txt, .json or .tsv; --format "
                     "chooses another"},
        {"--links-from 0", "qkv: --links-from needs --links"},
        {"--no-translation --beam 2", "qkv: --beam needs translations: give it without --no-translation"},
        {"-o ./dev.tsv", "qkv: ./dev.tsv: is an input, too: write to another file"},
        {"--sort error_read", "qkv: --sort error_read needs gold links: give --links"},
        {"--sort bleu --no-translation", "qkv: --sort bleu needs translations: leave out --no-translation"},
        {"--links missing", "qkv: missing: cannot be read: No such file or directory"},
    };
    EXPECT_REFUSALS("qkv heads run dev.tsv ", CASES);
    cr_expect_eq(run("qkv heads run dev.tsv --sort size").exit_code, 2);
    cr_expect_eq(run("qkv heads run").exit_code, 2);
    write_text(folder, "none.yaml",
               "name: c\ndata: {train: train.tsv, src: {lang: a}, trg: {lang: b}}\nmodel:\n"
               "  encoder: {type: recurrent, hidden_size: 8}\n"
               "  decoder: {type: recurrent, hidden_size: 8, attention: {score: none}}\n"
               "training: {model_dir: none, updates: 2}\n");
    run_ok("qkv train none.yaml -q 2>&1");
    cr_expect(
        refused(run("qkv heads none dev.tsv"), "qkv: none: the model has no attention, and so no heads"));
}
