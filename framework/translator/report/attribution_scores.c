/* Scores methods of attribution: by gold links, by what happens when words are erased, and by whether two models agree. */
#include "report/attribution.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "metrics/links.h"
#include "report/words.h"

#include <math.h>

enum { METHODS_AND_CHANCE = QKV_ATTRIBUTION_METHODS + 1, RATIONALES = 3 };

/* A rationale is the share of the source words that have the largest contributions. */
static const double RATIONALE[RATIONALES] = {0.1, 0.2, 0.5};

/* The work on one sentence pair. S, T and the columns are those of struct attribution. */
struct scored_pair {
    struct attribution attribution;
    struct qkv_attention_words words;
    const struct qkv_alignment *gold; /* NULL: none */
    int64_t number;                   /* of the pair, for random contributions */
    struct qkv_arena *arena;
};

/* Fills weights [T, S] with the contributions of the source. method: QKV_ATTRIBUTION_METHODS stands for random numbers. */
static enum qkv_status contributions(struct scored_pair *p, struct qkv_attention_collector *collector,
                                     int method, double *weights)
{
    struct attribution *a = &p->attribution;
    const struct qkv_attribution_options options = {.method = (enum qkv_attribution_method)method};
    const struct qkv_random random = {1, QKV_STREAM_SAMPLE, (uint32_t)p->number};
    struct qkv_attention_report report;
    if (method == QKV_ATTRIBUTION_METHODS) {
        for (int64_t i = 0; i < a->steps * a->sources; i++)
            weights[i] = qkv_random_uniform(random, (uint64_t)i);
        return QKV_OK;
    }
    enum qkv_status status = qkv_attribute(collector, a->pair, &options, &report, a->error);
    for (int64_t m = 0; m < report.map_count && !status; m++)
        if (report.maps[m].kind == QKV_ATTENTION_CROSS)
            memcpy(weights, report.maps[m].weights, (size_t)(a->steps * a->sources) * sizeof *weights);
    return status;
}

/* The source word (not </s>) with the largest contribution among those that are not taken. */
static int64_t strongest(const double *row, int64_t words, const bool *taken)
{
    int64_t best = -1;
    for (int64_t c = 0; c < words; c++)
        if (!taken[c] && (best < 0 || row[c] > row[best])) best = c;
    return best;
}

/* Draws a link from each target word to its strongest source word, and counts the links. */
static enum qkv_status count_links(const struct scored_pair *p, const double *weights,
                                   struct qkv_alignment_result *result)
{
    const struct attribution *a = &p->attribution;
    const struct qkv_attention_map map = {
        .kind = QKV_ATTENTION_CROSS, .rows = a->steps, .columns = a->sources, .weights = weights};
    struct qkv_word_map words;
    struct qkv_alignment drawn;
    if (qkv_word_map_make(a->report, p->words, &map, QKV_READING_PREDICTED, p->arena, &words, a->error) ||
        qkv_alignment_check(p->gold, (struct qkv_word_counts){words.sources, words.targets}, a->error) ||
        qkv_alignment_draw(&words, NULL, QKV_DRAWING_TARGET, 0, p->arena, &drawn, a->error))
        return QKV_INVALID;
    qkv_alignment_count(result, &drawn, p->gold);
    return QKV_OK;
}

/* Adds how far the probability of each target token falls without the rationale, and with it alone (DeYoung et al. 2020). */
static enum qkv_status erase_rationales(struct scored_pair *p, const double *weights,
                                        struct attribution_score *score)
{
    struct attribution *a = &p->attribution;
    const int64_t words = a->sources - 1, count = a->steps * RATIONALES * 2;
    bool *hidden = qkv_arena_zeros(p->arena, count * a->columns, sizeof *hidden);
    double *left = qkv_arena_array(p->arena, count * a->steps, sizeof *left);
    if (!hidden || !left) return qkv_no_memory(a->error);
    for (int64_t i = 0; i < a->steps * RATIONALES; i++) {
        bool *without = hidden + 2 * i * a->columns, *alone = without + a->columns;
        int64_t chosen = (int64_t)ceil(RATIONALE[i % RATIONALES] * (double)words);
        while (chosen--) without[strongest(weights + i / RATIONALES * a->sources, words, without)] = true;
        for (int64_t c = 0; c < words; c++) alone[c] = !without[c];
    }
    if (qkv_copies_without(a, count, hidden, left)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        int64_t t = i / (2 * RATIONALES);
        *(i % 2 ? &score->sufficiency : &score->comprehensiveness) +=
            (qkv_scalar_exp(a->log_probability[t]) - qkv_scalar_exp(left[i * a->steps + t])) / RATIONALES;
    }
    score->tokens += a->steps;
    return QKV_OK;
}

/* Adds one method on one pair. */
static enum qkv_status add_method(struct scored_pair *p, int method,
                                  struct attribution_comparison *comparison)
{
    struct attribution *a = &p->attribution;
    struct attribution_score *score = &comparison->scores[method];
    const int64_t cells = a->steps * a->sources;
    double *weights = qkv_arena_zeros(p->arena, cells, sizeof *weights),
           *others = qkv_arena_zeros(p->arena, cells, sizeof *others);
    bool *none = qkv_arena_zeros(p->arena, a->sources, sizeof *none);
    if (!weights || !others || !none) return qkv_no_memory(a->error);
    if (contributions(p, a->collector, method, weights)) return QKV_INVALID;
    for (int64_t o = 0; o < comparison->other_count; o++) {
        int64_t number = p->number;
        p->number += 1000000 * (o + 1); /* other random numbers */
        if (contributions(p, comparison->others[o], method, others)) return QKV_INVALID;
        p->number = number;
        for (int64_t t = 0; t < a->steps; t++)
            score->agreement += (strongest(weights + t * a->sources, a->sources - 1, none) ==
                                 strongest(others + t * a->sources, a->sources - 1, none)) /
                                (double)comparison->other_count;
    }
    if (qkv_copies_begin(a, 1u << QKV_ATTENTION_CROSS) || (p->gold && count_links(p, weights, &score->links)))
        return QKV_INVALID;
    a->copies = 1;
    return qkv_copies_predict(a) ? QKV_INVALID : erase_rationales(p, weights, score);
}

const char *qkv_attribution_compared(int64_t index)
{
    return index == QKV_ATTRIBUTION_METHODS ? "random"
           : index < METHODS_AND_CHANCE
               ? qkv_attribution_method_info((enum qkv_attribution_method)index)->name
               : NULL;
}

enum qkv_status qkv_attribution_compare(struct attribution_comparison *comparison,
                                        struct qkv_attention_collector *collector,
                                        const struct qkv_attention_pair *pair,
                                        struct qkv_attention_words words, const struct qkv_alignment *gold,
                                        struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_attention_report report;
    struct scored_pair p = {
        .attribution = {.collector = collector, .pair = pair, .report = &report, .error = error},
        .words = words,
        .gold = gold,
        .number = comparison->pairs++,
        .arena = arena,
    };
    enum qkv_status status = qkv_copies_begin(&p.attribution, 1u << QKV_ATTENTION_CROSS);
    for (int m = 0; m < METHODS_AND_CHANCE && !status; m++) status = add_method(&p, m, comparison);
    return status;
}
