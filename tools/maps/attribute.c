/* qkv attribute: how much each word that a model reads contributes to each word that it predicts. */
#include "output_options.h"
#include "search_options.h"
#include "sentence_pair.h"

#include "qkv/attention_map.h"

/* The options as they are given. */
static struct sentence_pair_options pair_options;
static struct output_options output_options;
static const char *method, *layer, *head;
static int64_t steps;
static bool words;

static NAME_LISTER(method_name, index < QKV_ATTRIBUTION_METHODS
                                    ? qkv_attribution_method_info((enum qkv_attribution_method)index)->name
                                    : NULL);

struct attributor {
    struct sentence_pair pair;
    struct qkv_attribution_options options;
    struct qkv_attention_collector *collector[2]; /* of the run; of the untrained model */
    struct qkv_model *untrained;
};

/* Attributes the sentence pair, by the run or by the untrained model. */
static enum qkv_status attribute(struct attributor *a, bool untrained, struct qkv_attention_report *report,
                                 struct qkv_error *error)
{
    const struct qkv_model *model = a->pair.run.model;
    if (untrained && !a->untrained && !(a->untrained = sentence_pair_untrained(&a->pair, error)))
        return QKV_INVALID;
    struct qkv_attention_collector **collector = &a->collector[untrained];
    if (!*collector) *collector = qkv_attention_collector_new(untrained ? a->untrained : model, error);
    if (!*collector) return QKV_INVALID;
    a->pair.pair.vocabulary = &a->pair.run.target;
    enum qkv_status status = qkv_attribute(*collector, &a->pair.pair, &a->options, report, error);
    if (status || !words) return status;
    return qkv_attention_merge_words(report, a->pair.words, &a->pair.arena, report, error);
}

/* Inserts the maps of the untrained model before those of the run. */
static enum qkv_status add_untrained(struct attributor *a, struct qkv_attention_report *report,
                                     struct qkv_error *error)
{
    struct qkv_attention_report random;
    int64_t count = report->map_count;
    struct qkv_attention_map *maps = required(qkv_arena_array(&a->pair.arena, 2 * count, sizeof *maps));
    if (attribute(a, true, &random, error)) return QKV_INVALID;
    for (int64_t i = 0; i < 2 * count; i++) {
        maps[i] = i % 2 ? report->maps[i / 2] : random.maps[i / 2];
        maps[i].label_prefix = i % 2 ? "learned" : "random";
    }
    report->maps = maps;
    report->map_count = 2 * count;
    return QKV_OK;
}

static enum qkv_status show(struct attributor *a, struct output *output, struct qkv_error *error)
{
    struct qkv_attention_report report;
    char *bytes;
    size_t size;
    output->number = a->pair.number;
    enum qkv_status status = attribute(a, false, &report, error);
    if (!status && pair_options.versus) status = add_untrained(a, &report, error);
    if (status) return status;
    report.model = a->pair.run.config.name;
    report.precision = narrow_precision(a->pair.run.model);
    report.title = sentence_pair_title(&a->pair);
    if (qkv_attention_render(&report, output->format, &output->style, &bytes, &size, error))
        return QKV_INVALID;
    return output_write(output, bytes, size, error);
}

static void close_attributor(struct attributor *a)
{
    for (int i = 0; i < 2; i++) qkv_attention_collector_free(a->collector[i]);
    qkv_model_free(a->untrained);
    sentence_pair_close(&a->pair);
}

/* Reads the options of the attribution. */
static int read_options(struct attributor *a, const struct output *output)
{
    a->options.method =
        (enum qkv_attribution_method)choice_index(method, method_name, QKV_ATTRIBUTION_ERASURE);
    a->options.steps = steps;
    a->options.shares = output->format->use != QKV_FORMAT_DATA;
    bool has_heads =
        a->options.method == QKV_ATTRIBUTION_ATTENTION || a->options.method == QKV_ATTRIBUTION_NORMS;
    if ((layer || head) && !has_heads)
        return print_error("--layer and --head are for the methods attention and norms: "
                           "the others follow the whole model");
    if (pair_options.versus && output->format->use == QKV_FORMAT_DATA)
        return print_error("--versus is for formats that people look at, but %s is for programs",
                           output->format->name);
    if (read_layer_or_head("--layer", layer, ACCEPT_ALL | ACCEPT_MEAN, &a->options.layer)) return QKV_INVALID;
    return read_layer_or_head("--head", head, ACCEPT_ALL | ACCEPT_MEAN | ACCEPT_BEST, &a->options.head);
}

static int run_attribute(int operands, char **operand)
{
    struct attributor a = {0};
    struct output output;
    struct qkv_error error = {""};
    (void)operands;
    if (output_read(&output, &output_options) || read_options(&a, &output)) return QKV_INVALID;
    output.quiet = pair_options.quiet;
    enum qkv_status status =
        sentence_pair_open(&a.pair, operand[0], &pair_options, QKV_FLOAT32, NULL, &error);
    for (bool found = true; !status && found;) {
        status = sentence_pair_next(&a.pair, operand[1], &found, &error);
        if (!status && found) status = show(&a, &output, &error);
    }
    close_attributor(&a);
    return conclude(status, &error);
}

const struct command command_attribute = {
    .name = "attribute",
    .summary = "show how much each word contributes to each word of the output",
    .description =
        "Translates SENTENCE and shows, for each word of the translation, how much each word of the source "
        "and each word before it contributed. Of a language model: how much each word of SENTENCE "
        "contributed to the next. Methods, of which the last four measure the whole model, not attention "
        "alone:\n\n"
#define ATTRIBUTION_METHOD(id, name, value, help) #name ": " help ".\n\n"
#include "qkv/attribution_methods.def"
#undef ATTRIBUTION_METHOD
        "Formats that people look at show shares: the absolute values of a row sum to 1. A negative share "
        "is of a word that made the prediction less likely. Formats for programs have the numbers "
        "themselves. docs/attribution.md has definitions, and says which methods are to be trusted.\n",
    .examples = "  qkv attribute runs/toy_en_es \"the cat is sleeping\"\n"
                "  qkv attribute runs/toy_en_es \"the cat is sleeping\" -m integrated -o cat.svg\n"
                "  qkv attribute runs/toy_en_es \"the cat is sleeping\" -t \"el perro duerme\"\n",
    .operands = OPERANDS(
        {"RUN", VALUE_RUN, "a run folder"},
        {"SENTENCE", VALUE_OTHER, "the text to translate, or to read; -: each line of standard input"}),
    .options = OPTIONS(
        {"method", 'm', "METHOD", OPTION_CHOICE, &method, "{choices} (default: erasure)",
         .choices = method_name},
        {"layer", 0, "L", OPTION_TEXT, &layer, "attention, norms: a layer from 1, all, or mean (default)"},
        {"head", 0, "H", OPTION_TEXT, &head, "attention, norms: a head from 1, all, best, or mean (default)"},
        {"steps", 0, "N", OPTION_INTEGER, &steps, "integrated: points of the way from 0 (default: 50)", 1,
         10000},
        {"words", 0, NULL, OPTION_FLAG, &words,
         "merge the tokens of each word, such as pieces of byte-pair encoding: columns are summed, rows "
         "averaged"},
        COMMAND_OPTIONS_SENTENCE_PAIR(&pair_options, "", " (not in formats for programs)"),
        COMMAND_OPTION_PRECISION(&pair_options.precision), COMMAND_OPTIONS_OUTPUT(&output_options),
        COMMAND_OPTION_WITHOUT(&pair_options.without)),
    .run = run_attribute,
};
