/* Matrix products of any size. gemm.c chooses the kernel: gemm_rows.c for few rows, as in decoding;
 * gemm_tiles.c for all others in float32, and for those of moderate size in float64. OpenBLAS multiplies large
 * matrices in float64, and in float32 with QKV_KERNELS=blas. All matrices are row-major. */
#ifndef QKV_KERNELS_GEMM_H
#define QKV_KERNELS_GEMM_H

#include "kernels/kernel.h"

#include "qkv/base.h"

/* c [m, n] = a' [m, k] b' [k, n] + beta c, where a' is a, or its transpose if transpose_a is set,
 * and b' is b, or its transpose if transpose_b is set. beta is 0 (c may be uninitialised) or 1.
 * lda, ldb and ldc are the strides of rows. */
void VARIANT(qkv_, gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                         int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc);

/* gemm, which also loads the `count` numbers at `prefetch` into the cache; the caller reads them
 * next. */
void VARIANT(qkv_, gemm_prefetch)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                                  const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c,
                                  int64_t ldc, const real *prefetch, int64_t count);

/* gemm_panels packs b' [k, n] into panels, the order in which gemm_bias reads it.
 * gemm_panels_count: how many numbers the panels have. */
int64_t VARIANT(qkv_, gemm_panels_count)(int64_t n, int64_t k);
void VARIANT(qkv_, gemm_panels)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                real *panels);

/* Whether gemm_bias reads panels for a product of this size. */
bool VARIANT(qkv_, gemm_reads_panels)(int64_t m, int64_t n, int64_t k);

/* c [m, n] = a [m, k] b' [k, n] + bias [n] in every row. bias may be NULL. panels: b' as
 * gemm_panels packs it, or NULL. workers, if not NULL, share the columns of a large b; results have
 * the same bits without them. */
void VARIANT(qkv_, gemm_bias)(struct qkv_workers *workers, bool transpose_b, int64_t m, int64_t n, int64_t k,
                              const real *a, int64_t lda, const real *b, int64_t ldb, const real *panels,
                              const real *bias, real *c, int64_t ldc);

static inline void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                        int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    VARIANT(qkv_, gemm)(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

static inline void gemm_prefetch(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                                 const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c,
                                 int64_t ldc, const real *prefetch, int64_t count)
{
    VARIANT(qkv_, gemm_prefetch)
    (transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc, prefetch, count);
}

static inline void gemm_bias(struct qkv_workers *workers, bool transpose_b, int64_t m, int64_t n, int64_t k,
                             const real *a, int64_t lda, const real *b, int64_t ldb, const real *panels,
                             const real *bias, real *c, int64_t ldc)
{
    VARIANT(qkv_, gemm_bias)(workers, transpose_b, m, n, k, a, lda, b, ldb, panels, bias, c, ldc);
}

#endif
