/* Draws links between the words of texts, on all threads. */
#include "report/aligner.h"
#include "core/file.h"
#include "data/languages.h"
#include "report/collect.h"
#include "report/map_rows.h"

#include <stdlib.h>
#include <string.h>

static enum qkv_status no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory for word alignment");
}

/* ---- making an aligner ---- */

/* Lists the heads to choose from. Fails when the layer or head in the options does not exist. report: of an empty pair. */
static enum qkv_status find_maps(struct qkv_aligner *aligner, struct aligner_direction *direction,
                                 const struct qkv_attention_report *report, struct qkv_error *error)
{
    struct qkv_aligner_map map = direction->map;
    struct qkv_attention_report selected;
    if (map.layer < QKV_ATTENTION_MEAN || (map.head < QKV_ATTENTION_MEAN && map.head != QKV_ATTENTION_BEST))
        return qkv_error_set(
            error, "links are drawn from layer %d, head %d, but these count from 1, or are 0 for a mean",
            map.layer, map.head);
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    if (map.head != QKV_ATTENTION_BEST)
        return qkv_attention_select(report, cross, map.layer, map.head, &aligner->arena, &selected, error);
    int layer = map.layer == QKV_ATTENTION_MEAN ? QKV_ATTENTION_EACH : map.layer;
    if (qkv_attention_select(report, cross, layer, QKV_ATTENTION_EACH, &aligner->arena, &selected, error))
        return QKV_INVALID;
    int64_t count = selected.map_count;
    direction->candidates =
        qkv_arena_allocate(&aligner->arena, (size_t)count * sizeof *direction->candidates);
    if (!direction->candidates) return no_memory(error);
    for (int64_t i = 0; i < count; i++)
        direction->candidates[i] = (struct qkv_aligner_map){selected.maps[i].layer, selected.maps[i].head};
    direction->candidate_count = count;
    return QKV_OK;
}

static enum qkv_status open_direction(struct qkv_aligner *aligner, struct aligner_direction *direction,
                                      struct qkv_error *error)
{
    static const struct qkv_attention_pair empty = {0};
    struct qkv_attention_report report;
    struct qkv_attention_collector *collector = qkv_attention_collector_new(direction->run->model, error);
    if (!collector) return QKV_INVALID;
    struct qkv_error inner = {""};
    enum qkv_status status =
        qkv_attention_collect(collector, 1, &empty, 1u << QKV_ATTENTION_CROSS, &report, &inner);
    if (status == QKV_FAILED) status = QKV_OK; /* maps that are not finite will be reported for the pairs */
    if (!status) status = find_maps(aligner, direction, &report, &inner);
    if (!status && aligner->options.norms)
        status =
            qkv_value_norms_init(&direction->norms, direction->run->model, 1u << QKV_ATTENTION_CROSS, &inner);
    /* A network that does not record values is refused here and not only in the first run. */
    if (!status && aligner->options.norms)
        status = qkv_value_norms_apply(&direction->norms, qkv_attention_collector_trace(collector), 1,
                                       &report, &aligner->arena, &inner);
    qkv_attention_collector_free(collector);
    return status ? qkv_error_set(error, "%s: %s", direction->run->path, inner.message) : QKV_OK;
}

/* Refuses two runs that do not translate in opposite directions, as far as their configs name languages: "src" and "trg" are
 * what qkv init writes where it knows none. */
static enum qkv_status check_languages(const struct qkv_run *run, const struct qkv_run *reverse,
                                       struct qkv_error *error)
{
    if (!reverse) return QKV_OK;
    const struct qkv_data_config *one = &run->config.data, *two = &reverse->config.data;
    if (!one->src.lang || !one->trg.lang || !two->src.lang || !two->trg.lang) return QKV_OK;
    bool unknown = !qkv_is_same_file(run->path, reverse->path) &&
                   (!strcmp(one->src.lang, "src") || !strcmp(one->trg.lang, "trg") ||
                    !strcmp(two->src.lang, "src") || !strcmp(two->trg.lang, "trg"));
    if (unknown || (qkv_is_same_language(one->src.lang, two->trg.lang) &&
                    qkv_is_same_language(one->trg.lang, two->src.lang)))
        return QKV_OK;
    return qkv_error_set(
        error,
        "%s translates from %s to %s and %s from %s to %s, but the second run of an alignment must "
        "translate in the other direction",
        run->path, one->src.lang, one->trg.lang, reverse->path, two->src.lang, two->trg.lang);
}

