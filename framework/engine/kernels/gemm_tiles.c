/* Matrix products by tiles (Goto and van de Geijn 2008): a tile of c [TILE_ROWS, TILE_COLUMNS]
 * stays in registers while it accumulates the product of rows of a and a panel of b. Of large
 * products both a and b are packed; of smaller ones only b, because packing a would cost more than it saves. */
#include "kernels/gemm.h"

/* ---- panels: a panel is a contiguous copy of b' [k, TILE_COLUMNS], padded with zero columns ---- */

/* panel [k, TILE_COLUMNS] = b [k, columns], padded. */
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

/* panel [k, TILE_COLUMNS] = the transpose of b [columns, k], padded. */
static void pack_columns(int64_t k, int64_t columns, const real *b, int64_t ldb, real *panel)
{
    int64_t full = columns == TILE_COLUMNS ? k / LANES * LANES : 0;
    for (int64_t l = 0; l < full; l += LANES)
        for (int64_t j = 0; j < TILE_COLUMNS; j += LANES)
            transpose_block(LANES, b + j * ldb + l, ldb, panel + l * TILE_COLUMNS + j, TILE_COLUMNS);
    for (int64_t j = 0; j < TILE_COLUMNS; j++)
        for (int64_t l = full; l < k; l++) panel[l * TILE_COLUMNS + j] = j < columns ? b[j * ldb + l] : 0;
}

/* Packs the part [k, columns] of b' that starts at [row, column]. */
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

/* Stores all panels of the first INNER_BLOCK rows of b', then those of the next INNER_BLOCK rows. */
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

/* The operands of a tile: a' [i, l] is a[i * a_row + l * a_step], and row l of b' [k, TILE_COLUMNS]
 * starts at b + l * b_step. prefetch: NULL, or where the columns of b that go into the next panel begin,
 * with rows prefetch_step apart. */
struct operands {
    const real *a;
    int64_t a_row, a_step;
    const real *b;
    int64_t b_step;
    const real *prefetch;
    int64_t prefetch_step;
};

/* Computes rows row .. row + rows - 1 of c [.., columns], columns <= TILE_COLUMNS. Callers pass a
 * constant for `rows`, so that the tile stays in registers. */
