/* The table of metrics, and the accumulator of all of them. */
#include "metrics/scorer.h"

#include "qkv/scalar_math.h"
#include "qkv/version.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Allocates the statistics of the text metrics that the options ask for, and checks these options. */
static enum qkv_status prepare(struct qkv_scorer *scorer, struct qkv_error *error)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_text_metric *metric = METRICS[m].of_texts;
        if (!qkv_scorer_computes(scorer, (enum qkv_metric)m)) continue;
        if (!scorer->statistics[m]) {
            scorer->statistics[m] = calloc(1, sizeof *scorer->statistics[m]);
            if (!scorer->statistics[m])
                return qkv_error_set(error, "out of memory for %s", METRICS[m].info.title);
            scorer->statistics[m]->width = metric->width(&scorer->options);
        }
        if (metric->check && metric->check(&scorer->options, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

/* Sets *present to an array, in the arena, of the references that are not NULL. Fails when there are none. */
static enum qkv_status find_references(struct qkv_arena *arena, const char *const *references, int64_t count,
                                       const char ***present, int64_t *present_count, struct qkv_error *error)
{
    *present_count = 0;
    if (count < 0)
        return qkv_error_set(error, "a segment has %lld references, but must have at least 1",
                             (long long)count);
    *present = qkv_arena_allocate(arena, (size_t)count * sizeof **present);
    if (!*present)
        return qkv_error_set(error, "out of memory for a translation and its %lld references",
                             (long long)count);
    for (int64_t i = 0; i < count; i++)
        if (references[i]) (*present)[(*present_count)++] = references[i];
    if (*present_count == 0)
        return qkv_error_set(error, "a segment has no reference translation to compare with");
    return QKV_OK;
}

/* Computes the statistics of a segment for all text metrics. */
static enum qkv_status compare(struct qkv_scorer *scorer, const char *translation,
                               const char *const *references, int64_t count, struct qkv_error *error)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++)
        if (scorer->statistics[m] &&
            !METRICS[m].of_texts->compare(&scorer->options, &scorer->scratch, translation, references, count,
                                          scorer->statistics[m]->next))
            return qkv_error_set(error, "out of memory for %s", METRICS[m].info.title);
    return QKV_OK;
}

enum qkv_status qkv_scorer_add(struct qkv_scorer *scorer, const char *translation,
                               const char *const *references, int64_t count, struct qkv_error *error)
{
    const char **present = NULL;
    int64_t given = 0;
    enum qkv_status status = prepare(scorer, error);
    if (!status) status = find_references(&scorer->scratch, references, count, &present, &given, error);
    if (!status) status = compare(scorer, translation, present, given, error);
    qkv_arena_reset(&scorer->scratch);
    if (status) return status;
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        struct qkv_statistics *statistics = scorer->statistics[m];
        for (int k = 0; statistics && k < statistics->width; k++)
            statistics->sums[k] += statistics->last[k] = statistics->next[k];
    }
    if (!scorer->most_references || given < scorer->fewest_references) scorer->fewest_references = given;
    if (given > scorer->most_references) scorer->most_references = given;
    return QKV_OK;
}

double qkv_scorer_score_of(const struct qkv_scorer *scorer, int m, const double *sums)
{
    return METRICS[m].of_texts->score(&scorer->options, sums);
}

struct qkv_scores qkv_scorer_scores(const struct qkv_scorer *scorer)
{
    struct qkv_scores scores = {.counts = scorer->counts};
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        if (METRICS[m].of_counts)
            scores.value[m] = METRICS[m].of_counts(&scorer->counts);
        else if (scorer->statistics[m])
            scores.value[m] = qkv_scorer_score_of(scorer, m, scorer->statistics[m]->sums);
    }
    return scores;
}

struct qkv_scores qkv_scorer_last(const struct qkv_scorer *scorer)
{
    struct qkv_scores scores = {.counts = {0}};
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_statistics *statistics = scorer->statistics[m];
        scores.value[m] = statistics ? qkv_scorer_score_of(scorer, m, statistics->last) : (double)NAN;
    }
    return scores;
}

/* The functions of metric `m`; NULL when the scorer does not compute it, or no text was added. */
static const struct qkv_text_metric *metric_of(const struct qkv_scorer *scorer, enum qkv_metric metric)
{
    int m = (int)metric;
    return m >= 0 && m < QKV_METRIC_COUNT && scorer->statistics[m] ? METRICS[m].of_texts : NULL;
}

int qkv_scorer_details(const struct qkv_scorer *scorer, enum qkv_metric metric,
                       struct qkv_metric_detail details[QKV_METRIC_DETAILS])
{
    const struct qkv_text_metric *functions = metric_of(scorer, metric);
    if (!functions || !functions->details) return 0;
    return functions->details(&scorer->options, scorer->statistics[metric]->sums, details);
}

void qkv_scorer_title(const struct qkv_scorer *scorer, enum qkv_metric metric, char *text, size_t size)
{
    const struct qkv_text_metric *functions = metric_of(scorer, metric);
    const struct qkv_metric_info *info = qkv_metric_info(metric);
    if (functions && functions->title)
        functions->title(&scorer->options, text, size);
    else
        snprintf(text, size, "%s", info ? info->title : "");
}

void qkv_scorer_signature(const struct qkv_scorer *scorer, enum qkv_metric metric, char *text, size_t size)
{
    const struct qkv_text_metric *functions = metric_of(scorer, metric);
    char own[96], references[24] = "var";
    if (size) *text = '\0';
    if (!functions) return;
    if (scorer->fewest_references == scorer->most_references)
        snprintf(references, sizeof references, "%lld", (long long)scorer->most_references);
    bool case_counts = functions->sign(&scorer->options, own, sizeof own);
    snprintf(text, size, "nrefs:%s|case:%s|%s|version:qkv-%s", references, case_counts ? "mixed" : "lc", own,
             qkv_version());
}

void qkv_scorer_release(struct qkv_scorer *scorer)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        free(scorer->statistics[m]);
        scorer->statistics[m] = NULL;
    }
    qkv_arena_release(&scorer->scratch);
}
