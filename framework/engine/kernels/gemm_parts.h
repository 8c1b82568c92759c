/* Declarations shared by gemm.c, gemm_tiles.c and gemm_rows.c: the description of a product, and the kernels that compute
 * it. */
#ifndef QKV_KERNELS_GEMM_PARTS_H
#define QKV_KERNELS_GEMM_PARTS_H

#include "kernels/gemm.h"
#include "kernels/vectors.h"

enum {
#if defined(__AVX512F__)
    TILE_ROWS = 12, /* 24 of 32 registers hold the tile */
#else
    TILE_ROWS = 6, /* with AVX2, 12 of 16 */
#endif
    TILE_COLUMNS = 2 * LANES,
    /* Rows of b' in a panel, which then has at most 32 KiB and stays in the first-level cache. It is the same for every
     * instruction set, because it determines the order of sums: c is the sum of the products of these blocks. */
    INNER_BLOCK = 256,
    FEW_ROWS = 3,        /* largest m of the kernels for few rows; with more rows, packing b pays */
    COLUMN_BLOCK = 1024, /* FEW_ROWS rows of sums of this many columns stay in the first-level cache */
    CACHE_LINE = 64,
};

/* Where the result of a product goes, and its epilogue: c [m, n] = product + bias [n] + beta c; bias may be
 * NULL. Each full tile also prefetches the next `prefetch_per_tile` bytes at `prefetch`: operands of the
 * caller's next product, not of this one (see gemm_prefetch). */
struct output {
    real *c;
    int64_t ldc;
    real beta;
    const real *bias;
    const char *prefetch;
    int64_t prefetch_per_tile;
};

/* The output for the part of c that starts at [row, column], without prefetching. */
static inline struct output output_at(const struct output *output, int64_t row, int64_t column)
{
    return (struct output){.c = output->c + row * output->ldc + column,
                           .ldc = output->ldc,
                           .beta = output->beta,
                           .bias = output->bias ? output->bias + column : NULL};
}

/* c [m, n] = a' [m, k] b' [k, n], with the epilogue `output`; see gemm.h. */
struct product {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    const real *a, *b;
    int64_t lda, ldb;
    struct output output;
};

/* Sets `output` to the columns of c from `column` on. first: this is the product of the first INNER_BLOCK rows of b'; the
 * products of later rows are added to c (beta 1, no bias). */
static inline void set_columns(struct output *output, const struct output *complete, int64_t column,
                               bool first)
{
    output->c = complete->c + column;
    output->bias = complete->bias && first ? complete->bias + column : NULL;
    if (!first) output->beta = 1;
}

/* c [row, column] = sum + bias + beta c. */
static inline void store_number(real sum, const struct output *output, int64_t row, int64_t column)
{
    real *to = output->c + row * output->ldc + column;
    if (output->bias) sum += output->bias[column];
    if (output->beta > 0) sum += *to;
    *to = sum;
}

#define gemm_by_tiles       VARIANT(qkv_, gemm_by_tiles)
#define gemm_by_blocks      VARIANT(qkv_, gemm_by_blocks)
#define gemm_by_panels      VARIANT(qkv_, gemm_by_panels)
#define gemm_few_cached     VARIANT(qkv_, gemm_few_cached)
#define gemm_few_streamed   VARIANT(qkv_, gemm_few_streamed)
#define gemm_few_transposed VARIANT(qkv_, gemm_few_transposed)

/* Multiplies by tiles (gemm_tiles.c). direct: read b without packing it, which pays if b is in a
 * cache and a panel would be read only once, by one tile. prefetch_b: while the first tile of a panel is
 * computed, prefetch the columns of b that go into the next panel. */
void gemm_by_tiles(const struct product *p, bool direct, bool prefetch_b);

/* float32: multiplies a large product by tiles that read packed copies of both a and b. Needs half a megabyte of stack. */
void gemm_by_blocks(const struct product *p);

/* Multiplies by tiles that read `panels`, a packed b' of `all_columns` columns. The columns of p
 * start at column `first` of that b', a multiple of TILE_COLUMNS. */
void gemm_by_panels(const struct product *p, const real *panels, int64_t all_columns, int64_t first);

/* Multiply at most FEW_ROWS rows, as in decoding. gemm_few_cached: b stays in a cache;
 * gemm_few_streamed: b is larger and is read once, in memory order; gemm_few_transposed: b is
 * read transposed (transpose_b). transpose_a must be false. */
void gemm_few_cached(const struct product *p);
void gemm_few_streamed(const struct product *p);
void gemm_few_transposed(const struct product *p);

/* n, rounded up to complete tiles. */
static inline int64_t padded_columns(int64_t n)
{
    return (n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
}

#endif
