/* Optimizers: their options, state and steps; the arithmetic is in kernels/optimizer.c. */
#include "qkv/optimizer.h"

#include "core/choices.h"
#include "core/system.h"
#include "kernels/registry.h"

#include <math.h>
#include <string.h>

/* A step works on ranges of this many numbers. The norm is summed range by range, so another length would change its
 * rounding. A range fits the second-level cache, and is large enough for the cost of handing it to a worker to be small. */
enum { RANGE = 16384 };

static const int MOMENTS[QKV_OPTIMIZER_COUNT] = {
#define OPTIMIZER(NAME, name, moments, ...) [QKV_OPTIMIZER_##NAME] = moments,
#include "qkv/optimizers.def"
};

#define OPTIMIZER(NAME, name, moments, ...)                                                                  \
    _Static_assert(moments <= QKV_MOMENTS_MAX, "more moments than checkpoints have names for");
#include "qkv/optimizers.def"

struct qkv_optimizer_options qkv_optimizer_defaults(enum qkv_optimizer_kind optimizer)
{
    return (struct qkv_optimizer_options){
        .optimizer = optimizer, .adam_betas = {0.9, 0.999}, .adam_epsilon = 1e-8};
}

/* The range of an option: from `low` on, or above it if that is excluded, and below `end`. */
struct range {
    const char *name;
    size_t offset;
    double low;
    bool is_low_excluded;
    double end; /* 0: none */
};

#define OPTION(name) #name
#define USES(...)    ((const char *const[]){"" __VA_ARGS__, NULL})
static const char *const *const USED[QKV_OPTIMIZER_COUNT] = {
#define OPTIMIZER(NAME, name, moments, uses, ...) [QKV_OPTIMIZER_##NAME] = uses,
#include "qkv/optimizers.def"
};
#undef OPTION
#undef USES

/* Whether this optimizer reads an option, which no row names if all optimizers read it. */
static bool is_read(enum qkv_optimizer_kind optimizer, const char *name)
{
    bool is_named = false;
    for (int i = 0; i < QKV_OPTIMIZER_COUNT; i++)
        for (const char *const *used = USED[i]; *used; used++) {
            if (strcmp(*used, name) != 0) continue;
            if (i == (int)optimizer) return true;
            is_named = true;
        }
    return !is_named;
}

static enum qkv_status check_option(const struct range *range, double value, struct qkv_error *error)
{
    if (!isfinite(value)) return qkv_error_set(error, "optimizer: %s is not a finite number", range->name);
    bool is_low = range->is_low_excluded ? value <= range->low : value < range->low;
    if (!is_low && (range->end <= 0 || value < range->end)) return QKV_OK;
    if (range->end <= 0)
        return qkv_error_set(error, "optimizer: %s is %g, but must be %s %g", range->name, value,
                             range->is_low_excluded ? "greater than" : "at least", range->low);
    return qkv_error_set(error, "optimizer: %s is %g, but must be at least %g and less than %g", range->name,
                         value, range->low, range->end);
}

