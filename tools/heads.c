/* qkv heads: measures what the heads of a run attend to, and how important they are. */
#include "command.h"
#include "config.h"
#include "heads_table.h"
#include "links_options.h"
#include "measure_option.h"
#include "print.h"
#include "search_options.h"
#include "terminal.h"
#include "unknown_words.h"

#include "qkv/evaluate.h"
#include "qkv/file.h"
#include "qkv/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The options as they are given. */
static struct links_options links_options;
static const char *checkpoint, *format_name, *output_path, *measure, *sort;
static int64_t beam, threads;
static bool no_translation, quiet;

/* The formats, by name; each is also an extension of --output. */
static const struct {
    const char *name;
    void (*write)(const struct heads_table *table, struct bytes *out);
} FORMATS[] = {{"text", heads_table_text}, {"json", heads_table_json}, {"tsv", heads_table_tsv}};
enum { FORMAT_COUNT = sizeof FORMATS / sizeof *FORMATS };

static const char *name_of_format(const void *context, int64_t index)
{
    (void)context;
    return index < FORMAT_COUNT ? FORMATS[index].name : NULL;
}

static const char *name_of_measure(const void *context, int64_t index)
{
    (void)context;
    return index < QKV_HEAD_MEASURES ? qkv_head_measure_info((enum qkv_head_measure)index)->name : NULL;
}

/* Sets *format by --format, or else by the extension of --output, or else to text. */
static int choose_format(int *format)
{
    const char *dot = output_path ? strrchr(output_path, '.') : NULL;
    const char *name = format_name ? format_name : dot ? dot + 1 : "text";
    if (!format_name && !strcmp(name, "txt")) name = "text";
    for (*format = 0; *format < FORMAT_COUNT; ++*format)
        if (!strcmp(name, FORMATS[*format].name)) return QKV_OK;
    return print_error(
        "--output %s: measures of heads are written as .txt, .json or .tsv; --format chooses another",
        output_path);
}

struct heads {
    struct qkv_run run;
    struct qkv_corpus corpus;
    struct qkv_workers *workers;
    struct qkv_measured_heads measured;
    struct progress_bar bar;
};

static void show_progress(void *context, int64_t done, int64_t total)
{
    struct heads *h = context;
    char text[64];
    snprintf(text, sizeof text, "pass %lld of %lld", (long long)done, (long long)total);
    progress_bar_show(&h->bar, (double)done / (double)total, text);
}

static enum qkv_status measure_heads(struct heads *h, const char *test, struct qkv_error *error)
{
    const struct qkv_data_config *data = &h->run.config.data;
    const struct qkv_corpus_options read = {.keep_raw = true, .third_column = links_options.path};
    struct qkv_heads_options options = {
        .links = links_options.path,
        .links_from = links_from(&links_options),
        .norms = measures_norms(measure),
        .no_translation = no_translation,
        .testing = h->run.config.testing,
        .progress = quiet ? NULL : show_progress,
        .context = h,
    };
    if (beam) options.testing.beam_size = beam;
    if (qkv_corpus_read(&h->corpus, test, data, read, error) ||
        qkv_corpus_fits(&h->corpus, test, &h->run.model->config, error) ||
        qkv_corpus_encode(&h->corpus, &h->run.source, &h->run.target, error))
        return QKV_INVALID;
    warn_of_swapped_corpus(test, &h->corpus, &h->run);
    h->workers = options.workers = qkv_workers_new((int)threads, error);
    if (!h->workers) return QKV_INVALID;
    h->bar = progress_bar_on(stderr);
    enum qkv_status status = qkv_heads_measure(&h->run, &h->corpus, &options, &h->measured, error);
    progress_bar_clear(&h->bar);
    return status;
}

/* Whether head a comes before head b: sorts by the measure of --sort, largest values first, and heads without a value last. */
static bool comes_before(const struct qkv_measured_heads *measured, int by, int64_t a, int64_t b)
{
    double x = measured->heads[a].value[by], y = measured->heads[b].value[by];
    return !isnan(x) && (isnan(y) || x > y);
}

