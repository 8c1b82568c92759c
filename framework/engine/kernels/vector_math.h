/* exp, log, tanh, the logistic function and the normal distribution function without branches and calls, so that the
 * compiler can vectorise loops over them. The float32 versions do not use the C library, whose results differ between
 * processors. Float64 is used for checks, where speed does not matter, and calls core/numbers.h. */
#ifndef QKV_KERNELS_VECTOR_MATH_H
#define QKV_KERNELS_VECTOR_MATH_H

#include "kernels/vectors.h"

#include "core/numbers.h"

#ifdef QKV_KERNEL_IS_float32

/* exp(r) for |r| <= ln 2 / 2. */
static inline float exp_polynomial(float r)
{
    float p = fused(r, 1.98756912e-4f, 1.39819994e-3f);
    p = fused(r, p, 8.33345205e-3f);
    p = fused(r, p, 4.16657962e-2f);
    p = fused(r, p, 1.66666546e-1f);
    p = fused(r, p, 0.5f);
    p = fused(r, p, 1.0f);
    return fused(r, p, 1.0f);
}

/* exp(x) = 2^n exp(r) with |r| <= ln 2 / 2 and a polynomial for exp(r) (Cody and Waite 1980). Within 2 units in the last
 * place. */
static inline float fast_exp(float x)
{
    /* Outside these bounds, 2^n overflows or underflows: the result is infinity or 0. NaN cannot be
     * converted to an integer: the lower bound replaces it, and the last line restores it. */
    float above = x > -87.3f ? x : -87.3f;
    float limited = above < 88.72f ? above : 88.72f;
    const float round = 12582912.0f; /* 1.5 * 2^23: adding and subtracting it rounds to an integer */
    float n = fused(limited, 1.44269504f, round) - round;
    /* ln 2 as the difference of two constants, for more digits. */
    float r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, limited));
    float p = exp_polynomial(r);
    /* 2^n as a product of two powers, because 2^128 alone would overflow although p * 2^128 need not. */
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

/* exp(x) for x <= 0 or NaN: the bits of fast_exp, in two thirds of its operations. Adding n to the exponent of exp(r)
 * multiplies by 2^n, because the result is a normal number; for x > 0 it might not be one. */
static inline float fast_exp_nonpositive(float x)
{
    float limited = x > -87.3f ? x : -87.3f;
    const float round = 12582912.0f;
    union {
        float value;
        uint32_t bits;
    } shifted = {fused(limited, 1.44269504f, round)}, power;
    float n = shifted.value - round;
    float r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, limited));
    power.value = exp_polynomial(r);
    power.bits += shifted.bits << 23; /* the lowest bits of `shifted` are n */
    float result = x < -87.3f ? 0.0f : power.value;
    return x == x ? result : x;
}

/* log(x) = n ln 2 + log(m) with 1/sqrt(2) <= m < sqrt(2), and log(m) = 2 artanh(s) with s = (m - 1) / (m + 1), by its
 * series. Within 2 units in the last place. */
static inline float fast_log(float x)
{
    union {
        float value;
        uint32_t bits;                                 /* unsigned: those of a negative x would overflow */
    } m = {x < 1.17549435e-38f ? x * 8388608.0f : x};  /* a subnormal number has no leading 1: times 2^23 */
    int32_t n = (int32_t)(m.bits - 0x3F3504F3u) >> 23; /* 0x3F3504F3: 1/sqrt(2) */
    m.bits -= (uint32_t)n << 23;
    float exponent = (float)n - (x < 1.17549435e-38f ? 23.0f : 0.0f);
    float s = (m.value - 1) / (m.value + 1), z = s * s;
    float p = fused(z, 2.0f / 11, 2.0f / 9);
    p = fused(z, p, 2.0f / 7);
    p = fused(z, p, 2.0f / 5);
    p = fused(z, p, 2.0f / 3);
    float result = fused(exponent, 0.693359375f, fused(exponent, -2.12194440e-4f, fused(s * z, p, 2 * s)));
    result = x > 0 ? result : x < 0 ? NAN : -INFINITY;
    return x < INFINITY ? result : x; /* infinity and NaN */
}

/* Near 0, 1 - 2 / (e^2x + 1) loses digits to cancellation. There, the continued fraction of tanh, cut off after a few
 * terms, is accurate to float32. */
static inline float fast_tanh(float x)
{
    float magnitude = x < 0 ? -x : x;
    float s = x * x;
    float above = fused(s, fused(s, s + 378.0f, 17325.0f), 135135.0f);
    float below = fused(s, fused(s, fused(s, 28.0f, 3150.0f), 62370.0f), 135135.0f);
    float small = x * above / below;
    float large = 1.0f - 2.0f / (fast_exp(2.0f * magnitude) + 1.0f);
    large = x < 0 ? -large : large;
    return magnitude < 0.6f ? small : large;
}

/* The distribution function of the standard normal distribution, Phi(x) = erfc(-x / sqrt 2) / 2. For z >= 0,
 * (1 + 2 z) e^(z^2) erfc(z) is a polynomial in t = (z - 3) / (z + 3) (the form of Shepherd and Laframboise 1981;
 * interpolated at Chebyshev nodes up to z = 10.2, relative error 3e-9). Within 6 units in the last place. */
static inline float normal_cdf(float x)
{
    float magnitude = x < 0 ? -x : x;
    magnitude = magnitude < 14.4f ? magnitude : 14.4f;
    float z = magnitude * 0.707106781f;
    float t = (z - 3) / (z + 3), p = -0.0002763902556f;
    p = fused(t, p, -0.0007957492334f);
    p = fused(t, p, 0.00199637574f);
    p = fused(t, p, 0.002578845361f);
    p = fused(t, p, -0.02379134803f);
    p = fused(t, p, 0.06829336743f);
    p = fused(t, p, -0.1192724743f);
    p = fused(t, p, 0.1296466124f);
    p = fused(t, p, -0.04756228937f);
    p = fused(t, p, -0.1356211448f);
    p = fused(t, p, 1.253008058f);
    float square = magnitude * magnitude,
          lost = fused(magnitude, magnitude, -square); /* 2 z^2 = square + lost */
    float half = 0.5f * p * fast_exp(-0.5f * square) * (1 - 0.5f * lost) / fused(2, z, 1);
    float result = x < 0 ? half : 1 - half;
    return x == x ? result : x;
}

#else

static inline double fast_exp(double x)
{
    return qkv_scalar_exp(x);
}

static inline double fast_exp_nonpositive(double x)
{
    return qkv_scalar_exp(x);
}

static inline double fast_log(double x)
{
    return qkv_scalar_log(x);
}

static inline double fast_tanh(double x)
{
    return qkv_scalar_tanh(x);
}

/* For negative x, erfc keeps the digits that 1 + erf loses. */
static inline double normal_cdf(double x)
{
    return 0.5 * qkv_scalar_erfc(x * -0.70710678118654752440);
}

#endif

/* 1 / (1 + e^-x) */
static inline real fast_sigmoid(real x)
{
    return 1 / (1 + fast_exp(-x));
}

#endif