static enum qkv_status open_slots(struct qkv_aligner *aligner, struct qkv_error *error)
{
    aligner->slots = qkv_workers_count(aligner->workers);
    aligner->slot = calloc((size_t)aligner->slots, sizeof *aligner->slot);
    if (!aligner->slot) return no_memory(error);
    for (int i = 0; i < aligner->slots; i++)
        for (int d = 0; d < aligner->direction_count; d++) {
            struct aligner_direction *direction = &aligner->direction[d];
            if (qkv_forced_init(&aligner->slot[i].passes[d], direction->run,
                                aligner->options.norms ? &direction->norms : NULL, error))
                return QKV_INVALID;
        }
    return QKV_OK;
}

struct qkv_aligner *qkv_aligner_new(const struct qkv_run *run, const struct qkv_run *reverse,
                                    const struct qkv_aligner_options *options, struct qkv_workers *workers,
                                    struct qkv_error *error)
{
    if (!qkv_alignment_reading_name(options->reading) || !qkv_alignment_drawing_name(options->drawing)) {
        qkv_error_set(error, "there is no reading %d with a drawing %d of links", (int)options->reading,
                      (int)options->drawing);
        return NULL;
    }
    if (check_languages(run, reverse, error)) return NULL;
    struct qkv_aligner *aligner = calloc(1, sizeof *aligner);
    if (!aligner) {
        no_memory(error);
        return NULL;
    }
    aligner->options = *options;
    aligner->workers = workers;
    aligner->direction_count = reverse ? 2 : 1;
    enum qkv_status status = QKV_OK;
    for (int d = 0; !status && d < aligner->direction_count; d++) {
        aligner->direction[d] = (struct aligner_direction){.run = d ? reverse : run, .map = options->map[d]};
        status = open_direction(aligner, &aligner->direction[d], error);
    }
    if (!status) status = open_slots(aligner, error);
    if (!status) return aligner;
    qkv_aligner_free(aligner);
    return NULL;
}

void qkv_aligner_free(struct qkv_aligner *aligner)
{
    if (!aligner) return;
    for (int i = 0; aligner->slot && i < aligner->slots; i++) {
        for (int d = 0; d < 2; d++) qkv_forced_release(&aligner->slot[i].passes[d]);
        qkv_arena_release(&aligner->slot[i].scratch);
        qkv_arena_release(&aligner->slot[i].results);
    }
    for (int d = 0; d < 2; d++) qkv_value_norms_release(&aligner->direction[d].norms);
    free(aligner->slot);
    qkv_arena_release(&aligner->arena);
    free(aligner);
}

/* ---- groups of pairs ---- */

struct groups {
    struct qkv_aligner *aligner;
    int64_t count; /* pairs */
    aligner_function *function;
    void *context;
};

static void run_slot(void *context, int index)
{
    const struct groups *groups = context;
    struct aligner_slot *slot = &groups->aligner->slot[index];
    slot->status = QKV_OK;
    for (int64_t first = (int64_t)index * FORCED_MAX; first < groups->count && !slot->status;
         first += (int64_t)groups->aligner->slots * FORCED_MAX) {
        int64_t left = groups->count - first;
        slot->status = groups->function(groups->context, slot, first, left < FORCED_MAX ? left : FORCED_MAX);
    }
}

enum qkv_status qkv_aligner_for_groups(struct qkv_aligner *aligner, int64_t count, aligner_function *function,
                                       void *context, struct qkv_error *error)
{
    struct groups groups = {aligner, count, function, context};
    qkv_workers_run(aligner->workers, aligner->slots, run_slot, &groups);
    for (int i = 0; i < aligner->slots; i++)
        if (aligner->slot[i].status) {
            qkv_error_set(error, "%s", aligner->slot[i].error.message);
            return aligner->slot[i].status;
        }
    return QKV_OK;
}

