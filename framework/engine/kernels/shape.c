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

/* ---- parts: a tensor whose elements are some of those of another one, the whole ---- */

/* Element [i, j, k, l] of a part of four axes is number offset + i step[0] + j step[1] + k step[2] + l step[3] of the whole. */
struct part {
    int64_t size[4], step[4], offset;
};

/* All of a tensor. Missing leading axes have size 1. */
static struct part all_of(struct qkv_shape shape)
{
    struct part part = {{1, 1, 1, 1}, {0}, 0};
    int64_t step = 1;
    for (int i = 3, axis = shape.rank - 1; axis >= 0; i--, axis--) {
        part.size[i] = shape.size[axis];
        part.step[i] = step;
        step *= shape.size[axis];
    }
    return part;
}

/* Elements start .. start + length - 1 of an axis. */
static struct part range_of(struct qkv_shape shape, int64_t axis, int64_t start, int64_t length)
{
    struct part part = all_of(shape);
    int i = (int)axis + 4 - shape.rank;
    part.size[i] = length;
    part.offset = start * part.step[i];
    return part;
}

/* Without `back`: to [the part's size] = the part of `from`, or with beta 1: += . With `back` the other way round: the part of
 * `to` = `from`, or +=. beta counts only where the last axis has step 1; elsewhere `back` adds and the other way does not. */
static void move_part(struct part part, bool back, real beta, const real *from, real *to)
{
    const int64_t *n = part.size, *step = part.step;
    for (int axes = 0; axes < 3 && (n[2] == 1 || step[2] == n[3] * step[3]); axes++) /* joins the last axes */
        part = (struct part){{1, n[0], n[1], n[2] * n[3]}, {0, step[0], step[1], step[3]}, part.offset};
    int64_t at = 0;
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t k = 0; k < n[2]; k++, at += n[3]) {
                int64_t whole = part.offset + i * step[0] + j * step[1] + k * step[2];
                const real *x = from + (back ? at : whole);
                real *y = to + (back ? whole : at);
                if (step[3] == 1)
                    accumulate(n[3], beta, x, y);
                else if (back)
                    for (int64_t l = 0; l < n[3]; l++) y[l * step[3]] += x[l];
                else
                    for (int64_t l = 0; l < n[3]; l++) y[l] = x[l * step[3]];
            }
}

/* For y as a part of x. */
static struct part permuted_part(const struct qkv_tensor *y)
{
    struct part x = all_of(y->input[0]->shape), part = x;
    for (int i = 0, missing = 4 - y->shape.rank; i < y->shape.rank; i++) {
        part.size[missing + i] = x.size[missing + y->options.permutation.axis[i]];
        part.step[missing + i] = x.step[missing + y->options.permutation.axis[i]];
    }
    return part;
}

static void permute_forward(struct qkv_tensor *y)
{
    move_part(permuted_part(y), false, 0, y->input[0]->value, y->value);
}