/* Fails when an option that the optimizer reads is out of its range. */
static enum qkv_status check_options(const struct qkv_optimizer_options *options, struct qkv_error *error)
{
#define OFFSET(field) offsetof(struct qkv_optimizer_options, field)
    static const struct range RANGES[] = {
        {"adam_betas", OFFSET(adam_betas[0]), 0, false, 1},
        {"adam_betas", OFFSET(adam_betas[1]), 0, false, 1},
        {"adam_epsilon", OFFSET(adam_epsilon), 0, true, 0},
        {"momentum", OFFSET(momentum), 0, false, 1},
        {"weight_decay", OFFSET(weight_decay), 0, false, 0},
        {"clip_grad_norm", OFFSET(clip_grad_norm), 0, false, 0},
        {"clip_grad_val", OFFSET(clip_grad_val), 0, false, 0},
        {"ema", OFFSET(ema), 0, false, 1},
    };
    int kind = (int)options->optimizer;
    if (!qkv_value_exists(&qkv_optimizer_kind_names, kind))
        return qkv_error_set(error, "optimizer: there is no optimizer %d", kind);
    for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++) {
        const double *value = (const void *)((const char *)options + RANGES[i].offset);
        if (!is_read(options->optimizer, RANGES[i].name)) continue;
        if (check_option(&RANGES[i], *value, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

/* Finds the stretches of parameters with the same learning rate. A gap between parameters, which stays 0, belongs to the
 * parameter before it. False when memory runs out. */
static bool find_stretches(struct qkv_optimizer *optimizer, const struct qkv_parameters *parameters)
{
    size_t size = (size_t)(parameters->count + 1) * sizeof *optimizer->stretch;
    struct qkv_rate_stretch *stretch = optimizer->stretch = qkv_arena_allocate(&optimizer->arena, size);
    int64_t count = 0;
    for (int64_t i = 0; stretch && i < parameters->count; i++) {
        bool is_last = i + 1 == parameters->count;
        double rate = parameters->list[i]->rate;
        if (!count || stretch[count - 1].rate < rate || stretch[count - 1].rate > rate)
            stretch[count++].rate = rate;
        stretch[count - 1].end = is_last ? parameters->elements : parameters->list[i + 1]->offset;
    }
    optimizer->stretches = count;
    return stretch;
}

enum qkv_status qkv_optimizer_init(struct qkv_optimizer *optimizer,
                                   const struct qkv_optimizer_options *options,
                                   const struct qkv_parameters *parameters, struct qkv_error *error)
{
    if (!parameters->values)
        return qkv_error_set(error,
                             "an optimizer needs allocated parameters: call qkv_parameters_allocate first");
    if (qkv_kernels_in_use(NULL, error)) return QKV_INVALID;
    if (check_options(options, error)) return QKV_INVALID;
    *optimizer = (struct qkv_optimizer){
        .options = *options,
        .state = {.name = qkv_optimizer_kind_name(options->optimizer),
                  .moment_count = MOMENTS[options->optimizer],
                  .dtype = parameters->dtype,
                  .elements = parameters->elements},
        .ranges = (int)((parameters->elements + RANGE - 1) / RANGE),
        .kernels = qkv_optimizer_registry(parameters->dtype),
    };
    size_t size = (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
    optimizer->squares = qkv_arena_zeroed(&optimizer->arena, (size_t)optimizer->ranges * sizeof(double));
    bool complete = optimizer->squares && find_stretches(optimizer, parameters);
    for (int i = 0; i < optimizer->state.moment_count && complete; i++)
        complete = (optimizer->state.moments[i] = qkv_arena_zeroed(&optimizer->arena, size));
    if (complete && options->ema > 0) {
        complete = (optimizer->state.average = qkv_arena_allocate(&optimizer->arena, size));
        if (complete) memcpy(optimizer->state.average, parameters->values, size);
    }
    if (complete) return QKV_OK;
    qkv_optimizer_release(optimizer);
    return qkv_error_set(error, "out of memory for the moments of %lld parameters",
                         (long long)parameters->elements);
}

/* The arguments of a step, which all workers read. */
struct step {
    struct qkv_optimizer *optimizer;
    void *values;
    int blocks;
    void *const *gradients; /* [blocks] */
    double scale;
    double learning_rate; /* of parameters with the rate 1 */
    struct qkv_update update;
    double average_weight; /* of the new values in their moving average */
};

/* The scalars of an update with this learning rate, such as bias corrections, computed in float64 for kernels of both
 * dtypes. */
static void set_rate(const struct qkv_optimizer *optimizer, struct qkv_update *update, double learning_rate)
{
    const struct qkv_optimizer_kernel *kernel =
        qkv_optimizer_registry(QKV_FLOAT64)->optimizer[optimizer->options.optimizer];
    if (kernel->prepare) kernel->prepare(update, learning_rate, optimizer->state.updates);
}

/* Address of number `i` of a block. */
static void *at(const struct step *step, void *block, int64_t i)
{
    return (char *)block + (size_t)i * qkv_dtype_size(step->optimizer->state.dtype);
}

static int64_t range_length(const struct step *step, int64_t start)
{
    int64_t rest = step->optimizer->state.elements - start;
    return rest < RANGE ? rest : RANGE;
}

/* The rest of the stretch that contains number `at` of the block, cut at `end`. The field `end` of the result is its length. */
static struct qkv_rate_stretch stretch_at(const struct qkv_optimizer *optimizer, int64_t at, int64_t end)
{
    int64_t i = 0;
    while (optimizer->stretch[i].end <= at) i++;
    int64_t until = optimizer->stretch[i].end < end ? optimizer->stretch[i].end : end;
    return (struct qkv_rate_stretch){until - at, optimizer->stretch[i].rate};
}

/* Sets the gradients of frozen parameters to 0. Graphs do so already, but not a program that passes gradients of its own. */
static void clear_frozen(const struct step *step, int64_t start, int64_t length)
{
    const struct qkv_optimizer *optimizer = step->optimizer;
    struct qkv_rate_stretch part;
    if (optimizer->stretches == 1) return;
    for (int64_t i = start; i < start + length; i += part.end) {
        part = stretch_at(optimizer, i, start + length);
        for (int b = 0; !(part.rate > 0) && b < step->blocks; b++)
            memset(at(step, step->gradients[b], i), 0,
                   (size_t)part.end * qkv_dtype_size(optimizer->state.dtype));
    }
}

/* Sums the gradient blocks into the first and multiplies by the scale. */
static void reduce_range(void *context, int range)
{
    const struct step *step = context;
    int64_t start = (int64_t)range * RANGE;
    clear_frozen(step, start, range_length(step, start));
    step->optimizer->squares[range] = step->optimizer->kernels->reduce(
        range_length(step, start), step->blocks, step->gradients, start, step->scale);
}

static void clip_range(void *context, int range)
{
    const struct step *step = context;
    int64_t start = (int64_t)range * RANGE;
    step->optimizer->squares[range] =
        step->optimizer->kernels->clip(range_length(step, start), at(step, step->gradients[0], start),
                                       step->optimizer->options.clip_grad_val);
}

/* Updates `length` numbers that have the same rate. */
static void update_stretch(const struct step *step, int64_t start, int64_t length, double rate)
{
    const struct qkv_optimizer *optimizer = step->optimizer;
    void *moments[QKV_MOMENTS_MAX];
    struct qkv_update update = step->update;
    if (rate < 1 || rate > 1) set_rate(optimizer, &update, step->learning_rate * rate);
    for (int i = 0; i < optimizer->state.moment_count; i++)
        moments[i] = at(step, optimizer->state.moments[i], start);
    optimizer->kernels->optimizer[optimizer->options.optimizer]->update(
        length, &update, at(step, step->gradients[0], start), moments, at(step, step->values, start));
    if (optimizer->state.average)
        optimizer->kernels->average(length, step->average_weight, at(step, step->values, start),
                                    at(step, optimizer->state.average, start));
}

static void update_range(void *context, int range)
{
    const struct step *step = context;
    int64_t start = (int64_t)range * RANGE, end = start + range_length(step, start);
    struct qkv_rate_stretch part;
    bool finite = true;
    for (int64_t i = start; i < end; i += part.end) {
        part = stretch_at(step->optimizer, i, end);
        if (!(part.rate > 0)) continue;
        update_stretch(step, i, part.end, part.rate);
        finite &= step->optimizer->kernels->are_finite(part.end, at(step, step->values, i));
    }
    step->optimizer->squares[range] = finite ? 0 : (double)INFINITY;
}

/* Weight of the values after update `t` in their moving average: 1 - min(decay, (1 + t) / (10 + t)). The first averages
 * forget the initial values fast. */
static double average_weight(double decay, int64_t t)
{
    double highest = (1 + (double)t) / (10 + (double)t);
    return 1 - (decay < highest ? decay : highest);
}

static double norm_of(const struct qkv_optimizer *optimizer)
{
    double sum = 0;
    for (int i = 0; i < optimizer->ranges; i++) sum += optimizer->squares[i];
    return sqrt(sum);
}

/* The arguments of update number `optimizer->state.updates`, for a gradient with the norm `norm`. */
static struct qkv_update make_update(const struct qkv_optimizer *optimizer, double norm, double learning_rate)
{
    const struct qkv_optimizer_options *options = &optimizer->options;
    double longest = options->clip_grad_norm;
    struct qkv_update update = {.options = options,
                                .clip = longest > 0 && norm > longest ? longest / norm : 1};
    set_rate(optimizer, &update, learning_rate);
    return update;
}

/* The update starts when the norm is known, even without clip_grad_norm: a gradient that is not finite must
 * not change the parameters. So a step reads the gradients twice, which costs little compared with reading
 * and writing the moments. */
double qkv_optimizer_step(struct qkv_optimizer *optimizer, struct qkv_parameters *parameters,
                          struct qkv_workers *workers, int blocks, void *const *gradients, double scale,
                          double learning_rate)
{
    bool fits = parameters->values && parameters->dtype == optimizer->state.dtype &&
                parameters->elements == optimizer->state.elements;
    if (!optimizer->kernels || blocks < 1 || !fits || !isfinite(learning_rate)) return (double)NAN;
    struct step step = {optimizer, parameters->values, blocks, gradients, scale, learning_rate, {0}, 0};
    int ranges = optimizer->ranges;
    qkv_workers_run(workers, ranges, reduce_range, &step);
    double norm = norm_of(optimizer), norm_of_clipped = norm; /* numbers clipped by clip_grad_val */
    if (!isfinite(norm)) return norm;
    if (optimizer->options.clip_grad_val > 0) {
        qkv_workers_run(workers, ranges, clip_range, &step);
        norm_of_clipped = norm_of(optimizer);
    }
    optimizer->state.updates++;
    parameters->changes++;
    step.update = make_update(optimizer, norm_of_clipped, learning_rate);
    step.average_weight = average_weight(optimizer->options.ema, optimizer->state.updates);
    qkv_workers_run(workers, ranges, update_range, &step);
    /* update_range has replaced the squares by 0, or by infinity where a parameter is no longer finite. */
    return isfinite(norm_of(optimizer)) ? norm : (double)INFINITY;
}

void qkv_optimizer_swap_average(struct qkv_optimizer *optimizer, struct qkv_parameters *parameters)
{
    unsigned char *values = parameters->values, *average = optimizer->state.average, part[4096];
    size_t size = (size_t)optimizer->state.elements * qkv_dtype_size(optimizer->state.dtype);
    if (!average || !values || parameters->elements != optimizer->state.elements ||
        parameters->dtype != optimizer->state.dtype)
        return;
    for (size_t at = 0, length; at < size; at += length) {
        length = size - at < sizeof part ? size - at : sizeof part;
        memcpy(part, values + at, length);
        memcpy(values + at, average + at, length);
        memcpy(average + at, part, length);
    }
    parameters->changes++;
}

void qkv_optimizer_release(struct qkv_optimizer *optimizer)
{
    qkv_arena_release(&optimizer->arena);
    *optimizer = (struct qkv_optimizer){0};
}
