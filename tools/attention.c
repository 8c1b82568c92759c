/* qkv attention: where a trained model looks while it translates a sentence. */
#include "attention_request.h"
#include "commands.h"
#include "complain.h"
#include "sentence_pair.h"

#include <string.h>

struct viewer {
    struct sentence_pair pair;
    struct qkv_attention_collector *collector, *other; /* other: of the model before training */
    struct qkv_model *untrained;
};

/* Asks for the maps of no words at all, which are there when those of any others are: what the model does not
 * have is said before the first word is translated. */
static enum qkv_status check_request(struct viewer *v, const struct attention_request *request,
                                     struct qkv_error *error)
{
    static const struct qkv_attention_pair nothing = {0};
    struct qkv_attention_report report, selected;
    v->collector = qkv_attention_collector_new(v->pair.run.model, error);
    if (!v->collector || qkv_attention_collect(v->collector, 1, &nothing, request->kinds, &report, error))
        return QKV_INVALID;
    return attention_request_select(request, &report, &v->pair.arena, &selected, error);
}

/* All maps of a model, in the collector's memory. */
static enum qkv_status look(struct viewer *v, struct qkv_attention_collector *collector, unsigned kinds,
                            struct qkv_attention_report *report, struct qkv_error *error)
{
    if (qkv_attention_collect(collector, 1, &v->pair.pair, kinds, report, error)) return QKV_INVALID;
    report->model = v->pair.run.config.name;
    report->title = sentence_pair_title(&v->pair);
    return report->title ? QKV_OK : qkv_error_set(error, "out of memory");
}

/* Puts before the maps of the trained model the same ones of the model before training. */
static enum qkv_status add_random(struct viewer *v, struct qkv_attention_report *learned,
                                  struct qkv_error *error)
{
    struct qkv_attention_report all, one;
    int64_t count = learned->map_count;
    struct qkv_attention_map *maps = qkv_arena_allocate(&v->pair.arena, (size_t)(2 * count) * sizeof *maps);
    if (!maps) return qkv_error_set(error, "out of memory");
    v->untrained = sentence_pair_untrained(&v->pair, error);
    if (v->untrained) v->other = qkv_attention_collector_new(v->untrained, error);
    if (!v->other || look(v, v->other, 0, &all, error)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_attention_map *map = &learned->maps[i];
        if (qkv_attention_select(&all, 1u << map->kind, map->layer, map->head, &v->pair.arena, &one, error))
            return QKV_INVALID;
        maps[i] = one.maps[0];
        maps[i].label_prefix = "random";
        maps[count + i] = *map;
        maps[count + i].label_prefix = "learned";
    }
    learned->maps = maps;
    learned->map_count = 2 * count;
    return QKV_OK;
}

static enum qkv_status show(struct viewer *v, const struct attention_request *request, bool add_untrained,
                            struct qkv_error *error)
{
    struct qkv_attention_report report, selected;
    if (look(v, v->collector, request->kinds, &report, error) ||
        attention_request_select(request, &report, &v->pair.arena, &selected, error) ||
        (add_untrained && add_random(v, &selected, error)))
        return QKV_INVALID;
    return attention_request_write(request, &selected, error);
}

static void close_viewer(struct viewer *v)
{
    qkv_attention_collector_free(v->collector);
    qkv_attention_collector_free(v->other);
    qkv_model_free(v->untrained);
    sentence_pair_close(&v->pair);
}

static const char *versus_name(const void *context, int64_t index)
{
    (void)context;
    return index == 0 ? "random" : NULL;
}

static int check_versus(const struct attention_request *request)
{
    if (request->format->use != QKV_FORMAT_DATA) return QKV_OK;
    return complain(
        "--versus is for text, html, svg and png; `qkv explain` has the numbers of both as json and npz");
}

static struct attention_options options;
static const char *target, *checkpoint, *versus;
static bool quiet;
static int64_t beam;

static int run(int operands, char **operand)
{
    struct viewer v = {0};
    struct attention_request request;
    (void)operands;
    if (target && beam)
        return complain("--target and --beam exclude each other: a given translation is not searched for");
    if (attention_request_read(&request, &options)) return QKV_INVALID;
    if (versus && check_versus(&request)) return QKV_INVALID;
    struct qkv_error error = {""};
    enum qkv_status status = sentence_pair_open(&v.pair, operand[0], checkpoint, QKV_FLOAT32, quiet, &error);
    if (!status) status = check_request(&v, &request, &error);
    if (!status) status = sentence_pair_make(&v.pair, operand[1], target, beam, &error);
    if (!status) status = show(&v, &request, versus, &error);
    close_viewer(&v);
    return conclude(status, &error);
}

const struct command command_attention = {
    .name = "attention",
    .summary = "show where a trained run looks while it translates a sentence",
    .description =
        "Translates SENTENCE and shows the attention weights: one map for each head, in which each row is a "
        "distribution over tokens.\n\n"
        "There are three kinds of attention: encoder (source to source), decoder (target to target) and "
        "cross (target to source). Without --kind, --layer and --head the format decides: text shows the "
        "mean over the heads of each cross layer, svg and png show every head of every cross layer; the "
        "other formats hold all maps.\n",
    .examples = "  qkv attention runs/toy_en_es \"the cat is sleeping\"\n"
                "  qkv attention runs/toy_en_es \"the cat is sleeping\" -o cross.png --layer 2\n"
                "  qkv attention runs/toy_en_es \"the cat is sleeping\" --head best --versus random\n"
                "  qkv attention runs/toy_en_es \"the cat is sleeping\" -t \"el gato duerme\" -f json\n",
    .operands =
        (const struct command_operand[]){
            {"RUN", VALUE_RUN, "a run folder"},
            {"SENTENCE", VALUE_OTHER, "the text to translate; -: a line of standard input"},
            {0},
        },
    .options =
        (const struct command_option[]){
            {"target", 't', "TEXT", OPTION_TEXT, &target,
             "show the attention for this translation instead of the run's own"},
            COMMAND_OPTION_BEAM(&beam),
            COMMAND_OPTIONS_ATTENTION(&options),
            COMMAND_OPTION_CHECKPOINT(&checkpoint),
            {"versus", 0, "random", OPTION_CHOICE, &versus,
             "not for json, csv, npz: also show the maps of the same model before training",
             .choices = versus_name},
            {"quiet", 'q', NULL, OPTION_FLAG, &quiet,
             "do not print the translation, nor warn about unknown words"},
            {0},
        },
    .run = run,
};
