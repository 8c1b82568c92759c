/* Draws links from a word map and counts how many of them are gold links. */
#include "qkv/alignment.h"

#include <stdlib.h>

const char *qkv_alignment_reading_name(enum qkv_alignment_reading reading)
{
    return reading == QKV_READING_OUTPUT ? "output" : "input";
}

const char *qkv_alignment_drawing_name(enum qkv_alignment_drawing drawing)
{
    return drawing == QKV_LINK_ROWS ? "rows" : "both";
}

/* Index of the first maximum of `count` weights, which lie `stride` numbers apart. `count` is 1 or more. */
static int64_t greatest(const double *weights, int64_t count, int64_t stride)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (weights[i * stride] > weights[best * stride]) best = i;
    return best;
}

/* Counts one drawn link. */
static void count_link(struct qkv_alignment_result *result, int64_t source, int64_t target,
                       const struct qkv_alignment *gold)
{
    result->links++;
    for (int64_t i = 0; i < gold->count; i++) {
        const struct qkv_alignment_link *link = &gold->links[i];
        if (link->source != source || link->target != target) continue;
        result->found_possible++;
        result->found_sure += link->sure;
    }
}

void qkv_alignment_count(struct qkv_alignment_result *result, const struct qkv_word_map *map,
                         const struct qkv_alignment *gold)
{
    int64_t sources = map->sources, targets = map->targets;
    const double *weights = map->weights;
    for (int64_t i = 0; i < gold->count; i++) result->sure += gold->links[i].sure;
    if (sources <= 0) return;
    for (int64_t target = 0; target < targets; target++)
        count_link(result, greatest(weights + target * sources, sources, 1), target, gold);
    if (result->drawing == QKV_LINK_ROWS || targets <= 0) return;
    for (int64_t source = 0; source < sources; source++) {
        int64_t target = greatest(weights + source, targets, sources);
        bool drawn = greatest(weights + target * sources, sources, 1) == source;
        if (!drawn) count_link(result, source, target, gold);
    }
}

static double ratio(int64_t part, int64_t total)
{
    return total > 0 ? (double)part / (double)total : 0;
}

struct qkv_alignment_result qkv_alignment_score_get(const struct qkv_alignment_score *score, int64_t index)
{
    if (index < 0 || index >= score->count) return (struct qkv_alignment_result){0};
    struct qkv_alignment_result result = score->results[index];
    result.precision = ratio(result.found_possible, result.links);
    result.recall = ratio(result.found_sure, result.sure);
    result.error_rate = 1 - ratio(result.found_sure + result.found_possible, result.links + result.sure);
    return result;
}

struct qkv_alignment_result qkv_alignment_score_best(const struct qkv_alignment_score *score,
                                                     enum qkv_alignment_drawing drawing)
{
    /* Results are sorted by drawing, and each drawing has as many. */
    int64_t results = score->count / QKV_DRAWINGS, first = drawing * results;
    struct qkv_alignment_result best = qkv_alignment_score_get(score, first);
    for (int64_t i = first + 1; i < first + results; i++) {
        struct qkv_alignment_result result = qkv_alignment_score_get(score, i);
        if (result.error_rate < best.error_rate) best = result;
    }
    return best;
}

void qkv_alignment_score_release(struct qkv_alignment_score *score)
{
    free(score->results);
    *score = (struct qkv_alignment_score){0};
}
