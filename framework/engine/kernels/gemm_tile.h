/* Code shared by tiles of every precision: prefetching the rows of c at the beginning, and storing the sums from registers
 * to c at the end. */
#ifndef QKV_KERNELS_GEMM_TILE_H
#define QKV_KERNELS_GEMM_TILE_H

#include "kernels/gemm_parts.h"

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

#endif
