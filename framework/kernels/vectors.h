/* Vector types and the operations on them that plain C lacks, in the vector extensions of GCC and
 * Clang. `vector` has the width of the variant's instruction set; vector4, vector8 and vector16
 * have 4, 8 and 16 lanes on every machine. A load or store may be unaligned. */
#ifndef QKV_KERNELS_VECTORS_H
#define QKV_KERNELS_VECTORS_H

#include "kernels/kernel.h"

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

/* Rotates the lanes: lane i of the result is lane (i + by) % LANES of x. One instruction in float32 for `by` = 4,
 * and with AVX-512 for `by` = 8; else slow. */
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

#define DEFINE_VECTOR(count)                                                                                 \
    typedef real vector##count                                                                               \
        __attribute__((vector_size(count * sizeof(real)), aligned(sizeof(real)), may_alias));
DEFINE_VECTOR(16)
DEFINE_VECTOR(8)
DEFINE_VECTOR(4)
#undef DEFINE_VECTOR

/* The sum of all lanes of x and rest, by halves. `omp simd reduction` would add the lanes one by
 * one, in the time in which 250 numbers are summed in vectors (measured with AVX-512). */
static inline real sum_of_lanes(const vector16 *x, const vector4 *rest)
{
    vector4 part[4];
    memcpy(part, x, sizeof part);
    vector4 sum = (part[0] + part[1]) + (part[2] + part[3]) + *rest;
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

#endif
