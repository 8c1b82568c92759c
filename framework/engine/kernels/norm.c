/* Ops that normalise each row: layer_norm, rms_norm. */
#include "kernels/vectors.h"

static bool check_epsilon(struct qkv_tensor *y)
{
    if (y->options.epsilon >= 0 && y->options.epsilon <= 1e9) return true;
    return qkv_refuse(y, "epsilon is %g, but must lie in 0 to 1e9", y->options.epsilon);
}

/* ---- both ops are one: layer_norm (Ba et al. 2016), y = u gain + bias, with the normalised row u = (x - mean) r and the reciprocal
 * standard deviation r = 1 / sqrt(variance + epsilon); and rms_norm (Zhang and Sennrich 2019), in which the mean counts as 0, so
 * that the variance is mean(x^2), and which has no bias. saved: r of each row [rows]; of layer_norm, the means after them ---- */

static bool has_means(const struct qkv_tensor *y)
{
    return y->op == QKV_OP_layer_norm;
}

static bool norm_shape(struct qkv_tensor *y)
{
    int64_t columns = qkv_columns(y->input[0]);
    if (!check_vector(y, y->input[1], columns, "gain") || !check_vector(y, y->input[2], columns, "bias"))
        return false;
    y->saved_count = (has_means(y) ? 2 : 1) * qkv_rows(y->input[0]);
    y->scratch =
        4 * columns; /* substitutes for a missing gain or bias, and two rows in which backward sums dgain */
    return check_epsilon(y) && same_as_input(y);
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

/* Rows whose means are computed together, then their variances, and so on: the sums of several rows overlap, while each step
 * of one row waits for the result of the step before. */
enum { NORM_ROWS = 8 };

static void norm_forward(struct qkv_tensor *y)
{
    int64_t rows = qkv_rows(y), columns = qkv_columns(y);
    /* Adding -0 changes no number, not even -0. */
    const real *gain = vector_or(y->input[1], y, 0, 1), *bias = vector_or(y->input[2], y, 1, (real)-0.0);
    real epsilon = (real)y->options.epsilon, mean[NORM_ROWS] = {0}, variance[NORM_ROWS];
    for (int64_t first = 0; first < rows; first += NORM_ROWS) {
        int64_t n = rows - first < NORM_ROWS ? rows - first : NORM_ROWS;
        const real *restrict x = (const real *)y->input[0]->value + first * columns;
        real *restrict out = (real *)y->value + first * columns, *r = (real *)y->saved + first;
        for (int64_t i = 0; has_means(y) && i < n; i++)
            r[rows + i] = mean[i] = row_sum(columns, x + i * columns) / (real)columns;
        for (int64_t i = 0; i < n; i++) variance[i] = row_squares(columns, x + i * columns, mean[i]);
        for (int64_t i = 0; i < n; i++) r[i] = 1 / REAL(sqrt)(variance[i] / (real)columns + epsilon);
        for (int64_t i = 0; i < n; i++, x += columns, out += columns)
            for (int64_t j = 0; j < columns; j++) out[j] = (x[j] - mean[i]) * r[i] * gain[j] + bias[j];
    }
}

/* With g = dy gain and means over the row: dx += r (g - mean(g) - u mean(g u)), of rms_norm without mean(g). Every row adds
 * dy u to dgain, and dy to dbias. */
static void norm_backward(struct qkv_tensor *y)
{
    int64_t rows = qkv_rows(y), columns = qkv_columns(y);
    real beta, *dx = claim_gradient(y->input[0], &beta);
    real *dgain = gradient_of(y->input[1]), *dbias = gradient_of(y->input[2]);
    const real *restrict gain = vector_or(y->input[1], y, 0, 1), *saved = y->saved;
    real *restrict sum = scratch_of(y) + 2 * columns;
    for (int64_t i = 0; i < rows; i++) {
        const real *restrict x = (const real *)y->input[0]->value + i * columns;
        const real *restrict dy = (const real *)y->gradient + i * columns;
        real r = saved[i], mean = has_means(y) ? saved[rows + i] : 0;
        real mean_g = has_means(y) ? row_dot(columns, dy, gain) / (real)columns : 0;
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
   .shape = RULE(norm_shape), .forward = norm_forward, .recompute = norm_forward, .backward = norm_backward);
OP(rms_norm, .inputs = 2, .optional = INPUT(1), .backward_reads = INPUT(0) | INPUT(1),
   .shape = RULE(norm_shape), .forward = norm_forward, .recompute = norm_forward, .backward = norm_backward);
