/* Ops that compute element by element. */
#include "kernels/vectors.h"

/* Ops that work element by element on two tensors of one shape. */

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

/* ---- functions of two numbers: y = f(a, b), da += dy df/da, db += dy df/db ----
 *
 * PAIR(title, over, reads, value_of, da_of, db_of): in the expressions, `a` and `b` are the inputs, `f` is the result and `d` is
 * dy. `over` (.elementwise) and `reads` (.backward_reads) are sets of values. db comes first, because da may be stored in the
 * memory of dy. */

#define PAIR(title, over, reads, value_of, da_of, db_of)                                                     \
    static void title##_forward(struct qkv_tensor *y)                                                        \
    {                                                                                                        \
        const real *left = y->input[0]->value, *right = y->input[1]->value;                                  \
        real *to = y->value;                                                                                 \
        for (int64_t i = 0; i < y->count; i++) {                                                             \
            real a = left[i], b = right[i];                                                                  \
            to[i] = (value_of);                                                                              \
        }                                                                                                    \
    }                                                                                                        \
    static void title##_backward(struct qkv_tensor *y)                                                       \
    {                                                                                                        \
        const real *left = y->input[0]->value, *right = y->input[1]->value, *result = y->value,              \
                   *dy = y->gradient;                                                                        \
        for (int side = 1; side >= 0; side--) {                                                              \
            real beta, *dx = claim_gradient(y->input[side], &beta);                                          \
            for (int64_t i = 0; dx && i < y->count; i++) {                                                   \
                real a = left[i], b = right[i], f = result[i], d = dy[i], before = beta > 0 ? dx[i] : 0;     \
                (void)a, (void)b, (void)f;                                                                   \
                dx[i] = before + (side ? (db_of) : (da_of));                                                 \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    OP(title, .inputs = 2, .backward_reads = (reads), .elementwise = (over), .shape = RULE(pair_shape),      \
       .forward = title##_forward, .backward = title##_backward)

PAIR(subtract, INPUT(0), 0, a - b, d, -d);
PAIR(multiply, INPUT(0) | INPUT(1), INPUT(0) | INPUT(1), a *b, d *b, d *a);
PAIR(divide, INPUT(0), INPUT(1) | RESULT, a / b, d / b, -(d *f / b));
/* The one of a and b that is less or greater; where they are equal, each has half of the gradient; NaN, as are both gradients,
 * if one is NaN. */
PAIR(minimum, INPUT(0) | INPUT(1), INPUT(0) | INPUT(1), a < b || a != a ? a : b,
     a < b    ? d
     : a == b ? d / 2
     : b < a  ? 0
              : (real)NAN,
     b < a    ? d
     : a == b ? d / 2
     : a < b  ? 0
              : (real)NAN);
PAIR(maximum, INPUT(0) | INPUT(1), INPUT(0) | INPUT(1), a > b || a != a ? a : b,
     a > b    ? d
     : a == b ? d / 2
     : b > a  ? 0
              : (real)NAN,
     b > a    ? d
     : a == b ? d / 2
     : a > b  ? 0
              : (real)NAN);

/* Ops that work element by element on one tensor, and rows. */

/* ---- add_row: y [.., C] = x [.., C] + row [C] ---- */

static bool add_row_shape(struct qkv_tensor *y)
{
    return check_vector(y, y->input[1], qkv_columns(y->input[0]), "row") && same_as_input(y);
}

static void add_row_forward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value, *row = y->input[1]->value;
    real *out = y->value;
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < y->count; i += columns)
        for (int64_t j = 0; j < columns; j++) out[i + j] = x[i + j] + row[j];
}

/* dx += dy, drow += the sum of the rows of dy */
static void add_row_backward(struct qkv_tensor *y)
{
    const real *dy = y->gradient;
    int64_t columns = qkv_columns(y);
    real beta;
    real *dx = claim_gradient(y->input[0], &beta);
    if (dx) accumulate(y->count, beta, dy, dx);
    real *drow = gradient_of(y->input[1]);
    if (!drow) return;
    add_column_sums(qkv_rows(y), columns, dy, columns, drow);
}

OP(add_row, .inputs = 2, .elementwise = INPUT(0), .shape = RULE(add_row_shape), .forward = add_row_forward,
   .backward = add_row_backward);

/* ---- multiply_row: y [.., C] = x [.., C] * row [C] ---- */

static bool multiply_row_shape(struct qkv_tensor *y)
{
    y->scratch = 2 * qkv_columns(y->input[0]); /* backward: of add_product_row */
    return add_row_shape(y);
}

static void multiply_row_forward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value, *row = y->input[1]->value;
    real *out = y->value;
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < y->count; i += columns)
        for (int64_t j = 0; j < columns; j++) out[i + j] = x[i + j] * row[j];
}

