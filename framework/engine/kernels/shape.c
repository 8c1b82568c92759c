/* Shapes, sums along axes, and choices. */
#include "kernels/kernel.h"

/* Ops: reshape, permute, concat, slice; sum and mean over an axis. */

/* ---- reshape: y = x, in the same memory ---- */

static bool reshape_shape(struct qkv_tensor *y)
{
    struct qkv_shape shape = y->options.shape;
    int64_t rest = y->input[0]->count; /* divided by the axes, because their product may overflow */
    if (shape.rank < 1 || shape.rank > QKV_MAX_RANK)
        return qkv_refuse(y, "the result would have %d axes, but must have 1 to %d", shape.rank,
                          QKV_MAX_RANK);
    for (int i = 0; i < shape.rank && rest; i++)
        rest = shape.size[i] < 1 || rest % shape.size[i] ? 0 : rest / shape.size[i];
    y->shape = shape;
    if (rest == 1) return true;
    return qkv_refuse(y, "input is %s, which cannot become %s", qkv_shape_text(y->input[0]->shape),
                      qkv_shape_text(shape));
}

static void reshape_forward(struct qkv_tensor *y)
{
    (void)y; /* y->value is x->value */
}

/* dx += dy */
static void reshape_backward(struct qkv_tensor *y)
{
    real beta;
    real *dx = claim_gradient(y->input[0], &beta);
    accumulate(y->count, beta, y->gradient, dx);
}

OP(reshape, .inputs = 1, .alias = INPUT(0), .shape = RULE(reshape_shape), .forward = reshape_forward,
   .backward = reshape_backward);

/* ---- detach: y = x, in the same memory, without gradient ---- */

OP(detach, .inputs = 1, .alias = INPUT(0), .stops_gradient = true, .shape = RULE(same_as_input),
   .forward = reshape_forward);

/* ---- permute: axis k of y is axis permutation[k] of x ---- */

static bool permute_shape(struct qkv_tensor *y)
{
    struct qkv_shape x = y->input[0]->shape;
    unsigned seen = 0;
    if (y->options.permutation.count != x.rank)
        return qkv_refuse(y, "the permutation has %d axes, but input is %s", y->options.permutation.count,
                          qkv_shape_text(x));
    y->shape.rank = x.rank;
    for (int i = 0; i < x.rank; i++) {
        int from = y->options.permutation.axis[i];
        if (from < 0 || from >= x.rank || seen >> from & 1)
            return qkv_refuse(y, "entry %d of the permutation is %d, but each of 0 to %d must occur once", i,
                              from, x.rank - 1);
        seen |= 1u << from;
        y->shape.size[i] = x.size[from];
    }
    return true;
}

/* For y as a tensor of four axes: the size of each, and its stride in x. Missing leading axes have
 * size 1. */
static void permute_strides(const struct qkv_tensor *y, int64_t size[4], int64_t stride[4])
{
    struct qkv_shape x = y->input[0]->shape;
    int64_t x_stride[QKV_MAX_RANK], product = 1;
    for (int i = x.rank - 1; i >= 0; i--) {
        x_stride[i] = product;
        product *= x.size[i];
    }
    int missing = 4 - x.rank;
    for (int i = 0; i < 4; i++) {
        size[i] = i < missing ? 1 : y->shape.size[i - missing];
        stride[i] = i < missing ? 0 : x_stride[y->options.permutation.axis[i - missing]];
    }
}

/* forward: `from` has the axes of x, `to` those of y; to = from, permuted. Otherwise the other way round:
 * to += from, permuted back. */
static void permute(const struct qkv_tensor *y, bool forward, const real *from, real *to)
{
    int64_t n[4], s[4], at = 0;
    permute_strides(y, n, s);
    for (int64_t a = 0; a < n[0]; a++)
        for (int64_t b = 0; b < n[1]; b++)
            for (int64_t c = 0; c < n[2]; c++) {
                int64_t base = a * s[0] + b * s[1] + c * s[2];
                for (int64_t d = 0; d < n[3]; d++, at++) {
                    if (forward)
                        to[at] = from[base + d * s[3]];
                    else
                        to[base + d * s[3]] += from[at];
                }
            }
}

