/* Ops that work element by element on two tensors of one shape. */
#include "kernels/sums.h"

static bool pair_shape(struct qkv_tensor *y)
{
    if (!qkv_same_shape(y->input[0], y->input[1]))
        return qkv_refuse(y, "shapes differ: %s and %s", qkv_shape_text(y->input[0]->shape),
                          qkv_shape_text(y->input[1]->shape));
    return same_as_input(y);
}

/* ---- add: y = a + b ---- */

static void add_forward(struct qkv_tensor *y)
{
    const real *a = y->input[0]->value, *b = y->input[1]->value;
    real *out = y->value;
#pragma omp simd
    for (int64_t i = 0; i < y->count; i++) out[i] = a[i] + b[i];
}

/* da += dy, db += dy */
static void add_backward(struct qkv_tensor *y)
{
    for (int side = 0; side < 2; side++) {
        real beta;
        real *dx = claim_gradient(y->input[side], &beta);
        if (dx) accumulate(y->count, beta, y->gradient, dx);
    }
}

OP(add, .inputs = 2, .elementwise = INPUT(0) | INPUT(1), .shape = RULE(pair_shape), .forward = add_forward,
   .backward = add_backward);

/* ---- subtract: y = a - b ---- */

static void subtract_forward(struct qkv_tensor *y)
{
    const real *a = y->input[0]->value, *b = y->input[1]->value;
    real *out = y->value;
    for (int64_t i = 0; i < y->count; i++) out[i] = a[i] - b[i];
}

/* da += dy, db -= dy */
static void subtract_backward(struct qkv_tensor *y)
{
    const real *dy = y->gradient;
    real beta;
    real *da = claim_gradient(y->input[0], &beta);
    if (da) accumulate(y->count, beta, dy, da);
    real *db = gradient_of(y->input[1]);
    if (db)
        for (int64_t i = 0; i < y->count; i++) db[i] -= dy[i];
}

OP(subtract, .inputs = 2, .elementwise = INPUT(0), .shape = RULE(pair_shape), .forward = subtract_forward,
   .backward = subtract_backward);

/* ---- multiply: y = a b ---- */

static void multiply_forward(struct qkv_tensor *y)
{
    const real *a = y->input[0]->value, *b = y->input[1]->value;
    real *out = y->value;
    for (int64_t i = 0; i < y->count; i++) out[i] = a[i] * b[i];
}

/* da += dy b, db += dy a */
static void multiply_backward(struct qkv_tensor *y)
{
    const real *dy = y->gradient;
    for (int side = 0; side < 2; side++) {
        real *dx = gradient_of(y->input[side]);
        const real *other = y->input[1 - side]->value;
        if (dx)
            for (int64_t i = 0; i < y->count; i++) dx[i] += dy[i] * other[i];
    }
}

OP(multiply, .inputs = 2, .backward_reads = INPUT(0) | INPUT(1), .elementwise = INPUT(0) | INPUT(1),
   .shape = RULE(pair_shape), .forward = multiply_forward, .backward = multiply_backward);

/* ---- divide: y = a / b ---- */

static void divide_forward(struct qkv_tensor *y)
{
    const real *a = y->input[0]->value, *b = y->input[1]->value;
    real *out = y->value;
    for (int64_t i = 0; i < y->count; i++) out[i] = a[i] / b[i];
}

/* db -= dy y / b, da += dy / b. In this order, because da may be stored in the memory of dy. */
static void divide_backward(struct qkv_tensor *y)
{
    const real *dy = y->gradient, *result = y->value, *b = y->input[1]->value;
    real *db = gradient_of(y->input[1]);
    for (int64_t i = 0; db && i < y->count; i++) db[i] -= dy[i] * result[i] / b[i];
    real beta;
    real *da = claim_gradient(y->input[0], &beta);
    for (int64_t i = 0; da && i < y->count; i++) da[i] = (beta > 0 ? da[i] : 0) + dy[i] / b[i];
}

OP(divide, .inputs = 2, .backward_reads = INPUT(1) | RESULT, .elementwise = INPUT(0),
   .shape = RULE(pair_shape), .forward = divide_forward, .backward = divide_backward);

/* ---- minimum, maximum: y = the one of a and b that is `before` (< or >) the other, NaN if one is NaN;
 * da += dy, db += 0 where a is taken, and the other way round; half of dy each where they are equal ---- */

#define EXTREMUM(title, before)                                                                              \
    static void title##_forward(struct qkv_tensor *y)                                                        \
    {                                                                                                        \
        const real *a = y->input[0]->value, *b = y->input[1]->value;                                         \
        real *out = y->value;                                                                                \
        for (int64_t i = 0; i < y->count; i++) out[i] = a[i] before b[i] || a[i] != a[i] ? a[i] : b[i];      \
    }                                                                                                        \
    static void title##_backward(struct qkv_tensor *y)                                                       \
    {                                                                                                        \
        for (int side = 0; side < 2; side++) {                                                               \
            const real *x = y->input[side]->value, *other = y->input[1 - side]->value, *dy = y->gradient;    \
            real *dx = gradient_of(y->input[side]);                                                          \
            for (int64_t i = 0; dx && i < y->count; i++)                                                     \
                dx[i] += x[i] before other[i] ? dy[i] : x[i] == other[i] ? dy[i] / 2 : 0;                    \
        }                                                                                                    \
    }                                                                                                        \
    OP(title, .inputs = 2, .backward_reads = INPUT(0) | INPUT(1), .elementwise = INPUT(0) | INPUT(1),        \
       .shape = RULE(pair_shape), .forward = title##_forward, .backward = title##_backward)

EXTREMUM(minimum, <);
EXTREMUM(maximum, >);
