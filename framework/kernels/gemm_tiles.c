/* Matrix products of tiles: a tile of the result stays in registers while rows of one side and a panel of the
 * other, 2 vectors wide, go by (Goto and van de Geijn 2008). The library's way - copy both sides, then
 * multiply
 * - costs more than the product where matrices are as small as those of a toy. */
#include "kernels/gemm_parts.h"

enum { FAR_ROWS = 256 }; /* numbers between rows that nothing foresees */

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
    int64_t full = columns == TILE_COLUMNS ? k / LANES * LANES : 0;
    for (int64_t l = 0; l < full; l += LANES)
        for (int64_t j = 0; j < TILE_COLUMNS; j += LANES)
            transpose_block(LANES, b + j * ldb + l, ldb, panel + l * TILE_COLUMNS + j, TILE_COLUMNS);
    for (int64_t j = 0; j < TILE_COLUMNS; j++)
        for (int64_t l = full; l < k; l++) panel[l * TILE_COLUMNS + j] = j < columns ? b[j * ldb + l] : 0;
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

int64_t VARIANT(qkv_, gemm_panels_count)(int64_t n, int64_t k)
{
    return padded_columns(n) * k;
}

/* One behind the other: all panels of the first MOST_INNER of the inner axis, then those of the next. */
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

/* What tiles are made of: a' [i, l] is a[i * a_row + l * a_step], and row l of b' starts at b + l * b_step
 * and has TILE_COLUMNS. Where `next` is not NULL, row l of what begins there is fetched. */
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
    if (output->beta > 0 || ldc > FAR_ROWS) { /* nothing else foresees rows that lie far apart */
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
            real factor = a[i / 3][i % 3 * a_row]; /* one address for each would not fit into registers */
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

/* Each is a function of its own: where they stand in a loop, gcc keeps the address of every row of c in
 * memory and counts all of them up after each tile, a tenth of the time of a tile 64 deep. */
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

/* Any number of rows: whole tiles, of which the first fetches what is `next`, and what is left by powers of
 * two - few functions, which the compiler is done with soon. All read `into` where it is: of a copy the
 * processor would wait for the stores, behind those of the tile before. */
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
    if (rows - i < 10) ROWS(8) /* 10 and 11 are sooner made as 6 and 4: a tile of 2 waits for its own sums */
    ROWS(6)
    ROWS(4)
    ROWS(2)
    ROWS(1)
#undef ROWS
}

/* Columns from `column` on of what goes to `whole`; behind the first run of the inner axis all is added. */
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
