/* Ops that normalise each row: layer_norm, rms_norm. */
#include "kernels/vectors.h"

static bool check_epsilon(struct qkv_tensor *y)
{
    if (y->options.epsilon >= 0 && y->options.epsilon <= 1e9) return true;
    return qkv_refuse(y, "epsilon is %g, but must lie in 0 to 1e9", y->options.epsilon);
}

/* Reserves scratch for two rows, substitutes for a missing gain or bias, and for two in which backward sums dgain. */
static void reserve_rows(struct qkv_tensor *y)
{
    y->scratch = 4 * qkv_columns(y->input[0]);
}

/* The values of `given`; if it is NULL, row 0 or 1 of the scratch, filled with `value`. */
static const real *vector_or(const struct qkv_tensor *given, struct qkv_tensor *y, int row, real value)
{
    if (given) return given->value;
    int64_t columns = qkv_columns(y);
    real *missing = scratch_of(y) + row * columns;
    for (int64_t j = 0; j < columns; j++) missing[j] = value;
    return missing;
}

/* ---- layer_norm (Ba et al. 2016): y = u gain + bias, with the normalised row u = (x - mean) r and the
 * reciprocal standard deviation r = 1 / sqrt(variance + epsilon). saved [rows, 2]: mean and r of each row ---- */

static bool layer_norm_shape(struct qkv_tensor *y)
{
    int64_t columns = qkv_columns(y->input[0]);
    if (!check_vector(y, y->input[1], columns, "gain") || !check_vector(y, y->input[2], columns, "bias"))
        return false;
    y->saved_count = 2 * qkv_rows(y->input[0]);
    reserve_rows(y);
    return check_epsilon(y) && same_as_input(y);
}

/* Rows whose means are computed together, then their variances, and so on: the sums of several rows overlap, while each step
 * of one row waits for the result of the step before. */
enum { NORM_ROWS = 8 };

static void layer_norm_forward(struct qkv_tensor *y)
{
    int64_t rows = qkv_rows(y), columns = qkv_columns(y);
    const real *gain = vector_or(y->input[1], y, 0, 1), *bias = vector_or(y->input[2], y, 1, 0);
    real epsilon = (real)y->options.epsilon, variance[NORM_ROWS];
    for (int64_t first = 0; first < rows; first += NORM_ROWS) {
        int64_t n = rows - first < NORM_ROWS ? rows - first : NORM_ROWS;
        const real *restrict x = (const real *)y->input[0]->value + first * columns;
        real *restrict out = (real *)y->value + first * columns, *saved = (real *)y->saved + 2 * first;
        for (int64_t i = 0; i < n; i++) saved[2 * i] = row_sum(columns, x + i * columns) / (real)columns;
        for (int64_t i = 0; i < n; i++) variance[i] = row_squares(columns, x + i * columns, saved[2 * i]);
        for (int64_t i = 0; i < n; i++)
            saved[2 * i + 1] = 1 / REAL(sqrt)(variance[i] / (real)columns + epsilon);
        for (int64_t i = 0; i < n; i++, x += columns, out += columns) {
            real mean = saved[2 * i], r = saved[2 * i + 1];
            for (int64_t j = 0; j < columns; j++) out[j] = (x[j] - mean) * r * gain[j] + bias[j];
        }
    }
}

/* With g = dy gain and means over the row: dx += r (g - mean(g) - u mean(g u)). Every row adds dy u to dgain,
 * and dy to dbias. */
