/* Matrix products. The library's way of making them - copy both sides, then multiply - costs more than the
 * product where matrices are as small as those of a toy, so these are made here: a tile of the result stays
 * in registers while a row of one side and a panel of the other, 2 vectors wide, go by (Goto and van de Geijn
 * 2008). */
#include "kernels/gemm.h"

#include "kernels/softmax.h"

#include <cblas.h>

#if defined(__AVX512F__)
enum { TILE_ROWS = 12 }; /* 24 of 32 registers hold the tile */
#else
enum { TILE_ROWS = 6 }; /* with AVX2, 12 of 16 */
#endif

enum {
    TILE_COLUMNS = 2 * LANES,
    CACHE_LINE = 64,
    MOST_INNER = 32768 / (TILE_COLUMNS * sizeof(real)), /* a panel stays in the first-level cache */
};

/* ---- panels: [k, TILE_COLUMNS] of b', in a run, zeros behind the last column ---- */

static void pack_rows(int64_t k, int64_t columns, const real *b, int64_t ldb, real *panel)
{
    if (columns == TILE_COLUMNS) {
        for (int64_t l = 0; l < k; l++) {
            store(panel + l * TILE_COLUMNS, load(b + l * ldb));
            store(panel + l * TILE_COLUMNS + LANES, load(b + l * ldb + LANES));
        }
        return;
    }
    for (int64_t l = 0; l < k; l++)
        for (int64_t j = 0; j < TILE_COLUMNS; j++)
            panel[l * TILE_COLUMNS + j] = j < columns ? b[l * ldb + j] : 0;
}

/* The same where b' is b [n, k] transposed. */
static void pack_columns(int64_t k, int64_t columns, const real *b, int64_t ldb, real *panel)
{
    int64_t whole = columns == TILE_COLUMNS ? k / LANES * LANES : 0;
    for (int64_t l = 0; l < whole; l += LANES)
        for (int64_t j = 0; j < TILE_COLUMNS; j += LANES)
            transpose_block(LANES, b + j * ldb + l, ldb, panel + l * TILE_COLUMNS + j, TILE_COLUMNS);
    for (int64_t j = 0; j < TILE_COLUMNS; j++)
        for (int64_t l = whole; l < k; l++) panel[l * TILE_COLUMNS + j] = j < columns ? b[j * ldb + l] : 0;
}

/* [k, columns] of b', from its row `row` and its column `column` on. */
static void pack(bool transpose_b, int64_t row, int64_t k, int64_t column, int64_t columns, const real *b,
                 int64_t ldb, real *panel)
{
    if (transpose_b)
        pack_columns(k, columns, b + column * ldb + row, ldb, panel);
    else
        pack_rows(k, columns, b + row * ldb + column, ldb, panel);
}

static int64_t whole_panels(int64_t n)
{
    return (n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
}

int64_t VARIANT(qkv_, gemm_panels_count)(int64_t n, int64_t k)
{
    return whole_panels(n) * k;
}

/* One behind the other: all panels of the first MOST_INNER of the inner axis, then those of the next. */
void VARIANT(qkv_, gemm_panels)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                real *panels)
{
    for (int64_t l = 0; l < k; l += MOST_INNER) {
        int64_t inner = k - l < MOST_INNER ? k - l : MOST_INNER;
        for (int64_t j = 0; j < n; j += TILE_COLUMNS, panels += inner * TILE_COLUMNS)
            pack(transpose_b, l, inner, j, n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS, b, ldb, panels);
    }
}

/* ---- tiles ---- */

/* Where a product goes: c [m, n] = product + bias + beta c; bias [n] or NULL. Each tile also fetches the next
 * `each` bytes of `soon` into the cache, which the caller needs afterwards. */
struct into {
    real *c;
    int64_t ldc;
    real beta;
    const real *bias;
    const char *soon;
    int64_t each;
};

static inline struct into into_at(struct into into, int64_t row, int64_t column)
{
    into.c += row * into.ldc + column;
    if (into.bias) into.bias += column;
    return into;
}

/* For what comes behind the first MOST_INNER of the inner axis. */
static inline struct into added_to(struct into into)
{
    into.beta = 1;
    into.bias = NULL;
    return into;
}