enum qkv_status qkv_aligner_word_map(const struct qkv_aligner *aligner, struct aligner_slot *slot,
                                     const struct forced_pair *pair, struct qkv_aligner_map map,
                                     struct qkv_word_map *words)
{
    struct qkv_attention_report selected;
    struct alignment_labels labels;
    if (qkv_attention_select(&pair->report, 1u << QKV_ATTENTION_CROSS, map.layer, map.head, &slot->scratch,
                             &selected, &slot->error) ||
        qkv_alignment_labels(&pair->report, pair->words, &slot->scratch, &labels, &slot->error))
        return QKV_INVALID;
    struct qkv_attention_map weights = selected.maps[0];
    if ((aligner->options.norms && !qkv_map_normalize(&weights, &slot->scratch)) ||
        !qkv_word_map_make(&weights, &labels, aligner->options.reading, &slot->scratch, words))
        return no_memory(&slot->error);
    return QKV_OK;
}

/* ---- drawing links ---- */

struct drawing {
    struct qkv_aligner *aligner;
    struct qkv_aligned_pair *pairs;
};

/* Sets pair->links from the reports of the pair, one for each direction. */
static enum qkv_status draw_pair(const struct qkv_aligner *aligner, struct aligner_slot *slot,
                                 const struct forced_pair *const *forced, struct qkv_aligned_pair *pair)
{
    struct qkv_word_map map[2];
    struct qkv_alignment drawn;
    const struct qkv_aligner_options *options = &aligner->options;
    qkv_arena_reset(&slot->scratch);
    for (int d = 0; d < aligner->direction_count; d++) {
        if (forced[d]->has_report) continue;
        if (!forced[d]->reason) return QKV_OK;
        pair->reason = qkv_arena_string(&slot->results, forced[d]->reason);
        return pair->reason ? QKV_OK : no_memory(&slot->error);
    }
    for (int d = 0; d < aligner->direction_count; d++)
        if (qkv_aligner_word_map(aligner, slot, forced[d], aligner->direction[d].map, &map[d]))
            return QKV_INVALID;
    if (aligner->direction_count > 1 && options->multiply &&
        qkv_word_maps_multiply(&map[0], &map[1], &slot->error))
        return QKV_INVALID;
    if (qkv_alignment_draw(&map[0], aligner->direction_count > 1 ? &map[1] : NULL, options->drawing,
                           options->threshold, &slot->scratch, &drawn, &slot->error))
        return QKV_INVALID;
    size_t bytes = (size_t)drawn.count * sizeof *drawn.links;
    struct qkv_alignment_link *links = qkv_arena_allocate(&slot->results, bytes);
    if (!links) return no_memory(&slot->error);
    memcpy(links, drawn.links, bytes);
    pair->links = (struct qkv_alignment){.links = links, .count = drawn.count};
    return QKV_OK;
}

static enum qkv_status draw_group(void *context, struct aligner_slot *slot, int64_t first, int64_t count)
{
    const struct drawing *drawing = context;
    const struct qkv_aligner *aligner = drawing->aligner;
    struct qkv_pair_texts texts[FORCED_MAX] = {{0}};
    struct forced_pair forced[2][FORCED_MAX];
    for (int64_t i = 0; i < count; i++) texts[i] = drawing->pairs[first + i].texts;
    for (int d = 0; d < aligner->direction_count; d++) {
        enum qkv_status status =
            qkv_forced_collect(&slot->passes[d], count, texts, d == 1, forced[d], &slot->error);
        if (status) return status;
    }
    for (int64_t i = 0; i < count; i++) {
        const struct forced_pair *const both[2] = {&forced[0][i], &forced[1][i]};
        if (draw_pair(aligner, slot, both, &drawing->pairs[first + i])) return QKV_INVALID;
    }
    return QKV_OK;
}

enum qkv_status qkv_aligner_run(struct qkv_aligner *aligner, int64_t count, struct qkv_aligned_pair *pairs,
                                struct qkv_error *error)
{
    struct drawing drawing = {aligner, pairs};
    for (int d = 0; d < aligner->direction_count; d++)
        if (aligner->direction[d].map.head == QKV_ATTENTION_BEST)
            return qkv_error_set(error, "%s: its best head is not chosen yet",
                                 aligner->direction[d].run->path);
    for (int i = 0; i < aligner->slots; i++) qkv_arena_reset(&aligner->slot[i].results);
    for (int64_t i = 0; i < count; i++) {
        pairs[i].links = (struct qkv_alignment){0};
        pairs[i].reason = NULL;
    }
    return qkv_aligner_for_groups(aligner, count, draw_group, &drawing, error);
}
