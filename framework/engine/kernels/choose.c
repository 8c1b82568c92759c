/* Ops that choose among numbers: min, max, argmin and argmax over an axis; top_k, top_k_indices; where. */
#include "kernels/axis.h"

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