static void permute_forward(struct qkv_tensor *y)
{
    permute(y, true, y->input[0]->value, y->value);
}

/* dx += dy, in the order of x's axes */
static void permute_backward(struct qkv_tensor *y)
{
    permute(y, false, y->gradient, gradient_of(y->input[0]));
}

OP(permute, .inputs = 1, .shape = RULE(permute_shape), .forward = permute_forward,
   .backward = permute_backward);

/* ---- concat: y = [a, b] along the axis ---- */

static bool concat_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *a = y->input[0], *b = y->input[1];
    if (!check_axis(y)) return false;
    bool fits = a->shape.rank == b->shape.rank;
    for (int i = 0; fits && i < a->shape.rank; i++)
        fits = i == y->options.axis || a->shape.size[i] == b->shape.size[i];
    if (!fits)
        return qkv_refuse(y, "%s and %s do not fit along axis %lld", qkv_shape_text(a->shape),
                          qkv_shape_text(b->shape), (long long)y->options.axis);
    y->shape = a->shape;
    y->shape.size[y->options.axis] += b->shape.size[y->options.axis];
    return true;
}

static void concat_forward(struct qkv_tensor *y)
{
    struct view view = view_along(y->shape, y->options.axis);
    int64_t offset = 0, row = view.axis * view.inner;
    for (int side = 0; side < 2; side++) {
        const struct qkv_tensor *x = y->input[side];
        int64_t part = x->shape.size[y->options.axis] * view.inner;
        for (int64_t o = 0; o < view.outer; o++)
            memcpy((real *)y->value + o * row + offset, (const real *)x->value + o * part,
                   (size_t)part * sizeof(real));
        offset += part;
    }
}

/* da += the first part of dy, db += the second */
static void concat_backward(struct qkv_tensor *y)
{
    struct view view = view_along(y->shape, y->options.axis);
    int64_t offset = 0, row = view.axis * view.inner;
    for (int side = 0; side < 2; side++) {
        struct qkv_tensor *x = y->input[side];
        int64_t part = x->shape.size[y->options.axis] * view.inner;
        real beta;
        real *dx = claim_gradient(x, &beta);
        for (int64_t o = 0; dx && o < view.outer; o++)
            accumulate(part, beta, (const real *)y->gradient + o * row + offset, dx + o * part);
        offset += part;
    }
}

OP(concat, .inputs = 2, .shape = RULE(concat_shape), .forward = concat_forward, .backward = concat_backward);

/* ---- slice: y = x[start .. start + length - 1] along the axis ---- */

static bool slice_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    if (!check_axis(y)) return false;
    int64_t size = x->shape.size[y->options.axis], start = y->options.start, length = y->options.length;
    if (start < 0 || length < 1 || start > size - length)
        return qkv_refuse(y, "%lld elements from %lld on of axis %lld are wanted, but input is %s",
                          (long long)length, (long long)start, (long long)y->options.axis,
                          qkv_shape_text(x->shape));
    y->shape = x->shape;
    y->shape.size[y->options.axis] = length;
    return true;
}

static void slice_forward(struct qkv_tensor *y)
{
    struct view view = view_along(y->input[0]->shape, y->options.axis);
    int64_t part = y->options.length * view.inner, offset = y->options.start * view.inner;
    for (int64_t o = 0; o < view.outer; o++)
        memcpy((real *)y->value + o * part,
               (const real *)y->input[0]->value + o * view.axis * view.inner + offset,
               (size_t)part * sizeof(real));
}

