/* Decoding with an ensemble: every member decodes the same hypotheses, and the probabilities of the next token are
 * averaged. */
#include "qkv/network.h"

#include "qkv/scalar_math.h"

#include <math.h>
#include <stdlib.h>

struct ensemble_decoding {
    struct qkv_decoding base;
    int64_t count;
    struct qkv_decoding **member;          /* [count] */
    const struct qkv_next_scores **scores; /* [count]: of this step */
    double *log_probability;               /* [count]: of one token */
    double *logits, *group_max, *sums;     /* as in qkv_next_scores */
};

static struct ensemble_decoding *ensemble_decoding_of(struct qkv_decoding *decoding)
{
    return (struct ensemble_decoding *)decoding; /* base is the first member */
}

static enum qkv_status start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                             struct qkv_error *error)
{
    struct ensemble_decoding *d = ensemble_decoding_of(decoding);
    struct qkv_next_scores *next = &decoding->next;
    int64_t rows = decoding->rows;
    for (int64_t i = 0; i < d->count; i++)
        if (qkv_decoding_start(d->member[i], batch, rows, decoding->length, true, error)) return QKV_INVALID;
    *next = (struct qkv_next_scores){.dtype = QKV_FLOAT64, .classes = decoding->model->target_size};
    d->logits = qkv_arena_allocate(&decoding->arena, (size_t)(rows * next->classes) * sizeof *d->logits);
    d->group_max =
        qkv_arena_allocate(&decoding->arena, (size_t)(rows * qkv_next_groups(next)) * sizeof *d->group_max);
    d->sums = qkv_arena_allocate(&decoding->arena, (size_t)rows * sizeof *d->sums);
    if (!d->logits || !d->group_max || !d->sums)
        return qkv_error_set(error, "out of memory for %lld hypotheses", (long long)rows);
    next->logits = d->logits;
    next->group_max = d->group_max;
    next->log_sum_exp = decoding->needs_log_sum_exp ? d->sums : NULL;
    return QKV_OK;
}

/* log((p_1 + .. + p_n) / n) of log p_1 .. log p_n. Exact when they are equal. */
static double log_mean(int64_t count, const double *log_probability, double log_count)
{
    double greatest = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < count; i++)
        if (log_probability[i] > greatest) greatest = log_probability[i];
    if (greatest <= -HUGE_VAL) return greatest;
    for (int64_t i = 0; i < count; i++) sum += qkv_scalar_exp(log_probability[i] - greatest);
    return greatest + (qkv_scalar_log(sum) - log_count);
}

/* The mean of the members' log-sum-exps of a row; not finite if one of them is not. The search subtracts it from the
 * logits of an ensemble, so any finite number would do. */
static double mean_of_sums(const struct ensemble_decoding *d, int64_t row)
{
    double sum = 0;
    for (int64_t i = 0; i < d->count; i++)
        sum += qkv_dtype_get(d->scores[i]->dtype, d->scores[i]->log_sum_exp, row);
    return sum / (double)d->count;
}

/* The logarithm of the mean of the members' probabilities of a token. */
static double mean_log_probability(struct ensemble_decoding *d, int64_t row, int64_t token, double log_count)
{
    for (int64_t i = 0; i < d->count; i++) {
        const struct qkv_next_scores *scores = d->scores[i];
        d->log_probability[i] = qkv_dtype_get(scores->dtype, scores->logits, row * scores->classes + token) -
                                qkv_dtype_get(scores->dtype, scores->log_sum_exp, row);
    }
    return log_mean(d->count, d->log_probability, log_count);
}

/* Sets the scores of a row: logits, from which the search gets the averaged log-probabilities when it subtracts the row's
 * log-sum-exp, and the maxima of their groups. All are NaN if a member's scores are not finite. */
static void combine_row(struct ensemble_decoding *d, int64_t row, double log_count)
{
    int64_t classes = d->base.next.classes, groups = qkv_next_groups(&d->base.next);
    double *logits = d->logits + row * classes, *group_max = d->group_max + row * groups;
    double sum = mean_of_sums(d, row);
    bool is_finite = isfinite(sum);
    d->sums[row] = sum;
    for (int64_t group = 0; group < groups; group++) group_max[group] = is_finite ? -HUGE_VAL : (double)NAN;
    for (int64_t token = 0; token < classes; token++) {
        logits[token] = is_finite ? mean_log_probability(d, row, token, log_count) + sum : (double)NAN;
        if (logits[token] > group_max[token / QKV_GROUP]) group_max[token / QKV_GROUP] = logits[token];
    }
}

