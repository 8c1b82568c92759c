/* Matrix products of any size. gemm.c chooses the kernel, and has that for few rows, as in decoding;
 * gemm_tiles.c has those for all others in float32, and for those of moderate size in float64. OpenBLAS multiplies large
 * matrices in float64, and in float32 with QKV_KERNELS=blas. All matrices are row-major. */
#pragma once

#include "kernels/kernel.h"
#include "kernels/vectors.h"
#include "qkv/base.h"

#define gemm          VARIANT(qkv_, gemm)
#define gemm_prefetch VARIANT(qkv_, gemm_prefetch)
#define gemm_bias     VARIANT(qkv_, gemm_bias)

/* c [m, n] = a' [m, k] b' [k, n] + beta c, where a' is a, or its transpose if transpose_a is set,
 * and b' is b, or its transpose if transpose_b is set. beta is 0 (c may be uninitialised) or 1.
 * lda, ldb and ldc are the strides of rows. */
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a, int64_t lda,
          const real *b, int64_t ldb, real beta, real *c, int64_t ldc);

/* gemm, which also loads the `count` numbers at `prefetch` into the cache; the caller reads them
 * next. */
void gemm_prefetch(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                   int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc,
                   const real *prefetch, int64_t count);

/* gemm_panels packs b' [k, n] into panels, the order in which gemm_bias reads it.
 * gemm_panels_count: how many numbers the panels have. */
int64_t VARIANT(qkv_, gemm_panels_count)(int64_t n, int64_t k);
void VARIANT(qkv_, gemm_panels)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                real *panels);

/* Whether gemm_bias reads panels for a product of this size. */
bool VARIANT(qkv_, gemm_reads_panels)(int64_t m, int64_t n, int64_t k);

/* Declarations shared by gemm.c and gemm_tiles.c: the description of a product, and the kernels that compute
 * it. */

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

/* Computes a product without transpose_a, with beta 0. panels: b' as gemm_panels packs it, or NULL. workers, if not NULL, share
 * the columns of a large b; results have the same bits without them. */
void gemm_bias(struct qkv_workers *workers, const struct product *p, const real *panels);

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
#define gemm_few_cached     VARIANT(qkv_, gemm_few_cached)
#define gemm_few_streamed   VARIANT(qkv_, gemm_few_streamed)
#define gemm_few_transposed VARIANT(qkv_, gemm_few_transposed)

/* A packed b' of `all_columns` columns; those of a product start at column `first`, a multiple of TILE_COLUMNS. */
struct panels {
    const real *numbers;
    int64_t all_columns, first;
};

/* Multiplies by tiles (gemm_tiles.c), which read `panels` if that is not NULL. direct: read b without packing it, which pays if b
 * is in a cache and a panel would be read only once, by one tile. prefetch_b: while the first tile of a panel is
 * computed, prefetch the columns of b that go into the next panel. */
void gemm_by_tiles(const struct product *p, const struct panels *panels, bool direct, bool prefetch_b);

/* float32: multiplies a large product by tiles that read packed copies of both a and b. Needs half a megabyte of stack. */
void gemm_by_blocks(const struct product *p);

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

/* Code shared by tiles of every precision: prefetching the rows of c at the beginning, and storing the sums from registers
 * to c at the end. */

/* Row stride of c (in numbers) above which a tile prefetches the rows that it will write, because the processor does not
 * prefetch them by itself. */
enum { FAR_ROWS = 256 };

/* Prefetches rows row .. row + rows - 1 of a tile of c, if it will read them or they are far apart. Callers pass a constant
 * for `rows`. */
static inline __attribute__((always_inline)) void prefetch_tile(const int rows, int64_t row,
                                                                const struct output *output)
{
    const int64_t ldc = output->ldc;
    const real *c = output->c + row * ldc;
    if (output->beta <= 0 && ldc <= FAR_ROWS) return;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(c + i * ldc, 1);
        __builtin_prefetch(c + i * ldc + LANES, 1);
    }
}

/* Stores a tile with fewer than TILE_COLUMNS columns. */
static NOINLINE void store_narrow(int rows, int64_t columns, const real *buffer, struct output output)
{
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) store_number(buffer[i * TILE_COLUMNS + j], &output, i, j);
}

/* Stores rows row .. row + rows - 1 of c [.., columns], columns <= TILE_COLUMNS, from their sums. Callers pass a constant
 * for `rows`. */
static inline __attribute__((always_inline)) void finish_tile(const int rows, int64_t columns,
                                                              vector sum[TILE_ROWS][2], int64_t row,
                                                              const struct output *output)
{
    int64_t ldc = output->ldc;
    real *c = output->c + row * ldc;
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
                sum[i][0] += load(c + i * ldc);
                sum[i][1] += load(c + i * ldc + LANES);
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
