/* exp, tanh and the logistic function in a form that the compiler vectorises: without branches and calls.
 * Float32 follows the usual reduction (Cody and Waite 1980): exp(x) = 2^n exp(r), |r| <= ln 2 / 2, with a
 * polynomial for exp(r); within 2 units in the last place of the C library. Float64 is for checking, not
 * for speed, and calls the library. */
#ifndef QKV_KERNELS_VECTOR_MATH_H
#define QKV_KERNELS_VECTOR_MATH_H

#include "kernels/vectors.h"

#ifdef QKV_KERNEL_IS_float32

static inline float fast_exp(float x)
{
    /* Outside these bounds, 2^n leaves the range of the exponent: the results are 0 and infinity. NaN,
     * which cannot become an integer, is replaced by the lower bound until the end. */
    float above = x > -87.3f ? x : -87.3f;
    float limited = above < 88.72f ? above : 88.72f;
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float n = (limited * 1.44269504f + round) - round;
    float r = (limited - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.0f +
              r * (1.0f +
                   r * (0.5f + r * (1.66666546e-1f +
                                    r * (4.16657962e-2f +
                                         r * (8.33345205e-3f + r * (1.39819994e-3f + r * 1.98756912e-4f))))));
    /* 2^n in two factors, so that n = 128 does not overflow before the product. */
    int32_t half = (int32_t)n / 2, rest = (int32_t)n - half;
    union {
        int32_t bits;
        float value;
    } a = {.bits = (half + 127) << 23}, b = {.bits = (rest + 127) << 23};
    float result = p * a.value * b.value;
    result = x < -87.3f ? 0.0f : result;
    result = x > 88.72f ? INFINITY : result;
    return x == x ? result : x; /* NaN gives NaN */
}

static inline float fast_tanh(float x)
{
    float size = x < 0 ? -x : x;
    /* Near 0 the quotient below would cancel; there the odd series of the continued fraction is exact
     * enough. */
    float s = x * x;
    float small = x * (135135.0f + s * (17325.0f + s * (378.0f + s))) /
                  (135135.0f + s * (62370.0f + s * (3150.0f + s * 28.0f)));
    float large = 1.0f - 2.0f / (fast_exp(2.0f * size) + 1.0f);
    large = x < 0 ? -large : large;
    return size < 0.6f ? small : large;
}

#else

static inline double fast_exp(double x)
{
    return exp(x);
}

static inline double fast_tanh(double x)
{
    return tanh(x);
}

#endif

static inline real fast_sigmoid(real x)
{
    return 1 / (1 + fast_exp(-x));
}

#endif