/* dx += dy row, drow += the sum of the rows of dy x */
static void multiply_row_backward(struct qkv_tensor *y)
{
    const real *dy = y->gradient, *x = y->input[0]->value, *row = y->input[1]->value;
    int64_t columns = qkv_columns(y), rows = qkv_rows(y);
    real *dx = gradient_of(y->input[0]), *drow = gradient_of(y->input[1]), *sum = scratch_of(y);
    for (int64_t i = 0; dx && i < y->count; i += columns)
        for (int64_t j = 0; j < columns; j++) dx[i + j] += dy[i + j] * row[j];
    for (int64_t i = 0; drow && i < rows; i++)
        add_product_row(i, rows, columns, dy + i * columns, x + i * columns, 0, 1, sum, drow);
}

OP(multiply_row, .inputs = 2, .backward_reads = INPUT(0) | INPUT(1), .elementwise = INPUT(0),
   .shape = RULE(multiply_row_shape), .forward = multiply_row_forward, .backward = multiply_row_backward);

/* ---- functions of one number: y = f(x), dx += dy f'(x) ----
 *
 * UNARY(title, reads, value_of, derivative_of): in the expressions, `x` is the input and `f` the result.
 * `reads` (.backward_reads) is INPUT(0) if derivative_of uses x, and RESULT if it uses f. Without INPUT(0), the
 * result may overwrite the input. */