/* dx += dy, in the order of x's axes */
static void permute_backward(struct qkv_tensor *y)
{
    move_part(permuted_part(y), true, 1, y->gradient, gradient_of(y->input[0]));
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

/* Input `side`, as a part of y. */
static struct part concat_part(const struct qkv_tensor *y, int side)
{
    int64_t axis = y->options.axis;
    return range_of(y->shape, axis, side ? y->input[0]->shape.size[axis] : 0,
                    y->input[side]->shape.size[axis]);
}

static void concat_forward(struct qkv_tensor *y)
{
    for (int side = 0; side < 2; side++)
        move_part(concat_part(y, side), true, 0, y->input[side]->value, y->value);
}

/* da += the first part of dy, db += the second */
static void concat_backward(struct qkv_tensor *y)
{
    for (int side = 0; side < 2; side++) {
        real beta, *dx = claim_gradient(y->input[side], &beta);
        if (dx) move_part(concat_part(y, side), false, beta, y->gradient, dx);
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

/* y, as a part of x. */
static struct part slice_part(const struct qkv_tensor *y)
{
    return range_of(y->input[0]->shape, y->options.axis, y->options.start, y->options.length);
}

static void slice_forward(struct qkv_tensor *y)
{
    move_part(slice_part(y), false, 0, y->input[0]->value, y->value);
}

/* dx += dy in start .. start + length - 1 of the axis */
static void slice_backward(struct qkv_tensor *y)
{
    move_part(slice_part(y), true, 1, y->gradient, gradient_of(y->input[0]));
}

OP(slice, .inputs = 1, .shape = RULE(slice_shape), .forward = slice_forward, .backward = slice_backward);

/* ---- sum and mean: y = factor * the sum of x along an axis or over all axes. The factor is 1 for sum, and for
 * mean 1 / the number of summands ---- */

static double factor_of(const struct qkv_tensor *y)
{
    return y->op == QKV_OP_mean ? 1.0 / (double)reduced_view(y).axis : 1;
}

/* y [outer, inner] = factor * sum of x [outer, axis, inner] over the axis. Sums in double: a
 * float32 sum of a million numbers keeps only a few digits. */
static void reduce_forward(struct qkv_tensor *y)
{
    struct view view = reduced_view(y);
    const real *x = y->input[0]->value;
    const double factor = factor_of(y);
    real *out = y->value;
    for (int64_t o = 0; o < view.outer; o++)
        for (int64_t i = 0; i < view.inner; i++) {
            double sum = 0;
            for (int64_t a = 0; a < view.axis; a++) sum += (double)x[(o * view.axis + a) * view.inner + i];
            out[o * view.inner + i] = (real)(factor * sum);
        }
}

/* dx [outer, axis, inner] += factor * dy [outer, inner] */
static void reduce_backward(struct qkv_tensor *y)
{
    struct view view = reduced_view(y);
    const real *dy = y->gradient, factor = (real)factor_of(y);
    real *dx = gradient_of(y->input[0]);
    for (int64_t o = 0; o < view.outer; o++)
        for (int64_t a = 0; a < view.axis; a++)
            for (int64_t i = 0; i < view.inner; i++)
                dx[(o * view.axis + a) * view.inner + i] += factor * dy[o * view.inner + i];
}

OP(sum, .inputs = 1, .shape = RULE(reduced_shape), .forward = reduce_forward, .backward = reduce_backward);
OP(mean, .inputs = 1, .shape = RULE(reduced_shape), .forward = reduce_forward, .backward = reduce_backward);

/* Ops: multiply_column, broadcast, cumulative_sum, neighbours. */

/* ---- multiply_column: y [.., C] = x [.., C] * column [.., 1] ---- */

static bool multiply_column_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *column = y->input[1];
    struct qkv_shape expected = x->shape;
    expected.size[x->shape.rank - 1] = 1;
    if (!qkv_are_equal(column->shape, expected))
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

/* y, as a part of x in which repetitions are steps of 0. */
static struct part broadcast_part(const struct qkv_tensor *y)
{
    struct part part = all_of(y->input[0]->shape), result = all_of(y->shape);
    for (int i = 0; i < 4; i++) {
        if (part.size[i] == 1) part.step[i] = 0;
        part.size[i] = result.size[i];
    }
    return part;
}

static void broadcast_forward(struct qkv_tensor *y)
{
    move_part(broadcast_part(y), false, 0, y->input[0]->value, y->value);
}

/* dx += the sum of dy over the repetitions, in double: a float32 sum of a million numbers keeps only a few digits */
static void broadcast_backward(struct qkv_tensor *y)
{
    const struct part part = broadcast_part(y), result = all_of(y->shape);
    const real *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    int64_t count = y->input[0]->count;
    for (int64_t at = 0; at < count; at++) {
        double sum = 0;
        for (int64_t repeat = 0; repeat < y->count / count; repeat++) {
            int64_t from = 0, rest = at, again = repeat;
            for (int i = 3; i >= 0; i--) {
                int64_t *index = part.step[i] ? &rest : &again;
                from += *index % part.size[i] * result.step[i];
                *index /= part.size[i];
            }
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

/* to = the sums of `from`; backward: to += the sums, from the last element on. */
static void sum_along(const struct qkv_tensor *y, bool backward, const real *from, real *to)
{
    struct view view = view_along(y->shape, y->options.axis);
    for (int64_t i = 0; i < view.outer * view.inner; i++) {
        int64_t at = i / view.inner * view.axis * view.inner + i % view.inner, step = view.inner;
        double sum = 0;
        if (backward) at += (view.axis - 1) * step, step = -step;
        for (int64_t a = 0; a < view.axis; a++, at += step) {
            sum += (double)from[at];
            to[at] = (backward ? to[at] : 0) + (real)sum;
        }
    }
}

static void cumulative_sum_forward(struct qkv_tensor *y)
{
    sum_along(y, false, y->input[0]->value, y->value);
}

static void cumulative_sum_backward(struct qkv_tensor *y)
{
    sum_along(y, true, y->gradient, gradient_of(y->input[0]));
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

static inline real number_at(const struct row *row, int64_t i)
{
    return row->first[i * row->step];
}

/* Whether the number i ranks before the number j. */
static inline bool is_before(const struct row *row, int64_t i, int64_t j)
{
    real a = number_at(row, i), b = number_at(row, j);
    bool a_is_nan = a != a, b_is_nan = b != b;
    if (a_is_nan != b_is_nan) return a_is_nan;
    if (a_is_nan || !(a < b || a > b)) return i < j;
    return row->least ? a < b : a > b;
}

/* The index that ranks next after `before`, or first if that is negative; -1 if there is none. */
static inline __attribute__((always_inline)) int64_t next_in_rank(const struct row *row, int64_t before)
{
    int64_t best = -1;
    for (int64_t i = 0; i < row->count; i++) {
        if (before >= 0 && !is_before(row, before, i)) continue;
        if (best < 0 || is_before(row, i, best)) best = i;
    }
    return best;
}

/* ---- min, max: y = the first in rank along the axis, which is removed; top_k: y [.., length] = the first `length` in rank
 * of each row of x [.., C]; dx += dy where the chosen numbers are. argmin, argmax, top_k_indices: their indices ---- */

enum { LARGEST_INDEX = 1 << 24 }; /* integers up to this are exact in float32 */

/* x as rows along the axis of `view`: y has the chosen numbers of each row, one row after the other. With dx, adds dy to
 * it where they are; otherwise computes y. Inlined, because it is twice as fast where `least` is a constant. */
static inline __attribute__((always_inline)) void choose(struct qkv_tensor *y, struct view view, bool least,
                                                         bool is_index, real *dx)
{
    const real *x = y->input[0]->value, *dy = y->gradient;
    int64_t rows = view.outer * view.inner, k = y->count / rows;
    real *out = y->value;
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i / view.inner * view.axis * view.inner + i % view.inner;
        const struct row row = {x + at, view.axis, view.inner, least};
        int64_t chosen = next_in_rank(&row, -1);
        for (int64_t r = i * k; r < (i + 1) * k; r++) {
            if (r > i * k) chosen = next_in_rank(&row, chosen);
            if (dx)
                dx[at + chosen * view.inner] += dy[r];
            else
                out[r] = is_index ? (real)chosen : number_at(&row, chosen);
        }
    }
}

static bool check_largest_index(struct qkv_tensor *y, int64_t count)
{
    return count <= LARGEST_INDEX ||
           qkv_refuse(y, "%lld numbers have indices that float32 cannot hold", (long long)count);
}

static bool index_shape(struct qkv_tensor *y)
{
    return reduced_shape(y) && check_largest_index(y, reduced_view(y).axis);
}

static bool top_k_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    int64_t columns = qkv_columns(x), k = y->options.length;
    if (k < 1 || k > columns)
        return qkv_refuse(y, "%lld numbers of each row are wanted, but input is %s", (long long)k,
                          qkv_shape_text(x->shape));
    y->shape = x->shape;
    y->shape.size[x->shape.rank - 1] = k;
    return check_largest_index(y, columns);
}

/* The rows of the last axis. */
static struct view rows_view(const struct qkv_tensor *y)
{
    return (struct view){qkv_rows(y), qkv_columns(y->input[0]), 1};
}

#define CHOICE(title, index_title, view_of, least, rule, index_rule)                                         \
    static void title##_forward(struct qkv_tensor *y)                                                        \
    {                                                                                                        \
        choose(y, view_of(y), least, false, NULL);                                                           \
    }                                                                                                        \
    static void title##_backward(struct qkv_tensor *y)                                                       \
    {                                                                                                        \
        choose(y, view_of(y), least, false, gradient_of(y->input[0]));                                       \
    }                                                                                                        \
    static void index_title##_forward(struct qkv_tensor *y)                                                  \
    {                                                                                                        \
        choose(y, view_of(y), least, true, NULL);                                                            \
    }                                                                                                        \
    OP(title, .inputs = 1, .backward_reads = INPUT(0), .shape = RULE(rule), .forward = title##_forward,      \
       .backward = title##_backward);                                                                        \
    OP(index_title, .inputs = 1, .stops_gradient = true, .shape = RULE(index_rule),                          \
       .forward = index_title##_forward);
CHOICE(min, argmin, reduced_view, true, reduced_shape, index_shape)
CHOICE(max, argmax, reduced_view, false, reduced_shape, index_shape)
CHOICE(top_k, top_k_indices, rows_view, false, top_k_shape, top_k_shape)

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
