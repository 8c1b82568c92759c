/* Matrix products by tiles: a tile of the result stays in registers while it accumulates the products of
 * rows of a and a panel of b that is two vectors wide (Goto and van de Geijn 2008). BLAS packs both
 * sides, which costs more than the product of small matrices. */
#include "kernels/gemm_parts.h"

enum { FAR_ROWS = 256 }; /* stride from which the processor does not prefetch rows */

/* ---- panels: [k, TILE_COLUMNS] of b', contiguous, with zeros after the last column ---- */

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

/* Packs a panel where b' is b [n, k] transposed. */
static void pack_columns(int64_t k, int64_t columns, const real *b, int64_t ldb, real *panel)
{
    int64_t full = columns == TILE_COLUMNS ? k / LANES * LANES : 0;
    for (int64_t l = 0; l < full; l += LANES)
        for (int64_t j = 0; j < TILE_COLUMNS; j += LANES)
            transpose_block(LANES, b + j * ldb + l, ldb, panel + l * TILE_COLUMNS + j, TILE_COLUMNS);
    for (int64_t j = 0; j < TILE_COLUMNS; j++)
        for (int64_t l = full; l < k; l++) panel[l * TILE_COLUMNS + j] = j < columns ? b[j * ldb + l] : 0;
}

/* Packs [k, columns] of b', from its row `row` and column `column` on. */
static void pack(bool transpose_b, int64_t row, int64_t k, int64_t column, int64_t columns, const real *b,
                 int64_t ldb, real *panel)
{
    if (transpose_b)
        pack_columns(k, columns, b + column * ldb + row, ldb, panel);
    else
        pack_rows(k, columns, b + row * ldb + column, ldb, panel);
}

int64_t VARIANT(qkv_, gemm_panels_count)(int64_t n, int64_t k)
{
    return padded_columns(n) * k;
}

/* Order: all panels of the first INNER_BLOCK rows of b', then those of the next. */
void VARIANT(qkv_, gemm_panels)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                real *panels)
{
    for (int64_t l = 0; l < k; l += INNER_BLOCK) {
        int64_t inner = k - l < INNER_BLOCK ? k - l : INNER_BLOCK;
        for (int64_t j = 0; j < n; j += TILE_COLUMNS, panels += inner * TILE_COLUMNS)
            pack(transpose_b, l, inner, j, n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS, b, ldb, panels);
    }
}

/* ---- tiles ---- */

/* The operands of a tile: a' [i, l] is a[i * a_row + l * a_step], and row l of b', TILE_COLUMNS wide,
 * starts at b + l * b_step. If `next` is not NULL, row l of the part of b at `next` is prefetched. */
struct sides {
    const real *a;
    int64_t a_row, a_step;
    const real *b;
    int64_t b_step;
    const real *next;
    int64_t next_step;
};

static NOINLINE void store_narrow(int rows, int64_t columns, const real *buffer, struct output output)
{
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) store_number(buffer[i * TILE_COLUMNS + j], &output, i, j);
}

/* Rows row .. row + rows - 1 and at most TILE_COLUMNS columns of c. `rows` is a constant where this is
 * called, so that the tile stays in registers. */
static inline __attribute__((always_inline)) void tile(const int rows, int64_t columns, int64_t k,
                                                       const struct sides *sides, int64_t row,
                                                       const struct output *output, bool prefetch_b)
{
    int64_t a_row = sides->a_row, a_step = sides->a_step, b_step = sides->b_step, ldc = output->ldc;
    const real *b = sides->b, *next = sides->next, *a[TILE_ROWS / 3];
    real *c = output->c + row * ldc;
    vector sum[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (vector){0};
#pragma GCC unroll 4
    for (int i = 0; i < rows; i += 3) a[i / 3] = sides->a + (row + i) * a_row;
    if (output->beta > 0 || ldc > FAR_ROWS) { /* the processor does not prefetch distant rows */
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            __builtin_prefetch(c + i * ldc, 1);
            __builtin_prefetch(c + i * ldc + LANES, 1);
        }
    }
    for (int64_t l = k; l > 0; l--) {
        vector left = load(b), right = load(b + LANES);
        if (prefetch_b) {
            __builtin_prefetch(next, 0, 2);
            __builtin_prefetch(next + LANES, 0, 2);
            next += sides->next_step;
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            real factor = a[i / 3][i % 3 * a_row]; /* one address per row would not fit into registers */
            sum[i][0] += factor * left;
            sum[i][1] += factor * right;
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i += 3) a[i / 3] += a_step;
        b += b_step;
    }
    if (columns == TILE_COLUMNS) {
        if (output->bias) {
            vector left = load(output->bias), right = load(output->bias + LANES);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                sum[i][0] += left;
                sum[i][1] += right;
            }
        }
        if (output->beta > 0) {
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                sum[i][0] += output->beta * load(c + i * ldc);
                sum[i][1] += output->beta * load(c + i * ldc + LANES);
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            store(c + i * ldc, sum[i][0]);
            store(c + i * ldc + LANES, sum[i][1]);
        }
        return;
    }
    real buffer[TILE_ROWS][TILE_COLUMNS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        store(buffer[i], sum[i][0]);
        store(buffer[i] + LANES, sum[i][1]);
    }
    store_narrow(rows, columns, buffer[0], output_at(output, row, 0));
}

