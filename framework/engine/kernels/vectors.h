/* Vector types and the operations on them that plain C lacks, in the vector extensions of GCC and
 * Clang. `vector` has LANES lanes, the width of the variant's instruction set. A load or store may be unaligned.
 *
 * Every variant computes the same bits in float32: products are added by `fused`, with one rounding, and sums keep
 * SUM_LANES lanes whatever the width (see below). No other multiplication and addition are fused (-ffp-contract=off). */
#pragma once

#include "core/numbers.h"
#include "kernels/kernel.h"

#if defined(__AVX2__)
#    include <immintrin.h>
#elif defined(__aarch64__)
#    include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

enum { LANES = VECTOR_BYTES / sizeof(real) };

typedef real vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

static inline vector load(const real *from)
{
    return *(const vector *)from;
}

static inline void store(real *to, vector x)
{
    *(vector *)to = x;
}

/* ---- a b + c, rounded once (in float64, which has only the portable variant, in WebAssembly and for valgrind: twice) ---- */

/* WebAssembly has no such instruction, and emulating it would take most of the run time of a page: there, results are close
 * to those of other processors, but not bit-identical. The preset `valgrind` defines QKV_ROUND_TWICE for the same
 * reason. */
#if defined(__wasm__) || defined(QKV_ROUND_TWICE) || !defined(QKV_KERNEL_IS_float32)
#    define HAVE_NO_FUSED
#endif

#ifdef HAVE_NO_FUSED
static inline real fused(real a, real b, real c)
{
    return a * b + c;
}
#elif defined(__FMA__) || defined(__aarch64__)
static inline real fused(real a, real b, real c)
{
    return __builtin_fmaf(a, b, c);
}
#else
/* For processors without the instruction: correctly rounded, but slow. The product of two float32 numbers is exact in
 * float64. The sum of it and c is rounded to odd there: if it is inexact, its last bit becomes 1. Rounding this sum to
 * float32 gives the same result as rounding the exact sum (Boldo and Melquiond 2008, "Emulation of FMA and correctly
 * rounded sums"). The error of the sum: Knuth's 2Sum. */
typedef double wide __attribute__((vector_size(LANES * sizeof(double))));
typedef int64_t wide_bits __attribute__((vector_size(LANES * sizeof(int64_t))));

static inline vector emulated_fused(vector a, vector b, vector c)
{
    wide product = __builtin_convertvector(a, wide) * __builtin_convertvector(b, wide),
         addend = __builtin_convertvector(c, wide), sum = product + addend, second = sum - product,
         error = (product - (sum - second)) + (addend - second);
    wide_bits inexact = (error > 0) | (error < 0); /* neither for NaN, where the sum is infinite or NaN */
    wide_bits bits = (wide_bits)sum, even = (bits & 1) - 1, step = ((error > 0) ^ (sum > 0)) | 1;
    return __builtin_convertvector((wide)(bits + (inexact & even & step)), vector);
}

static inline real fused(real a, real b, real c)
{
    return emulated_fused((vector){a}, (vector){b}, (vector){c})[0];
}
#endif

