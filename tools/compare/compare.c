/* qkv compare: compares several runs, in a table and in a chart of accuracy by sentence length. */
#include "command.h"
#include "comparison.h"
#include "print.h"
#include "terminal.h"

#include "draw/chart.h"
#include "qkv/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The output formats, by extension. A format without a writer is a chart. */
static const struct format {
    const char *extension;
    comparison_writer *write;
} FORMATS[] = {{"md", comparison_markdown}, {"tsv", comparison_tsv}, {"json", comparison_json},
               {"txt", comparison_text},    {"svg", NULL},           {"png", NULL}};

enum { FORMAT_COUNT = sizeof FORMATS / sizeof FORMATS[0] };

static const struct format *format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && i < FORMAT_COUNT; i++)
        if (!strcmp(dot + 1, FORMATS[i].extension)) return &FORMATS[i];
    return NULL;
}

/* The length of the longest source in training, if it is the same for all runs; otherwise 0. */
static double longest_in_training(const struct comparison *c)
{
    for (int i = 1; i < c->runs; i++)
        if (c->run[i].max_length != c->run[0].max_length) return 0;
    return c->run[0].max_length;
}

static enum qkv_status draw(struct comparison *c, const char *path, struct qkv_error *error)
{
    struct chart_line lines[MAX_RUNS];
    struct chart chart = {
        .title = "Sentences translated without a mistake",
        .x_label = "length of the source sentence, tokens",
        .y_label = "sequence accuracy, %",
        .y_end = 100,
        .vertical_line = longest_in_training(c),
        .vertical_line_label = "longest in training",
        .lines = lines,
    };
    for (int i = 0; i < c->runs; i++) {
        double *lengths, *accuracies;
        int64_t count = comparison_by_length(c, &c->run[i], &lengths, &accuracies);
        if (count)
            lines[chart.line_count++] = (struct chart_line){c->run[i].name, count, lengths, accuracies};
    }
    if (!chart.line_count)
        return qkv_error_set(error,
                             "%s: no evaluation has scores by length; make them with `qkv evaluate "
                             "--by-length 5 --json`",
                             path);
    return qkv_charts_write(&chart, 1, 1, path, error);
}

/* Writes the table to a file, or to standard output if `path` is NULL. */
static enum qkv_status write_table(struct comparison *c, comparison_writer *writer, const char *path,
                                   struct qkv_error *error)
{
    struct bytes out = {0};
    enum qkv_status status = QKV_OK;
    writer(c, &out);
    if (out.failed)
        status = qkv_error_set(error, "out of memory for the table");
    else if (path)
        status = qkv_file_write(path, out.data, out.size, error);
    else
        fwrite(out.data, 1, out.size, stdout);
    free(out.data);
    return status;
}

static void warn(const struct signature_difference *d)
{
    fputs("warning: ", stderr);
    print_plain(stderr, d->metric);
    fputs(" on ", stderr);
    print_plain(stderr, d->test);
    for (int i = 0; i < 2; i++) {
        fputs(i ? ", but of " : ": that of ", stderr);
        print_plain(stderr, d->run[i]);
        fputs(" is ", stderr);
        print_plain(stderr, d->signature[i]);
    }
    fputs("; these scores cannot be compared\n", stderr);
}

/* Says why a quantised run has no scores. */
static void note_unmeasured(const struct comparison *c)
{
    for (int i = 0; i < c->runs; i++)
        if (c->run[i].is_unmeasured)
            print_error("note: %s is quantised, and has no scores of its own: compare the output of `qkv "
                        "evaluate %s --json`",
                        c->run[i].folder, c->run[i].folder);
}

static enum qkv_status compare(struct comparison *c, int count, char **paths,
                               const struct option_list *outputs, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (int i = 0; !status && i < count; i++) status = comparison_read(c, paths[i], error);
    if (status) return status;
    comparison_finish(c);
    comparison_check_signatures(c, warn);
    note_unmeasured(c);
    for (int i = 0; !status && i < outputs->count; i++) {
        const char *path = outputs->value[i];
        comparison_writer *writer = format_of(path)->write;
        status = writer ? write_table(c, writer, path, error) : draw(c, path, error);
    }
    if (!status) status = write_table(c, comparison_text, NULL, error);
    return status;
}

static struct option_list outputs;

static int run(int operands, char **operand)
{
    static struct comparison comparison; /* large */
    for (int i = 0; i < outputs.count; i++)
        if (!format_of(outputs.value[i]))
            return print_error("%s: a comparison is written as .md, .tsv, .json, .txt, .svg or .png",
                               outputs.value[i]);
    struct qkv_error error = {""};
    enum qkv_status status = compare(&comparison, operands, operand, &outputs, &error);
    comparison_release(&comparison);
    return conclude(status, &error);
}

const struct command command_compare = {
    .name = "compare",
    .summary = "put runs or evaluations side by side: a table, a chart",
    .description =
        "Shows several runs side by side: a table with a row for each run and columns for each "
        "test set; and a chart with a line for each run, the sentences translated without a "
        "mistake by source length, from evaluations made with --by-length.\n\n"
        "A run folder shows the scores of data.dev at its best validation or, with testing.average, those of "
        "the average; one of `qkv quantize` has none. Runs that differ in their seed alone are one row: mean "
        "± standard deviation (.tsv: the mean). Below the table "
        "stand the keys of the configs whose values differ, as far as the run folders are known. "
        "Scores that were computed in different ways, such as BLEU with two tokenizers, get a "
        "warning.\n",
    .examples = "  qkv evaluate runs/a datasets/en_es/test.tsv --by-length 3 --json >a.json\n"
                "  qkv evaluate runs/b datasets/en_es/test.tsv --by-length 3 --json >b.json\n"
                "  qkv compare a.json b.json -o table.md -o accuracy.svg\n"
                "  qkv compare runs/a runs/b\n",
    .operands = OPERANDS({"RUN", VALUE_FILE, "a run folder, or the output of `qkv evaluate --json` for a run",
                          .repeated = true}),
    .options = OPTIONS({"output", 'o', "FILE", OPTION_LIST, &outputs,
                        "write the table (.md .tsv .json .txt) or the chart (.svg .png); may be repeated",
                        .completes = VALUE_FILE}),
    .run = run,
};
