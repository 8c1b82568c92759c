/* exp, tanh and the logistic function without branches and calls, so that the compiler can
 * vectorise loops over them. In float32, exp(x) = 2^n exp(r) with |r| <= ln 2 / 2 and a polynomial
 * for exp(r) (Cody and Waite 1980); results are within 2 units in the last place of the C
 * library's. Float64 is used for checks, where speed does not matter, and calls the C library. */
#ifndef QKV_KERNELS_VECTOR_MATH_H
#define QKV_KERNELS_VECTOR_MATH_H

#include "kernels/vectors.h"

#ifdef QKV_KERNEL_IS_float32

static inline float fast_exp(float x)
{
    /* Outside these bounds, 2^n overflows or underflows: the result is infinity or 0. NaN cannot be
     * converted to an integer: the lower bound replaces it, and the last line restores it. */
    float above = x > -87.3f ? x : -87.3f;
    float limited = above < 88.72f ? above : 88.72f;
    const float round = 12582912.0f; /* 1.5 * 2^23: adding and subtracting it rounds to an integer */
    float n = (limited * 1.44269504f + round) - round;
    /* ln 2 as the difference of two constants, for more digits. */
    float r = (limited - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f +
              r * (1.0f +
                   r * (0.5f + r * (1.66666546e-1f +
                                    r * (4.16657962e-2f +
                                         r * (8.33345205e-3f + r * (1.39819994e-3f + r * 1.98756912e-4f))))));
    /* 2^n as a product of two powers: n = 128 alone would overflow, where p * 2^128 need not. */
    int32_t half = (int32_t)n / 2, rest = (int32_t)n - half;
    union {
        int32_t bits;
        float value;
    } a = {.bits = (half + 127) << 23}, b = {.bits = (rest + 127) << 23};
    float result = p * a.value * b.value;
    result = x < -87.3f ? 0.0f : result;
    result = x > 88.72f ? INFINITY : result;
    return x == x ? result : x; /* x, if x is NaN */
}

static inline float fast_tanh(float x)
{
    float magnitude = x < 0 ? -x : x;
    /* Near 0, 1 - 2 / (e^2x + 1) loses digits to cancellation. There, the continued fraction of
     * tanh, cut off after a few terms, is accurate to float32. */
    float s = x * x;
    float small = x * (135135.0f + s * (17325.0f + s * (378.0f + s))) /
                  (135135.0f + s * (62370.0f + s * (3150.0f + s * 28.0f)));
    float large = 1.0f - 2.0f / (fast_exp(2.0f * magnitude) + 1.0f);
    large = x < 0 ? -large : large;
    return magnitude < 0.6f ? small : large;
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

/* 1 / (1 + e^-x) */
static inline real fast_sigmoid(real x)
{
    return 1 / (1 + fast_exp(-x));
}

#endif
