#include "qkv/bootstrap.h"

#include "metrics/scorer.h"
#include "qkv/numpy_random.h"

#include <stdlib.h>
#include <string.h>

/* The statistics of one metric of one system. */
struct statistics {
    int width; /* numbers per segment; 0: the metric is not computed */
    /* [segments, width], in float32, so that sums over a sample have the same bits as in sacreBLEU */
    float *numbers;
    double *samples; /* [samples]: the score of each sample */
    struct qkv_bootstrap_result result;
};

struct qkv_bootstrap {
    struct qkv_scorer *scorers; /* [systems] */
    int systems;
    struct statistics (*statistics)[QKV_METRIC_COUNT]; /* [systems] */
    int64_t segments, capacity;
};

struct qkv_bootstrap *qkv_bootstrap_new(const struct qkv_text_options *options, int systems,
                                        struct qkv_error *error)
{
    struct qkv_bootstrap *b = systems < 1 ? NULL : calloc(1, sizeof *b);
    if (b) {
        b->scorers = calloc((size_t)systems, sizeof *b->scorers);
        b->statistics = calloc((size_t)systems, sizeof *b->statistics);
        b->systems = systems;
        if (b->scorers && b->statistics) {
            for (int s = 0; s < systems; s++) b->scorers[s].options = *options;
            return b;
        }
    }
    qkv_error_set(error, systems < 1 ? "a comparison needs a system"
                                     : "out of memory for the comparison of systems");
    qkv_bootstrap_free(b);
    return NULL;
}

void qkv_bootstrap_free(struct qkv_bootstrap *b)
{
    if (!b) return;
    for (int s = 0; b->scorers && b->statistics && s < b->systems; s++) {
        qkv_scorer_release(&b->scorers[s]);
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            free(b->statistics[s][m].numbers);
            free(b->statistics[s][m].samples);
        }
    }
    free(b->scorers);
    free(b->statistics);
    free(b);
}

/* Stores the statistics of the segment that was added last to the scorer of system `s`. */
static bool keep_last(struct qkv_bootstrap *b, int s, int64_t capacity)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        struct statistics *statistics = &b->statistics[s][m];
        const struct qkv_statistics *counted = b->scorers[s].statistics[m];
        if (!counted) continue;
        statistics->width = counted->width;
        if (capacity > b->capacity) {
            float *numbers =
                realloc(statistics->numbers, (size_t)capacity * (size_t)statistics->width * sizeof *numbers);
            if (!numbers) return false;
            statistics->numbers = numbers;
        }
        float *row = statistics->numbers + b->segments * statistics->width;
        for (int k = 0; k < statistics->width; k++) row[k] = (float)counted->last[k];
    }
    return true;
}

enum qkv_status qkv_bootstrap_add(struct qkv_bootstrap *b, const char *const *translations,
                                  const char *const *references, int64_t count, struct qkv_error *error)
{
    int64_t capacity = b->segments < b->capacity ? b->capacity : 2 * b->capacity + 64;
    for (int s = 0; s < b->systems; s++) {
        if (qkv_scorer_add(&b->scorers[s], translations[s], references, count, error)) return QKV_INVALID;
        if (!keep_last(b, s, capacity))
            return qkv_error_set(error, "out of memory for the comparison of systems");
    }
    b->capacity = capacity;
    b->segments++;
    return QKV_OK;
}

/* The score of a sample, which consists of the segments with these numbers. */
static double score_sample(const struct qkv_bootstrap *b, int s, int m, const uint32_t *segments)
{
    const struct statistics *statistics = &b->statistics[s][m];
    float sums[QKV_STATISTICS_MAX] = {0};
    double values[QKV_STATISTICS_MAX];
    for (int64_t i = 0; i < b->segments; i++) {
        const float *row = statistics->numbers + segments[i] * (int64_t)statistics->width;
        for (int k = 0; k < statistics->width; k++) sums[k] += row[k];
    }
    for (int k = 0; k < statistics->width; k++) values[k] = (double)sums[k];
    return qkv_scorer_score_of(&b->scorers[s], m, values);
}

