/* qkv compare: tables and charts of evaluations, and what it refuses; tools/history.sh, which ends with it.
 */
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* An evaluation as `qkv evaluate --json` writes it, shortened to what is compared. */
static void write_evaluation(const char *folder, const char *name, const char *run_name, const char *test,
                             double accuracy, const char *more)
{
    write_text(
        folder, name,
        format("{\"run\": \"%s\", \"parameters\": 1234567, \"training_tokens_per_second\": 4321.4, "
               "\"training_max_length\": 25, \"test\": \"%s\", \"sentences\": 200, \"token_accuracy\": "
               "0.9, \"sequence_accuracy\": %g, \"bleu\": 87.654%s}\n",
               run_name, test, accuracy, more));
}

#define CLASS(from, to, sentences, accuracy)                                                                 \
    "{\"from\": " #from ", \"to\": " #to ", \"sentences\": " #sentences                                      \
    ", \"sequence_accuracy\": " #accuracy "}"

static const char *evaluations(const char *name)
{
    const char *folder = scratch(name);
    write_evaluation(folder, "a1.json", "cho", "x/short/test.tsv", 0.5,
                     ", \"by_length\": [" CLASS(1, 5, 100, 0.9) ", " CLASS(6, 10, 100, 0.1) "]");
    write_evaluation(folder, "a2.json", "cho", "x/long/test.tsv", 0.0125,
                     ", \"by_length\": [" CLASS(6, 10, 300, 0.5) ", " CLASS(11, 15, 100, 0) "]");
    write_evaluation(folder, "b1.json", "bahdanau", "x/short/test.tsv", 0.985,
                     ", \"alignment\": {\"best\": {\"rows\": {\"aer\": 0.2}, \"both\": {\"aer\": 0.12345}}}, "
                     "\"by_length\": [" CLASS(1, 5, 9, 1) "]");
    return folder;
}

Test(compare, prints_a_row_for_each_run_and_columns_for_each_test)
{
    struct outcome outcome = run("cd '%s' && qkv compare a1.json a2.json b1.json", evaluations("text"));
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_eq(outcome.output,
                     "                                short                        long\n"
                     "model     parameters  tokens/s  sequences, %   BLEU  AER, %  sequences, %   BLEU\n"
                     "cho        1,234,567     4,321         50.00  87.65       –          1.25  87.65\n"
                     "bahdanau   1,234,567     4,321         98.50  87.65   12.35             –      –\n");
}

Test(compare, writes_markdown_tsv_json_and_charts)
{
    const char *folder = evaluations("files");
    struct outcome outcome = run("cd '%s' && qkv compare a1.json b1.json a2.json -o t.md -o t.tsv -o t.json "
                                 "-o t.svg -o t.png -o t.txt",
                                 folder);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_eq(read_file(format("%s/t.txt", folder), NULL), outcome.output);
    cr_expect_str_eq(
        read_file(format("%s/t.md", folder), NULL),
        "| model | parameters | tokens/s | short: sequences, % | short: BLEU | short: AER, % | long: "
        "sequences, % | long: BLEU |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|\n"
        "| cho | 1,234,567 | 4,321 | 50.00 | 87.65 | – | 1.25 | 87.65 |\n"
        "| bahdanau | 1,234,567 | 4,321 | 98.50 | 87.65 | 12.35 | – | – |\n");
    cr_expect_str_eq(read_file(format("%s/t.tsv", folder), NULL),
                     "model\tparameters\ttokens/s\tshort: sequences, %\tshort: BLEU\tshort: AER, %\tlong: "
                     "sequences, %\tlong: BLEU\n"
                     "cho\t1234567\t4321\t50.00\t87.65\t\t1.25\t87.65\n"
                     "bahdanau\t1234567\t4321\t98.50\t87.65\t12.35\t\t\n");
    cJSON *json = cJSON_Parse(read_file(format("%s/t.json", folder), NULL));
    cr_expect_eq(cJSON_GetArraySize(json), 3);
    cJSON_Delete(json);
    const char *svg = read_file(format("%s/t.svg", folder), NULL);
    cr_expect_not_null(strstr(svg, ">bahdanau<"));
    /* Lengths 3, 8 and 13; at 8 the two tests of cho make (10 + 150) of 400 right: 40 %. */
    double x[3], y[3];
    const char *points = strstr(svg, "<polyline fill=\"none\" stroke=\"#000000\"");
    cr_assert_not_null(points);
    points = strstr(points, "points=\"");
    cr_assert_eq(sscanf(points, "points=\"%lf,%lf %lf,%lf %lf,%lf\"", x, y, x + 1, y + 1, x + 2, y + 2), 6);
    cr_expect_float_eq(x[1] - x[0], x[2] - x[1], 0.02);
    cr_expect_float_eq((y[2] - y[1]) / (y[2] - y[0]), 40. / 90, 1e-3);
    cr_expect_eq(run("head -c 8 '%s/t.png' | tail -c 7 | grep -q PNG", folder).exit_code, 0);
}