static inline vector vector_fused(vector a, vector b, vector c)
{
#ifdef HAVE_NO_FUSED
    return a * b + c;
#elif defined(__AVX512F__)
    return (vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return emulated_fused(a, b, c);
#endif
}

/* All lanes x. */
static inline vector all_lanes(real x)
{
    return x - (vector){0}; /* 0 + x would have to change -0 */
}

#if defined(__has_builtin)
#    if __has_builtin(__builtin_shufflevector)
#        define HAVE_SHUFFLE
#    endif
#endif

/* Interleaves the first halves of two vectors, a0 b0 a1 b1 ..., or their second halves. */
static inline vector zip(vector a, vector b, bool second)
{
#ifdef HAVE_SHUFFLE
    switch ((int)LANES) {
#    if defined(__AVX512F__) && defined(QKV_KERNEL_IS_float32)
    case 16:
        return second ? __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                                                15, 31)
                      : __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#    elif defined(__AVX512F__) || (defined(__AVX2__) && defined(QKV_KERNEL_IS_float32))
    case 8:
        return second ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                      : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#    elif defined(__AVX2__) || defined(QKV_KERNEL_IS_float32)
    case 4:
        return second ? __builtin_shufflevector(a, b, 2, 6, 3, 7) : __builtin_shufflevector(a, b, 0, 4, 1, 5);
#    else
    case 2:
        return second ? __builtin_shufflevector(a, b, 1, 3) : __builtin_shufflevector(a, b, 0, 2);
#    endif
    default:
        break;
    }
#endif
    vector zipped;
    for (int i = 0; i < LANES; i++) zipped[i] = (i % 2 ? b : a)[i / 2 + (second ? LANES / 2 : 0)];
    return zipped;
}

/* to [LANES, LANES] = the transpose of from [rows, LANES]; rows from LANES on are ignored, missing
 * rows count as zeros. ld and to_ld are the strides of rows. Each round interleaves row i with row
 * i + LANES / 2; log2(LANES) rounds transpose the block. */
static inline void transpose_block(int64_t rows, const real *from, int64_t ld, real *to, int64_t to_ld)
{
    vector x[LANES], y[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) x[i] = i < rows ? load(from + i * ld) : (vector){0};
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = zip(x[i], x[i + LANES / 2], false);
            y[2 * i + 1] = zip(x[i], x[i + LANES / 2], true);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) store(to + i * to_ld, x[i]);
}

/* Lane i of the result is the sum of all lanes of x[i]; x is overwritten. Each round interleaves
 * the halves of two vectors and adds them. Reducing the vectors one by one would cost, for each of
 * them, the time in which 250 numbers are summed in vectors (measured with AVX-512). */
static inline vector sums_of_vectors(vector x[LANES])
{
#define HALVE(half) /* unrolled by hand: in nested loops, GCC keeps x in memory */                           \
    _Pragma("GCC unroll 8") for (int i = 0; half < LANES && i < half; i++) x[i] =                            \
        zip(x[i], x[i + half], false) + zip(x[i], x[i + half], true);
    HALVE(8)
    HALVE(4)
    HALVE(2)
    HALVE(1)
#undef HALVE
    return x[0];
}

/* The greater of a[i] and b[i] in each lane. */
static inline vector vector_max(vector a, vector b)
{
    vector greater;
    for (int i = 0; i < LANES; i++) greater[i] = b[i] > a[i] ? b[i] : a[i];
    return greater;
}

/* Rotates the lanes: lane i of the result is lane (i + by) % LANES of x. One instruction in float32 for `by` = 4, and with
 * AVX-512 for `by` = 8; otherwise slow. */
static inline vector rotated(vector x, int by)
{
#if defined(HAVE_SHUFFLE) && defined(QKV_KERNEL_IS_float32) && defined(__AVX512F__)
    if (by == 4) return __builtin_shufflevector(x, x, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3);
    if (by == 8) return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
#elif defined(HAVE_SHUFFLE) && defined(QKV_KERNEL_IS_float32) && defined(__AVX2__)
    if (by == 4) return __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
#endif
    vector y;
    for (int i = 0; i < LANES; i++) y[i] = x[(i + by) % LANES];
    return y;
}

/* ---- sums of SUM_LANES lanes ---- */

/* A sum of many numbers is kept in SUM_LANES lanes: lane i sums the numbers i, i + SUM_LANES, ... It takes SUM_PARTS
 * vectors; the same lanes, and the same bits, for every width of vectors. */
enum { SUM_LANES = 16, SUM_PARTS = SUM_LANES / LANES };

