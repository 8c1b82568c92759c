/* Products of the small matrices of one sentence and attention head: a tile of queries by keys. A product of
 * few multiplications, such as m = 10, n = 16, k = 10, is a loop over contiguous vectors, because a call of
 * BLAS would cost more than the product; a larger one calls gemm. lda, ldb and ldc are the strides of rows. */
#ifndef QKV_KERNELS_TILES_H
#define QKV_KERNELS_TILES_H

#include "kernels/vector_math.h"

/* Products of fewer multiplications use the loops; the others use gemm, which is faster from there
 * on. */
enum { GEMM_MULTIPLICATIONS = 1 << 16 };

#define tile_product            VARIANT(qkv_, tile_product)
#define tile_product_transposed VARIANT(qkv_, tile_product_transposed)
#define tile_scores             VARIANT(qkv_, tile_scores)

/* c [m, n] = a [m, k] b [k, n]; with `add`, c += a b. */
void tile_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                  bool add, real *c, int64_t ldc);

/* c [m, n] += a^T b, with a [k, m] and b [k, n]. */
void tile_product_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                             int64_t ldb, real *c, int64_t ldc);

/* c [m, n] = a b^T, with a [m, k] and b [n, k]: scores of m queries and n keys. work:
 * tile_workspace(n, k) numbers, uninitialised. */
void tile_scores(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                 real *c, int64_t ldc, real *work);

enum { STRIP_LANES = 16 };

/* n columns, rounded up to full strips. */
static inline int64_t padded_to_strips(int64_t n)
{
    return (n + STRIP_LANES - 1) / STRIP_LANES * STRIP_LANES;
}

/* Numbers of workspace that tile_scores needs for up to n rows of b and any number m of rows of a. It
 * transposes b, into n columns padded to strips, only if m is 4 or more and m n k < GEMM_MULTIPLICATIONS: then
 * n k < GEMM_MULTIPLICATIONS / 4. */
static inline int64_t tile_workspace(int64_t n, int64_t k)
{
    int64_t maximum = GEMM_MULTIPLICATIONS / 4 + STRIP_LANES * k;
    return padded_to_strips(n) * k < maximum ? padded_to_strips(n) * k : maximum;
}

#endif
