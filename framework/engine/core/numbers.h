/* Functions of single numbers that have the same bits on every processor, narrow numbers, and random numbers. */
#pragma once

#include "qkv/base.h"

/* ---- exp, log, sin and others, in double precision ----
 *
 * A C library may choose among several versions of such a function depending on the processor, and their results may differ
 * in the last bit; one different bit in an initial value or a learning rate leads to a different trained network. These
 * functions consist of additions, subtractions, multiplications and divisions, which IEEE 754 defines to the last bit, and
 * of integer operations, in an order that no compiler may change (-ffp-contract=off, no -ffast-math). They assume the
 * default floating-point environment: results are rounded to nearest, and subnormal numbers are not flushed to zero.
 *
 * Errors were measured against mpmath with 60 digits over millions of arguments. A unit is the distance of two neighbouring
 * doubles at the result (unit in the last place); results below the smallest normal number may be wrong by one more such
 * unit. NaN gives NaN. Nothing sets errno.
 *
 * Methods: argument reduction as in Cody and Waite 1980, "Software manual for the elementary functions"; large arguments of
 * sin and cos as in Payne and Hanek 1983, "Radian reduction for trigonometric functions"; Taylor series; sums of two
 * doubles where more precision than that of one is needed (Dekker 1971, "A floating-point technique for extending the
 * available precision"). See also Muller 2016, "Elementary functions". */

/* e^x, wrong by at most 0.55 units. Infinity above 709.78, 0 below -745.13. */
double qkv_scalar_exp(double x);

/* 2^x, wrong by at most 0.55 units; exact for integers. Infinity from 1024, 0 below -1075. */
double qkv_scalar_exp2(double x);

/* The natural logarithm, wrong by at most 0.51 units. -infinity for 0, NaN for negative numbers. */
double qkv_scalar_log(double x);

/* The logarithm to base 10, wrong by at most 0.51 units; exact for powers of ten. Otherwise as qkv_scalar_log. */
double qkv_scalar_log10(double x);

/* base^exponent, wrong by at most 0.7 units; exact where the result is a double. Infinities, zeros, negative bases and
 * NaN as in pow of C11, Annex F: x^0 and 1^y are 1 even for NaN, and a negative base needs an integer exponent, or the
 * result is NaN. */
double qkv_scalar_power(double base, double exponent);

/* Sine and cosine of x radians, wrong by at most 0.85 units for all finite x. NaN for infinity. */
double qkv_scalar_sin(double x);
double qkv_scalar_cos(double x);

/* The hyperbolic tangent, wrong by at most 0.6 units. */
double qkv_scalar_tanh(double x);

/* The complementary error function 2 / sqrt(pi) times the integral of exp(-t^2) from x to infinity, wrong by at most 1.6
 * units (Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity"). */
double qkv_scalar_erfc(double x);

/* ---- half precision: IEEE 754 binary16, 1 sign bit, 5 bits of exponent, 10 of fraction; only a storage format ---- */

/* Rounds to the nearest number of half precision, ties to even. Infinite from 65520 on. */
uint16_t qkv_half_of(float x);

/* Exact: float32 holds every number of half precision. */
float qkv_half_value(uint16_t half);

/* ---- int8 numbers with a scale: each represents the value number * scale ---- */

/* The largest int8 number that is used: the range is symmetric. */
enum { QKV_INT8_MAX = 127 };

/* The scale of x[0], x[step], ..., x[(count - 1) * step]: their largest absolute value / 127, rounded up to 17 significant
 * bits. So int8 numbers times a scale are exact in float32, and quantising these products again gives the same scale and
 * numbers. 0 if all numbers are nearly 0. */
float qkv_int8_scale(int64_t count, const float *x, int64_t step);

/* The int8 number nearest to x / scale; 0 where scale is 0. */
int8_t qkv_int8_of(float x, float scale);

/* Compares two doubles, for qsort: ascending. */
static inline int qkv_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- more random numbers (qkv/base.h) ---- */

/* Block `index` of the generator: four independent uniform 32-bit words. */
void qkv_random_block(struct qkv_random random, uint64_t index, uint32_t block[4]);

/* Element i of a random permutation of 0 .. count - 1: a keyed bijection of i, which needs no memory and no other element.
 * Requires i < count <= 2^63; returns i otherwise. Computes 16 blocks of the generator on average, more if `count` is below
 * 256; qkv_random_shuffle is faster if all elements are needed and fit in memory. */
uint64_t qkv_random_permuted(struct qkv_random random, uint64_t count, uint64_t i);

/* Shuffles `order` in place (Fisher and Yates). */
void qkv_random_shuffle(struct qkv_random random, int64_t count, int64_t *order);

/* The generator, inline for kernels that draw millions of numbers (dropout). */
/* Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). */
enum { QKV_PHILOX_ROUNDS = 10 };
static const uint32_t QKV_PHILOX_FACTOR0 = 0xD2511F53u, QKV_PHILOX_FACTOR1 = 0xCD9E8D57u,
                      QKV_PHILOX_STEP0 = 0x9E3779B9u, QKV_PHILOX_STEP1 = 0xBB67AE85u;

/* Counter (4 words) and key (2 words) to 4 random words. */
static inline void qkv_philox(uint32_t counter[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < QKV_PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)QKV_PHILOX_FACTOR0 * counter[0];
        uint64_t product1 = (uint64_t)QKV_PHILOX_FACTOR1 * counter[2];
        uint32_t next0 = (uint32_t)(product1 >> 32) ^ counter[1] ^ key0;
        uint32_t next2 = (uint32_t)(product0 >> 32) ^ counter[3] ^ key1;
        counter[1] = (uint32_t)product1;
        counter[3] = (uint32_t)product0;
        counter[0] = next0;
        counter[2] = next2;
        key0 += QKV_PHILOX_STEP0;
        key1 += QKV_PHILOX_STEP1;
    }
}
