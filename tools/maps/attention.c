/* qkv attention: shows what a trained model attends to while it translates a sentence. */
#include "output_options.h"
#include "search_options.h"
#include "sentence_pair.h"

#include "report/collect.h"
#include "report/words.h"

/* The options as they are given. */
static struct sentence_pair_options pair_options;
static struct output_options output_options;
static struct option_list kinds;
static const char *layer, *head, *measure;
static bool mean, words;

/* The choices of --kind: each kind, and "all". */
static const char *kind_or_all(const void *context, int64_t index)
{
    return index == QKV_ATTENTION_KINDS ? "all" : kind_name(context, index);
}

/* Which maps to show: arguments of qkv_attention_select. */
static struct selection {
    unsigned kinds;
    int layer, head;
} wanted = {.layer = QKV_ATTENTION_EACH, .head = QKV_ATTENTION_EACH};

/* Reads the selection from the options. By default, text shows the mean over the heads of each cross layer, pictures show
 * every head of every cross layer, and data formats hold all maps. */
static int read_selection(const struct qkv_format *format)
{
    bool all = false;
    for (int i = 0; i < kinds.count; i++) {
        enum qkv_attention_kind kind;
        if (qkv_attention_kind_find(kinds.value[i], &kind))
            wanted.kinds |= 1u << kind;
        else
            all = true;
    }
    if (all) wanted.kinds = 0; /* those that the model has */
    if (mean || format->use == QKV_FORMAT_TERMINAL) wanted.head = QKV_ATTENTION_MEAN;
    if (mean && head) return print_error("--mean is the same as --head mean: give one of them");
    if (read_layer_or_head("--layer", layer, ACCEPT_ALL | ACCEPT_MEAN, &wanted.layer)) return QKV_INVALID;
    return read_layer_or_head("--head", head, ACCEPT_ALL | ACCEPT_MEAN | ACCEPT_BEST, &wanted.head);
}

/* Merges the tokens of words, with --words. */
static enum qkv_status merge_words(struct sentence_pair *pair, struct qkv_attention_report *report,
                                   struct qkv_error *error)
{
    if (!words) return QKV_OK;
    return qkv_attention_merge_words(report, pair->words, &pair->arena, report, error);
}

/* Selects maps. With --measure norms, normalizes their rows to a sum of 1: after the selection, so that means are taken over
 * norms; but before the best of several heads is chosen, which must not depend on the size of norms. Tokens are merged after
 * their rows are normalized, so that each token of a word counts alike, as in qkv_aligner (aligner.h); the best head is
 * chosen by maps between words. */
static enum qkv_status select_maps(struct sentence_pair *pair, const struct qkv_attention_report *report,
                                   struct selection of, struct qkv_attention_report *selected,
                                   struct qkv_error *error)
{
    struct qkv_arena *arena = &pair->arena;
    struct qkv_attention_report shares = *report;
    bool norms = measures_norms(measure), best = of.head == QKV_ATTENTION_BEST;
    if (norms && best && qkv_attention_normalize(report, arena, &shares, error)) return QKV_INVALID;
    if (best && merge_words(pair, &shares, error)) return QKV_INVALID;
    if (qkv_attention_select(&shares, of.kinds, of.layer, of.head, arena, selected, error))
        return QKV_INVALID;
    if (norms && qkv_attention_normalize(selected, arena, selected, error)) return QKV_INVALID;
    return best ? QKV_OK : merge_words(pair, selected, error);
}

/* Collects maps in the memory of the collector. `kinds_of` 0: all. */
static enum qkv_status collect(struct sentence_pair *pair, bool untrained,
                               const struct qkv_attention_pair *tokens, unsigned kinds_of,
                               struct qkv_attention_report *report, struct qkv_error *error)
{
    struct qkv_attention_collector *collector =
        sentence_pair_collector(pair, untrained, measures_norms(measure), error);
    return collector ? qkv_attention_collect(collector, 1, tokens, kinds_of, report, error) : QKV_INVALID;
}

/* Reports a layer or head that the model does not have, before the sentence is translated. Tries the selection on the maps of
 * an empty sentence, which have the same layers and heads. */
static enum qkv_status check_selection(struct sentence_pair *pair, struct qkv_error *error)
{
    const struct qkv_attention_pair empty = {.before =
                                                 pair->run.sides.runs_on ? &(const int32_t){QKV_END} : NULL};
    struct qkv_attention_report report, selected;
    enum qkv_status status = collect(pair, false, &empty, wanted.kinds, &report, error);
    return status ? status : select_maps(pair, &report, wanted, &selected, error);
}

/* Inserts the same maps of the untrained model before those of the trained one. */
static enum qkv_status add_untrained(struct sentence_pair *pair, struct qkv_attention_report *learned,
                                     struct qkv_error *error)
{
    struct qkv_attention_report all, one;
    int64_t count = learned->map_count;
    struct qkv_attention_map *maps = required(qkv_arena_array(&pair->arena, 2 * count, sizeof *maps));
    if (collect(pair, true, &pair->pair, 0, &all, error)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_attention_map *map = &learned->maps[i];
        const struct selection same = {1u << map->kind, map->layer, map->head};
        if (select_maps(pair, &all, same, &one, error)) return QKV_INVALID;
        maps[i] = one.maps[0];
        maps[i].label_prefix = "random";
        maps[count + i] = *map;
        maps[count + i].label_prefix = "learned";
    }
    learned->maps = maps;
    learned->map_count = 2 * count;
    return QKV_OK;
}

