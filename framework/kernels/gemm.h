/* Matrix products. gemm.c chooses among the kernels of gemm_tiles.c and gemm_rows.c and the BLAS library. */
#ifndef QKV_KERNELS_GEMM_H
#define QKV_KERNELS_GEMM_H

#include "kernels/kernel.h"

#include "qkv/workers.h"

/* c [m, n] = a' [m, k] b' [k, n] + beta c, with a' = a or its transpose, and b' likewise. Row-major; lda,
 * ldb and ldc are the strides of rows. */
void VARIANT(qkv_, gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                         int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc);

/* gemm that also prefetches the `count` numbers at `prefetch`, which the caller reads next. */
void VARIANT(qkv_, gemm_prefetch)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                                  const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c,
                                  int64_t ldc, const real *prefetch, int64_t count);

/* Packs b' [k, n] into panels, the order in which tiles read it; and the number of numbers that this
 * takes. */
int64_t VARIANT(qkv_, gemm_panels_count)(int64_t n, int64_t k);
void VARIANT(qkv_, gemm_panels)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                real *panels);

/* Whether gemm_bias uses panels for a product of this size. */
bool VARIANT(qkv_, gemm_reads_panels)(int64_t m, int64_t n, int64_t k);

/* c [m, n] = a [m, k] b' + bias [n] in every row. bias: may be NULL. panels: b' as gemm_panels packs it,
 * or NULL. The columns of a large b are split among the workers, if there are any. */
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
