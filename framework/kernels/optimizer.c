/* The optimizer's loops. Not ops: they work on the flat block, outside of any graph. */
#include "kernels/optimizer.h"

#include "kernels/kernel.h"

#include <float.h>

#ifdef QKV_KERNEL_IS_float32
#    define SMALLEST_NORMAL FLT_MIN
#else
#    define SMALLEST_NORMAL DBL_MIN
#endif

/* Shards are added piece by piece, so that the sums stay in the first-level cache meanwhile. */
enum { PIECE = 2048 };

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

static double gather(int64_t n, void *sum, int others, void *const *blocks, int64_t offset, double scale)
{
    const real factor = (real)scale;
    double squares = 0;
    for (int64_t start = 0; start < n; start += PIECE) {
        int64_t count = n - start < PIECE ? n - start : PIECE;
        real *restrict piece = (real *)sum + start;
        for (int b = 0; b < others; b++) add(count, (const real *)blocks[b] + offset + start, piece);
        for (int64_t i = 0; i < count; i++) piece[i] *= factor;
        squares += squares_of(count, piece);
    }
    return squares;
}

static double clip(int64_t n, void *gradient, double limit)
{
    real *restrict g = gradient;
    const real most = (real)limit;
    for (int64_t i = 0; i < n; i++) {
        real low = g[i] < -most ? -most : g[i];
        g[i] = low > most ? most : low;
    }
    return squares_of(n, g);
}

/* Subnormal numbers cost a detour of the processor of a hundred cycles each. */
static inline real without_subnormal(real x)
{
    return REAL(fabs)(x) < SMALLEST_NORMAL ? 0 : x;
}

static void adam(int64_t n, const struct qkv_update *update, const void *gradient, void *first, void *second,
                 void *values)
{
    const real *restrict g = gradient;
    real *restrict m = first, *restrict v = second, *restrict theta = values;
    const real factor = (real)update->clip, decay = (real)update->decay, keep = (real)update->keep;
    const real beta1 = (real)update->betas[0], rest1 = (real)(1 - update->betas[0]);
    const real beta2 = (real)update->betas[1], rest2 = (real)(1 - update->betas[1]);
    const real rate = (real)update->rate, root = (real)update->root, epsilon = (real)update->epsilon;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real slope = g[i] * factor + decay * theta[i];
        m[i] = without_subnormal(beta1 * m[i] + rest1 * slope);
        v[i] = without_subnormal(beta2 * v[i] + rest2 * slope * slope);
        theta[i] = keep * theta[i] - rate * m[i] / (REAL(sqrt)(v[i]) * root + epsilon);
    }
}

static void sgd(int64_t n, const struct qkv_update *update, const void *gradient, void *first, void *values)
{
    const real *restrict g = gradient;
    real *restrict m = first, *restrict theta = values;
    const real factor = (real)update->clip, decay = (real)update->decay;
    const real momentum = (real)update->momentum, rate = (real)update->rate;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real slope = g[i] * factor + decay * theta[i];
        m[i] = without_subnormal(momentum * m[i] + slope);
        theta[i] -= rate * m[i];
    }
}

extern const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer);
const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer) = {gather, clip, adam, sgd};