Test(compare, refuses_files_that_are_no_evaluations)
{
    const char *folder = evaluations("refused");
    write_evaluation(folder, "again.json", "cho", "x/short/test.tsv", 0.5, "");
    write_evaluation(folder, "plain.json", "cho", "x/short/test.tsv", 0.5, "");
    write_evaluation(folder, "broken.json", "cho", "y", 0.5, ", \"by_length\": [{\"from\": 1}]");
    write_text(folder, "other.json", "{\"run\": \"cho\"}");
    write_text(folder, "empty.json", "");
#define NONE ": is not an evaluation; make one with `qkv evaluate --json`"
    static const char *const cases[][2] = {
        {"", "qkv: EVALUATION is missing (usage: qkv compare EVALUATION... [options])"},
        {"none.json", "qkv: none.json: No such file or directory"},
        {".", "qkv: .: Is a directory"},
        {"empty.json", "qkv: empty.json: the file is empty"},
        {"other.json", "qkv: other.json" NONE},
        {"broken.json", "qkv: broken.json" NONE},
        {"a1.json again.json", "qkv: again.json: a second evaluation of run cho on x/short/test.tsv; give "
                               "the runs different names"},
        {"a1.json -o x.bmp", "qkv: x.bmp: a comparison is written as .md, .tsv, .json, .txt, .svg or .png"},
        {"plain.json -o x.svg",
         "qkv: x.svg: no evaluation has scores by length; make them with `qkv evaluate "
         "--by-length 5 --json`"},
        {"a1.json -o none/x.md", "qkv: none/x.md: cannot be written: No such file or directory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect(refused(run("cd '%s' && qkv compare %s", folder, cases[i][0]), cases[i][1]), "%s",
                  cases[i][0]);
    cr_expect_eq(run("ls '%s' | grep -q x", folder).exit_code, 1);
}

/* Two configs, hardly trained: all files are there, and a second call trains nothing. */
Test(history, compares_configs)
{
    const char *folder = scratch("history");
    const char *command = format("cd '%s' && QKV='%s' RUNS='%s' UPDATES=2 TESTS=3 THREADS=1 tools/history.sh "
                                 "configs/history/vaswani_2017.yaml configs/toy_en_es.yaml",
                                 QKV_SOURCE_DIR, QKV_BINARY, folder);
    struct outcome outcome = run("%s", command);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_not_null(strstr(outcome.output, "short"));
    cr_expect_not_null(strstr(outcome.output, "AER, %"));
    static const char *const files[] = {"comparison.md", "comparison.tsv", "comparison.json",
                                        "accuracy_by_length.svg", "accuracy_by_length.png"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        cr_expect_not_null(read_file(format("%s/%s", folder, files[i]), NULL), "%s", files[i]);
    const char *table = read_file(format("%s/comparison.md", folder), NULL);
    cr_expect_not_null(strstr(table, "\n| vaswani_2017 | 64"), "%s", table);
    cr_expect_not_null(strstr(table, "\n| toy_en_es | 64"), "%s", table);
    const char *before = fingerprint(folder);
    cr_expect_eq(run("%s", command).exit_code, 0);
    cr_expect_str_eq(fingerprint(folder), before);
    cr_expect_eq(
        run("cd '%s' && QKV='%s' RUNS='%s' tools/history.sh none.yaml", QKV_SOURCE_DIR, QKV_BINARY, folder)
            .exit_code,
        2);
}
