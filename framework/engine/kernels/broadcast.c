/* Ops: multiply_column, broadcast, cumulative_sum, neighbours. */
#include "kernels/axis.h"

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