/* dx += dy in start .. start + length - 1 of the axis */
static void slice_backward(struct qkv_tensor *y)
{
    struct view view = view_along(y->input[0]->shape, y->options.axis);
    int64_t part = y->options.length * view.inner, offset = y->options.start * view.inner;
    real *dx = gradient_of(y->input[0]);
    for (int64_t o = 0; o < view.outer; o++)
        accumulate(part, 1, (const real *)y->gradient + o * part, dx + o * view.axis * view.inner + offset);
}

OP(slice, .inputs = 1, .shape = RULE(slice_shape), .forward = slice_forward, .backward = slice_backward);

/* ---- sum and mean: y = factor * the sum of x along an axis or over all axes. The factor is 1 for sum, and for
 * mean 1 / the number of summands ---- */

/* y [outer, inner] = factor * sum of x [outer, axis, inner] over the axis. Sums in double: a
 * float32 sum of a million numbers keeps only a few digits. */
static void reduce(const struct qkv_tensor *y, double factor)
{
    struct view view = reduced_view(y);
    const real *x = y->input[0]->value;
    real *out = y->value;
    for (int64_t o = 0; o < view.outer; o++)
        for (int64_t i = 0; i < view.inner; i++) {
            double sum = 0;
            for (int64_t a = 0; a < view.axis; a++) sum += (double)x[(o * view.axis + a) * view.inner + i];
            out[o * view.inner + i] = (real)(factor * sum);
        }
}

/* dx [outer, axis, inner] += factor * dy [outer, inner] */
static void broadcast(struct qkv_tensor *y, real factor)
{
    struct view view = reduced_view(y);
    const real *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    for (int64_t o = 0; o < view.outer; o++)
        for (int64_t a = 0; a < view.axis; a++)
            for (int64_t i = 0; i < view.inner; i++)
                dx[(o * view.axis + a) * view.inner + i] += factor * dy[o * view.inner + i];
}

static void sum_forward(struct qkv_tensor *y)
{
    reduce(y, 1);
}

static void sum_backward(struct qkv_tensor *y)
{
    broadcast(y, 1);
}

static void mean_forward(struct qkv_tensor *y)
{
    reduce(y, 1.0 / (double)reduced_view(y).axis);
}

static void mean_backward(struct qkv_tensor *y)
{
    broadcast(y, 1 / (real)reduced_view(y).axis);
}

OP(sum, .inputs = 1, .shape = RULE(reduced_shape), .forward = sum_forward, .backward = sum_backward);
OP(mean, .inputs = 1, .shape = RULE(reduced_shape), .forward = mean_forward, .backward = mean_backward);

/* Ops: multiply_column, broadcast, cumulative_sum, neighbours. */

/* ---- multiply_column: y [.., C] = x [.., C] * column [.., 1] ---- */

static bool multiply_column_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *column = y->input[1];
    struct qkv_shape expected = x->shape;
    expected.size[x->shape.rank - 1] = 1;
    bool fits = column->shape.rank == expected.rank;
    for (int i = 0; fits && i < expected.rank; i++) fits = column->shape.size[i] == expected.size[i];
    if (!fits)
        return qkv_refuse(y, "column is %s, but must be %s", qkv_shape_text(column->shape),
                          qkv_shape_text(expected));
    return same_as_input(y);
}

static void multiply_column_forward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value, *column = y->input[1]->value;
    real *out = y->value;
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < y->count; i++) out[i] = x[i] * column[i / columns];
}

/* dcolumn += the sums of the rows of dy x, dx += dy column */
static void multiply_column_backward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value, *column = y->input[1]->value, *dy = y->gradient;
    int64_t columns = qkv_columns(y), rows = qkv_rows(y);
    real *dcolumn = gradient_of(y->input[1]), *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; dcolumn && i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < columns; j++) sum += (double)dy[i * columns + j] * (double)x[i * columns + j];
        dcolumn[i] += (real)sum;
    }
    for (int64_t i = 0; dx && i < y->count; i++) dx[i] += dy[i] * column[i / columns];
}

