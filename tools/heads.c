/* qkv heads: measures what the heads of a run attend to, and how important they are. */
#include "config.h"
#include "open_run.h"
#include "search_options.h"
#include "text_notes.h"
#include "train/training.h"

#include "report/json_text.h"

/* The options as they are given. */
static struct links_options links_options;
static const char *checkpoint, *format_name, *output_path, *measure, *sort;
static int64_t beam, threads, repeat, sequences;
static bool no_translation, quiet;

struct heads {
    struct qkv_run run;
    struct qkv_corpus corpus;
    struct qkv_workers *workers;
    struct qkv_measured_heads measured;
    struct progress_bar bar;
    const char *test; /* path of the parallel text */
};

static const struct qkv_head_measure_info *info_of(int m)
{
    return qkv_head_measure_info((enum qkv_head_measure)m);
}

/* ---- tables ---- */

enum { NAME_WIDTH = 12, NARROWEST = 6 };

/* ---- text ---- */

static const char *number_text(int m, double value, char text[32])
{
    const struct qkv_head_measure_info *info = info_of(m);
    snprintf(text, 32,
             m == QKV_HEAD_LOSS || m == QKV_HEAD_BLEU || m == QKV_HEAD_SECOND_LOSS ? "%+.*f" : "%.*f",
             info->digits, info->factor * value);
    return isnan(value) ? "-" : text;
}

/* The width of the column of a measure; 0: no head has it. */
static int width_of(const struct heads *h, int m)
{
    int widest = (int)strlen(info_of(m)->title);
    bool is_known = false;
    for (int64_t i = 0; i < h->measured.count; i++) {
        char text[32];
        double value = h->measured.heads[i].value[m];
        int width = (int)strlen(number_text(m, value, text));
        if (width > widest) widest = width;
        is_known |= !isnan(value);
    }
    return !is_known ? 0 : widest > NARROWEST ? widest : NARROWEST;
}

/* The columns of measures first .. end - 1. */
static void append_columns(const struct heads *h, int first, int end, struct bytes *out)
{
    for (int64_t i = -1; i < h->measured.count; i++) { /* -1: the titles */
        const struct qkv_measured_head *head = i < 0 ? NULL : &h->measured.heads[i];
        char name[64] = "head", text[32];
        if (head) qkv_head_name(head->head, name, sizeof name);
        qkv_bytes_format(out, "%-*s", NAME_WIDTH, name);
        for (int m = first, width; m < end; m++)
            if ((width = width_of(h, m)))
                qkv_bytes_format(out, " %*s", width,
                                 head ? number_text(m, head->value[m], text) : info_of(m)->title);
        qkv_bytes_text(out, "\n");
    }
}

static void write_text(const struct heads *h, struct bytes *out)
{
    const struct qkv_measured_heads *measured = &h->measured;
    qkv_bytes_format(out, "%lld heads, %lld sentences, %lld target tokens; loss %.4f",
                     (long long)measured->count, (long long)measured->sentences, (long long)measured->tokens,
                     measured->loss);
    if (!isnan(measured->bleu)) qkv_bytes_format(out, ", BLEU %.2f", measured->bleu);
    qkv_bytes_format(out, "\n\nWhat each head attends to, by %s:\n",
                     measures_norms(measure) ? "norms of weighted values" : "weights");
    append_columns(h, 0, QKV_HEAD_ERROR_PREDICTED, out);
    qkv_bytes_text(out, "\nHow important each head is (loss and BLEU: the change when it is silent):\n");
    append_columns(h, QKV_HEAD_ERROR_PREDICTED, QKV_HEAD_PREFIX_MATCHING, out);
    const struct qkv_induction *induction = &measured->induction;
    if (!induction->count) return;
    qkv_bytes_format(out,
                     "\nOn %lld random sequences of %lld tokens that come twice: loss %.4f, then %.4f\n"
                     "(2nd loss, best: that second loss, and the best matching, when the head is silent):\n",
                     (long long)induction->repeats.count, (long long)induction->repeats.length,
                     induction->first_loss, induction->second_loss);
    append_columns(h, QKV_HEAD_PREFIX_MATCHING, QKV_HEAD_MEASURES, out);
}

/* ---- TSV ---- */

static void write_tsv(const struct heads *h, struct bytes *out)
{
    qkv_bytes_text(out, "head");
    for (int m = 0; m < QKV_HEAD_MEASURES; m++) qkv_bytes_format(out, "\t%s", info_of(m)->name);
    qkv_bytes_text(out, "\n");
    for (int64_t i = 0; i < h->measured.count; i++) {
        char name[64];
        qkv_head_name(h->measured.heads[i].head, name, sizeof name);
        qkv_bytes_text(out, name);
        for (int m = 0; m < QKV_HEAD_MEASURES; m++) {
            qkv_bytes_text(out, "\t");
            if (!isnan(h->measured.heads[i].value[m])) qkv_bytes_number(out, h->measured.heads[i].value[m]);
        }
        qkv_bytes_text(out, "\n");
    }
}

