/* The products of tiles.h. */
#include "kernels/tiles.h"

#include "kernels/gemm.h"
#include "kernels/sums.h"

/* ---- small products: up to 4 rows and one vector of columns of the result stay in registers while
 * the loop over k accumulates them ---- */

enum { STRIP_ROWS = 4 };

/* Unrolls a loop over rows, so that the sums of the rows stay in registers. Without AVX2 the sums would not fit,
 * and unrolling would only lengthen the code. */
#ifdef __AVX2__
#    define UNROLL_ROWS _Pragma("GCC unroll 4")
#else
#    define UNROLL_ROWS
#endif

/* strip16, strip8, strip4: c [rows, columns] = a' b; with `add`, c += a' b. b [k, lanes] has as many
 * columns as the name says; c may have fewer. Element [i, l] of a' is a[i * a_row + l * a_step].
 * Callers pass a constant for `rows`. type: a vector of at most `lanes` lanes. */
#define STRIP(lanes, type, type_fused)                                                                       \
    static inline __attribute__((always_inline)) void strip##lanes(                                          \
        const int rows, int64_t columns, int64_t k, const real *a, int64_t a_row, int64_t a_step,            \
        const real *b, int64_t ldb, bool add, real *c, int64_t ldc)                                          \
    {                                                                                                        \
        enum { WIDTH = sizeof(type) / sizeof(real), PARTS = lanes / WIDTH };                                 \
        type sum[STRIP_ROWS][PARTS];                                                                         \
        UNROLL_ROWS for (int i = 0; i < rows; i++) _Pragma("GCC unroll 8") for (int p = 0; p < PARTS; p++)   \
            sum[i][p] = (type){0};                                                                           \
        for (int64_t l = 0; l < k; l++) _Pragma("GCC unroll 8") for (int p = 0; p < PARTS; p++)              \
            {                                                                                                \
                type row = *(const type *)(b + l * ldb + p * WIDTH);                                         \
                UNROLL_ROWS for (int i = 0; i < rows; i++) sum[i][p] =                                       \
                    type_fused(a[i * a_row + l * a_step] - (type){0}, row, sum[i][p]);                       \
            }                                                                                                \
        UNROLL_ROWS for (int i = 0; i < rows; i++)                                                           \
        {                                                                                                    \
            if (columns == lanes) {                                                                          \
                _Pragma("GCC unroll 8") for (int p = 0; p < PARTS; p++)                                      \
                {                                                                                            \
                    type *to = (type *)(c + i * ldc + p * WIDTH);                                            \
                    if (add) sum[i][p] += *to;                                                               \
                    *to = sum[i][p];                                                                         \
                }                                                                                            \
                continue;                                                                                    \
            }                                                                                                \
            for (int64_t j = 0; j < columns; j++)                                                            \
                c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + sum[i][j / WIDTH][j % WIDTH];                  \
        }                                                                                                    \
    }
STRIP(16, vector, vector_fused)
STRIP(8, vector_8, vector_8_fused)
STRIP(4, vector_4, vector_4_fused)
#undef STRIP

/* Computes c [m, columns], one strip of columns, in blocks of 4 rows, then 2, then 1. */
#define STRIPS(lanes, m, columns, k, a, a_row, a_step, b, ldb, add, c, ldc)                                  \
    do {                                                                                                     \
        int64_t i_ = 0;                                                                                      \
        for (; i_ + STRIP_ROWS <= (m); i_ += STRIP_ROWS)                                                     \
            strip##lanes(STRIP_ROWS, columns, k, (a) + i_ * (a_row), a_row, a_step, b, ldb, add,             \
                         (c) + i_ * (ldc), ldc);                                                             \
        if ((m)-i_ >= 2) {                                                                                   \
            strip##lanes(2, columns, k, (a) + i_ * (a_row), a_row, a_step, b, ldb, add, (c) + i_ * (ldc),    \
                         ldc);                                                                               \
            i_ += 2;                                                                                         \
        }                                                                                                    \
        if (i_ < (m))                                                                                        \
            strip##lanes(1, columns, k, (a) + i_ * (a_row), a_row, a_step, b, ldb, add, (c) + i_ * (ldc),    \
                         ldc);                                                                               \
    } while (0)

/* c [m, n] = a' b; with `add`, c += a' b. a' as for strip16, b [k, n]. */
static NOINLINE void small_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t a_row,
                                   int64_t a_step, const real *b, int64_t ldb, bool add, real *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + 16 <= n; j += 16) STRIPS(16, m, 16, k, a, a_row, a_step, b + j, ldb, add, c + j, ldc);
    if (j + 8 <= n) {
        STRIPS(8, m, 8, k, a, a_row, a_step, b + j, ldb, add, c + j, ldc);
        j += 8;
    }
    if (j + 4 <= n) {
        STRIPS(4, m, 4, k, a, a_row, a_step, b + j, ldb, add, c + j, ldc);
        j += 4;
    }
    for (; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            real sum = 0;
            for (int64_t l = 0; l < k; l++) sum = fused(a[i * a_row + l * a_step], b[l * ldb + j], sum);
            c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + sum;
        }
}

/* ---- products of any size ---- */

void tile_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                  bool add, real *c, int64_t ldc)
{
    if (m * n * k >= GEMM_MULTIPLICATIONS)
        gemm(false, false, m, n, k, a, lda, b, ldb, add, c, ldc);
    else
        small_product(m, n, k, a, lda, 1, b, ldb, add, c, ldc);
}

void tile_product_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                             int64_t ldb, real *c, int64_t ldc)
{
    if (m * n * k >= GEMM_MULTIPLICATIONS)
        gemm(true, false, m, n, k, a, lda, b, ldb, 1, c, ldc);
    else
        small_product(m, n, k, a, 1, lda, b, ldb, true, c, ldc);
}

void tile_scores(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                 real *c, int64_t ldc, real *work)
{
    if (m * n * k >= GEMM_MULTIPLICATIONS) {
        gemm(false, true, m, n, k, a, lda, b, ldb, 0, c, ldc);
        return;
    }
    if (m < 4) { /* few queries, as in decoding: transposing b costs more than it saves */
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] = row_dot(k, a + i * lda, b + j * ldb);
        return;
    }
    int64_t width = padded_to_strips(n), l = 0;
    for (; l + LANES <= k; l += LANES)
        for (int64_t j = 0; j < width; j += LANES)
            transpose_block(n - j, b + j * ldb + l, ldb, work + l * width + j, width);
    for (; l < k; l++) {
        real *restrict to = work + l * width;
        for (int64_t j = 0; j < n; j++) to[j] = b[j * ldb + l];
        for (int64_t j = n; j < width; j++) to[j] = 0;
    }
    for (int64_t j = 0; j < n; j += 16) {
        int64_t columns = n - j < 16 ? n - j : 16;
        STRIPS(16, m, columns, k, a, lda, 1, work + j, width, false, c + j, ldc);
    }
}
