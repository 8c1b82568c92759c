/* Matrix products with at most FEW_ROWS rows, as in decoding. */
#include "kernels/gemm_parts.h"

#include "kernels/sums.h"

/* c = sum + bias + beta c, for the vector of c that starts at [row, column]. */
static inline __attribute__((always_inline)) void store_output(vector sum, struct output output, int64_t row,
                                                               int64_t column)
{
    real *to = output.c + row * output.ldc + column;
    if (output.bias) sum += load(output.bias + column);
    if (output.beta > 0) sum += load(to);
    store(to, sum);
}

/* c [rows, vectors * LANES] = a [rows, k] b, with the sums in registers. Callers pass constants for
 * `rows` and `vectors`. */
static inline __attribute__((always_inline)) void strip(const int rows, const int vectors, int64_t k,
                                                        const real *a, int64_t lda, const real *b,
                                                        int64_t ldb, struct output output)
{
    vector sum[FEW_ROWS][8];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) sum[i][v] = (vector){0};
    for (int64_t l = 0; l < k; l++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            vector right = load(b + l * ldb + v * LANES);
#pragma GCC unroll 8
            for (int i = 0; i < rows; i++)
                sum[i][v] = vector_fused(all_lanes(a[i * lda + l]), right, sum[i][v]);
        }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) store_output(sum[i][v], output, i, v * LANES);
}

/* Multiplies by strips: a strip is as many columns of b as have their sums in registers. */
static inline __attribute__((always_inline)) void cached_rows(const int rows, const struct product *p)
{
    int64_t j = 0;
#define STRIPS(vectors)                                                                                      \
    for (; j + vectors * LANES <= p->n; j += vectors * LANES)                                                \
        strip(rows, vectors, p->k, p->a, p->lda, p->b + j, p->ldb, output_at(&p->output, 0, j));
    if (rows == 1) STRIPS(8)
    STRIPS(4) /* four independent sums: with fewer, each addition waits for the one before it */
    STRIPS(2)
    STRIPS(1)
#undef STRIPS
    if (j == p->n) return;
    struct product rest = *p;
    rest.n -= j;
    rest.b += j;
    rest.output = output_at(&p->output, 0, j);
    gemm_by_tiles(&rest, false, false);
}

void gemm_few_cached(const struct product *p)
{
    struct product block = *p;
    for (int64_t l = 0; l < p->k; l += INNER_BLOCK) {
        block.k = p->k - l < INNER_BLOCK ? p->k - l : INNER_BLOCK;
        block.a = p->a + l;
        block.b = p->b + l * p->ldb;
        set_columns(&block.output, &p->output, 0, l == 0);
        if (p->m == 1)
            cached_rows(1, &block);
        else if (p->m == 2)
            cached_rows(2, &block);
        else
            cached_rows(FEW_ROWS, &block);
    }
}

/* sums [m, columns] = the product of rows l .. end - 1 of b. */
static void streamed_block(const struct product *p, int64_t l, int64_t end, int64_t columns, const real *b,
                           real sums[FEW_ROWS][COLUMN_BLOCK])
{
    for (int64_t i = 0; i < p->m; i++) memset(sums[i], 0, (size_t)columns * sizeof(real));
    for (; l + 4 <= end; l += 4) { /* fewer loads and stores of the sums */
        const real *restrict b0 = b + l * p->ldb, *restrict b1 = b0 + p->ldb, *restrict b2 = b1 + p->ldb,
                             *restrict b3 = b2 + p->ldb;
        for (int64_t i = 0; i < p->m; i++) {
            real *restrict sum = sums[i];
            const real *x = p->a + i * p->lda + l;
            for (int64_t o = 0; o < columns; o++)
                sum[o] =
                    fused(x[3], b3[o], fused(x[2], b2[o], fused(x[1], b1[o], fused(x[0], b0[o], sum[o]))));
        }
    }
    for (; l < end; l++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t o = 0; o < columns; o++)
                sums[i][o] = fused(p->a[i * p->lda + l], b[l * p->ldb + o], sums[i][o]);
}

void gemm_few_streamed(const struct product *p)
{
    /* Sums are kept apart from c: adding small products one by one to a large c would lose digits. */
    _Alignas(64) real sums[FEW_ROWS][COLUMN_BLOCK];
    for (int64_t j = 0; j < p->n; j += COLUMN_BLOCK) {
        int64_t columns = p->n - j < COLUMN_BLOCK ? p->n - j : COLUMN_BLOCK;
        for (int64_t l = 0; l < p->k; l += INNER_BLOCK) {
            struct output output = p->output;
            set_columns(&output, &p->output, j, l == 0);
            streamed_block(p, l, p->k - l < INNER_BLOCK ? p->k : l + INNER_BLOCK, columns, p->b + j, sums);
            for (int64_t i = 0; i < p->m; i++)
                for (int64_t o = 0; o < columns; o++) store_number(sums[i][o], &output, i, o);
        }
    }
}

void gemm_few_transposed(const struct product *p)
{
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++)
            store_number(row_dot(p->k, p->a + i * p->lda, p->b + j * p->ldb), &p->output, i, j);
}