static void layer_norm_backward(struct qkv_tensor *y)
{
    int64_t rows = qkv_rows(y), columns = qkv_columns(y);
    real beta, *dx = claim_gradient(y->input[0], &beta);
    real *dgain = gradient_of(y->input[1]), *dbias = gradient_of(y->input[2]);
    const real *restrict gain = vector_or(y->input[1], y, 0, 1), *saved = y->saved;
    real *restrict sum = scratch_of(y) + 2 * columns;
    for (int64_t i = 0; i < rows; i++) {
        const real *restrict x = (const real *)y->input[0]->value + i * columns;
        const real *restrict dy = (const real *)y->gradient + i * columns;
        real mean = saved[2 * i], r = saved[2 * i + 1];
        real mean_g = row_dot(columns, dy, gain) / (real)columns;
        real mean_gu_r = row_moment(columns, dy, gain, x, mean) * r * r / (real)columns; /* mean(g u) r */
        if (dx) {
            real *restrict to = dx + i * columns;
            for (int64_t j = 0; j < columns; j++) {
                real before = beta > 0 ? to[j] : 0;
                to[j] = before + r * (dy[j] * gain[j] - mean_g - (x[j] - mean) * mean_gu_r);
            }
        }
        if (dgain) add_product_row(i, rows, columns, dy, x, mean, r, sum, dgain);
    }
    if (dbias) add_column_sums(rows, columns, y->gradient, columns, dbias);
}

OP(layer_norm, .inputs = 3, .optional = INPUT(1) | INPUT(2), .backward_reads = INPUT(0) | INPUT(1),
   .shape = RULE(layer_norm_shape), .forward = layer_norm_forward, .recompute = layer_norm_forward,
   .backward = layer_norm_backward);

/* ---- rms_norm (Zhang and Sennrich 2019): y = x r gain, with r = 1 / sqrt(mean(x^2) + epsilon).
 * saved [rows]: r of each row ---- */

static bool rms_norm_shape(struct qkv_tensor *y)
{
    if (!check_vector(y, y->input[1], qkv_columns(y->input[0]), "gain")) return false;
    y->saved_count = qkv_rows(y->input[0]);
    reserve_rows(y);
    return check_epsilon(y) && same_as_input(y);
}

static void rms_norm_forward(struct qkv_tensor *y)
{
    int64_t rows = qkv_rows(y), columns = qkv_columns(y);
    const real *gain = vector_or(y->input[1], y, 0, 1);
    real *saved = y->saved;
    for (int64_t i = 0; i < rows; i++) {
        const real *restrict x = (const real *)y->input[0]->value + i * columns;
        real *restrict out = (real *)y->value + i * columns;
        real r = 1 / REAL(sqrt)(row_dot(columns, x, x) / (real)columns + (real)y->options.epsilon);
        for (int64_t j = 0; j < columns; j++) out[j] = x[j] * r * gain[j];
        saved[i] = r;
    }
}

/* With g = dy gain and the mean over the row: dx += r (g - x r^2 mean(g x)). Every row adds dy x r to dgain. */
static void rms_norm_backward(struct qkv_tensor *y)
{
    int64_t rows = qkv_rows(y), columns = qkv_columns(y);
    real *dx = gradient_of(y->input[0]), *dgain = gradient_of(y->input[1]);
    const real *restrict gain = vector_or(y->input[1], y, 0, 1), *saved = y->saved;
    real *restrict sum = scratch_of(y) + 2 * columns;
    for (int64_t i = 0; i < rows; i++) {
        const real *restrict x = (const real *)y->input[0]->value + i * columns;
        const real *restrict dy = (const real *)y->gradient + i * columns;
        real r = saved[i], mean_gx_r2 = row_moment(columns, dy, gain, x, 0) * r * r / (real)columns;
        if (dx) {
            real *restrict to = dx + i * columns;
            for (int64_t j = 0; j < columns; j++) to[j] += r * (dy[j] * gain[j] - x[j] * mean_gx_r2);
        }
        if (dgain) add_product_row(i, rows, columns, dy, x, 0, r, sum, dgain);
    }
}

OP(rms_norm, .inputs = 2, .optional = INPUT(1), .backward_reads = INPUT(0) | INPUT(1),
   .shape = RULE(rms_norm_shape), .forward = rms_norm_forward, .recompute = rms_norm_forward,
   .backward = rms_norm_backward);
