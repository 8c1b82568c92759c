/* Scores the cross maps of attention reports against gold links. */
#include "qkv/alignment_score.h"

#include "report/word_map.h"
#include "report/writer.h"

#include <stdlib.h>

/* The drawings that are scored. */
static const enum qkv_alignment_drawing DRAWINGS[] = {QKV_DRAWING_TARGET, QKV_DRAWING_UNION};
enum { SCORED_DRAWINGS = sizeof DRAWINGS / sizeof *DRAWINGS };

static enum qkv_status no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory for alignment scores");
}

/* Lists the cross maps to score: for each layer its heads and, if there are several, their mean; last, the mean of all, if
 * there are several layers or heads. */
static enum qkv_status select_maps(const struct qkv_attention_report *report, struct qkv_arena *arena,
                                   struct qkv_attention_map **maps, int64_t *count, struct qkv_error *error)
{
    struct qkv_attention_report heads, layers, all;
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    enum qkv_status status =
        qkv_attention_select(report, cross, QKV_ATTENTION_EACH, QKV_ATTENTION_EACH, arena, &heads, error);
    if (status == QKV_OK)
        status = qkv_attention_select(report, cross, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN, arena, &layers,
                                      error);
    if (status == QKV_OK)
        status =
            qkv_attention_select(report, cross, QKV_ATTENTION_MEAN, QKV_ATTENTION_MEAN, arena, &all, error);
    if (status != QKV_OK) return status;
    *count = 0;
    *maps = qkv_arena_allocate(arena, (size_t)(heads.map_count + layers.map_count + 1) * sizeof **maps);
    if (!*maps) return no_memory(error);
    for (int64_t l = 0, h = 0; l < layers.map_count; l++) {
        while (h < heads.map_count && heads.maps[h].layer == layers.maps[l].layer)
            (*maps)[(*count)++] = heads.maps[h++];
        if (layers.maps[l].head == QKV_ATTENTION_MEAN) (*maps)[(*count)++] = layers.maps[l];
    }
    if (all.maps[0].layer == QKV_ATTENTION_MEAN) (*maps)[(*count)++] = all.maps[0];
    return QKV_OK;
}

/* Allocates the results, at the first sentence. */
static enum qkv_status begin(struct qkv_alignment_score *score, const struct qkv_attention_map *maps,
                             int64_t count, struct qkv_error *error)
{
    int64_t results = SCORED_DRAWINGS * QKV_READINGS * count;
    score->results = calloc((size_t)results, sizeof *score->results);
    if (!score->results) return no_memory(error);
    score->count = results;
    for (int64_t i = 0; i < results; i++) {
        score->results[i].drawing = DRAWINGS[i / count / QKV_READINGS];
        score->results[i].reading = (enum qkv_alignment_reading)(i / count % QKV_READINGS);
        score->results[i].layer = maps[i % count].layer;
        score->results[i].head = maps[i % count].head;
    }
    return QKV_OK;
}

static enum qkv_status add(struct qkv_alignment_score *score, const struct qkv_attention_report *report,
                           struct qkv_attention_words words, const struct qkv_alignment *gold,
                           struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_attention_map *maps;
    struct alignment_labels labels;
    int64_t count;
    if (qkv_report_check_tokens(report, error) ||
        qkv_alignment_labels(report, words, arena, &labels, error) ||
        qkv_alignment_check(gold, labels.words, error) || select_maps(report, arena, &maps, &count, error) ||
        (!score->results && begin(score, maps, count, error)))
        return QKV_INVALID;
    if (score->count != SCORED_DRAWINGS * QKV_READINGS * count)
        return qkv_error_set(error, "the attention reports of one score differ in layers or heads");
    for (int64_t i = 0; i < score->count; i++) {
        struct qkv_alignment_result *result = &score->results[i];
        struct qkv_word_map map;
        struct qkv_alignment drawn;
        if (!qkv_word_map_make(&maps[i % count], &labels, result->reading, arena, &map))
            return no_memory(error);
        if (qkv_alignment_draw(&map, NULL, result->drawing, 0, arena, &drawn, error)) return QKV_INVALID;
        qkv_alignment_count(result, &drawn, gold);
    }
    score->sentences++;
    return QKV_OK;
}

enum qkv_status qkv_alignment_score_add(struct qkv_alignment_score *score,
                                        const struct qkv_attention_report *report,
                                        struct qkv_attention_words words, const struct qkv_alignment *gold,
                                        struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    enum qkv_status status = add(score, report, words, gold, &arena, error);
    qkv_arena_release(&arena);
    return status;
}
