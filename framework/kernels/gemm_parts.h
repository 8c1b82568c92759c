/* What the files of matrix products share: the product, and the ways in which it can be made. */
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
    FEW_ROWS = 3,                                        /* for more, panels pay */
    COLUMN_BLOCK = 1024, /* columns whose sums stay in the first-level cache, of few rows */
    CACHE_LINE = 64,
};

/* Where a product goes: c [m, n] = product + bias + beta c; bias [n] or NULL. Each tile also fetches the next
 * `each` bytes of `soon` into the cache, which the caller needs afterwards. */
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

/* Tiles. `direct`: b is read where it stands, which pays where its rows are in a cache and so few rows of a
 * go by that a panel would not be used again. `ahead`: what a panel takes of b is fetched while the one
 * before it is multiplied. */
void gemm_by_tiles(const struct product *p, bool direct, bool prefetch_b);

/* Tiles of panels that there are of a b' of `all` columns; those of p are its columns from `first` on, which
 * begins a panel. */
void gemm_by_panels(const struct product *p, const real *panels, int64_t all, int64_t first);

/* FEW_ROWS at most, as while decoding: of a b in a cache; of a large b, which goes by once, in the order in
 * which it lies in memory; of a b that is transposed. */
void gemm_few_cached(const struct product *p);
void gemm_few_streamed(const struct product *p);
void gemm_few_transposed(const struct product *p);

static inline int64_t padded_columns(int64_t n)
{
    return (n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
}

#endif
