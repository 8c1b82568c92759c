/* What gemm.c, gemm_tiles.c and gemm_rows.c share: the description of a product, and the kernels that
 * compute it. */
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
    INNER_BLOCK = 32768 / (TILE_COLUMNS * sizeof(real)), /* a panel stays in the first-level cache */
    FEW_ROWS = 3,        /* most rows of the few-row kernels; with more, packing pays */
    COLUMN_BLOCK = 1024, /* columns of a few rows whose sums stay in the first-level cache */
    CACHE_LINE = 64,
};

/* The epilogue of a product: c [m, n] = product + bias + beta c; bias [n] or NULL. Each tile also
 * prefetches the next `prefetch_per_tile` bytes at `prefetch`, which the caller needs afterwards. */
struct output {
    real *c;
    int64_t ldc;
    real beta;
    const real *bias;
    const char *prefetch;
    int64_t prefetch_per_tile;
};

static inline struct output output_at(const struct output *output, int64_t row, int64_t column)
{
    return (struct output){.c = output->c + row * output->ldc + column,
                           .ldc = output->ldc,
                           .beta = output->beta,
                           .bias = output->bias ? output->bias + column : NULL};
}

struct product {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    const real *a, *b;
    int64_t lda, ldb;
    struct output output;
};

static inline void store_number(real sum, const struct output *output, int64_t row, int64_t column)
{
    real *to = output->c + row * output->ldc + column;
    if (output->bias) sum += output->bias[column];
    *to = sum + (output->beta > 0 ? output->beta * *to : 0);
}

#define gemm_by_tiles       VARIANT(qkv_, gemm_by_tiles)
#define gemm_by_panels      VARIANT(qkv_, gemm_by_panels)
#define gemm_few_cached     VARIANT(qkv_, gemm_few_cached)
#define gemm_few_streamed   VARIANT(qkv_, gemm_few_streamed)
#define gemm_few_transposed VARIANT(qkv_, gemm_few_transposed)

/* Tiles. direct: read b without packing it, which pays if b is in a cache and a has so few rows that a
 * panel would be used once. prefetch_b: prefetch the next panel's part of b while a panel is multiplied. */
void gemm_by_tiles(const struct product *p, bool direct, bool prefetch_b);

/* Tiles that read packed panels of a b' of `all` columns. The columns of p start at column `first` of it,
 * a multiple of TILE_COLUMNS. */
void gemm_by_panels(const struct product *p, const real *panels, int64_t all, int64_t first);

/* At most FEW_ROWS rows, as in decoding: for a b in a cache; for a large b, which is streamed once in
 * memory order; for a transposed b. */
void gemm_few_cached(const struct product *p);
void gemm_few_streamed(const struct product *p);
void gemm_few_transposed(const struct product *p);

static inline int64_t padded_columns(int64_t n)
{
    return (n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
}

#endif