static enum qkv_status show(struct sentence_pair *pair, struct output *output, struct qkv_error *error)
{
    output->number = pair->number;
    struct qkv_attention_report report, selected;
    enum qkv_status status = collect(pair, false, &pair->pair, wanted.kinds, &report, error);
    if (status) return status;
    report.model = pair->run.config.name;
    report.precision = narrow_precision(pair->run.model);
    report.title = sentence_pair_title(pair);
    if (measures_norms(measure)) report.value_name = "share of norms";
    if (select_maps(pair, &report, wanted, &selected, error) ||
        (pair_options.versus && add_untrained(pair, &selected, error)))
        return QKV_INVALID;
    return output_maps(output, &selected, error);
}

/* Selects by default what people look at: cross attention, or without it the kinds that the model has. */
static enum qkv_status select_kinds(const struct qkv_run *run, const struct qkv_format *format,
                                    struct qkv_error *error)
{
    const unsigned cross = 1u << QKV_ATTENTION_CROSS, attention = run->sides.attention;
    if (!run->sides.has_encoder && wanted.kinds & ~attention)
        return qkv_error_set(error, "%s: has no encoder, only decoder attention: leave out --kind",
                             run->path);
    if (!kinds.count && format->use != QKV_FORMAT_DATA)
        wanted.kinds = attention && !(attention & cross) ? attention : cross;
    return QKV_OK;
}

static int run_attention(int operands, char **operand)
{
    struct sentence_pair pair = {0};
    struct output output;
    (void)operands;
    if (output_read(&output, &output_options) || read_selection(output.format)) return QKV_INVALID;
    if (pair_options.versus && output.format->use == QKV_FORMAT_DATA)
        return print_error(
            "--versus is for formats that people look at, but %s is for programs; `qkv explain` "
            "has the numbers of both",
            output.format->name);
    output.quiet = pair_options.quiet;
    struct qkv_error error = {""};
    enum qkv_status status = sentence_pair_open(&pair, operand[0], &pair_options, QKV_FLOAT32, &error);
    if (!status) status = select_kinds(&pair.run, output.format, &error);
    if (!status) status = check_selection(&pair, &error);
    for (bool found = true; !status && found;) {
        status = sentence_pair_next(&pair, operand[1], &found, &error);
        if (!status && found) status = show(&pair, &output, &error);
    }
    sentence_pair_close(&pair);
    return conclude(status, &error);
}

const struct command command_attention = {
    .name = "attention",
    .summary = "show what a trained run attends to while it translates a sentence",
    .description =
        "Translates SENTENCE and shows the attention weights: one map for each head, in which each row is a "
        "distribution over tokens.\n\n"
        "There are three kinds of attention: encoder (source to source), decoder (target to target) and "
        "cross (target to source). Without --kind, --layer and --head the format decides: text shows the "
        "mean over the heads of each cross layer, pictures and pages show every head of every cross layer; "
        "formats for programs hold all maps.\n\n"
        "Of a language model, SENTENCE is a text that the model reads: its maps show where each token "
        "looks.\n\n"
        "Several lines of standard input give several files: `-o cross.png` writes cross.1.png, cross.2.png "
        "and so on, by the numbers of the lines. Without -o, text and json (one line each) follow each "
        "other.\n",
    .examples = "  qkv attention runs/toy_en_es \"the cat is sleeping\"\n"
                "  qkv attention runs/toy_en_es \"the cat is sleeping\" -o cross.png --layer 2\n"
                "  qkv attention runs/toy_en_es \"the cat is sleeping\" --kind all -o slide.pdf\n"
                "  qkv attention runs/toy_en_es \"the cat is sleeping\" --head best --versus random\n"
                "  qkv attention runs/toy_en_es \"the cat is sleeping\" -t \"el gato duerme\" -f json\n",
    .operands = OPERANDS(
        {"RUN", VALUE_RUN, "a run folder"},
        {"SENTENCE", VALUE_OTHER, "the text to translate, or to read; -: each line of standard input"}),
    .options = OPTIONS(
        COMMAND_OPTIONS_SENTENCE_PAIR(&pair_options, "", " (not in formats for programs)"),
        COMMAND_OPTION_PRECISION(&pair_options.precision), COMMAND_OPTIONS_OUTPUT(&output_options),
        {"kind", 0, "KIND", OPTION_LIST, &kinds, "{choices}; may be repeated, or comma-separated",
         .choices = kind_or_all},
        {"layer", 0, "L", OPTION_TEXT, &layer, "a layer from 1, all, or mean"},
        {"head", 0, "H", OPTION_TEXT, &head,
         "a head from 1, all, mean, or best: the one that agrees most with the mean of all"},
        {"mean", 0, NULL, OPTION_FLAG, &mean, "the mean over the heads of a layer: --head mean"},
        COMMAND_OPTION_MEASURE(&measure), COMMAND_OPTION_WITHOUT(&pair_options.without),
        {"words", 0, NULL, OPTION_FLAG, &words,
         "merge the tokens of each word, such as pieces of byte-pair encoding: columns are summed, rows "
         "averaged"}),
    .run = run_attention,
};