OP(multiply_column, .inputs = 2, .backward_reads = INPUT(0) | INPUT(1), .elementwise = INPUT(0),
   .shape = RULE(multiply_column_shape), .forward = multiply_column_forward,
   .backward = multiply_column_backward);

/* ---- broadcast: y = x, repeated along axes where x has size 1, or which x lacks in front ---- */

static bool broadcast_shape(struct qkv_tensor *y)
{
    struct qkv_shape x = y->input[0]->shape, shape = y->options.shape;
    bool fits = shape.rank >= x.rank && shape.rank <= QKV_MAX_RANK;
    int missing = fits ? shape.rank - x.rank : 0;
    int64_t max = INT64_MAX / (int64_t)sizeof(double); /* the product must not overflow */
    for (int i = 0; fits && i < shape.rank; i++) {
        int64_t size = shape.size[i];
        fits = size >= 1 && size <= max &&
               (i < missing || x.size[i - missing] == 1 || x.size[i - missing] == size);
        max /= size > 0 ? size : 1;
    }
    if (!fits)
        return qkv_refuse(y, "input is %s, which cannot be repeated to %s", qkv_shape_text(x),
                          qkv_shape_text(shape));
    y->shape = shape;
    return true;
}

/* x and y as tensors of four axes, with leading axes of size 1. */
struct repetition {
    int64_t x[4], y[4];
};

static struct repetition repetition_of(const struct qkv_tensor *y)
{
    struct repetition r;
    struct qkv_shape from = y->input[0]->shape, to = y->shape;
    for (int i = 0; i < 4; i++) {
        int x = i - 4 + from.rank, result = i - 4 + to.rank;
        r.x[i] = x < 0 ? 1 : from.size[x];
        r.y[i] = result < 0 ? 1 : to.size[result];
    }
    return r;
}

/* Where in x the element of y with these indices comes from. */
static int64_t source_of(const struct repetition *r, const int64_t index[4])
{
    int64_t at = 0;
    for (int i = 0; i < 4; i++) at = at * r->x[i] + (r->x[i] == 1 ? 0 : index[i]);
    return at;
}

static void broadcast_forward(struct qkv_tensor *y)
{
    struct repetition r = repetition_of(y);
    const real *x = y->input[0]->value;
    real *out = y->value;
    int64_t index[4], at = 0;
    for (index[0] = 0; index[0] < r.y[0]; index[0]++)
        for (index[1] = 0; index[1] < r.y[1]; index[1]++)
            for (index[2] = 0; index[2] < r.y[2]; index[2]++)
                for (index[3] = 0; index[3] < r.y[3]; index[3]++) out[at++] = x[source_of(&r, index)];
}

/* dx += the sum of dy over the repetitions, in double: a float32 sum of a million numbers keeps only a few digits */
static void broadcast_backward(struct qkv_tensor *y)
{
    struct repetition r = repetition_of(y);
    const real *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    int64_t times[4], stride[4], total = 1, step = 1;
    for (int i = 3; i >= 0; i--) {
        times[i] = r.x[i] == r.y[i] ? 1 : r.y[i];
        stride[i] = step;
        step *= r.y[i];
        total *= times[i];
    }
    for (int64_t at = 0; at < y->input[0]->count; at++) {
        int64_t first = 0, rest = at;
        for (int i = 3; i >= 0; rest /= r.x[i], i--) first += rest % r.x[i] * stride[i];
        double sum = 0;
        for (int64_t repeat = 0; repeat < total; repeat++) {
            int64_t from = first, part = repeat;
            for (int i = 3; i >= 0; part /= times[i], i--) from += part % times[i] * stride[i];
            sum += (double)dy[from];
        }
        dx[at] += (real)sum;
    }
}

OP(broadcast, .inputs = 1, .shape = RULE(broadcast_shape), .forward = broadcast_forward,
   .backward = broadcast_backward);

/* ---- cumulative_sum: y[i] = x[0] + ... + x[i] along the axis; dx[i] += dy[i] + ... + dy[last]. Sums in double ---- */

