/* Chooses the kernel of each matrix product, and splits large products of gemm_bias among threads. */
#include "kernels/gemm.h"
#include "core/system.h"

#ifdef QKV_WITHOUT_BLAS
static void multiply_by_library(const struct product *p)
{
    QKV_BUG(p, "there is no OpenBLAS in this program");
}
#else
#    include <cblas.h>

/* c = a' b' + bias + beta c by OpenBLAS, which has no bias: c starts as the bias, and OpenBLAS adds to it. */
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
#    ifdef QKV_KERNEL_IS_float32
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, p->a, lda, p->b, ldb, beta, output->c, ldc);
#    else
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, p->a, lda, p->b, ldb, beta, output->c, ldc);
#    endif
}
#endif

#ifdef QKV_KERNEL_IS_float32
/* Products of at least this size are faster with a packed, too. OpenBLAS, if requested, is not faster for smaller products,
 * either. */
static bool is_large(int64_t m, int64_t n, int64_t k)
{
    return (double)m * (double)n * (double)k >= 64e6;
}

static bool has_library(void)
{
    return qkv_blas_is_wanted();
}

static void multiply_large(const struct product *p)
{
    (has_library() ? multiply_by_library : gemm_by_blocks)(p);
}
#else
/* OpenBLAS uses wider vectors than the only variant of these kernels in float64. */
static bool is_large(int64_t m, int64_t n, int64_t k)
{
    return (double)m * (double)n * (double)k >= 1e5;
}

static bool has_library(void)
{
    return true;
}

#    define multiply_large multiply_by_library
#endif

/* Whether OpenBLAS computes the product: then panels are not used, and the product is not split, because OpenBLAS may
 * compute other bits for parts. */
static bool is_by_library(int64_t m, int64_t n, int64_t k)
{
    return m > FEW_ROWS && is_large(m, n, k) && has_library();
}

/* ---- choice of the kernel ---- */

/* A matrix b of more numbers does not stay in the second-level cache. For few rows of a, reading such a b once
 * in memory order is faster than packing it. */
static const double CACHED_NUMBERS = 65536;

static bool is_cached(int64_t n, int64_t k)
{
    return (double)n * (double)k <= CACHED_NUMBERS;
}

/* A product that is split among threads by columns: part i has columns i * part_columns and
 * following. */
struct job {
    struct product product;
    const real *panels; /* b', packed; or NULL */
    bool prefetch_b; /* prefetch b if its rows are far apart; faster in forward, where b is not in a cache */
    int64_t part_columns;
};

/* Whether prefetching b pays: its rows are so far apart that the processor does not prefetch them by itself,
 * and a has enough rows for several tiles, whose computation hides the latency. */
static bool prefetch_pays(const struct product *p)
{
    enum { FAR_STRIDE = 4096 }; /* numbers; measured */
    return !p->transpose_b && p->ldb > FAR_STRIDE && p->m >= 2 * TILE_ROWS;
}

/* Computes p, a part of the job's product whose columns start at column `first`. The size of the
 * complete product, not of the part, chooses the kernel, so that results have the same bits for any
 * number of threads. */
static void multiply(const struct job *job, const struct product *p, int64_t first)
{
    int64_t columns = job->product.n;
    bool few = !p->transpose_a && p->m <= FEW_ROWS, cached = is_cached(columns, p->k);
    const struct panels panels = {job->panels, columns, first};
    if (job->panels)
        gemm_by_tiles(p, &panels, false, false);
    else if (few && p->transpose_b && (p->m == 1 || !cached))
        gemm_few_transposed(p);
    else if (few && !p->transpose_b && cached)
        gemm_few_cached(p);
    else if (few && !p->transpose_b)
        gemm_few_streamed(p);
    else if (!is_large(p->m, columns, p->k))
        gemm_by_tiles(p, NULL, !p->transpose_b && cached && p->m <= TILE_ROWS,
                      job->prefetch_b && prefetch_pays(p));
    else
        multiply_large(p);
}

static void multiply_part(void *context, int part)
{
    const struct job *job = context;
    struct product p = job->product;
    int64_t first = part * job->part_columns, rest = p.n - first;
    p.n = rest < job->part_columns ? rest : job->part_columns;
    p.b += first * (p.transpose_b ? p.ldb : 1);
    p.output.c += first;
    if (p.output.bias) p.output.bias += first;
    multiply(job, &p, first);
}

void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a, int64_t lda,
          const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    const struct output output = {.c = c, .ldc = ldc, .beta = beta};
    const struct job job = {.product = {transpose_a, transpose_b, m, n, k, a, b, lda, ldb, output}};
    multiply(&job, &job.product, 0);
}

void gemm_prefetch(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                   int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc,
                   const real *prefetch, int64_t count)
{
    struct output output = {.c = c, .ldc = ldc, .beta = beta, .prefetch = (const char *)prefetch};
    int64_t column_tiles = (n + TILE_COLUMNS - 1) / TILE_COLUMNS,
            inner_blocks = (k + INNER_BLOCK - 1) / INNER_BLOCK;
    int64_t tiles = m / TILE_ROWS * column_tiles * inner_blocks;
    int64_t lines = (count * (int64_t)sizeof(real) + CACHE_LINE - 1) / CACHE_LINE;
    if (tiles > 0) output.prefetch_per_tile = (lines + tiles - 1) / tiles * CACHE_LINE;
    const struct job job = {.product = {transpose_a, transpose_b, m, n, k, a, b, lda, ldb, output}};
    multiply(&job, &job.product, 0);
}

bool VARIANT(qkv_, gemm_reads_panels)(int64_t m, int64_t n, int64_t k)
{
    return m > FEW_ROWS && !is_by_library(m, n, k);
}

