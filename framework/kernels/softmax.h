/* Softmax of one contiguous row, shared by the softmax ops, attention and the loss. */
#ifndef QKV_KERNELS_SOFTMAX_H
#define QKV_KERNELS_SOFTMAX_H

#include "kernels/vector_math.h"

static inline real row_maximum(int64_t n, const real *restrict x)
{
    real most = x[0];
#pragma omp simd reduction(max : most)
    for (int64_t i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* to = exp(from - shift); returns the sum. `from` and `to` may be the same. */
static inline real row_exp(int64_t n, const real *from, real shift, real *to)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        to[i] = fast_exp(from[i] - shift);
        sum += to[i];
    }
    return sum;
}

/* to = softmax(from); `from` and `to` may be the same. n > 0. */
static inline void row_softmax(int64_t n, const real *from, real *to)
{
    real inverse = 1 / row_exp(n, from, row_maximum(n, from), to);
    for (int64_t i = 0; i < n; i++) to[i] *= inverse;
}

static inline real row_dot(int64_t n, const real *restrict a, const real *restrict b)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static inline real row_sum(int64_t n, const real *restrict x)
{
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

#endif
