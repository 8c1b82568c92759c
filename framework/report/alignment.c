#include "qkv/alignment.h"

#include <stdlib.h>
#include <string.h>

const char *qkv_alignment_reading_name(enum qkv_alignment_reading reading)
{
    return reading == QKV_READING_OUTPUT ? "output" : "input";
}

const char *qkv_alignment_drawing_name(enum qkv_alignment_drawing drawing)
{
    return drawing == QKV_DRAW_ROWS ? "rows" : "both";
}

/* A sentence pair without its end signs. */
struct words {
    int64_t source, target;
};

static int64_t without_end(const char *const *tokens, int64_t count)
{
    return count > 0 && !strcmp(tokens[count - 1], "</s>") ? count - 1 : count;
}

static struct words words_of(const struct qkv_attention_report *report)
{
    return (struct words){without_end(report->source, report->source_length),
                          without_end(report->target_output, report->target_length)};
}

static enum qkv_status check_range(const struct qkv_alignment *gold, struct words words,
                                   struct qkv_error *error)
{
    for (int64_t i = 0; i < gold->count; i++) {
        const struct qkv_alignment_link *link = &gold->links[i];
        if (link->source < words.source && link->target < words.target) continue;
        bool source = link->source >= words.source;
        return qkv_error_set(
            error, "%s:%lld:%lld: link %lld%c%lld has no %s word %lld: the sentence has %lld, from 0",
            gold->file ? gold->file : "links", (long long)gold->line, (long long)link->column,
            (long long)link->source, link->sure ? '-' : 'p', (long long)link->target,
            source ? "source" : "target", (long long)(source ? link->source : link->target),
            (long long)(source ? words.source : words.target));
    }
    return QKV_OK;
}

/* The place of the greatest of `count` weights that stand `stride` apart, or -1 when there is none. */
static int64_t greatest(const double *weights, int64_t count, int64_t stride)
{
    int64_t best = count > 0 ? 0 : -1;
    for (int64_t i = 1; i < count; i++)
        if (weights[i * stride] > weights[best * stride]) best = i;
    return best;
}

static void add_link(struct qkv_alignment_result *result, int64_t source, int64_t target,
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

/* Adds the links of one map, drawn and read in one way, to a result. */
static void add_map(struct qkv_alignment_result *result, const struct qkv_attention_map *map,
                    struct words words, const struct qkv_alignment *gold)
{
    int64_t shift = result->reading == QKV_READING_INPUT, columns = map->columns;
    const double *first = map->weights + shift * columns; /* the row of target word 0 */
    /* The last word of a sentence that was cut before </s> is no step's input. */
    int64_t targets = words.target < map->rows - shift ? words.target : map->rows - shift;
    for (int64_t i = 0; i < gold->count; i++) result->sure += gold->links[i].sure;
    if (words.source == 0 || targets <= 0) return;
    for (int64_t target = 0; target < targets; target++)
        add_link(result, greatest(first + target * columns, words.source, 1), target, gold);
    if (result->drawing == QKV_DRAW_ROWS) return;
    for (int64_t source = 0; source < words.source; source++) {
        int64_t target = greatest(first + source, targets, columns);
        bool drawn = greatest(first + target * columns, words.source, 1) == source;
        if (!drawn) add_link(result, source, target, gold);
    }
}

/* The cross maps of every head of every layer, of the heads of each layer in the mean, and of all in the
 * mean. Finished results of these maps: for each layer its heads, then their mean, and at the end the mean of
 * all. */
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
    if (!*maps) return qkv_error_set(error, "no memory for alignment scores");
    for (int64_t l = 0, h = 0; l < layers.map_count; l++) {
        while (h < heads.map_count && heads.maps[h].layer == layers.maps[l].layer)
            (*maps)[(*count)++] = heads.maps[h++];
        (*maps)[(*count)++] = layers.maps[l];
    }
    (*maps)[(*count)++] = all.maps[0];
    return QKV_OK;
}

/* Makes the results of the first sentence, all zero. */
static enum qkv_status begin(struct qkv_alignment_score *score, const struct qkv_attention_map *maps,
                             int64_t count, struct qkv_error *error)
{
    score->results = calloc((size_t)(QKV_DRAWINGS * QKV_READINGS * count), sizeof *score->results);
    if (!score->results) return qkv_error_set(error, "no memory for alignment scores");
    score->count = QKV_DRAWINGS * QKV_READINGS * count;
    for (int64_t i = 0; i < score->count; i++) {
        score->results[i].drawing = (enum qkv_alignment_drawing)(i / count / QKV_READINGS);
        score->results[i].reading = (enum qkv_alignment_reading)(i / count % QKV_READINGS);
        score->results[i].layer = maps[i % count].layer;
        score->results[i].head = maps[i % count].head;
    }
    return QKV_OK;
}

static enum qkv_status add(struct qkv_alignment_score *score, const struct qkv_attention_report *report,
                           const struct qkv_alignment *gold, struct qkv_arena *arena, struct qkv_error *error)
{
    struct words words = words_of(report);
    struct qkv_attention_map *maps;
    int64_t count;
    enum qkv_status status = check_range(gold, words, error);
    if (status == QKV_OK) status = select_maps(report, arena, &maps, &count, error);
    if (status == QKV_OK && !score->results) status = begin(score, maps, count, error);
    if (status != QKV_OK) return status;
    QKV_BUG(score->count != QKV_DRAWINGS * QKV_READINGS * count,
            "reports of one score differ in layers or heads");
    for (int64_t i = 0; i < score->count; i++) add_map(&score->results[i], &maps[i % count], words, gold);
    score->sentences++;
    return QKV_OK;
}

enum qkv_status qkv_alignment_score_add(struct qkv_alignment_score *score,
                                        const struct qkv_attention_report *report,
                                        const struct qkv_alignment *gold, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    enum qkv_status status = add(score, report, gold, &arena, error);
    qkv_arena_release(&arena);
    return status;
}

static double ratio(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

struct qkv_alignment_result qkv_alignment_score_get(const struct qkv_alignment_score *score, int64_t index)
{
    QKV_BUG(index < 0 || index >= score->count, "no alignment result %lld", (long long)index);
    struct qkv_alignment_result result = score->results[index];
    result.precision = ratio(result.found_possible, result.links);
    result.recall = ratio(result.found_sure, result.sure);
    result.error_rate = 1 - ratio(result.found_sure + result.found_possible, result.links + result.sure);
    return result;
}

struct qkv_alignment_result qkv_alignment_score_best(const struct qkv_alignment_score *score,
                                                     enum qkv_alignment_drawing drawing)
{
    int64_t share = score->count / QKV_DRAWINGS, first = drawing * share;
    struct qkv_alignment_result best = qkv_alignment_score_get(score, first);
    for (int64_t i = first + 1; i < first + share; i++) {
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
