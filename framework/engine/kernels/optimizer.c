/* The loops that all optimizers share, and the table of the optimizers. */
#include "kernels/optimizer.h"

#include "core/exchange.h"
#include "kernels/kernel.h"

/* Numbers of the part of a range that `sum` and `reduce` finish before they begin the next: it stays in the
 * first-level cache. */
enum { PART = 2048 };

/* The sum of squares, in an order that does not depend on the instruction set: lane j adds the numbers j, j + LANES,
 * j + 2 LANES and so on; then the upper half of the lanes is added to the lower half, until one lane is left. */
static double squares_of(int64_t n, const real *restrict x)
{
    enum { LANES = 16 };
    double lane[LANES] = {0};
    int64_t full = n / LANES * LANES;
    for (int64_t i = 0; i < full; i += LANES)
#pragma omp simd
        for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
    for (int64_t i = full; i < n; i++) lane[i - full] += (double)x[i] * (double)x[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

static void add(int64_t n, const real *restrict from, real *restrict to)
{
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

static void sum(int64_t n, int count, void *const *blocks, int64_t offset)
{
    for (int64_t start = 0; start < n; start += PART) {
        int64_t length = n - start < PART ? n - start : PART;
        for (struct qkv_addition a = {0}; qkv_sum_tree_next(&a, count);)
            add(length, (const real *)blocks[a.from] + offset + start, (real *)blocks[a.to] + offset + start);
    }
}

static double reduce(int64_t n, int count, void *const *blocks, int64_t offset, double scale)
{
    const real factor = (real)scale;
    double squares = 0;
    for (int64_t start = 0; start < n; start += PART) {
        int64_t length = n - start < PART ? n - start : PART;
        real *restrict part = (real *)blocks[0] + offset + start;
        sum(length, count, blocks, offset + start);
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

#define OPTIMIZER(NAME, name, ...) extern const struct qkv_optimizer_kernel VARIANT(qkv_optimizer_, name);
#include "qkv/optimizers.def"

extern const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer);
const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer) = {sum,
                                                               reduce,
                                                               clip,
                                                               average,
                                                               {
#define OPTIMIZER(NAME, name, ...) [QKV_OPTIMIZER_##NAME] = &VARIANT(qkv_optimizer_, name),
#include "qkv/optimizers.def"
                                                               }};
