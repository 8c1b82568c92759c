/* Ops: cross entropy with label smoothing, of logits (cross_entropy) or of hidden states and the
 * output layer's weight (linear_cross_entropy). */
#include "kernels/loss.h"
#include "core/numbers.h"

/* How many numbers the saved terms of the rows take. */
static int64_t row_terms_count(const struct qkv_tensor *y, int64_t rows)
{
    return y->needs_gradient ? 0 : SUMS * rows;
}

/* The saved terms of `row` and the rows after it: [rows - row, SUMS]; NULL if they are not saved. */
static real *terms_of_rows(struct qkv_tensor *y, int64_t row, int64_t rows)
{
    return y->needs_gradient ? NULL : (real *)y->saved + y->saved_count - SUMS * (rows - row);
}

/* Adds the terms of row i to `sums`, and stores them in saved [rows, SUMS] unless that is NULL. */
static void add_row_terms(real *saved, int64_t i, const double row_terms[SUMS], double sums[SUMS])
{
    for (int s = 0; s < SUMS; s++) {
        sums[s] += row_terms[s];
        if (saved) saved[SUMS * i + s] = (real)row_terms[s];
    }
}

/* With p = softmax(logits) of C classes, s the smoothing and t the label:
 *     loss = log sum exp(logits) - (1 - s) logit_t - s mean(logits)
 *     dlogits_j = p_j - s / C, and for j = t also - (1 - s)
 * Sets the row's terms of the sums and returns the loss. with_gradient: also replaces the row of logits by
 * factor * dlogits. Losses and sums are double, because adding thousands of rows in float32 would lose digits
 * that training reports. */
static double row_loss(const struct qkv_tensor *y, int64_t classes, real *row, int32_t label,
                       bool with_gradient, double terms[SUMS])
{
    real smoothing = (real)y->options.smoothing, target = row[label];
    real maximum = row_maximum(classes, row), logit_sum = smoothing > 0 ? row_sum(classes, row) : 0;
    bool correct = target >= maximum && !any_reaches(label, row, target);
    real sum = with_gradient ? row_exp(classes, row, maximum, row) : row_exp_sum(classes, row, maximum);
    double log_sum = (double)maximum + qkv_scalar_log((double)sum);
    terms[SUM_NEGATIVE_LOG_LIKELIHOOD] = log_sum - (double)target;
    terms[SUM_CORRECT] = correct;
    if (with_gradient) {
        real factor = (real)y->options.factor, scale = factor / sum,
             shift = factor * smoothing / (real)classes;
        for (int64_t j = 0; j < classes; j++) row[j] = row[j] * scale - shift;
        row[label] -= factor * (1 - smoothing);
    }
    return log_sum - (1 - (double)smoothing) * (double)target -
           (double)(smoothing * logit_sum) / (double)classes;
}

/* ---- cross_entropy: y [1] = factor * sum of the rows' losses. saved: the sums, then
 * factor * dlogits [rows, classes] ---- */

static bool cross_entropy_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *logits = y->input[0];
    if (logits->shape.rank != 2)
        return qkv_refuse(y, "logits are %s, but must have 2 axes", qkv_shape_text(logits->shape));
    if (!check_indices(y, logits->shape.size[0], logits->shape.size[1], "label") || !check_smoothing(y))
        return false;
    y->shape = QKV_SHAPE(1);
    y->saved_count = GRADIENTS_AT + logits->count + row_terms_count(y, logits->shape.size[0]);
    return true;
}

static void cross_entropy_forward(struct qkv_tensor *y)
{
    const struct qkv_tensor *logits = y->input[0];
    int64_t rows = logits->shape.size[0], classes = logits->shape.size[1];
    real *gradient = (real *)y->saved + GRADIENTS_AT;
    double loss = 0, sums[SUMS] = {0};
    memcpy(gradient, logits->value, (size_t)logits->count * sizeof(real));
    for (int64_t i = 0; i < rows; i++) {
        double row_terms[SUMS];
        loss +=
            row_loss(y, classes, gradient + i * classes, y->options.indices[i], y->needs_gradient, row_terms);
        add_row_terms(terms_of_rows(y, 0, rows), i, row_terms, sums);
    }
    store_result(y, loss, sums);
}

/* dlogits += dy * saved dlogits */
static void cross_entropy_backward(struct qkv_tensor *y)
{
    add_scaled(y->input[0], *(const real *)y->gradient, (const real *)y->saved + GRADIENTS_AT);
}

OP(cross_entropy, .inputs = 1, .shape = RULE(cross_entropy_shape), .forward = cross_entropy_forward,
   .backward = cross_entropy_backward);

