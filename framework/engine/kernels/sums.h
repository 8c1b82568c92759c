/* Sums, maxima and softmax of a contiguous row of n numbers, and sums of the columns of a matrix.
 *
 * Each function adds in one order, which depends on n alone: not on the instruction set and not on the number of threads.
 * The sum of a row is kept in SUM_LANES lanes, or, from 4 SUM_LANES numbers on, in four such groups, of which
 * group g has the numbers 16 g .. 16 g + 15 of every 64. The groups are added as (0 + 1) + (2 + 3), then the
 * lanes by halves (vectors.h). The sum of a column is the sum of the sums of SUM_ROWS rows each. */
#ifndef QKV_KERNELS_SUMS_H
#define QKV_KERNELS_SUMS_H

#include "kernels/vectors.h"

#define row_maximum     VARIANT(qkv_, row_maximum)
#define row_sum         VARIANT(qkv_, row_sum)
#define row_dot         VARIANT(qkv_, row_dot)
#define row_squares     VARIANT(qkv_, row_squares)
#define row_moment      VARIANT(qkv_, row_moment)
#define row_exp         VARIANT(qkv_, row_exp)
#define row_exp_sum     VARIANT(qkv_, row_exp_sum)
#define add_column_sums VARIANT(qkv_, add_column_sums)

real row_maximum(int64_t n, const real *x); /* n > 0 */
real row_sum(int64_t n, const real *x);
real row_dot(int64_t n, const real *a, const real *b);

/* The sum of (x - mean)^2. */
real row_squares(int64_t n, const real *x, real mean);

/* The sum of a b (x - mean). */
real row_moment(int64_t n, const real *a, const real *b, const real *x, real mean);

/* to [n] = exp(from - shift), where no number of `from` is above `shift`; returns the sum of `to`. `from` and `to` may be the
 * same. */
real row_exp(int64_t n, const real *from, real shift, real *to);

/* The sum of exp(x - shift), where no number is above `shift`: the sums of 256 numbers each, one after the other. */
real row_exp_sum(int64_t n, const real *x, real shift);

/* to [n] = softmax(from); `from` and `to` may be the same. n > 0. */
static inline void row_softmax(int64_t n, const real *from, real *to)
{
    real inverse = 1 / row_exp(n, from, row_maximum(n, from), to);
    for (int64_t i = 0; i < n; i++) to[i] *= inverse;
}

/* Rows that are added one by one. A running sum of millions of rows would lose precision: once it is large, each added
 * number is rounded to the last digits of the sum. */
enum { SUM_ROWS = 256 };

/* to [columns] += the sum of the rows of x [rows, columns]. ld: numbers from one row to the next. */
void add_column_sums(int64_t rows, int64_t columns, const real *x, int64_t ld, real *to);

#endif
