/* Sums and maxima of rows and columns, and the ops of softmax. */
#include "kernels/vectors.h"

#include <float.h>

/* ---- the sums of vectors.h ---- */

/* A maximum, which is looked for one by one where all numbers may be -infinity: clang 14 begins the partial maxima of a reduction
 * with the lowest finite number. */
static inline real true_maximum(real maximum, int64_t n, const real *x)
{
    if (!(maximum <= (sizeof(real) == sizeof(float) ? (real)-FLT_MAX : (real)-DBL_MAX))) return maximum;
    maximum = x[0];
    for (int64_t i = 1; i < n; i++)
        if (x[i] > maximum) maximum = x[i];
    return maximum;
}

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
    return true_maximum(a > maximum ? a : maximum, n, x);
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

ROW_SUM(row_sum_above, (int64_t n, const real *restrict x, real shift), sum + (load(x + i) - shift),
        sum + first_lanes(left, load_first(left, x + i) - shift))

ROW_SUM(row_squares, (int64_t n, const real *restrict x, real mean), squared(load(x + i) - mean, sum),
        squared(first_lanes(left, load_first(left, x + i) - mean), sum))

ROW_SUM(row_moment,
        (int64_t n, const real *restrict a, const real *restrict b, const real *restrict x, real mean),
        vector_fused(load(a + i) * load(b + i), load(x + i) - mean, sum),
        vector_fused(load_first(left, a + i) * load_first(left, b + i), load_first(left, x + i) - mean, sum))

real row_exp(int64_t n, const real *from, real shift, real *to)
{
    if (shift == (real)-INFINITY) shift = 0; /* of the maximum: all numbers are -infinity (or NaN) */
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = fast_exp_nonpositive(from[i] - shift);
    return row_sum(n, to);
}

real row_exp_sum(int64_t n, const real *x, real shift)
{
    enum { PART = 256 }; /* summed while it is in the first-level cache */
    real terms[PART], sum = 0;
    for (int64_t i = 0; i < n; i += PART) sum += row_exp(n - i < PART ? n - i : PART, x + i, shift, terms);
    return sum;
}

/* ---- sums of columns ---- */

enum { BLOCK = 256 }; /* columns whose sums stay in the first-level cache */

void add_wide_column_sums(int64_t rows, int64_t columns, const real *x, int64_t ld, wide_sum *to)
{
    for (int64_t column = 0; column < columns; column += BLOCK)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = column; j < columns && j < column + BLOCK; j++) to[j] += (double)x[i * ld + j];
}

void add_column_sums(int64_t rows, int64_t columns, const real *x, int64_t ld, real *to)
{
    real sum[BLOCK];
    for (int64_t column = 0; rows >= WIDE_ROWS && column < columns; column += BLOCK) {
        int64_t n = columns - column < BLOCK ? columns - column : BLOCK;
        double totals[BLOCK] = {0};
        add_wide_column_sums(rows, n, x + column, ld, totals);
        for (int64_t j = 0; j < n; j++) to[column + j] += (real)totals[j];
    }
    if (rows >= WIDE_ROWS) return;
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

/* Ops: softmax, log-softmax, log-sum-exp and group maxima over the last axis; softmax over the rows
 * of each segment. */

/* ---- softmax: y = e^x / sum e^x, in each row ---- */

static void softmax_forward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value;
    real *out = y->value;
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < y->count; i += columns) row_softmax(columns, x + i, out + i);
}

/* dx += y (dy - sum(dy y)), with the sum over the row */
static void softmax_backward(struct qkv_tensor *y)
{
    const real *out = y->value, *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < y->count; i += columns) {
        real dot = row_dot(columns, out + i, dy + i);
        for (int64_t j = i; j < i + columns; j++) dx[j] += out[j] * (dy[j] - dot);
    }
}

OP(softmax, .inputs = 1, .backward_reads = RESULT, .shape = RULE(same_as_input), .forward = softmax_forward,
   .backward = softmax_backward);

