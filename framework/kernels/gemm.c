/* Chooses the kernel of each matrix product: gemm_tiles.c or gemm_rows.c for small products, BLAS for
 * large ones. */
#include "kernels/gemm_parts.h"

#include <cblas.h>

static void multiply_by_library(const struct product *p)
{
    enum CBLAS_TRANSPOSE ta = p->transpose_a ? CblasTrans : CblasNoTrans,
                         tb = p->transpose_b ? CblasTrans : CblasNoTrans;
    const struct output *output = &p->output;
    for (int64_t i = 0; output->bias && i < p->m; i++)
        memcpy(output->c + i * output->ldc, output->bias, (size_t)p->n * sizeof(real));
    real beta = output->bias ? 1 : output->beta;
    blasint m = (blasint)p->m, n = (blasint)p->n, k = (blasint)p->k, lda = (blasint)p->lda,
            ldb = (blasint)p->ldb, ldc = (blasint)output->ldc;
#ifdef QKV_KERNEL_IS_float32
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, p->a, lda, p->b, ldb, beta, output->c, ldc);
#else
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1.0, p->a, lda, p->b, ldb, beta, output->c, ldc);
#endif
}

/* ---- choosing ---- */

/* LARGE: multiplications from which BLAS is as fast. Fewer in float64, whose only variant has a narrower
 * instruction set than BLAS. CACHED_NUMBERS: a larger b is not in a near cache, and is better read once
 * than packed for a few rows. */
#ifdef QKV_KERNEL_IS_float32
static const double LARGE = 64e6;
#else
static const double LARGE = 1e5;
#endif
static const double CACHED_NUMBERS = 65536;

static bool is_cached(int64_t n, int64_t k)
{
    return (double)n * (double)k <= CACHED_NUMBERS;
}

static bool is_large(int64_t m, int64_t n, int64_t k)
{
    return (double)m * (double)n * (double)k >= LARGE;
}

/* A product whose columns may be split among threads, in pieces. */
struct job {
    struct product product;
    const real *panels; /* b', packed; or NULL */
    bool prefetch_b;    /* prefetch b if its rows are far apart: pays in forward */
    int64_t piece;      /* columns per piece */
};

/* Whether b's rows are so far apart that the processor does not prefetch them, and there are enough tiles
 * to prefetch them in the meantime. (Time with rows of 512 and 2,048 numbers: 0.97.) */
static bool rows_are_far_apart(const struct product *p)
{
    enum { FAR_STRIDE = 4096 };
    return !p->transpose_b && p->ldb > FAR_STRIDE && p->m >= 2 * TILE_ROWS;
}

/* Computes p, the columns of the job's product from `first` on. The kernel depends on the complete
 * product only, so that results have the same bits for any number of threads. */
static void multiply(const struct job *job, const struct product *p, int64_t first)
{
    int64_t all = job->product.n;
    bool few = !p->transpose_a && p->m <= FEW_ROWS, cached = is_cached(all, p->k);
    if (job->panels)
        gemm_by_panels(p, job->panels, all, first);
    else if (few && p->transpose_b && (p->m == 1 || !cached))
        gemm_few_transposed(p);
    else if (few && !p->transpose_b && cached)
        gemm_few_cached(p);
    else if (few && !p->transpose_b)
        gemm_few_streamed(p);
    else if (!is_large(p->m, all, p->k))
        gemm_by_tiles(p, !p->transpose_b && cached && p->m <= TILE_ROWS,
                      job->prefetch_b && rows_are_far_apart(p));
    else
        multiply_by_library(p);
}

static void multiply_piece(void *context, int piece)
{
    const struct job *job = context;
    struct product p = job->product;
    int64_t first = piece * job->piece, rest = p.n - first;
    p.n = rest < job->piece ? rest : job->piece;
    p.b += first * (p.transpose_b ? p.ldb : 1);
    p.output.c += first;
    if (p.output.bias) p.output.bias += first;
    multiply(job, &p, first);
}

void VARIANT(qkv_, gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                         int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    const struct output output = {.c = c, .ldc = ldc, .beta = beta};
    const struct job job = {.product = {transpose_a, transpose_b, m, n, k, a, b, lda, ldb, output}};
    multiply(&job, &job.product, 0);
}

void VARIANT(qkv_, gemm_prefetch)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                                  const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c,
                                  int64_t ldc, const real *prefetch, int64_t count)
{
    struct output output = {.c = c, .ldc = ldc, .beta = beta, .prefetch = (const char *)prefetch};
    int64_t across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS, deep = (k + INNER_BLOCK - 1) / INNER_BLOCK;
    int64_t tiles = m / TILE_ROWS * across * deep;
    int64_t lines = (count * (int64_t)sizeof(real) + CACHE_LINE - 1) / CACHE_LINE;
    if (tiles > 0) output.prefetch_per_tile = (lines + tiles - 1) / tiles * CACHE_LINE;
    const struct job job = {.product = {transpose_a, transpose_b, m, n, k, a, b, lda, ldb, output}};
    multiply(&job, &job.product, 0);
}

bool VARIANT(qkv_, gemm_reads_panels)(int64_t m, int64_t n, int64_t k)
{
    return m > FEW_ROWS && !is_large(m, n, k);
}

void VARIANT(qkv_, gemm_bias)(struct qkv_workers *workers, bool transpose_b, int64_t m, int64_t n, int64_t k,
                              const real *a, int64_t lda, const real *b, int64_t ldb, const real *panels,
                              const real *bias, real *c, int64_t ldc)
{
    enum { PIECES = 4 }; /* per product; a row of a piece is a page at most, which memory reads fastest */
    const struct output output = {.c = c, .ldc = ldc, .bias = bias};
    struct job job = {.product = {false, transpose_b, m, n, k, a, b, lda, ldb, output},
                      .panels = panels,
                      .prefetch_b = true,
                      .piece = padded_columns(n / PIECES)};
    if (job.piece > COLUMN_BLOCK) job.piece = COLUMN_BLOCK;
    if (!workers || is_cached(n, k) || is_large(m, n, k) || job.piece < 4 * TILE_COLUMNS)
        multiply(&job, &job.product, 0);
    else
        qkv_workers_run(workers, (int)((n + job.piece - 1) / job.piece), multiply_piece, &job);
}