/* The first n numbers (n may be negative, or more than LANES), followed by zeros. */
static inline vector load_first(int64_t n, const real *from)
{
    if (n >= (int64_t)LANES) return load(from);
#if defined(QKV_KERNEL_IS_float32) && defined(__AVX512F__)
    return (vector)_mm512_maskz_loadu_ps((__mmask16)(n > 0 ? (1u << n) - 1 : 0), from);
#elif defined(QKV_KERNEL_IS_float32) && defined(__AVX2__)
    __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    int used = n > 0 ? (int)n : 0;
    return (vector)_mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(used), lane));
#else
    vector x = {0};
    for (int i = 0; i < n; i++) x[i] = from[i];
    return x;
#endif
}

/* Adds the lanes by halves, lane i and lane i + SUM_LANES / 2, and so on, until one vector is left. */
static inline vector sum_of_parts(vector x[SUM_PARTS])
{
#pragma GCC unroll 4
    for (int half = SUM_PARTS / 2; half > 0; half /= 2)
#pragma GCC unroll 4
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

/* The sum of all lanes, by halves: lane i + lane i + 8, then + 4, + 2, + 1. */
static inline real sum_of_lanes(vector x[SUM_PARTS])
{
    vector sum = sum_of_parts(x);
#pragma GCC unroll 4
    for (int by = LANES / 2; by >= 4; by /= 2) sum += rotated(sum, by);
    return LANES == 2 ? sum[0] + sum[1] : (sum[0] + sum[2 % LANES]) + (sum[1] + sum[3 % LANES]);
}

/* exp, log, tanh, the logistic function and the normal distribution function without branches and calls, so that the
 * compiler can vectorise loops over them. The float32 versions do not use the C library, whose results differ between
 * processors. Float64 is used for checks, where speed does not matter, and calls core/numbers.h. */

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
 * place, those of subnormal numbers included. */
static inline float fast_exp(float x)
{
    /* At these bounds the result is 0 or infinity. NaN cannot be converted to an integer: the lower bound replaces it, and
     * the last line restores it. */
    float above = x > -104.0f ? x : -104.0f;
    float limited = above < 89.0f ? above : 89.0f;
    const float round = 12582912.0f; /* 1.5 * 2^23: adding and subtracting it rounds to an integer */
    float n = fused(limited, 1.44269504f, round) - round;
    /* ln 2 as the difference of two constants, for more digits. */
    float r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, limited));
    float p = exp_polynomial(r);
    /* 2^n as a product of two powers, because 2^128 and 2^-150 alone would overflow although their products with p need
     * not. */
    int32_t half = (int32_t)n / 2, rest = (int32_t)n - half;
    union {
        int32_t bits;
        float value;
    } a = {.bits = (half + 127) << 23}, b = {.bits = (rest + 127) << 23};
    float result = p * a.value * b.value;
    return x == x ? result : x; /* x, if x is NaN */
}

/* exp(x) for x <= 0 or NaN, as softmax needs it: the bits of fast_exp in two thirds of its operations, but 0 in place of
 * subnormal numbers, with which processors compute slowly. Adding n to the exponent of exp(r) multiplies by 2^n, because the
 * result is a normal number; for x > 0 it might not be one. */
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
static inline __attribute__((always_inline)) float normal_cdf(float x)
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

#    define fast_exp             qkv_scalar_exp
#    define fast_exp_nonpositive qkv_scalar_exp
#    define fast_log             qkv_scalar_log
#    define fast_tanh            qkv_scalar_tanh

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

/* Sums, maxima and softmax of a contiguous row of n numbers, and sums of the columns of a matrix.
 *
 * Each function adds in one order, which depends on n alone: not on the instruction set and not on the number of threads.
 * The sum of a row is kept in SUM_LANES lanes, or, from 4 SUM_LANES numbers on, in four such groups, of which
 * group g has the numbers 16 g .. 16 g + 15 of every 64. The groups are added as (0 + 1) + (2 + 3), then the
 * lanes by halves (vectors.h). The sum of a column is the sum of the sums of SUM_ROWS rows each; in WIDE_ROWS rows or more
 * it is a running sum in double. */

