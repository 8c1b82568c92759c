/* Matrix products: the one place that knows who makes them. */
#ifndef QKV_KERNELS_GEMM_H
#define QKV_KERNELS_GEMM_H

#include "kernels/kernel.h"

#include "qkv/workers.h"

/* c [m, n] = a' [m, k] b' [k, n] + beta c; a' and b' are a and b, transposed where asked. Row-major, `ld` is
 * the distance of rows. Which way is up to gemm.c: large ones are the matrix library's. */
void VARIANT(qkv_, gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                         int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc);

/* The same, while the `count` numbers at `soon` come into the cache, because they are needed next. */
void VARIANT(qkv_, gemm_prefetch)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                                  const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c,
                                  int64_t ldc, const real *prefetch, int64_t count);

/* Numbers of b' [k, n] in the order in which tiles read it, and b' brought into that order. */
int64_t VARIANT(qkv_, gemm_panels_count)(int64_t n, int64_t k);
void VARIANT(qkv_, gemm_panels)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                real *panels);

/* Whether m rows times b' would be made of b' in that order, if there is such a copy. */
bool VARIANT(qkv_, gemm_reads_panels)(int64_t m, int64_t n, int64_t k);

/* c [m, n] = a [m, k] b' + bias [n] in every row; bias may be NULL, and so may `panels`: b' as gemm_panels
 * has it. Where b is large its columns are split among the workers, which may be NULL. */
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
