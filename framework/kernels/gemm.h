/* Matrix products: the one place that knows which library makes them. */
#ifndef QKV_KERNELS_GEMM_H
#define QKV_KERNELS_GEMM_H

#include "kernels/kernel.h"

#include <cblas.h>

/* c [m, n] = a' [m, k] b' [k, n] + beta c; a' and b' are a and b, transposed where asked. Row-major, `ld` is
 * the distance of rows. */
static inline void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                        int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    enum CBLAS_TRANSPOSE ta = transpose_a ? CblasTrans : CblasNoTrans,
                         tb = transpose_b ? CblasTrans : CblasNoTrans;
#ifdef QKV_KERNEL_IS_float32
    cblas_sgemm(CblasRowMajor, ta, tb, (blasint)m, (blasint)n, (blasint)k, 1.0f, a, (blasint)lda, b,
                (blasint)ldb, beta, c, (blasint)ldc);
#else
    cblas_dgemm(CblasRowMajor, ta, tb, (blasint)m, (blasint)n, (blasint)k, 1.0, a, (blasint)lda, b,
                (blasint)ldb, beta, c, (blasint)ldc);
#endif
}

#endif