static int compare_numbers(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double mean_of(const double *numbers, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += numbers[i];
    return sum / (double)count;
}

static double distance(double a, double b)
{
    return a < b ? b - a : a - b;
}

/* The p value: the share of samples in which the absolute difference between the systems exceeds its mean by more than the
 * difference on the complete texts. 1 is added to both counts, so that p is above 0. */
static double p_value(const struct statistics *base, const struct statistics *other, int64_t samples,
                      double *scratch)
{
    double difference = distance(base->result.score, other->result.score);
    int64_t greater = 0;
    for (int64_t i = 0; i < samples; i++) scratch[i] = distance(base->samples[i], other->samples[i]);
    double mean = mean_of(scratch, samples);
    for (int64_t i = 0; i < samples; i++) greater += scratch[i] - mean > difference;
    return (double)(greater + 1) / (double)(samples + 1);
}

/* Computes the results from the samples. The p values come first, because the interval sorts the samples. */
static void conclude(struct qkv_bootstrap *b, int64_t samples, double *scratch)
{
    for (int s = 0; s < b->systems; s++) {
        const struct qkv_scores scores = qkv_scorer_scores(&b->scorers[s]);
        for (int m = 0; m < QKV_METRIC_COUNT; m++) b->statistics[s][m].result.score = scores.value[m];
    }
    for (int s = 0; s < b->systems; s++)
        for (int m = 0; m < QKV_METRIC_COUNT; m++)
            if (b->statistics[s][m].width)
                b->statistics[s][m].result.p_value =
                    s == 0 ? 1 : p_value(&b->statistics[0][m], &b->statistics[s][m], samples, scratch);
    for (int s = 0; s < b->systems; s++)
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            struct statistics *statistics = &b->statistics[s][m];
            if (!statistics->width) continue;
            qsort(statistics->samples, (size_t)samples, sizeof *statistics->samples, compare_numbers);
            int64_t tail = samples / 40;
            statistics->result.mean = mean_of(statistics->samples, samples);
            statistics->result.interval =
                (statistics->samples[samples - 1 - tail] - statistics->samples[tail]) / 2;
        }
}

static bool allocate_samples(struct qkv_bootstrap *b, int64_t samples)
{
    for (int s = 0; s < b->systems; s++)
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            struct statistics *statistics = &b->statistics[s][m];
            free(statistics->samples);
            statistics->samples = statistics->width ? calloc((size_t)samples, sizeof(double)) : NULL;
            if (statistics->width && !statistics->samples) return false;
        }
    return true;
}

enum qkv_status qkv_bootstrap_run(struct qkv_bootstrap *b, int64_t samples, uint32_t seed,
                                  struct qkv_error *error)
{
    if (b->segments < 1 || b->segments > UINT32_MAX)
        return qkv_error_set(error, "%lld segments cannot be sampled", (long long)b->segments);
    if (samples < 1)
        return qkv_error_set(error, "the number of samples is %lld, but must be at least 1",
                             (long long)samples);
    uint32_t *segments = malloc((size_t)b->segments * sizeof *segments);
    double *scratch = malloc((size_t)samples * sizeof *scratch);
    enum qkv_status status = QKV_OK;
    if (!segments || !scratch || !allocate_samples(b, samples))
        status = qkv_error_set(error, "out of memory for %lld samples", (long long)samples);
    struct qkv_numpy_generator generator;
    qkv_numpy_generator_seed(&generator, seed);
    for (int64_t i = 0; !status && i < samples; i++) {
        for (int64_t k = 0; k < b->segments; k++)
            segments[k] = qkv_numpy_generator_below(&generator, (uint32_t)b->segments);
        for (int s = 0; s < b->systems; s++)
            for (int m = 0; m < QKV_METRIC_COUNT; m++)
                if (b->statistics[s][m].width)
                    b->statistics[s][m].samples[i] = score_sample(b, s, m, segments);
    }
    if (!status) conclude(b, samples, scratch);
    free(segments);
    free(scratch);
    return status;
}

struct qkv_bootstrap_result qkv_bootstrap_result(const struct qkv_bootstrap *b, int system,
                                                 enum qkv_metric metric)
{
    bool exists = system >= 0 && system < b->systems && (int)metric >= 0 && (int)metric < QKV_METRIC_COUNT;
    return exists ? b->statistics[system][metric].result : (struct qkv_bootstrap_result){0};
}

const struct qkv_scorer *qkv_bootstrap_scorer(const struct qkv_bootstrap *b, int system)
{
    return system >= 0 && system < b->systems ? &b->scorers[system] : NULL;
}