#define row_maximum          VARIANT(qkv_, row_maximum)
#define row_sum              VARIANT(qkv_, row_sum)
#define row_sum_above        VARIANT(qkv_, row_sum_above)
#define row_dot              VARIANT(qkv_, row_dot)
#define row_squares          VARIANT(qkv_, row_squares)
#define row_moment           VARIANT(qkv_, row_moment)
#define row_exp              VARIANT(qkv_, row_exp)
#define row_exp_sum          VARIANT(qkv_, row_exp_sum)
#define add_column_sums      VARIANT(qkv_, add_column_sums)
#define add_wide_column_sums VARIANT(qkv_, add_wide_column_sums)

real row_maximum(int64_t n, const real *x); /* n > 0 */
real row_sum(int64_t n, const real *x);
real row_sum_above(int64_t n, const real *x, real shift); /* the sum of x - shift */
real row_dot(int64_t n, const real *a, const real *b);

/* The sum of (x - mean)^2. */
real row_squares(int64_t n, const real *x, real mean);

/* The sum of a b (x - mean). */
real row_moment(int64_t n, const real *a, const real *b, const real *x, real mean);

/* to [n] = exp(from - shift), where no number of `from` is above `shift`; returns the sum of `to`. `from` and `to` may be the
 * same. */
real row_exp(int64_t n, const real *from, real shift, real *to);

/* The sum of exp(x - shift), where no number is above `shift`: the sums of 256 numbers each, one after the other. */
real row_exp_sum(int64_t n, const real *x, real shift);

/* to [n] = softmax(from); `from` and `to` may be the same. n > 0. */
static inline void row_softmax(int64_t n, const real *from, real *to)
{
    real inverse = 1 / row_exp(n, from, row_maximum(n, from), to);
    for (int64_t i = 0; i < n; i++) to[i] *= inverse;
}

/* Rows that are added one by one. A running sum of millions of rows would lose precision: once it is large, each added
 * number is rounded to the last digits of the sum. */
enum { SUM_ROWS = 256, WIDE_ROWS = 1 << 16 };

/* to [columns] += the sum of the rows of x [rows, columns]. ld: numbers from one row to the next. */
void add_column_sums(int64_t rows, int64_t columns, const real *x, int64_t ld, real *to);

/* A sum in the workspace, which is aligned to a real. */
typedef double wide_sum __attribute__((aligned(sizeof(real)), may_alias));

/* The same in double, whatever the number of rows. */
void add_wide_column_sums(int64_t rows, int64_t columns, const real *x, int64_t ld, wide_sum *to);

/* to [columns] += the sum over `rows` rows of a (b - shift) r, row by row: this is row i. sum: workspace for 2 columns
 * numbers, which is not touched between the rows. */
static inline void add_product_row(int64_t i, int64_t rows, int64_t columns, const real *restrict a,
                                   const real *restrict b, real shift, real r, real *restrict sum,
                                   real *restrict to)
{
    bool is_last = i == rows - 1;
    if (rows >= WIDE_ROWS) {
        wide_sum *restrict total = (wide_sum *)sum;
        for (int64_t j = 0; i == 0 && j < columns; j++) total[j] = 0;
        for (int64_t j = 0; j < columns; j++) total[j] += (double)(a[j] * (b[j] - shift) * r);
        for (int64_t j = 0; is_last && j < columns; j++) to[j] += (real)total[j];
        return;
    }
    if (i % SUM_ROWS == 0) memset(sum, 0, (size_t)columns * sizeof(real));
    for (int64_t j = 0; j < columns; j++) sum[j] += a[j] * (b[j] - shift) * r;
    if (i % SUM_ROWS == SUM_ROWS - 1 || is_last) accumulate(columns, 1, sum, to);
}