static bool cumulative_sum_shape(struct qkv_tensor *y)
{
    return check_axis(y) && same_as_input(y);
}

static void cumulative_sum_forward(struct qkv_tensor *y)
{
    struct view view = view_along(y->shape, y->options.axis);
    const real *x = y->input[0]->value;
    real *out = y->value;
    for (int64_t i = 0; i < view.outer * view.inner; i++) {
        int64_t first = i / view.inner * view.axis * view.inner + i % view.inner;
        double sum = 0;
        for (int64_t a = 0; a < view.axis; a++)
            out[first + a * view.inner] = (real)(sum += (double)x[first + a * view.inner]);
    }
}

static void cumulative_sum_backward(struct qkv_tensor *y)
{
    struct view view = view_along(y->shape, y->options.axis);
    const real *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; i < view.outer * view.inner; i++) {
        int64_t first = i / view.inner * view.axis * view.inner + i % view.inner;
        double sum = 0;
        for (int64_t a = view.axis - 1; a >= 0; a--)
            dx[first + a * view.inner] += (real)(sum += (double)dy[first + a * view.inner]);
    }
}

OP(cumulative_sum, .inputs = 1, .shape = RULE(cumulative_sum_shape), .forward = cumulative_sum_forward,
   .backward = cumulative_sum_backward);

/* ---- neighbours: row i of y [N, length D] is rows i + start .. i + start + length - 1 of x [N, D] within its sentence, one
 * after the other, with zeros for those that the sentence lacks ---- */

static bool neighbours_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    const struct qkv_segments *segments = &y->options.segments;
    int64_t length = y->options.length, start = y->options.start;
    if (!check_matrix(y, x, "input")) return false;
    int64_t rows = x->shape.size[0], max = INT64_MAX / (int64_t)sizeof(double) / x->count;
    if (length < 1 || length > max || start > max || start < -max)
        return qkv_refuse(y, "%lld rows from the row %lld on are wanted, but input is %s", (long long)length,
                          (long long)start, qkv_shape_text(x->shape));
    if (!qkv_check_segments(y, segments, rows, "input") || !qkv_check_disjoint(y, segments, "input"))
        return false;
    y->shape = QKV_SHAPE(rows, length * x->shape.size[1]);
    return true;
}

/* For each row of y that is in a sentence: copies its existing neighbours (forward), or adds their gradients. */
static void walk_neighbours(struct qkv_tensor *y, const real *from, real *to, bool forward)
{
    const struct qkv_segments *segments = &y->options.segments;
    int64_t rows = y->shape.size[0], columns = y->input[0]->shape.size[1], wide = y->shape.size[1];
    for (int64_t s = 0; s < qkv_segment_count(segments); s++) {
        int64_t first = qkv_segment_start(segments, s), length = qkv_segment_length(segments, s, rows);
        for (int64_t i = 0; i < length; i++)
            for (int64_t n = 0; n < y->options.length; n++) {
                int64_t row = i + y->options.start + n;
                if (row < 0 || row >= length) continue;
                int64_t narrow_at = (first + row) * columns, wide_at = (first + i) * wide + n * columns;
                accumulate(columns, forward ? 0 : 1, from + (forward ? narrow_at : wide_at),
                           to + (forward ? wide_at : narrow_at));
            }
    }
}

static void neighbours_forward(struct qkv_tensor *y)
{
    memset(y->value, 0, (size_t)y->count * sizeof(real));
    walk_neighbours(y, y->input[0]->value, y->value, true);
}

static void neighbours_backward(struct qkv_tensor *y)
{
    walk_neighbours(y, y->gradient, gradient_of(y->input[0]), false);
}

OP(neighbours, .inputs = 1, .shape = RULE(neighbours_shape), .forward = neighbours_forward,
   .backward = neighbours_backward);

/* Ops that choose among numbers: min, max, argmin and argmax over an axis; top_k, top_k_indices; where. */