/* A vector of the result, once it is summed up. */
static inline __attribute__((always_inline)) void put(vector sum, struct into into, int64_t row,
                                                      int64_t column)
{
    real *to = into.c + row * into.ldc + column;
    if (into.bias) sum += load(into.bias + column);
    if (into.beta > 0) sum += into.beta * load(to);
    store(to, sum);
}

static inline void put_number(real sum, struct into into, int64_t row, int64_t column)
{
    real *to = into.c + row * into.ldc + column;
    if (into.bias) sum += into.bias[column];
    *to = sum + (into.beta > 0 ? into.beta * *to : 0);
}

static ONCE void put_narrow(int rows, int64_t columns, const real *spread, struct into into)
{
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) put_number(spread[i * TILE_COLUMNS + j], into, i, j);
}

/* Of c `rows` rows and at most TILE_COLUMNS columns; a' [i, l] is a[i * a_row + l * a_step], row l of b'
 * starts at panel + l * step and has all TILE_COLUMNS. Where `next` is not NULL, row l of the panel that
 * begins there is fetched. `rows` is a constant where this is called, so that the tile stays in registers. */
static inline __attribute__((always_inline)) void tile(const int rows, int64_t columns, int64_t k,
                                                       const real *a, int64_t a_row, int64_t a_step,
                                                       const real *panel, int64_t step, const real *next,
                                                       int64_t next_step, struct into into)
{
    vector sum[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (vector){0};
        /* Rows of c lie far apart, where nothing foresees them: they come while the product is made. */
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(into.c + i * into.ldc, 1);
        __builtin_prefetch(into.c + i * into.ldc + LANES, 1);
    }
    for (int64_t l = 0; l < k; l++) {
        vector left = load(panel + l * step), right = load(panel + l * step + LANES);
        if (next) {
            __builtin_prefetch(next + l * next_step, 0, 2);
            __builtin_prefetch(next + l * next_step + LANES, 0, 2);
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            real factor = a[i * a_row + l * a_step];
            sum[i][0] += factor * left;
            sum[i][1] += factor * right;
        }
    }
    if (columns == TILE_COLUMNS) {
        if (into.bias) {
            vector left = load(into.bias), right = load(into.bias + LANES);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                sum[i][0] += left;
                sum[i][1] += right;
            }
        }
        if (into.beta > 0) {
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                sum[i][0] += into.beta * load(into.c + i * into.ldc);
                sum[i][1] += into.beta * load(into.c + i * into.ldc + LANES);
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            store(into.c + i * into.ldc, sum[i][0]);
            store(into.c + i * into.ldc + LANES, sum[i][1]);
        }
        return;
    }
    real spread[TILE_ROWS][TILE_COLUMNS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        store(spread[i], sum[i][0]);
        store(spread[i] + LANES, sum[i][1]);
    }
    put_narrow(rows, columns, spread[0], into);
}

/* Any number of rows: whole tiles, and what is left by powers of two - few functions, which the compiler is
 * done with soon. */
static inline __attribute__((always_inline)) void tiles(int64_t rows, int64_t columns, int64_t k,
                                                        const real *a, int64_t a_row, int64_t a_step,
                                                        const real *panel, int64_t step, struct into into)
{
    int64_t i = 0;
    for (; i + TILE_ROWS <= rows; i += TILE_ROWS) {
        for (int64_t at = 0; at < into.each; at += CACHE_LINE) __builtin_prefetch(into.soon + at);
        tile(TILE_ROWS, columns, k, a + i * a_row, a_row, a_step, panel, step, NULL, 0, into_at(into, i, 0));
        if (into.each > 0) into.soon += into.each;
    }
#define ROWS(number)                                                                                         \
    if (number < TILE_ROWS && rows - i >= number) {                                                          \
        tile(number < TILE_ROWS ? number : TILE_ROWS, columns, k, a + i * a_row, a_row, a_step, panel, step, \
             NULL, 0, into_at(into, i, 0));                                                                  \
        i += number;                                                                                         \
    }
    if (rows - i < 10) ROWS(8) /* 10 and 11 are sooner made as 6 and 4: a tile of 2 waits for its own sums */
    ROWS(6)
    ROWS(4)
    ROWS(2)
    ROWS(1)
#undef ROWS
}

