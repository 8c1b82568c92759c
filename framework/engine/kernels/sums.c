/* The sums of sums.h. */
#include "kernels/sums.h"

/* Keeps four independent maxima: with one, each step would wait for the result of the step before it. */
real row_maximum(int64_t n, const real *restrict x)
{
    int64_t part = n / 4;
    real maximum = x[n - 1], a = x[0], b = x[part], c = x[2 * part], d = x[3 * part];
#pragma omp simd reduction(max : a, b, c, d)
    for (int64_t i = 0; i < part; i++) {
        a = x[i] > a ? x[i] : a;
        b = x[i + part] > b ? x[i + part] : b;
        c = x[i + 2 * part] > c ? x[i + 2 * part] : c;
        d = x[i + 3 * part] > d ? x[i + 3 * part] : d;
    }
    for (int64_t i = 4 * part; i < n; i++) maximum = x[i] > maximum ? x[i] : maximum;
    a = b > a ? b : a;
    c = d > c ? d : c;
    a = c > a ? c : a;
    return a > maximum ? a : maximum;
}

/* ---- sums in SUM_LANES lanes ---- */

#define EACH_PART _Pragma("GCC unroll 8") for (int part = 0; part < SUM_PARTS; part++)

enum { GROUPS = 4 }; /* as many sums as hide the latency of an addition */

/* Adds the groups of lanes and then the lanes. */
static inline real sum_of_groups(vector lanes[GROUPS][SUM_PARTS], bool several)
{
    if (several)
        EACH_PART lanes[0][part] = (lanes[0][part] + lanes[1][part]) + (lanes[2][part] + lanes[3][part]);
    return sum_of_lanes(lanes[0]);
}

/* Defines a function that returns the sum of terms. full: the vector `sum` plus the terms of the numbers i .. i + LANES - 1
 * of the row; rest: plus those of the first `left` of them only. */
#define ROW_SUM(name, parameters, full, rest)                                                                \
    real name parameters                                                                                     \
    {                                                                                                        \
        vector lanes[GROUPS][SUM_PARTS] = {{{0}}};                                                           \
        int64_t at = 0;                                                                                      \
        for (; at + GROUPS * SUM_LANES <= n; at += GROUPS * SUM_LANES) {                                     \
            _Pragma("GCC unroll 4") for (int group = 0; group < GROUPS; group++)                             \
            {                                                                                                \
                EACH_PART                                                                                    \
                {                                                                                            \
                    vector sum = lanes[group][part];                                                         \
                    int64_t i = at + group * SUM_LANES + part * LANES;                                       \
                    lanes[group][part] = full;                                                               \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        for (; at + SUM_LANES <= n; at += SUM_LANES) {                                                       \
            EACH_PART                                                                                        \
            {                                                                                                \
                vector sum = lanes[0][part];                                                                 \
                int64_t i = at + part * LANES;                                                               \
                lanes[0][part] = full;                                                                       \
            }                                                                                                \
        }                                                                                                    \
        if (at < n) {                                                                                        \
            EACH_PART                                                                                        \
            {                                                                                                \
                vector sum = lanes[0][part];                                                                 \
                int64_t i = at + part * LANES, left = n - i;                                                 \
                if (left > 0) lanes[0][part] = rest;                                                         \
            }                                                                                                \
        }                                                                                                    \
        return sum_of_groups(lanes, n >= GROUPS * SUM_LANES);                                                \
    }

ROW_SUM(row_sum, (int64_t n, const real *restrict x), sum + load(x + i), sum + load_first(left, x + i))

ROW_SUM(row_dot, (int64_t n, const real *restrict a, const real *restrict b),
        vector_fused(load(a + i), load(b + i), sum),
        vector_fused(load_first(left, a + i), load_first(left, b + i), sum))

static inline vector squared(vector x, vector sum)
{
    return vector_fused(x, x, sum);
}

/* The first `left` lanes of x, followed by zeros. */
static inline vector first_lanes(int64_t left, vector x)
{
    if (left >= (int64_t)LANES) return x;
    for (int i = 0; i < LANES; i++) x[i] = i < left ? x[i] : 0;
    return x;
}

ROW_SUM(row_squares, (int64_t n, const real *restrict x, real mean), squared(load(x + i) - mean, sum),
        squared(first_lanes(left, load_first(left, x + i) - mean), sum))

ROW_SUM(row_moment,
        (int64_t n, const real *restrict a, const real *restrict b, const real *restrict x, real mean),
        vector_fused(load(a + i) * load(b + i), load(x + i) - mean, sum),
        vector_fused(load_first(left, a + i) * load_first(left, b + i), load_first(left, x + i) - mean, sum))

real row_exp(int64_t n, const real *from, real shift, real *to)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = fast_exp_nonpositive(from[i] - shift);
    return row_sum(n, to);
}

real row_exp_sum(int64_t n, const real *x, real shift)
{
    enum { BLOCK = 256 }; /* summed while it is in the first-level cache */
    real terms[BLOCK], sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK) sum += row_exp(n - i < BLOCK ? n - i : BLOCK, x + i, shift, terms);
    return sum;
}

/* ---- sums of columns ---- */

void add_column_sums(int64_t rows, int64_t columns, const real *x, int64_t ld, real *to)
{
    enum { BLOCK = 256 }; /* columns whose sums stay in the first-level cache */
    real sum[BLOCK];
    for (int64_t first = 0; first < rows; first += SUM_ROWS) {
        int64_t end = rows - first < SUM_ROWS ? rows : first + SUM_ROWS;
        for (int64_t column = 0; column < columns; column += BLOCK) {
            int64_t n = columns - column < BLOCK ? columns - column : BLOCK;
            memcpy(sum, x + first * ld + column, (size_t)n * sizeof(real));
            for (int64_t i = first + 1; i < end; i++) {
                const real *restrict row = x + i * ld + column;
                for (int64_t j = 0; j < n; j++) sum[j] += row[j];
            }
            for (int64_t j = 0; j < n; j++) to[column + j] += sum[j];
        }
    }
}