/* ---- ranks: NaN comes first; then the greatest (or least) number; of equal numbers, the one with the smallest index
 * ---- */

/* Numbers `step` apart. */
struct row {
    const real *first;
    int64_t count, step;
    bool least; /* the least number is first, not the greatest */
};

static real number_at(const struct row *row, int64_t i)
{
    return row->first[i * row->step];
}

/* Whether the number i ranks before the number j. */
static bool is_before(const struct row *row, int64_t i, int64_t j)
{
    real a = number_at(row, i), b = number_at(row, j);
    bool a_is_nan = a != a, b_is_nan = b != b;
    if (a_is_nan != b_is_nan) return a_is_nan;
    if (a_is_nan || !(a < b || a > b)) return i < j;
    return row->least ? a < b : a > b;
}

/* The index that ranks next after `before`, or first if that is negative; -1 if there is none. */
static int64_t next_in_rank(const struct row *row, int64_t before)
{
    int64_t best = -1;
    for (int64_t i = 0; i < row->count; i++) {
        if (before >= 0 && !is_before(row, before, i)) continue;
        if (best < 0 || is_before(row, i, best)) best = i;
    }
    return best;
}

/* ---- min, max: y = the first in rank along the axis, which is removed; dx += dy where that is ---- */

enum { LARGEST_INDEX = 1 << 24 }; /* integers up to this are exact in float32 */

/* Row number i of [outer, inner]. */
static struct row row_of(const struct qkv_tensor *y, const struct view *view, int64_t i, bool least)
{
    int64_t at = i / view->inner * view->axis * view->inner + i % view->inner;
    return (struct row){(const real *)y->input[0]->value + at, view->axis, view->inner, least};
}

static void extremum(struct qkv_tensor *y, bool least, bool is_index)
{
    struct view view = reduced_view(y);
    real *out = y->value;
    for (int64_t i = 0; i < y->count; i++) {
        struct row row = row_of(y, &view, i, least);
        int64_t chosen = next_in_rank(&row, -1);
        out[i] = is_index ? (real)chosen : number_at(&row, chosen);
    }
}

static void extremum_backward(struct qkv_tensor *y, bool least)
{
    struct view view = reduced_view(y);
    const real *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; i < y->count; i++) {
        struct row row = row_of(y, &view, i, least);
        int64_t at = row.first - (const real *)y->input[0]->value;
        dx[at + next_in_rank(&row, -1) * row.step] += dy[i];
    }
}

static bool index_shape(struct qkv_tensor *y)
{
    if (!reduced_shape(y)) return false;
    if (reduced_view(y).axis <= LARGEST_INDEX) return true;
    return qkv_refuse(y, "%lld numbers have indices that float32 cannot hold",
                      (long long)reduced_view(y).axis);
}

