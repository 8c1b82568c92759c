/* Matrix products. The library's way of making them - copy both sides, then multiply - costs more than the
 * product where matrices are as small as those of a toy, so these are made here: a tile of the result stays
 * in registers while a row of one side and a panel of the other, 2 vectors wide, go by (Goto and van de Geijn
 * 2008). Vectors are those of the compiler, as wide as the instruction set of the variant has them. */
#include "kernels/gemm.h"

#include <cblas.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, TILE_ROWS = 12 }; /* 24 of 32 registers hold the tile */
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, TILE_ROWS = 6 }; /* 12 of 16 */
#else
enum { VECTOR_BYTES = 16, TILE_ROWS = 6 };
#endif

enum {
    LANES = VECTOR_BYTES / sizeof(real),
    TILE_COLUMNS = 2 * LANES,
    MOST_INNER = 32768 / (TILE_COLUMNS * sizeof(real)), /* a panel stays in the first-level cache */
};

typedef real vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

static inline vector load(const real *from)
{
    return *(const vector *)from;
}

static inline void store(real *to, vector x)
{
    *(vector *)to = x;
}

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

/* Interleaves the first or the second halves of two vectors: a0 b0 a1 b1 ... */
#if defined(__has_builtin)
#    if __has_builtin(__builtin_shufflevector)
#        define HAVE_SHUFFLE
#    endif
#endif
#ifdef HAVE_SHUFFLE
static inline vector zip(vector a, vector b, bool second)
{
    switch ((int)LANES) {
#    if defined(__AVX512F__) && defined(QKV_KERNEL_IS_float32)
    case 16:
        return second ? __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                                                15, 31)
                      : __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
#    elif defined(__AVX512F__) || (defined(__AVX2__) && defined(QKV_KERNEL_IS_float32))
    case 8:
        return second ? __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                      : __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#    elif defined(__AVX2__) || defined(QKV_KERNEL_IS_float32)
    case 4:
        return second ? __builtin_shufflevector(a, b, 2, 6, 3, 7) : __builtin_shufflevector(a, b, 0, 4, 1, 5);
#    else
    case 2:
        return second ? __builtin_shufflevector(a, b, 1, 3) : __builtin_shufflevector(a, b, 0, 2);
#    endif
    default:
        return a;
    }
}

/* LANES x LANES numbers, transposed: row i meets row i + LANES / 2 again and again, like cards that are
 * shuffled. */
static inline void transpose_block(const real *from, int64_t ld, real *to, int64_t to_ld)
{
    vector x[LANES], y[LANES];
    for (int i = 0; i < LANES; i++) x[i] = load(from + i * ld);
    for (int round = 1; round < LANES; round *= 2) {
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = zip(x[i], x[i + LANES / 2], false);
            y[2 * i + 1] = zip(x[i], x[i + LANES / 2], true);
        }
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
    for (int i = 0; i < LANES; i++) store(to + i * to_ld, x[i]);
}
#else
static inline void transpose_block(const real *from, int64_t ld, real *to, int64_t to_ld)
{
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++) to[i * to_ld + j] = from[j * ld + i];
}
#endif

/* The same where b' is b [n, k] transposed. */
static void pack_columns(int64_t k, int64_t columns, const real *b, int64_t ldb, real *panel)
{
    int64_t whole = columns == TILE_COLUMNS ? k / LANES * LANES : 0;
    for (int64_t l = 0; l < whole; l += LANES)
        for (int64_t j = 0; j < TILE_COLUMNS; j += LANES)
            transpose_block(b + j * ldb + l, ldb, panel + l * TILE_COLUMNS + j, TILE_COLUMNS);
    for (int64_t j = 0; j < TILE_COLUMNS; j++)
        for (int64_t l = whole; l < k; l++) panel[l * TILE_COLUMNS + j] = j < columns ? b[j * ldb + l] : 0;
}

/* ---- tiles ---- */

/* c [rows, columns] = a' [rows, k] panel + beta c; a' [i, l] is a[i * a_row + l * a_step]. `rows` is a
 * constant where this is called, so that the tile stays in registers. */