void gemm_bias(struct qkv_workers *workers, const struct product *p, const real *panels)
{
    /* At least PARTS parts; more where COLUMN_BLOCK columns, in float32 a page of 4 KiB, are fewer. */
    enum { PARTS = 4 };
    struct job job = {*p, panels, .prefetch_b = true, .part_columns = padded_columns(p->n / PARTS)};
    if (job.part_columns > COLUMN_BLOCK) job.part_columns = COLUMN_BLOCK;
    if (!workers || is_cached(p->n, p->k) || is_by_library(p->m, p->n, p->k) ||
        job.part_columns < 4 * TILE_COLUMNS)
        multiply(&job, p, 0);
    else
        qkv_workers_run(workers, (int)((p->n + job.part_columns - 1) / job.part_columns), multiply_part,
                        &job);
}

/* Matrix products with at most FEW_ROWS rows, as in decoding. */

/* c = sum + bias + beta c, for the vector of c that starts at [row, column]. */
static inline __attribute__((always_inline)) void store_output(vector sum, struct output output, int64_t row,
                                                               int64_t column)
{
    real *to = output.c + row * output.ldc + column;
    if (output.bias) sum += load(output.bias + column);
    if (output.beta > 0) sum += load(to);
    store(to, sum);
}

/* c [rows, vectors * LANES] = a [rows, k] b, with the sums in registers. Callers pass constants for
 * `rows` and `vectors`. */
static inline __attribute__((always_inline)) void strip(const int rows, const int vectors, int64_t k,
                                                        const real *a, int64_t lda, const real *b,
                                                        int64_t ldb, struct output output)
{
    vector sum[FEW_ROWS][8];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) sum[i][v] = (vector){0};
    for (int64_t l = 0; l < k; l++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            vector right = load(b + l * ldb + v * LANES);
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++)
                sum[i][v] = vector_fused(all_lanes(a[i * lda + l]), right, sum[i][v]);
        }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) store_output(sum[i][v], output, i, v * LANES);
}

/* Multiplies by strips: a strip is as many columns of b as have their sums in registers. */
static inline __attribute__((always_inline)) void cached_rows(const int rows, const struct product *p)
{
    int64_t j = 0;
#define STRIPS(vectors)                                                                                      \
    for (; j + vectors * LANES <= p->n; j += vectors * LANES)                                                \
        strip(rows, vectors, p->k, p->a, p->lda, p->b + j, p->ldb, output_at(&p->output, 0, j));
    if (rows == 1) STRIPS(8)
    STRIPS(4) /* four independent sums: with fewer, each addition waits for the one before it */
    STRIPS(2)
    STRIPS(1)
#undef STRIPS
    if (j == p->n) return;
    struct product rest = *p;
    rest.n -= j;
    rest.b += j;
    rest.output = output_at(&p->output, 0, j);
    gemm_by_tiles(&rest, NULL, false, false);
}

void gemm_few_cached(const struct product *p)
{
    struct product block = *p;
    for (int64_t l = 0; l < p->k; l += INNER_BLOCK) {
        block.k = p->k - l < INNER_BLOCK ? p->k - l : INNER_BLOCK;
        block.a = p->a + l;
        block.b = p->b + l * p->ldb;
        set_columns(&block.output, &p->output, 0, l == 0);
        if (p->m == 1)
            cached_rows(1, &block);
        else if (p->m == 2)
            cached_rows(2, &block);
        else
            cached_rows(FEW_ROWS, &block);
    }
}

/* sums [m, columns] = the product of rows l .. end - 1 of b. */
static void streamed_block(const struct product *p, int64_t l, int64_t end, int64_t columns, const real *b,
                           real sums[FEW_ROWS][COLUMN_BLOCK])
{
    for (int64_t i = 0; i < p->m; i++) memset(sums[i], 0, (size_t)columns * sizeof(real));
    for (; l + 4 <= end; l += 4) { /* fewer loads and stores of the sums */
        const real *restrict b0 = b + l * p->ldb, *restrict b1 = b0 + p->ldb, *restrict b2 = b1 + p->ldb,
                             *restrict b3 = b2 + p->ldb;
        for (int64_t i = 0; i < p->m; i++) {
            real *restrict sum = sums[i];
            const real *x = p->a + i * p->lda + l;
            for (int64_t o = 0; o < columns; o++)
                sum[o] =
                    fused(x[3], b3[o], fused(x[2], b2[o], fused(x[1], b1[o], fused(x[0], b0[o], sum[o]))));
        }
    }
    for (; l < end; l++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t o = 0; o < columns; o++)
                sums[i][o] = fused(p->a[i * p->lda + l], b[l * p->ldb + o], sums[i][o]);
}

void gemm_few_streamed(const struct product *p)
{
    /* Sums are kept apart from c: adding small products one by one to a large c would lose digits. */
    _Alignas(64) real sums[FEW_ROWS][COLUMN_BLOCK];
    for (int64_t j = 0; j < p->n; j += COLUMN_BLOCK) {
        int64_t columns = p->n - j < COLUMN_BLOCK ? p->n - j : COLUMN_BLOCK;
        for (int64_t l = 0; l < p->k; l += INNER_BLOCK) {
            struct output output = p->output;
            set_columns(&output, &p->output, j, l == 0);
            streamed_block(p, l, p->k - l < INNER_BLOCK ? p->k : l + INNER_BLOCK, columns, p->b + j, sums);
            for (int64_t i = 0; i < p->m; i++)
                for (int64_t o = 0; o < columns; o++) store_number(sums[i][o], &output, i, o);
        }
    }
}

void gemm_few_transposed(const struct product *p)
{
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++)
            store_number(row_dot(p->k, p->a + i * p->lda, p->b + j * p->ldb), &p->output, i, j);
}