/* Both are made apart because distances that are constants leave more registers to the tile: 5 % of the time.
 */
static ONCE void panel_tiles(int64_t rows, int64_t columns, int64_t k, const real *a, int64_t a_row,
                             int64_t a_step, const real *panel, struct into into)
{
    tiles(rows, columns, k, a, a_row, a_step, panel, TILE_COLUMNS, into);
}

/* A whole tile that meanwhile fetches what b's next panel is made of, or that panel. */
static ONCE void tile_ahead(int64_t k, const real *a, int64_t a_row, int64_t a_step, const real *panel,
                            const real *next, int64_t next_step, struct into into)
{
    tile(TILE_ROWS, TILE_COLUMNS, k, a, a_row, a_step, panel, TILE_COLUMNS, next, next_step, into);
}

static ONCE void direct_tiles(int64_t rows, int64_t k, const real *a, int64_t a_row, int64_t a_step,
                              const real *b, int64_t ldb, struct into into)
{
    tiles(rows, TILE_COLUMNS, k, a, a_row, a_step, b, ldb, into);
}

/* `direct`: b is read where it stands, which pays where its rows are in a cache and so few rows of a go by
 * that a panel would not be used again. `ahead`: what a panel takes of b is fetched while the one before it
 * is multiplied. */
static void by_tiles(bool transpose_a, bool transpose_b, bool direct, bool ahead, int64_t m, int64_t n,
                     int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb, struct into into)
{
    _Alignas(64) real panel[MOST_INNER * TILE_COLUMNS];
    int64_t a_row = transpose_a ? 1 : lda, a_step = transpose_a ? lda : 1;
    for (int64_t l = 0; l < k; l += MOST_INNER) {
        int64_t inner = k - l < MOST_INNER ? k - l : MOST_INNER;
        if (l > 0) into = added_to(into);
        for (int64_t j = 0; j < n; j += TILE_COLUMNS) {
            int64_t columns = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS;
            const real *rest = a + l * a_step;
            if (direct && columns == TILE_COLUMNS) {
                direct_tiles(m, inner, rest, a_row, a_step, b + l * ldb + j, ldb, into_at(into, 0, j));
                continue;
            }
            pack(transpose_b, l, inner, j, columns, b, ldb, panel);
            int64_t done = ahead && n - j >= 2 * TILE_COLUMNS ? TILE_ROWS : 0;
            const real *next = b + l * ldb + j + TILE_COLUMNS;
            if (done) tile_ahead(inner, rest, a_row, a_step, panel, next, ldb, into_at(into, 0, j));
            panel_tiles(m - done, columns, inner, rest + done * a_row, a_row, a_step, panel,
                        into_at(into, done, j));
            if (into.each > 0) into.soon += m / TILE_ROWS * into.each;
        }
    }
}

/* n columns of b' [k, all], from column `first` on, which begins a panel. */
static void by_panels(int64_t m, int64_t all, int64_t first, int64_t n, int64_t k, const real *a, int64_t lda,
                      const real *panels, struct into into)
{
    for (int64_t l = 0; l < k; l += MOST_INNER) {
        int64_t inner = k - l < MOST_INNER ? k - l : MOST_INNER;
        const real *panel = panels + l * whole_panels(all) + first * inner;
        if (l > 0) into = added_to(into);
        for (int64_t j = 0; j < n; j += TILE_COLUMNS, panel += inner * TILE_COLUMNS) {
            int64_t columns = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS;
            int64_t done = m >= TILE_ROWS && n - j >= 2 * TILE_COLUMNS ? TILE_ROWS : 0;
            const real *next = panel + inner * TILE_COLUMNS;
            if (done) tile_ahead(inner, a + l, lda, 1, panel, next, TILE_COLUMNS, into_at(into, 0, j));
            panel_tiles(m - done, columns, inner, a + l + done * lda, lda, 1, panel, into_at(into, done, j));
        }
    }
}

/* ---- a few rows, as while decoding ---- */

enum {
    FEW_ROWS = 3, /* for more, panels pay */
    RUN = 1024,   /* columns whose sums stay in the first-level cache meanwhile */
};

