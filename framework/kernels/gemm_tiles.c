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

static ONCE void put_narrow(int rows, int64_t columns, const real *spread, struct into into)
{
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) put_number(spread[i * TILE_COLUMNS + j], &into, i, j);
}

/* Rows row .. row + rows - 1 and at most TILE_COLUMNS columns of c. `rows` is a constant where this is
 * called, so that the tile stays in registers. */
static inline __attribute__((always_inline)) void tile(const int rows, int64_t columns, int64_t k,
                                                       const struct sides *sides, int64_t row,
                                                       const struct into *into, bool ahead)
{
    int64_t a_row = sides->a_row, a_step = sides->a_step, b_step = sides->b_step, ldc = into->ldc;
    const real *b = sides->b, *next = sides->next, *a[TILE_ROWS / 3];
    real *c = into->c + row * ldc;
    vector sum[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (vector){0};
#pragma GCC unroll 4
    for (int i = 0; i < rows; i += 3) a[i / 3] = sides->a + (row + i) * a_row;
    if (into->beta > 0 || ldc > FAR_ROWS) { /* nothing else foresees rows that lie far apart */
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            __builtin_prefetch(c + i * ldc, 1);
            __builtin_prefetch(c + i * ldc + LANES, 1);
        }
    }
    for (int64_t l = k; l > 0; l--) {
        vector left = load(b), right = load(b + LANES);
        if (ahead) {
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
        if (into->bias) {
            vector left = load(into->bias), right = load(into->bias + LANES);
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                sum[i][0] += left;
                sum[i][1] += right;
            }
        }
        if (into->beta > 0) {
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                sum[i][0] += into->beta * load(c + i * ldc);
                sum[i][1] += into->beta * load(c + i * ldc + LANES);
            }
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            store(c + i * ldc, sum[i][0]);
            store(c + i * ldc + LANES, sum[i][1]);
        }
        return;
    }
    real spread[TILE_ROWS][TILE_COLUMNS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        store(spread[i], sum[i][0]);
        store(spread[i] + LANES, sum[i][1]);
    }
    put_narrow(rows, columns, spread[0], into_at(into, row, 0));
}

/* Each is a function of its own: where they stand in a loop, gcc keeps the address of every row of c in
 * memory and counts all of them up after each tile, a tenth of the time of a tile 64 deep. */
#define TILE(name, rows, ahead)                                                                              \
    static ONCE void name(int64_t columns, int64_t k, const struct sides *sides, int64_t row,                \
                          const struct into *into)                                                           \
    {                                                                                                        \
        tile((rows) < TILE_ROWS ? (rows) : TILE_ROWS, columns, k, sides, row, into, ahead);                  \
    }
TILE(tile_whole, TILE_ROWS, false)
TILE(tile_ahead, TILE_ROWS, true)
TILE(tile_8, 8, false)
TILE(tile_6, 6, false)
TILE(tile_4, 4, false)
TILE(tile_2, 2, false)
TILE(tile_1, 1, false)
#undef TILE

/* Any number of rows: whole tiles, of which the first fetches what is `next`, and what is left by powers of
 * two - few functions, which the compiler is done with soon. All read `into` where it is: of a copy the
 * processor would wait for the stores, behind those of the tile before. */
static void tiles(int64_t rows, int64_t columns, int64_t k, const struct sides *sides, struct into *into)
{
    int64_t i = 0;
    for (; i + TILE_ROWS <= rows; i += TILE_ROWS) {
        for (int64_t at = 0; at < into->each; at += CACHE_LINE) __builtin_prefetch(into->soon + at);
        (i == 0 && sides->next ? tile_ahead : tile_whole)(columns, k, sides, i, into);
        if (into->each > 0) into->soon += into->each;
    }
#define ROWS(number)                                                                                         \
    if (number < TILE_ROWS && rows - i >= number) {                                                          \
        tile_##number(columns, k, sides, i, into);                                                           \
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
static inline void aim(struct into *into, const struct into *whole, int64_t column, bool first)
{
    into->c = whole->c + column;
    into->bias = whole->bias && first ? whole->bias + column : NULL;
    if (!first) into->beta = 1;
}

void gemm_by_tiles(const struct product *p, bool direct, bool ahead)
{
    _Alignas(64) real panel[MOST_INNER * TILE_COLUMNS];
    struct into into = p->into;
    struct sides sides = {
        .a_row = p->transpose_a ? 1 : p->lda, .a_step = p->transpose_a ? p->lda : 1, .next_step = p->ldb};
    for (int64_t l = 0; l < p->k; l += MOST_INNER) {
        int64_t inner = p->k - l < MOST_INNER ? p->k - l : MOST_INNER;
        sides.a = p->a + l * sides.a_step;
        for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) {
            int64_t columns = p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS;
            bool stays = direct && columns == TILE_COLUMNS;
            if (!stays) pack(p->transpose_b, l, inner, j, columns, p->b, p->ldb, panel);
            sides.b = stays ? p->b + l * p->ldb + j : panel;
            sides.b_step = stays ? p->ldb : TILE_COLUMNS;
            sides.next = ahead && p->n - j >= 2 * TILE_COLUMNS ? p->b + l * p->ldb + j + TILE_COLUMNS : NULL;
            aim(&into, &p->into, j, l == 0);
            tiles(p->m, columns, inner, &sides, &into);
        }
    }
}

void gemm_by_panels(const struct product *p, const real *panels, int64_t all, int64_t first)
{
    struct into into = p->into;
    struct sides sides = {.a_row = p->lda, .a_step = 1, .b_step = TILE_COLUMNS, .next_step = TILE_COLUMNS};
    for (int64_t l = 0; l < p->k; l += MOST_INNER) {
        int64_t inner = p->k - l < MOST_INNER ? p->k - l : MOST_INNER;
        sides.a = p->a + l;
        sides.b = panels + l * whole_panels(all) + first * inner;
        for (int64_t j = 0; j < p->n; j += TILE_COLUMNS, sides.b += inner * TILE_COLUMNS) {
            int64_t columns = p->n - j < TILE_COLUMNS ? p->n - j : TILE_COLUMNS;
            sides.next = p->n - j >= 2 * TILE_COLUMNS ? sides.b + inner * TILE_COLUMNS : NULL;
            aim(&into, &p->into, j, l == 0);
            tiles(p->m, columns, inner, &sides, &into);
        }
    }
}