/* ---- JSON ---- */

static cJSON *head_object(const struct qkv_measured_head *head)
{
    cJSON *object = cJSON_CreateObject();
    char name[64];
    qkv_head_name(head->head, name, sizeof name);
    JSON_TEXTS(object, {"name", name}, {"kind", qkv_attention_kind_name(head->head.attention)});
    JSON_NUMBERS(object, {"layer", (double)head->head.layer}, {"head", (double)head->head.head});
    for (int m = 0; m < QKV_HEAD_MEASURES; m++) JSON_NUMBERS(object, {info_of(m)->name, head->value[m]});
    return object;
}

static void write_json(const struct heads *h, struct bytes *out)
{
    cJSON *object = cJSON_CreateObject();
    JSON_TEXTS(object, {"run", h->run.config.name}, {"checkpoint", h->run.checkpoint}, {"test", h->test},
               {"measure", attention_measure_name(NULL, measures_norms(measure))});
    JSON_NUMBERS(object, {"sentences", (double)h->measured.sentences}, {"tokens", (double)h->measured.tokens},
                 {"loss", h->measured.loss}, {"bleu", h->measured.bleu});
    const struct qkv_induction *induction = &h->measured.induction;
    if (induction->count)
        JSON_NUMBERS(object, {"repeat", (double)induction->repeats.length},
                     {"sequences", (double)induction->repeats.count}, {"first_loss", induction->first_loss},
                     {"second_loss", induction->second_loss});
    cJSON *heads = cJSON_AddArrayToObject(object, "heads");
    for (int64_t i = 0; i < h->measured.count; i++)
        cJSON_AddItemToArray(heads, head_object(&h->measured.heads[i]));
    qkv_json_append(out, object);
    qkv_bytes_text(out, "\n");
    cJSON_Delete(object);
}

/* ---- formats ---- */

/* The formats, by name; each is also an extension of --output. */
static const struct {
    const char *name;
    void (*write)(const struct heads *h, struct bytes *out);
} FORMATS[] = {{"text", write_text}, {"json", write_json}, {"tsv", write_tsv}};
enum { FORMAT_COUNT = sizeof FORMATS / sizeof *FORMATS };

static NAME_LISTER(name_of_format, index < FORMAT_COUNT ? FORMATS[index].name : NULL);

static NAME_LISTER(name_of_measure, index < QKV_HEAD_MEASURES
                                        ? qkv_head_measure_info((enum qkv_head_measure)index)->name
                                        : NULL);

/* Sets *format by --format, or else by the extension of --output, or else to text. */
static int choose_format(int *format)
{
    const char *dot = output_path ? strrchr(output_path, '.') : NULL;
    const char *name = format_name ? format_name : dot && strcmp(dot, ".txt") ? dot + 1 : "text";
    *format = choice_index(name, name_of_format, FORMAT_COUNT);
    if (*format < FORMAT_COUNT) return QKV_OK;
    return print_error(
        "--output %s: measures of heads are written as .txt, .json or .tsv; --format chooses another",
        output_path);
}

/* ---- measuring ---- */

static void show_progress(void *context, int64_t done, int64_t total)
{
    struct heads *h = context;
    char text[64];
    snprintf(text, sizeof text, "pass %lld of %lld", (long long)done, (long long)total);
    progress_bar_show(&h->bar, (double)done / (double)total, text);
}

static enum qkv_status measure_heads(struct heads *h, struct qkv_error *error)
{
    const struct qkv_data_config *data = &h->run.config.data;
    const struct qkv_corpus_options read = {.keep_raw = true, .third_column = links_options.path};
    struct qkv_heads_options options = {
        .links = links_options.path,
        .links_from = links_from(&links_options),
        .norms = measures_norms(measure),
        .no_translation = no_translation,
        .repeats = {repeat, sequences},
        .testing = h->run.config.testing,
        .progress = quiet ? NULL : show_progress,
        .context = h,
    };
    if (beam) options.testing.beam_size = beam;
    if (qkv_corpus_read(&h->corpus, h->test, data, read, error) ||
        qkv_corpus_fits(&h->corpus, h->test, &h->run.model->config, error) ||
        qkv_corpus_encode(&h->corpus, &h->run.source, &h->run.target, error))
        return QKV_INVALID;
    if (h->run.sides.has_source) warn_of_swapped_corpus(h->test, &h->corpus, &h->run);
    h->workers = options.workers = qkv_workers_new((int)threads, error);
    if (!h->workers) return QKV_INVALID;
    h->bar = progress_bar_on(stderr);
    enum qkv_status status = qkv_heads_measure(&h->run, &h->corpus, &options, &h->measured, error);
    progress_bar_clear(&h->bar);
    return status;
}