/* ---- linear_cross_entropy: cross_entropy of logits = x W + b, computed in blocks of rows and
 * tiles of classes. Forward also computes the gradients, while the logits of a block are in the
 * cache. saved: the sums, then factor times dx [N, D] and db [C]; forward_gradient: factor times dW ----
 *
 * Each block is read in two passes. The first computes each tile of logits and, while the tile is
 * in the second-level cache, replaces it by e = exp(logits - m_t), where m_t is the maximum of a
 * row in the tile. After the first pass, m and S = sum exp(logits - m) of complete rows are known.
 * The second pass turns each tile into the gradient of its logits, factor (e exp(m_t - m) / S - s / C), for the
 * label factor (1 - s) less, and multiplies it with W and x. W and dW are read once per block. */

/* Of each row: maximum, sum, logit_sum, label_logit and label_is_beaten of struct block. */
enum { NUMBERS_PER_ROW = 5 };

static bool linear_cross_entropy_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *weight = y->input[1];
    int64_t rows = qkv_rows(x), classes = classes_of(y, weight);
    if (!check_output_layer(y, x, weight, y->input[2]) || !check_indices(y, rows, classes, "label") ||
        !check_smoothing(y))
        return false;
    y->shape = QKV_SHAPE(1);
    y->saved_count = GRADIENTS_AT + row_terms_count(y, rows);
    if (y->needs_gradient) y->saved_count += x->count + classes;
    /* Tiles (those of a complete block if there is a second pass), maxima per tile, and the numbers
     * of each row. */
    int64_t block = block_rows(rows, x->shape.size[1], classes);
    y->scratch_forward =
        block * ((y->needs_gradient ? classes : TILE_CLASSES) + tile_count(classes) + NUMBERS_PER_ROW);
    return true;
}

/* A block of rows and its workspace. */
struct block {
    const struct qkv_tensor *y;
    struct output_layer layer;
    int64_t rows;
    bool with_gradient;
    bool is_first; /* the first block: dW is uninitialised */
    const real *x;
    const int32_t *labels;
    real *tiles;                                   /* one [rows, classes of the tile] after the other */
    real *tile_maximum;                            /* [number of tiles, rows]: m_t */
    real *maximum, *sum, *logit_sum, *label_logit; /* [rows]: m, S, sum of the logits, logit of the label */
    real *label_is_beaten; /* [rows]: 1: a class before the label has the same logit or a greater one */
    real *dx;              /* of this block; NULL if x needs no gradient */
    real *row_terms;       /* [rows, SUMS] or NULL */
};

/* First pass over classes first .. first + n - 1: computes tile [rows, n] = logits, then
 * exp(logits - m_t), and updates m and S. */
static void first_pass(const struct block *b, int64_t first, int64_t n, real *tile, real *tile_maximum)
{
    project_tile(&b->layer, b->rows, b->x, first, n, tile);
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = tile + i * n, maximum = row_maximum(n, row);
        int64_t label = b->labels[i] - first;
        if (label >= 0 && label < n) {
            real logit = b->label_logit[i] = row[label];
            b->label_is_beaten[i] =
                b->maximum[i] >= logit || (logit >= maximum && any_reaches(label, row, logit));
        }
        if (b->y->options.smoothing > 0) b->logit_sum[i] += row_sum(n, row);
        real sum = row_exp(n, row, maximum, row),
             maximum_so_far = maximum > b->maximum[i] ? maximum : b->maximum[i];
        /* Compares the maxima before it subtracts them: infinity - infinity is NaN. */
        real before = b->maximum[i] < maximum_so_far ? fast_exp(b->maximum[i] - maximum_so_far) : 1;
        real now = maximum < maximum_so_far ? fast_exp(maximum - maximum_so_far) : 1;
        b->sum[i] = b->sum[i] * before + sum * now;
        b->maximum[i] = maximum_so_far;
        tile_maximum[i] = maximum;
    }
}

/* Second pass over classes first .. first + n - 1: g [rows, n] = the gradient of the logits
 * replaces the tile; dx += g W^T, dW += x^T g, db += the sum of the rows of g. */
