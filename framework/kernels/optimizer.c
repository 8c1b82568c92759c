/* The loops that all optimizers share, and the table of the optimizers. */
#include "kernels/optimizer.h"

#include "kernels/kernel.h"

/* Numbers of the part of a range that `reduce` finishes before it begins the next: it stays in the
 * first-level cache. */
enum { PART = 2048 };

static double squares_of(int64_t n, const real *restrict x)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

static void add(int64_t n, const real *restrict from, real *restrict to)
{
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

static double reduce(int64_t n, void *sum, int count, void *const *blocks, int64_t offset, double scale)
{
    const real factor = (real)scale;
    double squares = 0;
    for (int64_t start = 0; start < n; start += PART) {
        int64_t length = n - start < PART ? n - start : PART;
        real *restrict part = (real *)sum + start;
        for (int b = 0; b < count; b++) add(length, (const real *)blocks[b] + offset + start, part);
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

#define OPTIMIZER(NAME, name, ...) extern const struct qkv_optimizer_kernel VARIANT(qkv_optimizer_, name);
#include "qkv/optimizers.def"

extern const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer);
const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer) = {reduce,
                                                               clip,
                                                               {
#define OPTIMIZER(NAME, name, ...) [QKV_OPTIMIZER_##NAME] = &VARIANT(qkv_optimizer_, name),
#include "qkv/optimizers.def"
                                                               }};