/* `rows` rows and `vectors` vectors of the result, in registers; both are constants where this is called. */
static inline __attribute__((always_inline)) void strip(const int rows, const int vectors, int64_t k,
                                                        const real *a, int64_t lda, const real *b,
                                                        int64_t ldb, struct into into)
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
            for (int i = 0; i < rows; i++) sum[i][v] += a[i * lda + l] * right;
        }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) put(sum[i][v], into, i, v * LANES);
}

/* b is in a cache: strips of it go by, as wide as the registers allow for their sums. */
static inline __attribute__((always_inline)) void near_rows(const int rows, int64_t n, int64_t k,
                                                            const real *a, int64_t lda, const real *b,
                                                            int64_t ldb, struct into into)
{
    int64_t j = 0;
    for (; rows == 1 && j + 8 * LANES <= n; j += 8 * LANES)
        strip(rows, 8, k, a, lda, b + j, ldb, into_at(into, 0, j));
    /* Four sums at least: of fewer, each waits for the one before it. */
    for (; j + 4 * LANES <= n; j += 4 * LANES) strip(rows, 4, k, a, lda, b + j, ldb, into_at(into, 0, j));
    for (; j + 2 * LANES <= n; j += 2 * LANES) strip(rows, 2, k, a, lda, b + j, ldb, into_at(into, 0, j));
    for (; j + LANES <= n; j += LANES) strip(rows, 1, k, a, lda, b + j, ldb, into_at(into, 0, j));
    if (j < n) by_tiles(false, false, false, false, rows, n - j, k, a, lda, b + j, ldb, into_at(into, 0, j));
}

/* b is large: it goes by once, in the order in which it lies in memory. */
static void far_rows(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                     struct into into)
{
    /* Apart from c: what is added to a large number one by one loses digits. */
    _Alignas(64) real sums[FEW_ROWS][RUN];
    for (int64_t j = 0; j < n; j += RUN) {
        int64_t columns = n - j < RUN ? n - j : RUN, l = 0;
        for (int64_t i = 0; i < m; i++) memset(sums[i], 0, (size_t)columns * sizeof(real));
        for (; l + 4 <= k; l += 4) {
            const real *restrict b0 = b + l * ldb + j, *restrict b1 = b0 + ldb, *restrict b2 = b1 + ldb,
                                 *restrict b3 = b2 + ldb;
            for (int64_t i = 0; i < m; i++) {
                real *restrict sum = sums[i];
                const real *x = a + i * lda + l;
                for (int64_t o = 0; o < columns; o++)
                    sum[o] += (x[0] * b0[o] + x[1] * b1[o]) + (x[2] * b2[o] + x[3] * b3[o]);
            }
        }
        for (; l < k; l++)
            for (int64_t i = 0; i < m; i++)
                for (int64_t o = 0; o < columns; o++) sums[i][o] += a[i * lda + l] * b[l * ldb + j + o];
        for (int64_t i = 0; i < m; i++)
            for (int64_t o = 0; o < columns; o++) put_number(sums[i][o], into, i, j + o);
    }
}

static void few_rows_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                                int64_t ldb, struct into into)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) put_number(row_dot(k, a + i * lda, b + j * ldb), into, i, j);
}

