/* Products of the small matrices of one sentence and head. Small ones (10 x 16 x 10) are loops over
 * contiguous vectors, because a BLAS call would cost more than the product; large ones call gemm. lda,
 * ldb and ldc are row strides. */
#ifndef QKV_KERNELS_TILES_H
#define QKV_KERNELS_TILES_H

#include "kernels/vector_math.h"

/* Multiplications below which the loops are faster than gemm. */
enum { LIBRARY_PRODUCT = 1 << 16 };

#define tile_product            VARIANT(qkv_, tile_product)
#define tile_product_transposed VARIANT(qkv_, tile_product_transposed)
#define tile_scores             VARIANT(qkv_, tile_scores)

/* c [m, n] (+)= a [m, k] b [k, n] */
void tile_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                  bool add, real *c, int64_t ldc);

/* c [m, n] += a^T b, a [k, m], b [k, n] */
void tile_product_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                             int64_t ldb, real *c, int64_t ldc);

/* c [m, n] = a [m, k] b^T, b [n, k]; `work` holds tile_workspace(n, k) numbers. */
void tile_scores(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                 real *c, int64_t ldc, real *work);

enum { STRIP_LANES = 16 };

/* Columns of b^T, rounded up to full strips. */
static inline int64_t padded(int64_t n)
{
    return (n + STRIP_LANES - 1) / STRIP_LANES * STRIP_LANES;
}

/* Workspace of tile_scores for up to n rows of b and any number of rows of a. */
static inline int64_t tile_workspace(int64_t n, int64_t k)
{
    int64_t most = LIBRARY_PRODUCT / 4 + STRIP_LANES * k;
    return padded(n) * k < most ? padded(n) * k : most;
}

#endif
