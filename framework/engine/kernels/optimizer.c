/* The loops of the optimizers over a range of numbers. An optimizer is one block here:
 *
 *     static void name_prepare(struct qkv_update *update, double learning_rate, int64_t t)
 *     static void name_update(int64_t n, const struct qkv_update *update, const void *gradient,
 *                             void *const *moments, void *values)
 *     OPTIMIZER_KERNEL(name, .prepare = RULE(name_prepare), .update = name_update);
 *
 * and one row in qkv/optimizers.def. */
#include "qkv/optimizer.h"
#include "core/exchange.h"
#include "core/numbers.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"

#include <float.h>

#ifdef QKV_KERNEL_IS_float32
#    define SMALLEST_NORMAL FLT_MIN
#else
#    define SMALLEST_NORMAL DBL_MIN
#endif

/* Defines the optimizer `name` of this variant; the other arguments initialise struct
 * qkv_optimizer_kernel. */
#define OPTIMIZER_KERNEL(name, ...)                                                                          \
    extern const struct qkv_optimizer_kernel VARIANT(qkv_optimizer_, name);                                  \
    const struct qkv_optimizer_kernel VARIANT(qkv_optimizer_, name) = {__VA_ARGS__}

/* x, or 0 if x is subnormal: arithmetic on a subnormal number takes the processor a hundred cycles
 * longer. */
static inline real without_subnormal(real x)
{
    return REAL(fabs)(x) < SMALLEST_NORMAL ? 0 : x;
}

/* The loop that Adam and AdamW share; only their scalars differ. */

/* Indices of update->scalars: rate = learning rate / (1 - beta1^t); root = 1 / sqrt(1 - beta2^t);
 * decay * theta is added to the gradient; theta is multiplied by keep. */
enum { ADAM_RATE, ADAM_ROOT, ADAM_DECAY, ADAM_KEEP };

/* Bias correction of both. Called only by functions in RULE(...), so it is unused in most variants. */
__attribute__((unused)) static void adam_prepare_bias(struct qkv_update *update, double learning_rate,
                                                      int64_t t)
{
    const double *betas = update->options->adam_betas;
    update->scalars[ADAM_RATE] = learning_rate / (1 - qkv_scalar_power(betas[0], (double)t));
    update->scalars[ADAM_ROOT] = 1 / sqrt(1 - qkv_scalar_power(betas[1], (double)t));
}

/* g = clip * gradient + decay * theta; m and v: moving averages of g and g^2;
 * theta = keep * theta - rate * m / (sqrt(v) * root + epsilon) */
static void adam_update(int64_t n, const struct qkv_update *update, const void *gradient,
                        void *const *moments, void *values)
{
    const double *betas = update->options->adam_betas, *scalars = update->scalars;
    const real *restrict dtheta = gradient;
    real *restrict m = moments[0], *restrict v = moments[1], *restrict theta = values;
    const real clip = (real)update->clip, decay = (real)scalars[ADAM_DECAY], keep = (real)scalars[ADAM_KEEP];
    const real beta1 = (real)betas[0], rest1 = (real)(1 - betas[0]);
    const real beta2 = (real)betas[1], rest2 = (real)(1 - betas[1]);
    const real rate = (real)scalars[ADAM_RATE], root = (real)scalars[ADAM_ROOT];
    const real epsilon = (real)update->options->adam_epsilon;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real g = dtheta[i] * clip + decay * theta[i];
        m[i] = without_subnormal(beta1 * m[i] + rest1 * g);
        v[i] = without_subnormal(beta2 * v[i] + rest2 * g * g);
        theta[i] = keep * theta[i] - rate * m[i] / (REAL(sqrt)(v[i]) * root + epsilon);
    }
}

/* Adam (Kingma and Ba 2015), with weight decay in the gradient (L2). */

static void adam_prepare(struct qkv_update *update, double learning_rate, int64_t t)
{
    adam_prepare_bias(update, learning_rate, t);
    update->scalars[ADAM_DECAY] = update->options->weight_decay;
    update->scalars[ADAM_KEEP] = 1;
}

OPTIMIZER_KERNEL(adam, .prepare = RULE(adam_prepare), .update = adam_update);

/* AdamW (Loshchilov and Hutter 2019): Adam with weight decay of the parameters, not of the
 * gradient. */

static void adamw_prepare(struct qkv_update *update, double learning_rate, int64_t t)
{
    adam_prepare_bias(update, learning_rate, t);
    update->scalars[ADAM_DECAY] = 0;
    update->scalars[ADAM_KEEP] = 1 - learning_rate * update->options->weight_decay;
}

OPTIMIZER_KERNEL(adamw, .prepare = RULE(adamw_prepare), .update = adam_update);

