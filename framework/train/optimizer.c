#include "qkv/optimizer.h"

#include "kernels/optimizer.h"

#include <math.h>

/* Numbers of a range. Part of the result, as sums of squares are taken by range; small enough that few ranges
 * stay in the second-level cache, large enough that handing one out costs nothing. */
enum { RANGE = 16384 };

enum qkv_status qkv_optimizer_init(struct qkv_optimizer *optimizer, const struct qkv_training_config *config,
                                   const struct qkv_parameters *parameters, struct qkv_error *error)
{
    QKV_BUG(!parameters->values, "an optimizer is made for parameters that are not allocated");
    *optimizer = (struct qkv_optimizer){
        .kind = config->optimizer,
        .dtype = parameters->dtype,
        .betas = {config->adam_betas[0], config->adam_betas[1]},
        .epsilon = config->adam_epsilon,
        .momentum = config->momentum,
        .weight_decay = config->weight_decay,
        .clip_norm = config->clip_grad_norm,
        .clip_value = config->clip_grad_val,
        .elements = parameters->elements,
        .ranges = (int)((parameters->elements + RANGE - 1) / RANGE),
        .kernels = qkv_optimizer_registry(parameters->dtype),
    };
    bool has_second = config->optimizer != QKV_OPTIMIZER_SGD;
    size_t size =
        (size_t)parameters->elements * (parameters->dtype == QKV_FLOAT32 ? sizeof(float) : sizeof(double));
    optimizer->first = qkv_arena_zeroed(&optimizer->arena, size);
    optimizer->second = has_second ? qkv_arena_zeroed(&optimizer->arena, size) : NULL;
    optimizer->squares = qkv_arena_zeroed(&optimizer->arena, (size_t)optimizer->ranges * sizeof(double));
    if (optimizer->first && optimizer->squares && (optimizer->second || !has_second)) return QKV_OK;
    qkv_optimizer_release(optimizer);
    return qkv_error_set(error, "out of memory for the moments of %lld parameters",
                         (long long)parameters->elements);
}

/* What the workers share during a step. */
struct step {
    struct qkv_optimizer *optimizer;
    void *values;
    int shards;
    void *const *gradients;
    double scale;
    struct qkv_update update;
};

/* Where number `i` of a block is. */
static void *at(const struct step *step, void *block, int64_t i)
{
    return step->optimizer->dtype == QKV_FLOAT32 ? (void *)((float *)block + i)
                                                 : (void *)((double *)block + i);
}

static int64_t range_length(const struct step *step, int64_t start)
{
    int64_t rest = step->optimizer->elements - start;
    return rest < RANGE ? rest : RANGE;
}

static void gather_range(void *context, int range)
{
    const struct step *step = context;
    int64_t start = (int64_t)range * RANGE;
    step->optimizer->squares[range] =
        step->optimizer->kernels->gather(range_length(step, start), at(step, step->gradients[0], start),
                                         step->shards - 1, step->gradients + 1, start, step->scale);
}

static void clip_range(void *context, int range)
{
    const struct step *step = context;
    int64_t start = (int64_t)range * RANGE;
    step->optimizer->squares[range] = step->optimizer->kernels->clip(
        range_length(step, start), at(step, step->gradients[0], start), step->optimizer->clip_value);
}

static void update_range(void *context, int range)
{
    const struct step *step = context;
    const struct qkv_optimizer *optimizer = step->optimizer;
    int64_t start = (int64_t)range * RANGE, length = range_length(step, start);
    void *gradient = at(step, step->gradients[0], start), *values = at(step, step->values, start);
    void *first = at(step, optimizer->first, start);
    if (optimizer->kind == QKV_OPTIMIZER_SGD)
        optimizer->kernels->sgd(length, &step->update, gradient, first, values);
    else
        optimizer->kernels->adam(length, &step->update, gradient, first, at(step, optimizer->second, start),
                                 values);
}

static double norm_of(const struct qkv_optimizer *optimizer)
{
    double sum = 0;
    for (int i = 0; i < optimizer->ranges; i++) sum += optimizer->squares[i];
    return sqrt(sum);
}

/* The numbers of update `optimizer->updates`, for a gradient of that norm. */
static struct qkv_update make_update(const struct qkv_optimizer *optimizer, double norm, double learning_rate)
{
    struct qkv_update update = {
        .clip = optimizer->clip_norm > 0 && norm > optimizer->clip_norm ? optimizer->clip_norm / norm : 1,
        .rate = learning_rate,
        .decay = optimizer->kind == QKV_OPTIMIZER_ADAMW ? 0 : optimizer->weight_decay,
        .keep = optimizer->kind == QKV_OPTIMIZER_ADAMW ? 1 - learning_rate * optimizer->weight_decay : 1,
        .betas = {optimizer->betas[0], optimizer->betas[1]},
        .epsilon = optimizer->epsilon,
        .momentum = optimizer->momentum,
    };
    if (optimizer->kind == QKV_OPTIMIZER_SGD) return update;
    double t = (double)optimizer->updates;
    update.rate = learning_rate / (1 - pow(optimizer->betas[0], t));
    update.root = 1 / sqrt(1 - pow(optimizer->betas[1], t));
    return update;
}

/* The update waits for the norm even where nothing is clipped by it: reading the gradients a second time
 * costs little beside the moments, and a diverged step must not reach the parameters. */
double qkv_optimizer_step(struct qkv_optimizer *optimizer, struct qkv_parameters *parameters,
                          struct qkv_workers *workers, int shards, void *const *gradients, double scale,
                          double learning_rate)
{
    QKV_BUG(shards < 1, "an optimizer steps without gradients");
    QKV_BUG(parameters->dtype != optimizer->dtype || parameters->elements != optimizer->elements,
            "an optimizer steps parameters that it was not made for");
    struct step step = {optimizer, parameters->values, shards, gradients, scale, {0}};
    int ranges = optimizer->ranges;
    qkv_workers_run(workers, ranges, gather_range, &step);
    double norm = norm_of(optimizer), clipped_norm = norm;
    if (!isfinite(norm)) return norm;
    if (optimizer->clip_value > 0) {
        qkv_workers_run(workers, ranges, clip_range, &step);
        clipped_norm = norm_of(optimizer);
    }
    optimizer->updates++;
    parameters->changes++;
    step.update = make_update(optimizer, clipped_norm, learning_rate);
    qkv_workers_run(workers, ranges, update_range, &step);
    return norm;
}

const struct qkv_parameter *qkv_parameters_find_not_finite(const struct qkv_parameters *parameters,
                                                           const void *block)
{
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        for (int64_t i = parameter->offset; i < parameter->offset + parameter->count; i++) {
            double number = parameters->dtype == QKV_FLOAT32 ? (double)((const float *)block)[i]
                                                             : ((const double *)block)[i];
            if (!isfinite(number)) return parameter;
        }
    }
    return NULL;
}

void qkv_optimizer_release(struct qkv_optimizer *optimizer)
{
    qkv_arena_release(&optimizer->arena);
    *optimizer = (struct qkv_optimizer){0};
}