#define UNARY(title, reads, value_of, derivative_of)                                                         \
    static void title##_forward(struct qkv_tensor *y)                                                        \
    {                                                                                                        \
        const real *from = y->input[0]->value;                                                               \
        real *to = y->value;                                                                                 \
        _Pragma("omp simd") for (int64_t i = 0; i < y->count; i++)                                           \
        {                                                                                                    \
            real x = from[i];                                                                                \
            to[i] = (value_of);                                                                              \
        }                                                                                                    \
    }                                                                                                        \
    static void title##_backward(struct qkv_tensor *y)                                                       \
    {                                                                                                        \
        const real *from = y->input[0]->value, *result = y->value, *dy = y->gradient;                        \
        real beta;                                                                                           \
        real *dx = claim_gradient(y->input[0], &beta);                                                       \
        _Pragma("omp simd") for (int64_t i = 0; i < y->count; i++)                                           \
        {                                                                                                    \
            real x = from[i], f = result[i];                                                                 \
            (void)x, (void)f;                                                                                \
            real before = beta > 0 ? dx[i] : 0;                                                              \
            dx[i] = before + dy[i] * (derivative_of);                                                        \
        }                                                                                                    \
    }                                                                                                        \
    OP(title, .inputs = 1, .backward_reads = (reads), .elementwise = INPUT(0), .shape = RULE(same_as_input), \
       .forward = title##_forward, .backward = title##_backward)

/* d/dx [x Phi(x)] = Phi(x) + x phi(x) */
static inline __attribute__((always_inline)) real gelu_derivative(real x)
{
    const real inverse_root_2pi = (real)0.39894228040143267794;
    return normal_cdf(x) + x * inverse_root_2pi * fast_exp((real)-0.5 * x * x);
}

/* u = 2 sqrt(2 / pi) (x + 0.044715 x^3). The tanh approximation of GELU is x sigmoid(u), because
 * (1 + tanh(u / 2)) / 2 = sigmoid(u). */
static inline real gelu_inner(real x)
{
    return (real)1.59576912160573071176 * (x + (real)0.044715 * x * x * x);
}

/* d/dx [x sigmoid(u)] = s + x s (1 - s) u', with s = sigmoid(u); u' may be infinite where s (1 - s) is 0 */
static inline real gelu_tanh_derivative(real x)
{
    real s = fast_sigmoid(gelu_inner(x));
    real inner = (real)1.59576912160573071176 * (1 + (real)0.134145 * x * x);
    return s > 0 && s < 1 ? s + x * s * (1 - s) * inner : s;
}

/* d/dx [x s] = s (1 + x (1 - s)), with s = sigmoid(x) */
static inline real silu_derivative(real x)
{
    real s = fast_sigmoid(x);
    return s * (1 + x * (1 - s));
}

UNARY(relu, RESULT, x <= 0 ? 0 : x, f > 0 ? 1 : f); /* f is 0 or NaN */
UNARY(gelu, INPUT(0), x *normal_cdf(x), gelu_derivative(x));
UNARY(gelu_tanh, INPUT(0), x *fast_sigmoid(gelu_inner(x)), gelu_tanh_derivative(x));
UNARY(silu, INPUT(0), x *fast_sigmoid(x), silu_derivative(x));
UNARY(tanh, RESULT, fast_tanh(x), 1 - f * f);
UNARY(sigmoid, RESULT, fast_sigmoid(x), f *(1 - f));
UNARY(exp, RESULT, fast_exp(x), f);
UNARY(log, INPUT(0), fast_log(x), 1 / x);
UNARY(sqrt, RESULT, REAL(sqrt)(x), (real)0.5 / f);
UNARY(abs, INPUT(0), REAL(fabs)(x), x > 0 ? 1 : x < 0 ? -1 : x - x); /* 0 or NaN */

/* ---- scale, add_scalar, clamp, pow: the same, with numbers from the options ---- */

UNARY(scale, 0, (real)y->options.factor *x, (real)y->options.factor);
UNARY(add_scalar, 0, x + (real)y->options.addend, 1);

static bool clamp_shape(struct qkv_tensor *y)
{
    if (y->options.lowest <= y->options.highest) return same_as_input(y);
    return qkv_refuse(y, "the range is %g to %g, but its end must not lie below its start", y->options.lowest,
                      y->options.highest);
}

/* x^n for n >= 1 */
static inline real whole_power(real x, int n)
{
    real power = x;
    for (int i = 1; i < n; i++) power *= x;
    return power;
}

/* x^exponent. Small integer exponents use multiplication; others compute e^(exponent log x) in float64, so that every
 * processor gives the same bits. */
static inline real power_of(real x, double exponent)
{
    const double number = (double)x, size = number < 0 ? -number : number;
    if (exponent == 0) return 1;
    if (exponent == 0.5) return REAL(sqrt)(x);
    bool is_whole = exponent == floor(exponent);
    if (is_whole && exponent >= 1 && exponent <= 8) return whole_power(x, (int)exponent);
    if (is_whole && exponent <= -1 && exponent >= -8) return 1 / whole_power(x, -(int)exponent);
    if (number == 0) return exponent > 0 ? 0 : (real)INFINITY;
    if (number < 0 && !is_whole) return (real)NAN;
    double power = qkv_scalar_exp(exponent * qkv_scalar_log(size));
    return (real)(number < 0 && fmod(exponent, 2) != 0 ? -power : power);
}

UNARY(pow, INPUT(0), power_of(x, y->options.exponent),
      y->options.exponent == 0 ? 0 : (real)y->options.exponent * power_of(x, y->options.exponent - 1));

static void clamp_forward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value, lowest = (real)y->options.lowest, highest = (real)y->options.highest;
    real *out = y->value;
    for (int64_t i = 0; i < y->count; i++) out[i] = x[i] < lowest ? lowest : x[i] > highest ? highest : x[i];
}

/* dx += dy where x lies in the range, NaN where it is NaN */
static void clamp_backward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value, lowest = (real)y->options.lowest, highest = (real)y->options.highest;
    const real *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; i < y->count; i++)
        dx[i] += x[i] >= lowest && x[i] <= highest ? dy[i] : x[i] == x[i] ? 0 : x[i];
}

OP(clamp, .inputs = 1, .backward_reads = INPUT(0), .elementwise = INPUT(0), .shape = RULE(clamp_shape),
   .forward = clamp_forward, .backward = clamp_backward);

/* ---- dropout: y = mask x / (1 - rate), with mask 0 or 1. saved: the mask, one bit per element ---- */

/* mask x / (1 - rate): 0 where x is dropped, but NaN if it is infinite or NaN. */
static inline real kept_or_zero(bool kept, real x, real factor)
{
    return kept ? x * factor : x - x;
}

/* Element i was kept if bit i % 32 of word i / 32 is set. */
static uint32_t *kept_bits(const struct qkv_tensor *y)
{
    return y->saved;
}

/* Forward. The mask is saved as bits, because reading them is faster than computing the random
 * words again. */