static inline __attribute__((always_inline)) void tile(const int rows, int64_t columns, int64_t k,
                                                       const struct operands *operands, int64_t row,
                                                       const struct output *output, bool prefetch_b)
{
    int64_t a_row = operands->a_row, a_step = operands->a_step, b_step = operands->b_step;
    const real *b = operands->b, *prefetch = operands->prefetch, *a[TILE_ROWS / 3];
    vector sum[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (vector){0};
#pragma GCC unroll 4
    for (int i = 0; i < rows; i += 3) a[i / 3] = operands->a + (row + i) * a_row;
    prefetch_tile(rows, row, output);
    for (int64_t l = k; l > 0; l--) {
        vector left = load(b), right = load(b + LANES);
        if (prefetch_b) {
            __builtin_prefetch(prefetch, 0, 2);
            __builtin_prefetch(prefetch + LANES, 0, 2);
            prefetch += operands->prefetch_step;
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            real factor = a[i / 3][i % 3 * a_row]; /* addresses of all rows would not fit into registers */
            sum[i][0] = vector_fused(all_lanes(factor), left, sum[i][0]);
            sum[i][1] = vector_fused(all_lanes(factor), right, sum[i][1]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i += 3) a[i / 3] += a_step;
        b += b_step;
    }
    finish_tile(rows, columns, sum, row, output);
}

/* One function per number of rows, not inlined: in a loop, GCC would keep the addresses of all rows
 * of c in memory and increment them after each tile, which costs a tenth of the time of a tile with
 * k = 64. */
#define TILE(name, rows, prefetch_b)                                                                         \
    static NOINLINE void name(int64_t columns, int64_t k, const struct operands *operands, int64_t row,      \
                              const struct output *output)                                                   \
    {                                                                                                        \
        tile((rows) < TILE_ROWS ? (rows) : TILE_ROWS, columns, k, operands, row, output, prefetch_b);        \
    }
TILE(tile_full, TILE_ROWS, false)
TILE(tile_prefetching, TILE_ROWS, true)
TILE(tile_8, 8, false)
TILE(tile_6, 6, false)
TILE(tile_4, 4, false)
TILE(tile_2, 2, false)
TILE(tile_1, 1, false)
#undef TILE

/* Computes c [rows, columns]: full tiles, then smaller ones. The first full tile prefetches the next panel's
 * columns of b; every full tile prefetches a part of what the caller reads next. All read `output`
 * through the pointer: a copy would have to be stored first, and its stores would wait for those of the
 * previous tile. */
static void tiles(int64_t rows, int64_t columns, int64_t k, const struct operands *operands,
                  struct output *output)
{
    int64_t i = 0;
    for (; i + TILE_ROWS <= rows; i += TILE_ROWS) {
        for (int64_t at = 0; at < output->prefetch_per_tile; at += CACHE_LINE)
            __builtin_prefetch(output->prefetch + at);
        (i == 0 && operands->prefetch ? tile_prefetching : tile_full)(columns, k, operands, i, output);
        if (output->prefetch_per_tile > 0) output->prefetch += output->prefetch_per_tile;
    }
#define ROWS(number)                                                                                         \
    if (number < TILE_ROWS && rows - i >= number) {                                                          \
        tile_##number(columns, k, operands, i, output);                                                      \
        i += number;                                                                                         \
    }
    if (rows - i < 10)
        ROWS(8) /* 10 and 11 rows are faster as 6 + 4 than as 8 + 2: two rows have too few independent sums */
    ROWS(6)
    ROWS(4)
    ROWS(2)
    ROWS(1)
#undef ROWS
}

void gemm_by_tiles(const struct product *p, const struct panels *panels, bool direct, bool prefetch_b)
{
    _Alignas(64) real panel[INNER_BLOCK * TILE_COLUMNS];
    struct output output = p->output;
    struct operands operands = {.a_row = p->transpose_a ? 1 : p->lda, .a_step = p->transpose_a ? p->lda : 1};
    for (int64_t l = 0; l < p->k; l += INNER_BLOCK) {
        int64_t inner = p->k - l < INNER_BLOCK ? p->k - l : INNER_BLOCK;
        operands.a = p->a + l * operands.a_step;
        for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) {
            int64_t columns = p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS;
            bool unpacked = direct && columns == TILE_COLUMNS, is_last = p->n - j < 2 * TILE_COLUMNS;
            operands.b = unpacked ? p->b + l * p->ldb + j : panel;
            operands.b_step = unpacked ? p->ldb : TILE_COLUMNS;
            operands.prefetch = prefetch_b && !is_last ? p->b + l * p->ldb + j + TILE_COLUMNS : NULL;
            operands.prefetch_step = p->ldb;
            if (panels) {
                operands.b =
                    panels->numbers + l * padded_columns(panels->all_columns) + (panels->first + j) * inner;
                operands.prefetch = is_last ? NULL : operands.b + inner * TILE_COLUMNS;
                operands.prefetch_step = TILE_COLUMNS;
            } else if (!unpacked) {
                pack(p->transpose_b, l, inner, j, columns, p->b, p->ldb, panel);
            }
            set_columns(&output, &p->output, j, l == 0);
            tiles(p->m, columns, inner, &operands, &output);
        }
    }
}

#ifdef QKV_KERNEL_IS_float32
/* ---- blocks: a block is a copy of BLOCK_ROWS rows of a' [.., INNER_BLOCK], tile after tile. It stays in the
 * second-level cache while the panels of b' pass by ---- */

enum {
    BLOCK_ROWS = 480,
    /* Numbers from one tile [INNER_BLOCK, TILE_ROWS] to the next, with a cache line between them: else all tiles would
     * compete for the same lines of the cache. */
    BLOCK_TILE = INNER_BLOCK * TILE_ROWS + CACHE_LINE / sizeof(real),
};
_Static_assert(BLOCK_ROWS % TILE_ROWS == 0, "a block has whole tiles");

/* Packs `tiles` tiles of k columns; operands->a is where the first one begins. */
static void pack_block(const struct operands *operands, int64_t tiles, int64_t k, real *block)
{
    const real *a = operands->a;
    int64_t row = operands->a_row, step = operands->a_step, l = 0;
    if (row == 1) /* in memory order: the columns of a transposed matrix may be pages apart */
        for (; l < k; l++)
            for (int64_t t = 0; t < tiles; t++)
                memcpy(block + t * BLOCK_TILE + l * TILE_ROWS, a + l * step + t * TILE_ROWS,
                       TILE_ROWS * sizeof(real));
    else if ((int)TILE_ROWS <=
             (int)LANES) /* a store is LANES wide: the next one overwrites what is too much */
        for (; l + LANES <= k; l += LANES)
            for (int64_t t = 0; t < tiles; t++)
                transpose_block(TILE_ROWS, a + t * TILE_ROWS * row + l, row,
                                block + t * BLOCK_TILE + l * TILE_ROWS, TILE_ROWS);
    for (; l < k; l++)
        for (int64_t t = 0; t < tiles; t++)
            for (int64_t i = 0; i < TILE_ROWS; i++)
                block[t * BLOCK_TILE + l * TILE_ROWS + i] = a[(t * TILE_ROWS + i) * row + l * step];
}

/* Multiplies `rows` rows of a' by the rows l .. l + k - 1 of b'. Rows that fill no tile are read from a itself. */
static void multiply_block(const struct product *p, struct operands *operands, int64_t row, int64_t rows,
                           int64_t l, int64_t k)
{
    _Alignas(64) real block[BLOCK_ROWS / TILE_ROWS * BLOCK_TILE], panel[INNER_BLOCK * TILE_COLUMNS];
    struct operands packed = {
        .a_row = 1, .a_step = TILE_ROWS, .b = panel, .b_step = TILE_COLUMNS, .prefetch_step = p->ldb};
    struct output first = p->output, output = p->output;
    int64_t tiled = rows / TILE_ROWS * TILE_ROWS;
    pack_block(operands, rows / TILE_ROWS, k, block);
    operands->a += tiled * operands->a_row;
    operands->b = panel;
    operands->b_step = TILE_COLUMNS;
    first.c += row * first.ldc;
    for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) {
        int64_t columns = p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS;
        bool prefetch_b = !p->transpose_b && p->n - j >= 2 * TILE_COLUMNS;
        packed.prefetch = p->b + l * p->ldb + j + TILE_COLUMNS;
        pack(p->transpose_b, l, k, j, columns, p->b, p->ldb, panel);
        set_columns(&output, &first, j, l == 0);
        for (int64_t i = 0; i < tiled; i += TILE_ROWS, output.c += TILE_ROWS * output.ldc) {
            packed.a = block + i / TILE_ROWS * BLOCK_TILE;
            (i == 0 && prefetch_b ? tile_prefetching : tile_full)(columns, k, &packed, 0, &output);
        }
        if (tiled < rows) tiles(rows - tiled, columns, k, operands, &output);
    }
}

void gemm_by_blocks(const struct product *p)
{
    struct operands operands = {.a_row = p->transpose_a ? 1 : p->lda, .a_step = p->transpose_a ? p->lda : 1};
    for (int64_t l = 0; l < p->k; l += INNER_BLOCK)
        for (int64_t i = 0; i < p->m; i += BLOCK_ROWS) {
            operands.a = p->a + i * operands.a_row + l * operands.a_step;
            multiply_block(p, &operands, i, p->m - i < BLOCK_ROWS ? p->m - i : BLOCK_ROWS, l,
                           p->k - l < INNER_BLOCK ? p->k - l : INNER_BLOCK);
        }
}

#endif