#define EXTREMUM(title, index_title, least)                                                                  \
    static void title##_forward(struct qkv_tensor *y)                                                        \
    {                                                                                                        \
        extremum(y, least, false);                                                                           \
    }                                                                                                        \
    static void title##_backward(struct qkv_tensor *y)                                                       \
    {                                                                                                        \
        extremum_backward(y, least);                                                                         \
    }                                                                                                        \
    static void index_title##_forward(struct qkv_tensor *y)                                                  \
    {                                                                                                        \
        extremum(y, least, true);                                                                            \
    }                                                                                                        \
    OP(title, .inputs = 1, .backward_reads = INPUT(0), .shape = RULE(reduced_shape),                         \
       .forward = title##_forward, .backward = title##_backward);                                            \
    OP(index_title, .inputs = 1, .stops_gradient = true, .shape = RULE(index_shape),                         \
       .forward = index_title##_forward);
EXTREMUM(min, argmin, true)
EXTREMUM(max, argmax, false)

/* ---- top_k, top_k_indices: y [.., length] = the first `length` in rank of each row of x [.., C] ---- */

static bool top_k_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    int64_t columns = qkv_columns(x), k = y->options.length;
    if (k < 1 || k > columns)
        return qkv_refuse(y, "%lld numbers of each row are wanted, but input is %s", (long long)k,
                          qkv_shape_text(x->shape));
    if (columns > LARGEST_INDEX)
        return qkv_refuse(y, "%lld numbers have indices that float32 cannot hold", (long long)columns);
    y->shape = x->shape;
    y->shape.size[x->shape.rank - 1] = k;
    return true;
}

static void choose_top(struct qkv_tensor *y, bool is_index)
{
    int64_t columns = qkv_columns(y->input[0]), k = qkv_columns(y);
    const real *x = y->input[0]->value;
    real *out = y->value;
    for (int64_t i = 0; i < qkv_rows(y); i++) {
        struct row row = {x + i * columns, columns, 1, false};
        int64_t chosen = -1;
        for (int64_t r = 0; r < k; r++) {
            chosen = next_in_rank(&row, chosen);
            out[i * k + r] = is_index ? (real)chosen : number_at(&row, chosen);
        }
    }
}

static void top_k_forward(struct qkv_tensor *y)
{
    choose_top(y, false);
}

/* dx += dy where the chosen numbers are */
static void top_k_backward(struct qkv_tensor *y)
{
    int64_t columns = qkv_columns(y->input[0]), k = qkv_columns(y);
    const real *x = y->input[0]->value, *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; i < qkv_rows(y); i++) {
        struct row row = {x + i * columns, columns, 1, false};
        int64_t chosen = -1;
        for (int64_t r = 0; r < k; r++) {
            chosen = next_in_rank(&row, chosen);
            dx[i * columns + chosen] += dy[i * k + r];
        }
    }
}

static void top_k_indices_forward(struct qkv_tensor *y)
{
    choose_top(y, true);
}

OP(top_k, .inputs = 1, .backward_reads = INPUT(0), .shape = RULE(top_k_shape), .forward = top_k_forward,
   .backward = top_k_backward);
OP(top_k_indices, .inputs = 1, .stops_gradient = true, .shape = RULE(top_k_shape),
   .forward = top_k_indices_forward);

/* ---- where: y = a where condition is not 0, else b ---- */

static bool where_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *condition = y->input[0], *a = y->input[1], *b = y->input[2];
    if (!qkv_same_shape(a, b) || !qkv_same_shape(a, condition))
        return qkv_refuse(y, "shapes differ: the condition is %s, the inputs are %s and %s",
                          qkv_shape_text(condition->shape), qkv_shape_text(a->shape),
                          qkv_shape_text(b->shape));
    if (condition->needs_gradient) return qkv_refuse(y, "the condition must not need a gradient: detach it");
    return same_as_input(y);
}

static void where_forward(struct qkv_tensor *y)
{
    const real *condition = y->input[0]->value, *a = y->input[1]->value, *b = y->input[2]->value;
    real *out = y->value;
    for (int64_t i = 0; i < y->count; i++) out[i] = condition[i] != 0 ? a[i] : b[i];
}

/* db += dy where condition is 0, then da += dy elsewhere: in this order, because da may be stored in the memory of dy. */
static void where_backward(struct qkv_tensor *y)
{
    const real *condition = y->input[0]->value, *dy = y->gradient;
    real *db = gradient_of(y->input[2]), beta;
    for (int64_t i = 0; db && i < y->count; i++) db[i] += condition[i] != 0 ? 0 : dy[i];
    real *da = claim_gradient(y->input[1], &beta);
    for (int64_t i = 0; da && i < y->count; i++)
        da[i] = (beta > 0 ? da[i] : 0) + (condition[i] != 0 ? dy[i] : 0);
}

OP(where, .inputs = 3, .backward_reads = INPUT(0), .elementwise = INPUT(0) | INPUT(1),
   .shape = RULE(where_shape), .forward = where_forward, .backward = where_backward);