static void second_pass(const struct block *b, int64_t first, int64_t n, real *tile, const real *tile_maximum)
{
    real smoothing = (real)b->y->options.smoothing, factor = (real)b->y->options.factor;
    real shift = factor * smoothing / (real)b->layer.classes;
    for (int64_t i = 0; i < b->rows; i++) {
        real *restrict row = tile + i * n;
        real scale = factor *
                     (tile_maximum[i] < b->maximum[i] ? fast_exp(tile_maximum[i] - b->maximum[i]) : 1) /
                     b->sum[i];
        int64_t label = b->labels[i] - first;
        for (int64_t j = 0; j < n; j++) row[j] = row[j] * scale - shift;
        if (label >= 0 && label < n) row[label] -= factor * (1 - smoothing);
    }
    propagate_tile(&b->layer, b->rows, b->x, first, n, tile, b->is_first, b->dx);
}

/* Runs the passes, adds to the sums, and returns the loss of the block. Sums over rows are double,
 * as in row_loss. */
static double run_block(const struct block *b, double sums[SUMS])
{
    double smoothing = b->y->options.smoothing, loss = 0;
    int64_t tiles = tile_count(b->layer.classes);
    for (int64_t i = 0; i < b->rows; i++) {
        b->maximum[i] = (real)-INFINITY;
        b->sum[i] = b->logit_sum[i] = 0;
    }
    for (int pass = 0; pass < (b->with_gradient ? 2 : 1); pass++)
        for (int64_t t = 0; t < tiles; t++) {
            int64_t first = t * TILE_CLASSES, rest = b->layer.classes - first;
            int64_t n = rest < TILE_CLASSES ? rest : TILE_CLASSES;
            real *tile = b->with_gradient ? b->tiles + first * b->rows : b->tiles;
            (pass ? second_pass(b, first, n, tile, b->tile_maximum + t * b->rows)
                  : first_pass(b, first, n, tile, b->tile_maximum + t * b->rows));
        }
    for (int64_t i = 0; i < b->rows; i++) {
        double log_sum = (double)b->maximum[i] + qkv_scalar_log((double)b->sum[i]),
               target = (double)b->label_logit[i];
        bool correct = b->label_logit[i] >= b->maximum[i] && b->label_is_beaten[i] == 0;
        const double row_terms[SUMS] = {
            [SUM_NEGATIVE_LOG_LIKELIHOOD] = log_sum - target, [SUM_CORRECT] = correct};
        add_row_terms(b->row_terms, i, row_terms, sums);
        loss += log_sum - (1 - smoothing) * target -
                smoothing * (double)b->logit_sum[i] / (double)b->layer.classes;
    }
    return loss;
}

static void linear_cross_entropy_forward(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    real *dx = (real *)y->saved + GRADIENTS_AT;
    struct block b = {
        .y = y,
        .layer = output_layer_of(y, y->input[1], y->input[2], dx + x->count),
        .with_gradient = y->needs_gradient,
        .tiles = scratch_of(y),
    };
    int64_t rows = x->shape.size[0], inner = b.layer.inner, classes = b.layer.classes;
    int64_t step = block_rows(rows, inner, classes);
    b.tile_maximum = b.tiles + step * (b.with_gradient ? classes : TILE_CLASSES);
    b.maximum = b.tile_maximum + step * tile_count(classes);
    b.sum = b.maximum + step;
    b.logit_sum = b.sum + step;
    b.label_logit = b.logit_sum + step;
    b.label_is_beaten = b.label_logit + step;
    double loss = 0, sums[SUMS] = {0};
    if (b.with_gradient) memset(b.layer.db, 0, (size_t)classes * sizeof(real));
    for (int64_t first = 0; first < rows; first += step) {
        b.rows = rows - first < step ? rows - first : step;
        b.is_first = first == 0;
        b.x = (const real *)x->value + first * inner;
        b.dx = x->needs_gradient ? dx + first * inner : NULL;
        b.labels = y->options.indices + first;
        b.row_terms = terms_of_rows(y, first, rows);
        loss += run_block(&b, sums);
    }
    store_result(y, loss, sums);
}

/* dx += dy * saved dx, dW += dy * early dW, db += dy * saved db */
static void linear_cross_entropy_backward(struct qkv_tensor *y)
{
    struct qkv_tensor *x = y->input[0], *weight = y->input[1], *bias = y->input[2];
    const real *saved = (const real *)y->saved + GRADIENTS_AT;
    real dy = *(const real *)y->gradient;
    add_scaled(x, dy, saved);
    add_scaled(weight, dy, y->forward_gradient);
    add_scaled(bias, dy, saved + x->count);
}

OP(linear_cross_entropy, .inputs = 3, .optional = INPUT(2), .accumulates_once = INPUT(1) | INPUT(2),
   .forward_gradient = INPUT(1), .shape = RULE(linear_cross_entropy_shape),
   .forward = linear_cross_entropy_forward, .backward = linear_cross_entropy_backward);
