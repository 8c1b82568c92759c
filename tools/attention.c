/* qkv attention: where a trained model looks while it translates a sentence. */
#include "arguments.h"
#include "attention_request.h"
#include "commands.h"
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
        maps[i].origin = "random";
        maps[count + i] = *map;
        maps[count + i].origin = "learned";
    }
    learned->maps = maps;
    learned->map_count = 2 * count;
    return QKV_OK;
}

static enum qkv_status show(struct viewer *v, const struct attention_request *request, bool versus,
                            struct qkv_error *error)
{
    struct qkv_attention_report report, selected;
    if (look(v, v->collector, request->kinds, &report, error) ||
        attention_request_select(request, &report, &v->pair.arena, &selected, error) ||
        (versus && add_random(v, &selected, error)))
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

static int check_versus(const char *versus, const struct attention_request *request)
{
    if (strcmp(versus, "random") != 0) return complain("--versus is '%s', but must be random", versus);
    if (request->format->use != QKV_FORMAT_DATA) return QKV_OK;
    return complain(
        "--versus is for text, html, svg and png; `qkv explain` has the numbers of both as json and npz");
}

int command_attention(int argc, char **argv)
{
    struct viewer v = {0};
    struct attention_options options = {0};
    struct attention_request request;
    const char *target = NULL, *checkpoint = NULL, *versus = NULL;
    bool quiet = false;
    int64_t beam = 0;
    int operands;
    const struct argument arguments[] = {
        {"target", 't', "TEXT", ARGUMENT_TEXT, &target, 0, 0,
         "look at this translation instead of the run's own"},
        ARGUMENT_BEAM(&beam),
        ARGUMENTS_ATTENTION(&options),
        ARGUMENT_CHECKPOINT(&checkpoint),
        {"versus", 0, "random", ARGUMENT_TEXT, &versus, 0, 0,
         "text, svg, png: beside them the maps of the same model before training"},
        {"quiet", 'q', NULL, ARGUMENT_FLAG, &quiet, 0, 0,
         "do not print the translation, nor tell of unknown words"},
        {0},
    };
    const struct usage usage = {
        .synopsis = "attention RUN SENTENCE [options]",
        .description =
            "Translates SENTENCE (-: a line of standard input) and shows where the model looked: one map a\n"
            "head, each row a distribution over tokens. Kinds: encoder (source at source), decoder\n"
            "(target at target) and cross (target at source). What is not asked for is chosen by format:\n"
            "text shows the mean heads of each cross layer, svg and png every head of every cross layer;\n"
            "json, csv and npz hold all maps.\n",
        .arguments = arguments,
        .examples =
            "  qkv attention runs/toy_en_es \"the cat is sleeping\"\n"
            "  qkv attention runs/toy_en_es \"the cat is sleeping\" -o cross.png --layer 2 --head 1 "
            "--annotate\n"
            "  qkv attention runs/toy_en_es \"the cat is sleeping\" --head best --versus random -o both.png\n"
            "  qkv attention runs/toy_en_es \"the cat is sleeping\" --target \"el gato duerme\" -f json\n",
        .fewest = 2,
        .most = 2,
    };
    int code = arguments_parse(&usage, argc, argv, &operands);
    if (code != ARGUMENTS_GOOD) return code;
    if (target && beam)
        return complain("--target and --beam exclude each other: a given translation is not searched for");
    if (attention_request_read(&request, &options)) return QKV_INVALID;
    if (versus && check_versus(versus, &request)) return QKV_INVALID;
    struct qkv_error error = {""};
    enum qkv_status status = sentence_pair_open(&v.pair, argv[1], checkpoint, QKV_FLOAT32, quiet, &error);
    if (!status) status = check_request(&v, &request, &error);
    if (!status) status = sentence_pair_make(&v.pair, argv[2], target, beam, &error);
    if (!status) status = show(&v, &request, versus, &error);
    close_viewer(&v);
    return conclude(status, &error);
}