static void drop(struct qkv_tensor *y)
{
    struct dropper dropper = dropper_of(y, y->options.rate);
    uint16_t words[DROPPER_WORDS];
    const real *x = y->input[0]->value;
    real *out = y->value;
    uint32_t *bits = kept_bits(y);
    for (int64_t first = 0; first < y->count; first += DROPPER_WORDS) {
        int64_t n = y->count - first < DROPPER_WORDS ? y->count - first : DROPPER_WORDS;
        dropper_words(&dropper, first / DROPPER_WORDS, words);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[first + i] = kept_or_zero(words[i] >= dropper.threshold, x[first + i], dropper.factor);
        for (int64_t group = 0; bits && group < n; group += 32) {
            uint32_t kept = 0;
#pragma omp simd reduction(| : kept)
            for (int i = 0; i < 32; i++) kept |= (uint32_t)(words[group + i] >= dropper.threshold) << i;
            *bits++ = kept;
        }
    }
}

static bool check_rate(struct qkv_tensor *y)
{
    if (y->options.rate >= 0 && y->options.rate < 1) return true;
    return qkv_refuse(y, "the rate is %g, but must be at least 0 and below 1", y->options.rate);
}

static bool dropout_shape(struct qkv_tensor *y)
{
    if (!check_rate(y)) return false;
    int64_t mask_bytes = (y->input[0]->count + 31) / 32 * (int64_t)sizeof(uint32_t),
            number_bytes = (int64_t)y->graph->size;
    if (y->graph->has_dropout && y->needs_gradient)
        y->saved_count = (mask_bytes + number_bytes - 1) / number_bytes;
    return same_as_input(y);
}

static void dropout_forward(struct qkv_tensor *y)
{
    if (y->graph->has_dropout)
        drop(y);
    else
        accumulate(y->count, 0, y->input[0]->value, y->value);
}

/* dx += mask dy / (1 - rate) */
static void dropout_backward(struct qkv_tensor *y)
{
    real beta;
    real *dx = claim_gradient(y->input[0], &beta);
    const real *dy = y->gradient;
    if (!y->graph->has_dropout) {
        accumulate(y->count, beta, dy, dx);
        return;
    }
    const uint32_t *bits = kept_bits(y);
    real factor = dropper_of(y, y->options.rate).factor;
    for (int64_t first = 0; first < y->count; first += 32) {
        int64_t n = y->count - first < 32 ? y->count - first : 32;
        uint32_t kept = *bits++;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dx[first + i] =
                (beta > 0 ? dx[first + i] : 0) + kept_or_zero(kept >> i & 1, dy[first + i], factor);
    }
}

OP(dropout, .inputs = 1, .random = true, .elementwise = INPUT(0), .shape = RULE(dropout_shape),
   .forward = dropout_forward, .backward = dropout_backward);

/* ---- dropout_rows: y[i] = mask[i] x[i] / (1 - rate) for each row i. Backward computes the mask again, which needs only
 * one random word per row ---- */

/* to [rows, D] = beta to + mask from / (1 - rate), with beta 0 or 1. For beta 0, `to` may be uninitialised, and may be
 * `from`. */
static void drop_rows(const struct qkv_tensor *y, real beta, const real *from, real *to)
{
    struct dropper dropper = dropper_of(y, y->options.rate);
    int64_t columns = qkv_columns(y), rows = y->count / columns;
    uint16_t words[DROPPER_WORDS];
    if (!y->graph->has_dropout) {
        accumulate(y->count, beta, from, to);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        if (row % DROPPER_WORDS == 0) dropper_words(&dropper, row / DROPPER_WORDS, words);
        real factor = words[row % DROPPER_WORDS] >= dropper.threshold ? dropper.factor : 0;
        const real *x = from + row * columns;
        real *out = to + row * columns;
#pragma omp simd
        for (int64_t j = 0; j < columns; j++)
            out[j] = (beta > 0 ? out[j] : 0) + kept_or_zero(factor > 0, x[j], factor);
    }
}

static bool dropout_rows_shape(struct qkv_tensor *y)
{
    return check_rate(y) && same_as_input(y);
}

static void dropout_rows_forward(struct qkv_tensor *y)
{
    drop_rows(y, 0, y->input[0]->value, y->value);
}

/* dx[i] += mask[i] dy[i] / (1 - rate) */
static void dropout_rows_backward(struct qkv_tensor *y)
{
    real beta, *dx = claim_gradient(y->input[0], &beta);
    drop_rows(y, beta, y->gradient, dx);
}

OP(dropout_rows, .inputs = 1, .random = true, .elementwise = INPUT(0), .shape = RULE(dropout_rows_shape),
   .forward = dropout_rows_forward, .backward = dropout_rows_backward);