/* One function per size: inlined into a loop, gcc keeps the address of every row of c in memory and
 * increments all of them after each tile, a tenth of the time of a tile 64 deep. */
#define TILE(name, rows, prefetch_b)                                                                         \
    static NOINLINE void name(int64_t columns, int64_t k, const struct sides *sides, int64_t row,            \
                              const struct output *output)                                                   \
    {                                                                                                        \
        tile((rows) < TILE_ROWS ? (rows) : TILE_ROWS, columns, k, sides, row, output, prefetch_b);           \
    }
TILE(tile_full, TILE_ROWS, false)
TILE(tile_prefetching, TILE_ROWS, true)
TILE(tile_8, 8, false)
TILE(tile_6, 6, false)
TILE(tile_4, 4, false)
TILE(tile_2, 2, false)
TILE(tile_1, 1, false)
#undef TILE

/* Any number of rows: full tiles, the first of which prefetches `next`, then smaller ones. All read
 * `output` through the pointer: reading a copy would wait for its stores, which queue behind those of the
 * previous tile. */
static void tiles(int64_t rows, int64_t columns, int64_t k, const struct sides *sides, struct output *output)
{
    int64_t i = 0;
    for (; i + TILE_ROWS <= rows; i += TILE_ROWS) {
        for (int64_t at = 0; at < output->prefetch_per_tile; at += CACHE_LINE)
            __builtin_prefetch(output->prefetch + at);
        (i == 0 && sides->next ? tile_prefetching : tile_full)(columns, k, sides, i, output);
        if (output->prefetch_per_tile > 0) output->prefetch += output->prefetch_per_tile;
    }
#define ROWS(number)                                                                                         \
    if (number < TILE_ROWS && rows - i >= number) {                                                          \
        tile_##number(columns, k, sides, i, output);                                                         \
        i += number;                                                                                         \
    }
    if (rows - i < 10) ROWS(8) /* 10 and 11 rows are faster as 6 and 4: a tile of 2 waits for its own sums */
    ROWS(6)
    ROWS(4)
    ROWS(2)
    ROWS(1)
#undef ROWS
}

/* Sets `output` to the columns of `all` from `column` on. Inner blocks after the first add to c. */
static inline void aim_output(struct output *output, const struct output *all, int64_t column, bool first)
{
    output->c = all->c + column;
    output->bias = all->bias && first ? all->bias + column : NULL;
    if (!first) output->beta = 1;
}

void gemm_by_tiles(const struct product *p, bool direct, bool prefetch_b)
{
    _Alignas(64) real panel[INNER_BLOCK * TILE_COLUMNS];
    struct output output = p->output;
    struct sides sides = {
        .a_row = p->transpose_a ? 1 : p->lda, .a_step = p->transpose_a ? p->lda : 1, .next_step = p->ldb};
    for (int64_t l = 0; l < p->k; l += INNER_BLOCK) {
        int64_t inner = p->k - l < INNER_BLOCK ? p->k - l : INNER_BLOCK;
        sides.a = p->a + l * sides.a_step;
        for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) {
            int64_t columns = p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS;
            bool in_place = direct && columns == TILE_COLUMNS;
            if (!in_place) pack(p->transpose_b, l, inner, j, columns, p->b, p->ldb, panel);
            sides.b = in_place ? p->b + l * p->ldb + j : panel;
            sides.b_step = in_place ? p->ldb : TILE_COLUMNS;
            sides.next =
                prefetch_b && p->n - j >= 2 * TILE_COLUMNS ? p->b + l * p->ldb + j + TILE_COLUMNS : NULL;
            aim_output(&output, &p->output, j, l == 0);
            tiles(p->m, columns, inner, &sides, &output);
        }
    }
}

void gemm_by_panels(const struct product *p, const real *panels, int64_t all, int64_t first)
{
    struct output output = p->output;
    struct sides sides = {.a_row = p->lda, .a_step = 1, .b_step = TILE_COLUMNS, .next_step = TILE_COLUMNS};
    for (int64_t l = 0; l < p->k; l += INNER_BLOCK) {
        int64_t inner = p->k - l < INNER_BLOCK ? p->k - l : INNER_BLOCK;
        sides.a = p->a + l;
        sides.b = panels + l * padded_columns(all) + first * inner;
        for (int64_t j = 0; j < p->n; j += TILE_COLUMNS, sides.b += inner * TILE_COLUMNS) {
            int64_t columns = p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS;
            sides.next = p->n - j >= 2 * TILE_COLUMNS ? sides.b + inner * TILE_COLUMNS : NULL;
            aim_output(&output, &p->output, j, l == 0);
            tiles(p->m, columns, inner, &sides, &output);
        }
    }
}