/* Gradient descent with momentum (Polyak 1964) or Nesterov's momentum (Sutskever et al. 2013), as in PyTorch's SGD. */

enum { RATE };

static void sgd_prepare(struct qkv_update *update, double learning_rate, int64_t t)
{
    (void)t;
    update->scalars[RATE] = learning_rate;
}

/* g = clip * gradient + decay * theta; m = momentum * m + g; theta -= rate * m, with the learning rate; Nesterov:
 * theta -= rate * (g + momentum * m) */
static void sgd_update(int64_t n, const struct qkv_update *update, const void *gradient, void *const *moments,
                       void *values)
{
    const real *restrict dtheta = gradient;
    real *restrict m = moments[0], *restrict theta = values;
    const real clip = (real)update->clip, decay = (real)update->options->weight_decay;
    const real momentum = (real)update->options->momentum, rate = (real)update->scalars[RATE];
    const bool is_nesterov = update->options->nesterov;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real g = dtheta[i] * clip + decay * theta[i];
        m[i] = without_subnormal(momentum * m[i] + g);
        theta[i] -= rate * (is_nesterov ? g + momentum * m[i] : m[i]);
    }
}

OPTIMIZER_KERNEL(sgd, .prepare = RULE(sgd_prepare), .update = sgd_update);

/* The loops that all optimizers share, and the table of the optimizers. */

/* Numbers of the part of a range that `sum` and `reduce` finish before they begin the next: it stays in the
 * first-level cache. */
enum { PART = 2048 };

/* The sum of squares, in an order that does not depend on the instruction set: lane j adds the numbers j, j + PARTIAL_SUMS,
 * j + 2 PARTIAL_SUMS and so on; then the upper half of the lanes is added to the lower half, until one lane is left. */
static double squares_of(int64_t n, const real *restrict x)
{
    enum { PARTIAL_SUMS = 16 };
    double lane[PARTIAL_SUMS] = {0};
    int64_t full = n / PARTIAL_SUMS * PARTIAL_SUMS;
    for (int64_t i = 0; i < full; i += PARTIAL_SUMS)
#pragma omp simd
        for (int j = 0; j < PARTIAL_SUMS; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
    for (int64_t i = full; i < n; i++) lane[i - full] += (double)x[i] * (double)x[i];
    for (int half = PARTIAL_SUMS / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

static void sum_blocks(int64_t n, int count, void *const *blocks, int64_t offset)
{
    for (int64_t start = 0; start < n; start += PART) {
        int64_t length = n - start < PART ? n - start : PART;
        for (struct qkv_addition a = {0}; qkv_sum_tree_next(&a, count);)
            accumulate(length, 1, (const real *)blocks[a.from] + offset + start,
                       (real *)blocks[a.to] + offset + start);
    }
}

static double reduce(int64_t n, int count, void *const *blocks, int64_t offset, double scale)
{
    const real factor = (real)scale;
    double squares = 0;
    for (int64_t start = 0; start < n; start += PART) {
        int64_t length = n - start < PART ? n - start : PART;
        real *restrict part = (real *)blocks[0] + offset + start;
        sum_blocks(length, count, blocks, offset + start);
        for (int64_t i = 0; i < length; i++) part[i] *= factor;
        squares += squares_of(length, part);
    }
    return squares;
}

static double clip(int64_t n, void *gradient, double limit)
{
    real *restrict g = gradient;
    const real maximum = (real)limit;
    for (int64_t i = 0; i < n; i++) {
        real low = g[i] < -maximum ? -maximum : g[i];
        g[i] = low > maximum ? maximum : low;
    }
    return squares_of(n, g);
}

static void average(int64_t n, double weight, const void *values, void *average)
{
    const real *restrict theta = values;
    real *restrict mean = average;
    const real w = (real)weight;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) mean[i] += w * (theta[i] - mean[i]);
}

static bool are_finite(int64_t n, const void *values)
{
    const real *theta = values;
    int others = 0; /* no early exit, so that compilers vectorise the loop */
#pragma omp simd reduction(| : others)
    for (int64_t i = 0; i < n; i++) others |= !(REAL(fabs)(theta[i]) < (real)INFINITY);
    return !others;
}

#define OPTIMIZER(NAME, name, ...) extern const struct qkv_optimizer_kernel VARIANT(qkv_optimizer_, name);
#include "qkv/optimizers.def"

extern const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer);
const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer) = {
    .sum = sum_blocks,
    .reduce = reduce,
    .clip = clip,
    .average = average,
    .are_finite = are_finite,
    .optimizer =
        {
#define OPTIMIZER(NAME, name, ...) [QKV_OPTIMIZER_##NAME] = &VARIANT(qkv_optimizer_, name),
#include "qkv/optimizers.def"
        },
};