/* ---- log_softmax: y = (x - max) - log sum e^(x - max), in each row: max + log sum e^(x - max) would lose the digits of the
 * logarithm if max is large ---- */

static void log_softmax_forward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value;
    real *out = y->value;
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < y->count; i += columns) {
        real maximum = row_maximum(columns, x + i);
        real log_sum = fast_log(row_exp(columns, x + i, maximum, out + i));
        for (int64_t j = i; j < i + columns; j++) out[j] = (x[j] - maximum) - log_sum;
    }
}

/* dx += dy - e^y sum(dy), with the sum over the row */
static void log_softmax_backward(struct qkv_tensor *y)
{
    const real *out = y->value, *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < y->count; i += columns) {
        real sum = row_sum(columns, dy + i);
        for (int64_t j = i; j < i + columns; j++) dx[j] += dy[j] - fast_exp(out[j]) * sum;
    }
}

OP(log_softmax, .inputs = 1, .backward_reads = RESULT, .shape = RULE(same_as_input),
   .forward = log_softmax_forward, .backward = log_softmax_backward);

/* ---- log_sum_exp: y [.., 1] = log sum e^x of each row ---- */

static bool log_sum_exp_shape(struct qkv_tensor *y)
{
    y->shape = y->input[0]->shape;
    y->shape.size[y->shape.rank - 1] = 1;
    return true;
}

static real log_sum_exp(int64_t n, const real *x)
{
    real maximum = row_maximum(n, x);
    if (maximum < (real)INFINITY) return maximum + fast_log(row_exp_sum(n, x, maximum));
    for (int64_t j = 0; j < n; j++)
        if (x[j] != x[j]) return x[j];
    return maximum;
}

static void log_sum_exp_forward(struct qkv_tensor *y)
{
    int64_t columns = qkv_columns(y->input[0]);
    for (int64_t i = 0; i < y->count; i++)
        ((real *)y->value)[i] = log_sum_exp(columns, (const real *)y->input[0]->value + i * columns);
}

/* e^(x - maximum), where infinity - infinity is 0. */
static inline real exp_below(real x, real maximum)
{
    return x == maximum ? 1 : fast_exp(x - maximum);
}

/* dx += e^(x - max) / sum e^(x - max) dy, with the sum over the row. The result y is no substitute for the maximum and the
 * sum: its rounding error, which grows with y, would be in the exponent. */
static void log_sum_exp_backward(struct qkv_tensor *y)
{
    const real *dy = y->gradient;
    int64_t columns = qkv_columns(y->input[0]);
    real *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; i < y->count; i++, dx += columns) {
        const real *x = (const real *)y->input[0]->value + i * columns;
        real maximum = row_maximum(columns, x);
        double sum = 0;
        for (int64_t j = 0; j < columns; j++) sum += (double)exp_below(x[j], maximum);
        real factor = (real)((double)dy[i] / sum);
        for (int64_t j = 0; j < columns; j++) dx[j] += exp_below(x[j], maximum) * factor;
    }
}

OP(log_sum_exp, .inputs = 1, .backward_reads = INPUT(0), .shape = RULE(log_sum_exp_shape),
   .forward = log_sum_exp_forward, .backward = log_sum_exp_backward);

/* ---- group_max: y [.., groups] = the maximum of each group of QKV_GROUP columns; the last group
 * of a row may have fewer ---- */

static bool group_max_shape(struct qkv_tensor *y)
{
    y->shape = y->input[0]->shape;
    y->shape.size[y->shape.rank - 1] = (qkv_columns(y->input[0]) + QKV_GROUP - 1) / QKV_GROUP;
    return true;
}

/* The maximum of a group, NaN if any is NaN. Called with a constant for full groups, which fill vectors. */
static inline real group_maximum(int64_t n, const real *x)
{
    real maximum = x[0];
    int has_nan = 0;
#pragma omp simd reduction(max : maximum) reduction(| : has_nan)
    for (int64_t i = 0; i < n; i++) {
        maximum = x[i] > maximum ? x[i] : maximum;
        has_nan |= x[i] != x[i];
    }
    return has_nan ? (real)NAN : true_maximum(maximum, n, x);
}