static inline __attribute__((always_inline)) void tile(const int rows, int64_t columns, int64_t k,
                                                       const real *a, int64_t a_row, int64_t a_step,
                                                       const real *panel, real beta, real *c, int64_t ldc)
{
    vector sum[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (vector){0};
    for (int64_t l = 0; l < k; l++) {
        vector left = load(panel + l * TILE_COLUMNS), right = load(panel + l * TILE_COLUMNS + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            real factor = a[i * a_row + l * a_step];
            sum[i][0] += factor * left;
            sum[i][1] += factor * right;
        }
    }
    if (columns == TILE_COLUMNS) {
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            real *to = c + i * ldc;
            if (beta > 0) {
                sum[i][0] += beta * load(to);
                sum[i][1] += beta * load(to + LANES);
            }
            store(to, sum[i][0]);
            store(to + LANES, sum[i][1]);
        }
        return;
    }
    real spread[TILE_ROWS][TILE_COLUMNS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        store(spread[i], sum[i][0]);
        store(spread[i] + LANES, sum[i][1]);
    }
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            c[i * ldc + j] = spread[i][j] + (beta > 0 ? beta * c[i * ldc + j] : 0);
}

/* The rows behind the last whole tile, by powers of two: few functions, which the compiler is done with soon.
 */
static void last_tiles(int64_t rows, int64_t columns, int64_t k, const real *a, int64_t a_row, int64_t a_step,
                       const real *panel, real beta, real *c, int64_t ldc)
{
    int64_t i = 0;
#define ROWS(number)                                                                                         \
    if (number < TILE_ROWS && rows - i >= number) {                                                          \
        tile(number < TILE_ROWS ? number : TILE_ROWS, columns, k, a + i * a_row, a_row, a_step, panel, beta, \
             c + i * ldc, ldc);                                                                              \
        i += number;                                                                                         \
    }
    ROWS(8)
    ROWS(4)
    ROWS(2)
    ROWS(1)
#undef ROWS
}

static void by_tiles(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                     int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    _Alignas(64) real panel[MOST_INNER * TILE_COLUMNS];
    int64_t a_row = transpose_a ? 1 : lda, a_step = transpose_a ? lda : 1;
    for (int64_t l = 0; l < k; l += MOST_INNER) {
        int64_t inner = k - l < MOST_INNER ? k - l : MOST_INNER;
        real keep = l > 0 ? 1 : beta;
        for (int64_t j = 0; j < n; j += TILE_COLUMNS) {
            int64_t columns = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS, i = 0;
            const real *rest = a + l * a_step;
            if (transpose_b)
                pack_columns(inner, columns, b + j * ldb + l, ldb, panel);
            else
                pack_rows(inner, columns, b + l * ldb + j, ldb, panel);
            for (; i + TILE_ROWS <= m; i += TILE_ROWS)
                tile(TILE_ROWS, columns, inner, rest + i * a_row, a_row, a_step, panel, keep, c + i * ldc + j,
                     ldc);
            last_tiles(m - i, columns, inner, rest + i * a_row, a_row, a_step, panel, keep, c + i * ldc + j,
                       ldc);
        }
    }
}

/* ---- a few rows, as while decoding: b goes by once, in the order in which it lies in memory ---- */

enum {
    FEW_ROWS = 3, /* for more, panels pay */
    RUN = 1024,   /* columns whose sums stay in the first-level cache meanwhile */
};

static void few_rows(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                     real beta, real *c, int64_t ldc)
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
        for (int64_t i = 0; i < m; i++) {
            real *restrict to = c + i * ldc + j;
            for (int64_t o = 0; o < columns; o++) to[o] = sums[i][o] + (beta > 0 ? beta * to[o] : 0);
        }
    }
}

static void few_rows_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                                int64_t ldb, real beta, real *c, int64_t ldc)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const real *restrict x = a + i * lda, *restrict y = b + j * ldb;
            real sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t l = 0; l < k; l++) sum += x[l] * y[l];
            c[i * ldc + j] = sum + (beta > 0 ? beta * c[i * ldc + j] : 0);
        }
}

/* ---- choosing ---- */

static void by_library(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
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

/* From so many multiplications on the library is as fast; and b that is no longer in the first-level cache is
 * better read once than packed for so few rows. */
static const double LARGE = 64e6, NEAR = 65536;

void VARIANT(qkv_, gemm)(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                         int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc)
{
    double size = (double)n * (double)k;
    bool few = !transpose_a && (m == 1 || (m <= FEW_ROWS && size > NEAR));
    if (few && transpose_b)
        few_rows_transposed(m, n, k, a, lda, b, ldb, beta, c, ldc);
    else if (few)
        few_rows(m, n, k, a, lda, b, ldb, beta, c, ldc);
    else if ((double)m * size < LARGE)
        by_tiles(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
    else
        by_library(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}
