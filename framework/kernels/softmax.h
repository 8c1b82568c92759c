/* Reductions and softmax of one contiguous row of n numbers, for the softmax ops, attention and the
 * loss. Each sum has a fixed order, so that results do not depend on the number of threads. */
#ifndef QKV_KERNELS_SOFTMAX_H
#define QKV_KERNELS_SOFTMAX_H

#include "kernels/vector_math.h"

#define row_maximum VARIANT(qkv_, row_maximum)
#define row_sum     VARIANT(qkv_, row_sum)
#define row_dot     VARIANT(qkv_, row_dot)
#define row_exp     VARIANT(qkv_, row_exp)

real row_maximum(int64_t n, const real *x); /* n > 0 */
real row_sum(int64_t n, const real *x);
real row_dot(int64_t n, const real *a, const real *b);

/* to [n] = exp(from - shift); returns the sum of `to`. `from` and `to` may be the same. */
real row_exp(int64_t n, const real *from, real shift, real *to);

/* to [n] = softmax(from); `from` and `to` may be the same. n > 0. */
static inline void row_softmax(int64_t n, const real *from, real *to)
{
    real inverse = 1 / row_exp(n, from, row_maximum(n, from), to);
    for (int64_t i = 0; i < n; i++) to[i] *= inverse;
}

#endif