static void group_max_forward(struct qkv_tensor *y)
{
    int64_t columns = qkv_columns(y->input[0]), full = columns / QKV_GROUP, rest = columns % QKV_GROUP;
    const real *x = y->input[0]->value;
    real *out = y->value;
    for (int64_t i = qkv_rows(y); i > 0; i--, x += rest) {
        for (int64_t r = 0; r < full; r++, x += QKV_GROUP) *out++ = group_maximum(QKV_GROUP, x);
        if (rest) *out++ = group_maximum(rest, x);
    }
}

/* dx += dy of the group, at the first column of the group that has the maximum, or NaN */
static void group_max_backward(struct qkv_tensor *y)
{
    int64_t columns = qkv_columns(y->input[0]), groups = qkv_columns(y);
    const real *x = y->input[0]->value, *out = y->value, *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; i < y->count; i++) {
        int64_t at = i / groups * columns + i % groups * QKV_GROUP, last = (i / groups + 1) * columns - 1;
        while (at < last && x[at] != out[i] && x[at] == x[at]) at++;
        dx[at] += dy[i];
    }
}

OP(group_max, .inputs = 1, .backward_reads = INPUT(0) | RESULT, .shape = RULE(group_max_shape),
   .forward = group_max_forward, .backward = group_max_backward);

/* ---- segment_softmax: in each column, softmax over the rows of each segment; rows outside all
 * segments are 0 ---- */

static bool segment_softmax_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    return check_matrix(y, x, "input") &&
           qkv_check_segments(y, &y->options.segments, x->shape.size[0], "input") &&
           qkv_check_disjoint(y, &y->options.segments, "input") && same_as_input(y);
}

static void segment_softmax_forward(struct qkv_tensor *y)
{
    const struct qkv_segments *segments = &y->options.segments;
    int64_t rows = y->shape.size[0], columns = y->shape.size[1];
    const real *x = y->input[0]->value;
    real *out = y->value;
    memset(out, 0, (size_t)y->count * sizeof(real));
    for (int64_t s = 0; s < qkv_segment_count(segments); s++) {
        int64_t first = qkv_segment_start(segments, s) * columns;
        int64_t end = first + qkv_segment_length(segments, s, rows) * columns;
        for (int64_t j = 0; j < columns; j++) {
            real maximum = (real)-INFINITY, sum = 0;
            for (int64_t i = first + j; i < end; i += columns) maximum = x[i] > maximum ? x[i] : maximum;
            for (int64_t i = first + j; i < end; i += columns)
                sum += out[i] = fast_exp_nonpositive(x[i] - maximum);
            for (int64_t i = first + j; i < end; i += columns) out[i] /= sum;
        }
    }
}

/* dx += y (dy - sum(dy y)), with the sum over the rows of the segment */
static void segment_softmax_backward(struct qkv_tensor *y)
{
    const struct qkv_segments *segments = &y->options.segments;
    int64_t rows = y->shape.size[0], columns = y->shape.size[1];
    const real *out = y->value, *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    for (int64_t s = 0; s < qkv_segment_count(segments); s++) {
        int64_t first = qkv_segment_start(segments, s) * columns;
        int64_t end = first + qkv_segment_length(segments, s, rows) * columns;
        for (int64_t j = 0; j < columns; j++) {
            real dot = 0;
            for (int64_t i = first + j; i < end; i += columns) dot += dy[i] * out[i];
            for (int64_t i = first + j; i < end; i += columns) dx[i] += out[i] * (dy[i] - dot);
        }
    }
}

OP(segment_softmax, .inputs = 1, .backward_reads = RESULT, .shape = RULE(segment_softmax_shape),
   .forward = segment_softmax_forward, .backward = segment_softmax_backward);
