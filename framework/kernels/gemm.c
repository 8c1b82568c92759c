/* Matrix products: which way each is made. Small ones are made here (gemm_tiles.c, gemm_rows.c), large ones
 * by the library. */
#include "kernels/gemm_parts.h"

#include <cblas.h>

static void by_library(const struct product *p)
{
    enum CBLAS_TRANSPOSE ta = p->transpose_a ? CblasTrans : CblasNoTrans,
                         tb = p->transpose_b ? CblasTrans : CblasNoTrans;
    const struct into *into = &p->into;
    for (int64_t i = 0; into->bias && i < p->m; i++)
        memcpy(into->c + i * into->ldc, into->bias, (size_t)p->n * sizeof(real));
    real beta = into->bias ? 1 : into->beta;
    blasint m = (blasint)p->m, n = (blasint)p->n, k = (blasint)p->k, lda = (blasint)p->lda,
            ldb = (blasint)p->ldb, ldc = (blasint)into->ldc;
#ifdef QKV_KERNEL_IS_float32
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, p->a, lda, p->b, ldb, beta, into->c, ldc);
#else
    cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1.0, p->a, lda, p->b, ldb, beta, into->c, ldc);
#endif
}

/* ---- choosing ---- */

/* From so many multiplications on the library is as fast: soon where it knows a wider instruction set than
 * this variant, as in double precision, which has one. And b of more numbers than NEAR is no longer in a
 * cache close by, so that it is better read once than packed for a few rows. */
#ifdef QKV_KERNEL_IS_float32
static const double LARGE = 64e6;
#else
static const double LARGE = 1e5;
#endif
static const double NEAR = 65536;

static bool is_near(int64_t n, int64_t k)
{
    return (double)n * (double)k <= NEAR;
}

static bool is_large(int64_t m, int64_t n, int64_t k)
{
    return (double)m * (double)n * (double)k >= LARGE;
}

/* A product whose columns threads may make, piece by piece. */
struct whole {
    struct product product;
    const real *panels; /* NULL, or b' */
    bool ahead;         /* whether to fetch b ahead where it is far: pays in forward */
    int64_t piece;      /* columns that a thread takes at a time */
};

/* Whether b's rows lie so far apart that the processor does not foresee them, and there are tiles enough to
 * fetch them meanwhile: a column of cache lines each. (Rows of 512 and 2,048 numbers: 0.97.) */
static bool is_far(const struct product *p)
{
    enum { FAR = 4096 };
    return !p->transpose_b && p->ldb > FAR && p->m >= 2 * TILE_ROWS;
}

/* The columns of p, which begin with column `first` of the whole, in a way that only depends on the whole
 * product: each number of the result has the same bits, whoever makes it. */
static void make(const struct whole *whole, const struct product *p, int64_t first)
{
    int64_t all = whole->product.n;
    bool few = !p->transpose_a && p->m <= FEW_ROWS, near = is_near(all, p->k);
    if (whole->panels)
        gemm_by_panels(p, whole->panels, all, first);
    else if (few && p->transpose_b && (p->m == 1 || !near))
        gemm_few_transposed(p);
    else if (few && !p->transpose_b && near)
        gemm_few_near(p);
    else if (few && !p->transpose_b)
        gemm_few_far(p);
    else if (!is_large(p->m, all, p->k))
        gemm_by_tiles(p, !p->transpose_b && near && p->m <= TILE_ROWS, whole->ahead && is_far(p));
    else
        by_library(p);
}

static void make_piece(void *context, int piece)
{
    const struct whole *whole = context;
    struct product p = whole->product;
    int64_t first = piece * whole->piece, rest = p.n - first;
    p.n = rest < whole->piece ? rest : whole->piece;
    p.b += first * (p.transpose_b ? p.ldb : 1);
    p.into.c += first;
    if (p.into.bias) p.into.bias += first;
    make(whole, &p, first);
}

void VARIANT(qkv_, gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                         int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    const struct into into = {.c = c, .ldc = ldc, .beta = beta};
    const struct whole whole = {.product = {transpose_a, transpose_b, m, n, k, a, b, lda, ldb, into}};
    make(&whole, &whole.product, 0);
}

void VARIANT(qkv_, gemm_ahead)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                               const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c,
                               int64_t ldc, const real *soon, int64_t count)
{
    struct into into = {.c = c, .ldc = ldc, .beta = beta, .soon = (const char *)soon};
    int64_t across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS, deep = (k + MOST_INNER - 1) / MOST_INNER;
    int64_t tiles = m / TILE_ROWS * across * deep;
    int64_t lines = (count * (int64_t)sizeof(real) + CACHE_LINE - 1) / CACHE_LINE;
    if (tiles > 0) into.each = (lines + tiles - 1) / tiles * CACHE_LINE;
    const struct whole whole = {.product = {transpose_a, transpose_b, m, n, k, a, b, lda, ldb, into}};
    make(&whole, &whole.product, 0);
}

bool VARIANT(qkv_, gemm_reads_panels)(int64_t m, int64_t n, int64_t k)
{
    return m > FEW_ROWS && !is_large(m, n, k);
}

void VARIANT(qkv_, gemm_bias)(struct qkv_workers *workers, bool transpose_b, int64_t m, int64_t n, int64_t k,
                              const real *a, int64_t lda, const real *b, int64_t ldb, const real *panels,
                              const real *bias, real *c, int64_t ldc)
{
    enum { PIECES = 4 }; /* of a page at most, as memory is read fastest */
    const struct into into = {.c = c, .ldc = ldc, .bias = bias};
    struct whole whole = {.product = {false, transpose_b, m, n, k, a, b, lda, ldb, into},
                          .panels = panels,
                          .ahead = true,
                          .piece = whole_panels(n / PIECES)};
    if (whole.piece > RUN) whole.piece = RUN;
    if (!workers || is_near(n, k) || is_large(m, n, k) || whole.piece < 4 * TILE_COLUMNS)
        make(&whole, &whole.product, 0);
    else
        qkv_workers_run(workers, (int)((n + whole.piece - 1) / whole.piece), make_piece, &whole);
}