static void by_library(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                       int64_t lda, const real *b, int64_t ldb, struct into into)
{
    enum CBLAS_TRANSPOSE ta = transpose_a ? CblasTrans : CblasNoTrans,
                         tb = transpose_b ? CblasTrans : CblasNoTrans;
    real *c = into.c;
    blasint ldc = (blasint)into.ldc;
    for (int64_t i = 0; into.bias && i < m; i++)
        memcpy(c + i * into.ldc, into.bias, (size_t)n * sizeof(real));
    real beta = into.bias ? 1 : into.beta;
#ifdef QKV_KERNEL_IS_float32
    cblas_sgemm(CblasRowMajor, ta, tb, (blasint)m, (blasint)n, (blasint)k, 1.0f, a, (blasint)lda, b,
                (blasint)ldb, beta, c, ldc);
#else
    cblas_dgemm(CblasRowMajor, ta, tb, (blasint)m, (blasint)n, (blasint)k, 1.0, a, (blasint)lda, b,
                (blasint)ldb, beta, c, ldc);
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

struct product {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    const real *a, *b, *panels; /* panels: NULL, or b' */
    int64_t lda, ldb;
    struct into into;
    bool ahead;    /* whether to fetch b ahead where it is far: pays in forward */
    int64_t piece; /* columns that a thread takes at a time */
};

/* Whether b's rows lie so far apart that the processor does not foresee them, and there are tiles enough to
 * fetch them meanwhile: a column of cache lines each. (Rows of 512 and 2,048 numbers: 0.97.) */
static bool is_far(const struct product *p)
{
    enum { FAR = 4096 };
    return !p->transpose_b && p->ldb > FAR && p->m >= 2 * TILE_ROWS;
}

/* Columns first .. first + n - 1, in a way that only depends on the whole product: each number of the result
 * has the same bits, whoever makes it. */
static void make_columns(const struct product *p, int64_t first, int64_t n)
{
    const real *b = p->b + first * (p->transpose_b ? p->ldb : 1);
    struct into into = into_at(p->into, 0, first);
    bool few = !p->transpose_a && p->m <= FEW_ROWS, near = is_near(p->n, p->k);
    if (p->panels)
        by_panels(p->m, p->n, first, n, p->k, p->a, p->lda, p->panels, into);
    else if (few && p->transpose_b && (p->m == 1 || !near))
        few_rows_transposed(p->m, n, p->k, p->a, p->lda, b, p->ldb, into);
    else if (few && !p->transpose_b && !near)
        far_rows(p->m, n, p->k, p->a, p->lda, b, p->ldb, into);
    else if (few && !p->transpose_b && p->m == 1)
        near_rows(1, n, p->k, p->a, p->lda, b, p->ldb, into);
    else if (few && !p->transpose_b && p->m == 2)
        near_rows(2, n, p->k, p->a, p->lda, b, p->ldb, into);
    else if (few && !p->transpose_b)
        near_rows(3, n, p->k, p->a, p->lda, b, p->ldb, into);
    else if (!is_large(p->m, p->n, p->k))
        by_tiles(p->transpose_a, p->transpose_b, !p->transpose_b && near && p->m <= TILE_ROWS,
                 p->ahead && is_far(p), p->m, n, p->k, p->a, p->lda, b, p->ldb, into);
    else
        by_library(p->transpose_a, p->transpose_b, p->m, n, p->k, p->a, p->lda, b, p->ldb, into);
}

static void make_piece(void *context, int piece)
{
    const struct product *p = context;
    int64_t first = piece * p->piece, rest = p->n - first;
    make_columns(p, first, rest < p->piece ? rest : p->piece);
}

void VARIANT(qkv_, gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                         int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    struct into into = {c, ldc, beta, NULL, NULL, 0};
    struct product p = {transpose_a, transpose_b, m, n, k, a, b, NULL, lda, ldb, into, false, 0};
    make_columns(&p, 0, n);
}

void VARIANT(qkv_, gemm_ahead)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                               const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c,
                               int64_t ldc, const real *soon, int64_t count)
{
    struct into into = {c, ldc, beta, NULL, (const char *)soon, 0};
    int64_t across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS, deep = (k + MOST_INNER - 1) / MOST_INNER;
    int64_t whole = m / TILE_ROWS * across * deep;
    int64_t lines = (count * (int64_t)sizeof(real) + CACHE_LINE - 1) / CACHE_LINE;
    if (whole > 0) into.each = (lines + whole - 1) / whole * CACHE_LINE;
    struct product p = {transpose_a, transpose_b, m, n, k, a, b, NULL, lda, ldb, into, false, 0};
    make_columns(&p, 0, n);
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
    struct product p = {false, transpose_b, m, n, k, a, b, panels, lda, ldb, {c, ldc, 0, bias, NULL, 0}, true,
                        0};
    p.piece = whole_panels(n / PIECES);
    if (p.piece > RUN) p.piece = RUN;
    if (!workers || is_near(n, k) || is_large(m, n, k) || p.piece < 4 * TILE_COLUMNS)
        make_columns(&p, 0, n);
    else
        qkv_workers_run(workers, (int)((n + p.piece - 1) / p.piece), make_piece, &p);
}
