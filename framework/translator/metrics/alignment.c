/* Counts how many of the drawn links are gold links. */
#include "qkv/alignment.h"

#include <stdlib.h>

const char *qkv_alignment_reading_name(enum qkv_alignment_reading reading)
{
    static const char *const names[] = {[QKV_READING_PREDICTED] = "predicted", [QKV_READING_READ] = "read"};
    return (unsigned)reading < QKV_READINGS ? names[reading] : NULL;
}

/* Below 0, 0, above 0: the order of links in struct qkv_alignment. */
static int compare(const struct qkv_alignment_link *a, const struct qkv_alignment_link *b)
{
    if (a->source != b->source) return a->source < b->source ? -1 : 1;
    return (a->target > b->target) - (a->target < b->target);
}

void qkv_alignment_count(struct qkv_alignment_result *result, const struct qkv_alignment *drawn,
                         const struct qkv_alignment *gold)
{
    result->links += drawn->count;
    for (int64_t g = 0, d = 0; g < gold->count; g++) {
        const struct qkv_alignment_link *link = &gold->links[g];
        while (d < drawn->count && compare(&drawn->links[d], link) < 0) d++;
        bool found = d < drawn->count && !compare(&drawn->links[d], link);
        result->sure += link->sure;
        result->found_possible += found;
        result->found_sure += found && link->sure;
    }
}

static double ratio(double part, double total)
{
    return total > 0 ? part / total : 0;
}

void qkv_alignment_rate(struct qkv_alignment_result *result)
{
    double links = (double)result->links, sure = (double)result->sure;
    double found_sure = (double)result->found_sure, found_possible = (double)result->found_possible;
    result->precision = ratio(found_possible, links);
    result->recall = ratio(found_sure, sure);
    result->error_rate = 1 - ratio(found_sure + found_possible, links + sure);
}

struct qkv_alignment_result qkv_alignment_score_get(const struct qkv_alignment_score *score, int64_t index)
{
    if (index < 0 || index >= score->count) return (struct qkv_alignment_result){0};
    struct qkv_alignment_result result = score->results[index];
    qkv_alignment_rate(&result);
    return result;
}

struct qkv_alignment_result qkv_alignment_score_best(const struct qkv_alignment_score *score,
                                                     enum qkv_alignment_drawing drawing)
{
    struct qkv_alignment_result best = {0};
    bool found = false;
    for (int64_t i = 0; i < score->count; i++) {
        struct qkv_alignment_result result = qkv_alignment_score_get(score, i);
        if (result.drawing != drawing || (found && result.error_rate >= best.error_rate)) continue;
        best = result;
        found = true;
    }
    return best;
}

void qkv_alignment_score_release(struct qkv_alignment_score *score)
{
    free(score->results);
    *score = (struct qkv_alignment_score){0};
}
