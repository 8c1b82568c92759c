/* Every kernels/optimizer_<name>.c includes this file. An optimizer is one such file:
 *
 *     static void name_prepare(struct qkv_update *update, double learning_rate, int64_t t)
 *     static void name_update(int64_t n, const struct qkv_update *update, const void *gradient,
 *                             void *const *moments, void *values)
 *     OPTIMIZER_KERNEL(name, .prepare = RULE(name_prepare), .update = name_update);
 *
 * and one row in qkv/optimizers.def. */
#ifndef QKV_KERNELS_OPTIMIZER_LOOP_H
#define QKV_KERNELS_OPTIMIZER_LOOP_H

#include "kernels/kernel.h"
#include "kernels/optimizer.h"

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

#endif
