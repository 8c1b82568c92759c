/* Products of tiles, as attention makes them for every sentence and head: small ones (10 x 16 x 10) are loops
 * over contiguous vectors, because a call of the library would cost more than the product; large ones are
 * calls. `ld` is the distance of rows. */
#ifndef QKV_KERNELS_TILES_H
#define QKV_KERNELS_TILES_H

#include "kernels/gemm.h"
#include "kernels/softmax.h"

/* Below this many multiplications the loops beat the library. */
enum { LIBRARY_PRODUCT = 1 << 16 };

/* to [columns, rows] = from [rows, columns] transposed. */
static inline void tile_transpose(int64_t rows, int64_t columns, const real *restrict from, int64_t ld,
                                  real *restrict to)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++) to[j * rows + i] = from[i * ld + j];
}

/* c [m, n] (+)= a [m, k] b [k, n]: rows of b scaled and added, so that the inner loop runs along b and c. */
static inline void tile_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                                int64_t ldb, bool add, real *c, int64_t ldc)
{
    if (m * n * k >= LIBRARY_PRODUCT) {
        gemm(false, false, m, n, k, a, lda, b, ldb, add, c, ldc);
        return;
    }
    for (int64_t i = 0; i < m; i++) {
        real *restrict out = c + i * ldc;
        if (!add) memset(out, 0, (size_t)n * sizeof(real));
        for (int64_t l = 0; l < k; l++) {
            const real *restrict row = b + l * ldb;
            real factor = a[i * lda + l];
            for (int64_t j = 0; j < n; j++) out[j] += factor * row[j];
        }
    }
}

/* c [m, n] += a^T b, a [k, m], b [k, n]. */
static inline void tile_product_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda,
                                           const real *b, int64_t ldb, real *c, int64_t ldc)
{
    if (m * n * k >= LIBRARY_PRODUCT) {
        gemm(true, false, m, n, k, a, lda, b, ldb, 1, c, ldc);
        return;
    }
    for (int64_t l = 0; l < k; l++) {
        const real *restrict row = b + l * ldb;
        for (int64_t i = 0; i < m; i++) {
            real *restrict out = c + i * ldc;
            real factor = a[l * lda + i];
            for (int64_t j = 0; j < n; j++) out[j] += factor * row[j];
        }
    }
}

/* Numbers that tile_scores may need to work with, for products of up to m x n x k. */
static inline int64_t tile_work(int64_t n, int64_t k)
{
    return n * k < LIBRARY_PRODUCT / 4 ? n * k : LIBRARY_PRODUCT / 4;
}

/* c [m, n] = a [m, k] b^T, b [n, k]; `work` holds tile_work(n, k) numbers. */
static inline void tile_scores(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                               int64_t ldb, real *c, int64_t ldc, real *work)
{
    if (m * n * k >= LIBRARY_PRODUCT) {
        gemm(false, true, m, n, k, a, lda, b, ldb, 0, c, ldc);
    } else if (m < 4) { /* a few queries, as while decoding: transposing would cost more than it saves */
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] = row_dot(k, a + i * lda, b + j * ldb);
    } else {
        tile_transpose(n, k, b, ldb, work);
        tile_product(m, n, k, a, lda, work, n, false, c, ldc);
    }
}

#endif
