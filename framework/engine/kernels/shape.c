/* Ops: reshape, permute, concat, slice; sum and mean over an axis. */
#include "kernels/axis.h"

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