static enum qkv_status step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *error)
{
    struct ensemble_decoding *d = ensemble_decoding_of(decoding);
    for (int64_t i = 0; i < d->count; i++)
        if (!(d->scores[i] = qkv_decoding_step(d->member[i], rows, ids, sentences, error)))
            return QKV_INVALID;
    double log_count = qkv_scalar_log((double)d->count);
    for (int64_t row = 0; row < rows; row++) combine_row(d, row, log_count);
    decoding->next.rows = rows;
    return QKV_OK;
}

static void reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct ensemble_decoding *d = ensemble_decoding_of(decoding);
    for (int64_t i = 0; i < d->count; i++) qkv_decoding_reorder(d->member[i], rows, parents);
}

static void release(struct qkv_decoding *decoding)
{
    struct ensemble_decoding *d = ensemble_decoding_of(decoding);
    for (int64_t i = 0; d->member && i < d->count; i++) qkv_decoding_free(d->member[i]);
    free(d->member);
    free(d->scores);
    free(d->log_probability);
}

static struct qkv_decoding *member(struct qkv_decoding *decoding, int64_t i)
{
    struct ensemble_decoding *d = ensemble_decoding_of(decoding);
    return i >= 0 && i < d->count ? d->member[i] : NULL;
}

static const struct qkv_decoding_interface ensemble_decoding = {
    .size = sizeof(struct ensemble_decoding),
    .start = start,
    .step = step,
    .reorder = reorder,
    .release = release,
    .member = member,
};

enum qkv_status qkv_ensemble_check(struct qkv_ensemble ensemble, struct qkv_error *error)
{
    if (ensemble.count < 1)
        return qkv_error_set(error, "an ensemble needs a model, but has %lld", (long long)ensemble.count);
    if (!ensemble.models)
        return qkv_error_set(error, "an ensemble of %lld models has no array of them",
                             (long long)ensemble.count);
    for (int64_t i = 0; i < ensemble.count; i++) {
        const struct qkv_model *first = ensemble.models[0], *model = ensemble.models[i];
        if (!model) return qkv_error_set(error, "model %lld of the ensemble is NULL", (long long)i + 1);
        if (model->source_size != first->source_size || model->target_size != first->target_size)
            return qkv_error_set(error,
                                 "model %lld of the ensemble has vocabularies of %d and %d entries, but the "
                                 "first has %d and %d",
                                 (long long)i + 1, (int)model->source_size, (int)model->target_size,
                                 (int)first->source_size, (int)first->target_size);
    }
    return QKV_OK;
}

static bool make_members(struct ensemble_decoding *d, struct qkv_ensemble ensemble)
{
    size_t count = (size_t)ensemble.count;
    d->member = calloc(count, sizeof(struct qkv_decoding *));
    d->scores = calloc(count, sizeof(const struct qkv_next_scores *));
    d->log_probability = calloc(count, sizeof *d->log_probability);
    if (!d->member || !d->scores || !d->log_probability) return false;
    d->base.max_length = INT64_MAX;
    for (; d->count < ensemble.count; d->count++) {
        struct qkv_decoding *made = qkv_decoding_new(ensemble.models[d->count]);
        if (!made) return false;
        d->member[d->count] = made;
        if (made->max_length < d->base.max_length) d->base.max_length = made->max_length;
    }
    return true;
}

struct qkv_decoding *qkv_decoding_new_ensemble(struct qkv_ensemble ensemble, struct qkv_error *error)
{
    if (qkv_ensemble_check(ensemble, error)) return NULL;
    struct ensemble_decoding *d = calloc(1, sizeof *d);
    if (d) {
        d->base.interface = &ensemble_decoding;
        d->base.model = ensemble.models[0];
        d->base.element_size = sizeof(double);
        if (make_members(d, ensemble)) return &d->base;
        qkv_decoding_free(&d->base);
    }
    qkv_error_set(error, "out of memory for %lld decoders", (long long)ensemble.count);
    return NULL;
}