/* The order of the heads; NULL when memory runs out. The caller frees it. */
static int64_t *make_order(const struct qkv_measured_heads *measured)
{
    int64_t *order = calloc((size_t)measured->count, sizeof *order);
    int by = 0;
    while (sort && strcmp(sort, name_of_measure(NULL, by)) != 0) by++;
    for (int64_t i = 0; order && i < measured->count; i++) {
        int64_t at = i; /* insertion sort, which keeps the order of equal heads */
        for (; sort && at && comes_before(measured, by, i, order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

static enum qkv_status print(const struct heads *h, const char *test, int format, struct qkv_error *error)
{
    int64_t *order = make_order(&h->measured);
    const struct heads_table table = {&h->run, test, measures_norms(measure), &h->measured, order};
    struct bytes out = {.failed = !order};
    enum qkv_status status = QKV_OK;
    if (order) FORMATS[format].write(&table, &out);
    if (out.failed || json_memory_is_out())
        status = qkv_error_set(error, "out of memory for the measures of heads");
    else if (output_path)
        status = qkv_file_write(output_path, out.data, out.size, error);
    else
        fwrite(out.data, 1, out.size, stdout);
    free(out.data);
    free(order);
    return status;
}

/* Refuses to sort by a measure that no head will have. */
static int check_sort(void)
{
    static const enum qkv_head_measure of_links[] = {QKV_HEAD_ERROR_PREDICTED, QKV_HEAD_ERROR_READ,
                                                     QKV_HEAD_VARIATION_PREDICTED, QKV_HEAD_VARIATION_READ};
    for (size_t i = 0; sort && i < sizeof of_links / sizeof *of_links; i++)
        if (!links_options.path && !strcmp(sort, name_of_measure(NULL, of_links[i])))
            return print_error("--sort %s needs gold links: give --links", sort);
    if (sort && no_translation && !strcmp(sort, name_of_measure(NULL, QKV_HEAD_BLEU)))
        return print_error("--sort %s needs translations: leave out --no-translation", sort);
    return QKV_OK;
}

static int run(int operands, char **operand)
{
    struct heads h = {0};
    struct qkv_error error = {""};
    int format;
    if (output_path && !strcmp(output_path, "-")) output_path = NULL;
    if (choose_format(&format)) return QKV_INVALID;
    if (links_options_check(&links_options, operand[1])) return QKV_INVALID;
    if (check_sort()) return QKV_INVALID;
    if (no_translation && print_translation_options_error(&command_heads)) return QKV_INVALID;
    (void)operands;
    const char *const inputs[] = {operand[1], links_options.path};
    enum qkv_status status = refuse_input_as_output(output_path, inputs, 2, &error);
    if (!status) status = qkv_run_open(&h.run, operand[0], checkpoint, QKV_FLOAT32, &error);
    if (status) return conclude(status, &error);
    /* Measuring heads needs gradients, which do not exist for int8 products. */
    status = set_precision(h.run.model, "float32", &error);
    if (!status) status = measure_heads(&h, operand[1], &error);
    if (!status) links_options_note(&links_options, h.measured.missing, h.measured.sentences);
    if (!status) status = print(&h, operand[1], format, &error);
    qkv_measured_heads_release(&h.measured);
    qkv_workers_free(h.workers);
    qkv_corpus_release(&h.corpus);
    qkv_run_release(&h.run);
    return conclude(status, &error);
}

const struct command command_heads = {
    .name = "heads",
    .summary = "measure every attention head: what it attends to, its importance",
    .description = "Measures each head on sentence pairs, with the references fed to the decoder. Maps are "
                   "between words; means are over the attending words (rows), without <s> and </s>. The "
                   "columns of the tables, with their names in JSON and TSV:\n\n"
#define HEAD_MEASURE(id, name, title, digits, factor, help) title " (" #name "): " help ".\n\n"
#include "qkv/head_measures.def"
#undef HEAD_MEASURE
                   "A measure that no head has, such as alignment errors without --links, is left out of the "
                   "tables. Heads are named as by --without in `qkv translate`.\n",
    .examples = "  qkv heads runs/toy_en_es datasets/en_es/test.tsv\n"
                "  qkv heads runs/toy_en_es datasets/en_es/test.tsv \\\n"
                "      --links datasets/en_es/test.align --sort importance\n"
                "  qkv heads runs/toy_en_es datasets/en_es/dev.tsv --no-translation -o heads.tsv\n",
    .operands =
        OPERANDS({"RUN", VALUE_RUN, "a run folder"},
                 {"TSV", VALUE_FILE,
                  "source and target separated by a tab (.tsv, .tsv.gz), or the common prefix of two files"}),
    .options = OPTIONS(
        COMMAND_OPTIONS_LINKS(&links_options, "measure the alignment of cross attention"),
        COMMAND_OPTION_MEASURE(&measure),
        {"sort", 0, "NAME", OPTION_CHOICE, &sort, "greatest values of this measure first: {choices}",
         .choices = name_of_measure},
        {"format", 'f', "FORMAT", OPTION_CHOICE, &format_name,
         "{choices} (default: by the extension of --output, else text)", .choices = name_of_format},
        {"output", 'o', "FILE", OPTION_TEXT, &output_path, "write to FILE (.txt .json .tsv)",
         .completes = VALUE_FILE},
        {"no-translation", 0, NULL, OPTION_FLAG, &no_translation,
         "do not measure BLEU, for which all pairs are translated once without each head"},
        COMMAND_OPTION_BEAM(&beam), COMMAND_OPTION_CHECKPOINT(&checkpoint), COMMAND_OPTION_THREADS(&threads),
        {"quiet", 'q', NULL, OPTION_FLAG, &quiet, "show no progress"}),
    .run = run,
};