/* Sorts the heads by the measure of --sort, largest values first, and heads without a value last. */
static void sort_heads(const struct qkv_measured_heads *measured)
{
    int by = choice_index(sort, name_of_measure, 0);
    for (int64_t i = 1; sort && i < measured->count; i++) {
        const struct qkv_measured_head head = measured->heads[i];
        int64_t at = i; /* insertion sort, which keeps the order of equal heads */
        for (; at && !isnan(head.value[by]) && !(head.value[by] <= measured->heads[at - 1].value[by]); at--)
            measured->heads[at] = measured->heads[at - 1];
        measured->heads[at] = head;
    }
}

/* Whether a measure is one of those on random sequences that come twice. */
static bool of_repeats(int m)
{
    return m >= QKV_HEAD_PREFIX_MATCHING && m <= QKV_HEAD_BEST_MATCHING;
}

/* Refuses to sort by a measure that no head will have. */
static int check_sort(void)
{
    int by = choice_index(sort, name_of_measure, -1);
    bool of_links = by == QKV_HEAD_ERROR_PREDICTED || by == QKV_HEAD_ERROR_READ ||
                    by == QKV_HEAD_VARIATION_PREDICTED || by == QKV_HEAD_VARIATION_READ;
    if (of_links && !links_options.path) return print_error("--sort %s needs gold links: give --links", sort);
    if (by == QKV_HEAD_BLEU && no_translation)
        return print_error("--sort %s needs translations: leave out --no-translation", sort);
    return QKV_OK;
}

static int run_heads(int operands, char **operand)
{
    struct heads h = {.test = operand[1]};
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
    if (!status) status = open_run(&h.run, operand[0], checkpoint, QKV_FLOAT32, NULL, &error);
    if (status) return conclude(status, &error);
    if (h.run.sides.has_source &&
        (repeat || sequences || of_repeats(choice_index(sort, name_of_measure, -1))))
        status = qkv_error_set(&error,
                               "%s: is a translator, but random sequences that come twice are for "
                               "language models",
                               operand[0]);
    no_translation = no_translation || !h.run.sides.has_source;
    if (!status && !h.run.sides.has_source)
        status = refuse_translation(&command_heads, operand[0], links_options.path, &error);
    /* Measuring heads needs gradients, which do not exist for int8 products. */
    if (!status) status = set_precision(h.run.model, "float32", &error);
    if (!status) status = measure_heads(&h, &error);
    if (!status)
        links_options_note(&links_options, h.measured.missing, h.measured.sentences,
                           (struct qkv_word_spaces){0});
    if (!status) {
        struct bytes out = {0};
        sort_heads(&h.measured);
        FORMATS[format].write(&h, &out);
        status = write_output(output_path, &out, &error);
    }
    qkv_measured_heads_release(&h.measured);
    qkv_workers_free(h.workers);
    qkv_corpus_release(&h.corpus);
    qkv_run_release(&h.run);
    return conclude(status, &error);
}

const struct command command_heads = {
    .name = "heads",
    .summary = "measure every attention head: what it attends to, its importance",
    .description = "Measures each head on sentence pairs, with the references fed to the decoder, or of a "
                   "language model on a text. Maps are between words, those of a language model between "
                   "tokens; means are over the attending words (rows), without <s> and </s>. The "
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
    .operands = OPERANDS(
        {"RUN", VALUE_RUN, "a run folder"},
        {"TSV", VALUE_FILE,
         "source and target separated by a tab (.tsv, .tsv.gz), or the common prefix of two files; of a "
         "language model, a text"}),
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
        {"repeat", 0, "N", OPTION_INTEGER, &repeat,
         "of a language model: tokens of the random sequences that come twice (default: 25, or as many as "
         "fit twice in the texts that it was trained for)",
         2, 1000},
        {"sequences", 0, "N", OPTION_INTEGER, &sequences, "the number of these sequences (default: 20)", 1,
         100000},
        COMMAND_OPTION_BEAM(&beam), COMMAND_OPTION_CHECKPOINT(&checkpoint), COMMAND_OPTION_THREADS(&threads),
        {"quiet", 'q', NULL, OPTION_FLAG, &quiet, "show no progress"}),
    .run = run_heads,
};
