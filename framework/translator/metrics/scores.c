/* The table of metrics, and the accumulator of all of them. */
#include "metrics/scorer.h"

#include "qkv/scalar_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metrics of counts ---- */

static double loss_of(const struct qkv_score_counts *counts)
{
    return counts->negative_log_likelihood / (double)counts->tokens;
}

static double perplexity_of(const struct qkv_score_counts *counts)
{
    return qkv_scalar_exp(loss_of(counts));
}

static double token_accuracy_of(const struct qkv_score_counts *counts)
{
    return counts->correct / (double)counts->tokens;
}

static double sequence_accuracy_of(const struct qkv_score_counts *counts)
{
    return (double)counts->exact_matches / (double)counts->translated;
}

/* ---- the table ---- */

static const struct metric {
    struct qkv_metric_info info;
    /* How the metric is computed: from counts or from texts. One of these two is NULL. */
    double (*of_counts)(const struct qkv_score_counts *counts);
    const struct qkv_text_metric *of_texts;
} METRICS[QKV_METRIC_COUNT] = {
#define METRIC(NAME, name, choice, help, ...)                                                                \
    [QKV_METRIC_##NAME] = {{.key = #name, __VA_ARGS__}, name##_of, NULL},
#define TEXT_METRIC(NAME, name, choice, help, ...)                                                           \
    [QKV_METRIC_##NAME] = {{.key = #name, .of_texts = true, __VA_ARGS__}, NULL, &qkv_text_metric_##name},
#define REQUESTED_METRIC(NAME, name, choice, help, ...)                                                      \
    TEXT_METRIC(NAME, name, choice, help, .on_request = true, __VA_ARGS__)
#include "qkv/metrics.def"
};

const struct qkv_metric_info *qkv_metric_info(enum qkv_metric metric)
{
    return (int)metric >= 0 && (int)metric < QKV_METRIC_COUNT ? &METRICS[metric].info : NULL;
}

bool qkv_metric_is_better(enum qkv_metric metric, double a, double b)
{
    if (isnan(a)) return false;
    return isnan(b) || (qkv_metric_info(metric)->lower_is_better ? a < b : a > b);
}

/* ---- the accumulator ---- */

bool qkv_scorer_computes(const struct qkv_scorer *scorer, enum qkv_metric metric)
{
    const struct qkv_metric_info *info = qkv_metric_info(metric);
    if (!info || !info->of_texts) return false;
    return scorer->options.metrics ? scorer->options.metrics >> metric & 1 : !info->on_request;
}

/* Allocates the accumulator of text metric `m`, unless it exists, and the same number of bytes after it, for a copy. */
static enum qkv_status ensure_state(struct qkv_scorer *scorer, int m, struct qkv_error *error)
{
    if (scorer->state[m]) return QKV_OK;
    scorer->state[m] = calloc(2, METRICS[m].of_texts->size);
    if (!scorer->state[m]) return qkv_error_set(error, "out of memory for %s", METRICS[m].info.title);
    METRICS[m].of_texts->init(scorer->state[m], &scorer->options);
    return QKV_OK;
}

/* The memory to which the accumulator of text metric `m` is copied before a segment is added. */
static void *copy_of(const struct qkv_scorer *scorer, int m)
{
    return (char *)scorer->state[m] + METRICS[m].of_texts->size;
}

/* Restores the accumulators of the text metrics below `end` after one of them has refused a segment. Their arenas, which may
 * have grown, are kept. */
static enum qkv_status restore(struct qkv_scorer *scorer, int end)
{
    for (int m = 0; m < end; m++) {
        const struct qkv_text_metric *metric = METRICS[m].of_texts;
        if (!qkv_scorer_computes(scorer, (enum qkv_metric)m)) continue;
        struct qkv_arena *arena = (struct qkv_arena *)((char *)scorer->state[m] + metric->scratch);
        const struct qkv_arena kept = *arena;
        memcpy(scorer->state[m], copy_of(scorer, m), metric->size);
        *arena = kept;
    }
    return QKV_INVALID;
}

enum qkv_status qkv_scorer_add(struct qkv_scorer *scorer, const char *translation,
                               const char *const *references, int64_t count, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    int m = 0;
    for (; !status && m < QKV_METRIC_COUNT; m++) {
        const struct qkv_text_metric *metric = METRICS[m].of_texts;
        if (!qkv_scorer_computes(scorer, (enum qkv_metric)m)) continue;
        if (ensure_state(scorer, m, error)) return restore(scorer, m);
        memcpy(copy_of(scorer, m), scorer->state[m], metric->size);
        status = metric->add(scorer->state[m], translation, references, count, error);
    }
    return status ? restore(scorer, m) : QKV_OK;
}

struct qkv_scores qkv_scorer_scores(const struct qkv_scorer *scorer)
{
    struct qkv_scores scores = {.counts = scorer->counts};
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        if (METRICS[m].of_counts)
            scores.value[m] = METRICS[m].of_counts(&scorer->counts);
        else if (scorer->state[m])
            scores.value[m] = METRICS[m].of_texts->score(scorer->state[m]);
    }
    return scores;
}

const struct qkv_text_metric *qkv_scorer_metric(const struct qkv_scorer *scorer, int m)
{
    return m >= 0 && m < QKV_METRIC_COUNT && scorer->state[m] ? METRICS[m].of_texts : NULL;
}

struct qkv_scores qkv_scorer_last(const struct qkv_scorer *scorer)
{
    enum { CAPACITY = 3 * QKV_CHRF_ORDERS };
    _Static_assert(CAPACITY >= QKV_BLEU_STATISTICS, "every metric's statistics fit");
    struct qkv_scores scores = {.counts = {0}};
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_text_metric *metric = qkv_scorer_metric(scorer, m);
        double statistics[CAPACITY];
        if (metric) metric->last(scorer->state[m], statistics);
        scores.value[m] = metric ? metric->score_of(scorer->state[m], statistics) : (double)NAN;
    }
    return scores;
}

int qkv_scorer_details(const struct qkv_scorer *scorer, enum qkv_metric metric,
                       struct qkv_metric_detail details[QKV_METRIC_DETAILS])
{
    const struct qkv_text_metric *functions = qkv_scorer_metric(scorer, (int)metric);
    return functions && functions->details ? functions->details(scorer->state[metric], details) : 0;
}

void qkv_scorer_title(const struct qkv_scorer *scorer, enum qkv_metric metric, char *text, size_t size)
{
    const struct qkv_text_metric *functions = qkv_scorer_metric(scorer, (int)metric);
    const struct qkv_metric_info *info = qkv_metric_info(metric);
    if (functions && functions->title)
        functions->title(scorer->state[metric], text, size);
    else
        snprintf(text, size, "%s", info ? info->title : "");
}

void qkv_scorer_signature(const struct qkv_scorer *scorer, enum qkv_metric metric, char *text, size_t size)
{
    if (size) *text = '\0';
    const struct qkv_text_metric *functions = qkv_scorer_metric(scorer, (int)metric);
    if (functions && functions->signature) functions->signature(scorer->state[metric], text, size);
}

void qkv_scorer_release(struct qkv_scorer *scorer)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        if (!scorer->state[m]) continue;
        METRICS[m].of_texts->release(scorer->state[m]);
        free(scorer->state[m]);
        scorer->state[m] = NULL;
    }
}
