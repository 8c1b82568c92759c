/* The losses of predicted classes. */
#include "kernels/loss.h"
#include "core/numbers.h"

/* Ops: cross entropy with label smoothing, of logits (cross_entropy) or of hidden states and the
 * output layer's weight (linear_cross_entropy). */

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

/* Op paired_cross_entropy: the cross entropies of two passes over the same labels, and how far their predictions
 * are apart (R-Drop, Wu et al. 2021; one-sided: SimCut, Gao et al. 2022). Like linear_cross_entropy, it computes the
 * gradients in forward, while the logits of a block of rows are in the cache.
 *
 * With logits u and v of the two passes, p = softmax(u), q = softmax(v), d = log p - log q and weight a:
 *     loss = (cross entropy of p + cross entropy of q) / 2 + a / 4 (KL(p || q) + KL(q || p))
 *     du_j = (p_j - s / C) / 2, for the label less (1 - s) / 2, + a / 4 (p_j (d_j - KL(p || q)) + p_j - q_j)
 *     dv_j is the same with p and q exchanged, and -d instead of d
 * One-sided, the second pass has no cross entropy, and only KL(p || q) counts:
 *     loss = cross entropy of p + a KL(p || q)
 *     du_j = p_j - s / C, for the label less 1 - s, + a p_j (d_j - KL(p || q));  dv_j = a (q_j - p_j)
 * The first pass over the tiles keeps the logits, and sums exp(u - max) and exp(u - max) (u - v) of each row, from which
 * KL(p || q) = sum p (u - v) - log sum exp(u) + log sum exp(v). The second pass turns logits into gradients. */

/* saved: the sums, means of both passes; then factor times dx of both passes [2, N, D] and db [C]. forward_gradient: factor
 * times dW. */

/* Of each row: maximum, sum, moment, logit_sum, label_logit and label_is_beaten of both passes. */
enum { PASSES = 2, PASS_NUMBERS = 6 };

static bool paired_cross_entropy_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *first = y->input[0], *second = y->input[1], *weight = y->input[2];
    double consistency = y->options.consistency;
    int64_t rows = qkv_rows(first), classes = classes_of(y, weight);
    if (!check_output_layer(y, first, weight, y->input[3])) return false;
    if (second->shape.rank != 2 || second->shape.size[0] != rows ||
        second->shape.size[1] != first->shape.size[1])
        return qkv_refuse(y, "the second input is %s, but must be %s, as the first",
                          qkv_shape_text(second->shape), qkv_shape_text(first->shape));
    if (!(consistency >= 0 && consistency < (double)INFINITY))
        return qkv_refuse(y, "consistency is %g, but must be at least 0 and finite", consistency);
    if (!check_indices(y, rows, classes, "label") || !check_smoothing(y)) return false;
    y->shape = QKV_SHAPE(1);
    y->saved_count = GRADIENTS_AT;
    if (y->needs_gradient) y->saved_count += PASSES * first->count + classes;
    int64_t block = block_rows(rows, first->shape.size[1], PASSES * classes);
    y->scratch_forward = PASSES * block * ((y->needs_gradient ? classes : TILE_CLASSES) + PASS_NUMBERS);
    return true;
}

/* A block of rows of one pass. */
struct pass {
    const real *x;
    real *tiles;                   /* one [rows, classes of the tile] after the other */
    real *maximum, *sum;           /* [rows]: m; S = sum exp(logits - m) */
    real *moment;                  /* [rows]: sum exp(logits - m) (logits - those of the other pass) */
    real *logit_sum, *label_logit; /* [rows] */
    real *label_is_beaten;         /* [rows]: 1: a class before the label has no smaller logit */
    real *dx;                      /* NULL if x needs no gradient */
};

struct pair_block {
    const struct qkv_tensor *y;
    struct output_layer layer;
    int64_t rows;
    bool with_gradient, is_first;
    const int32_t *labels;
    struct pass pass[PASSES];
};

/* Adds n logits of row i of a pass, of classes `first` and on, to its sums. other: those of the other pass. */
static void add_logits(const struct pair_block *b, const struct pass *pass, int64_t i, int64_t first,
                       int64_t n, const real *row, const real *other)
{
    real weights[TILE_CLASSES], differences[TILE_CLASSES], maximum = row_maximum(n, row);
    int64_t label = b->labels[i] - first;
    if (label >= 0 && label < n) {
        real logit = pass->label_logit[i] = row[label];
        pass->label_is_beaten[i] =
            pass->maximum[i] >= logit || (logit >= maximum && any_reaches(label, row, logit));
    }
    if (b->y->options.smoothing > 0) pass->logit_sum[i] += row_sum(n, row);
    real sum = row_exp(n, row, maximum, weights);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) differences[j] = row[j] - other[j];
    real moment = row_dot(n, weights, differences);
    real maximum_so_far = maximum > pass->maximum[i] ? maximum : pass->maximum[i];
    /* Compares the maxima before it subtracts them: infinity - infinity is NaN. */
    real before = pass->maximum[i] < maximum_so_far ? fast_exp(pass->maximum[i] - maximum_so_far) : 1;
    real now = maximum < maximum_so_far ? fast_exp(maximum - maximum_so_far) : 1;
    pass->sum[i] = pass->sum[i] * before + sum * now;
    pass->moment[i] = pass->moment[i] * before + moment * now;
    pass->maximum[i] = maximum_so_far;
}

static double log_sum_of(const struct pass *pass, int64_t i)
{
    return (double)pass->maximum[i] + qkv_scalar_log((double)pass->sum[i]);
}

/* KL(p || q), with p the softmax of row i of pass number `of`, and q that of the other pass. */
static double divergence_of(const struct pair_block *b, int of, int64_t i)
{
    const struct pass *pass = &b->pass[of];
    return (double)pass->moment[i] / (double)pass->sum[i] - log_sum_of(pass, i) +
           log_sum_of(&b->pass[1 - of], i);
}

/* The weights of the parts of the loss. */
struct pair_weights {
    real cross_entropy[PASSES];
    real divergence; /* of KL(p || q) */
    real mutual;     /* weight of KL(q || p) relative to KL(p || q): 1, or 0 */
};

static struct pair_weights weights_of(const struct qkv_options *options)
{
    real a = (real)options->consistency;
    return options->one_sided ? (struct pair_weights){{1, 0}, a, 0}
                              : (struct pair_weights){{(real)0.5, (real)0.5}, a / 4, 1};
}

/* Replaces the n logits u and v of row i, of classes `first` and on, by their gradients. */
static void row_gradients(const struct pair_block *b, int64_t i, int64_t first, int64_t n, real *restrict u,
                          real *restrict v)
{
    const struct pass *p_pass = &b->pass[0], *q_pass = &b->pass[1];
    real factor = (real)b->y->options.factor, smoothing = (real)b->y->options.smoothing;
    const struct pair_weights weights = weights_of(&b->y->options);
    real own_p = factor * weights.cross_entropy[0], own_q = factor * weights.cross_entropy[1];
    real uniform_p = own_p * smoothing / (real)b->layer.classes;
    real uniform_q = own_q * smoothing / (real)b->layer.classes;
    real pull = factor * weights.divergence, mutual = weights.mutual;
    real p_maximum = p_pass->maximum[i], p_scale = 1 / p_pass->sum[i];
    real q_maximum = q_pass->maximum[i], q_scale = 1 / q_pass->sum[i];
    real p_divergence = (real)divergence_of(b, 0, i), q_divergence = (real)divergence_of(b, 1, i);
    real shift = (real)(log_sum_of(p_pass, i) - log_sum_of(q_pass, i));
    int64_t label = b->labels[i] - first;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        real p = fast_exp(u[j] - p_maximum) * p_scale, q = fast_exp(v[j] - q_maximum) * q_scale;
        real d = u[j] - v[j] - shift;
        u[j] = own_p * p - uniform_p + pull * (p * (d - p_divergence) + mutual * (p - q));
        v[j] = own_q * q - uniform_q + pull * (mutual * (q * (-d - q_divergence)) + (q - p));
    }
    if (label < 0 || label >= n) return;
    u[label] -= own_p * (1 - smoothing);
    v[label] -= own_q * (1 - smoothing);
}

/* Adds the passes of row i that have a cross entropy to the sums, and returns the loss of the row. */
static double row_loss_of_pair(const struct pair_block *b, int64_t i, double sums[SUMS])
{
    bool one_sided = b->y->options.one_sided;
    double smoothing = b->y->options.smoothing, loss = 0;
    double share = one_sided ? 1 : 0.5, consistency = b->y->options.consistency / (one_sided ? 1 : 4);
    for (int k = 0; k < (one_sided ? 1 : PASSES); k++) {
        const struct pass *pass = &b->pass[k];
        double log_sum = log_sum_of(pass, i), target = (double)pass->label_logit[i];
        bool correct = pass->label_logit[i] >= pass->maximum[i] && pass->label_is_beaten[i] == 0;
        sums[SUM_NEGATIVE_LOG_LIKELIHOOD] += (log_sum - target) * share;
        sums[SUM_CORRECT] += (double)correct * share;
        loss += (log_sum - (1 - smoothing) * target -
                 smoothing * (double)pass->logit_sum[i] / (double)b->layer.classes) *
                    share +
                consistency * divergence_of(b, k, i);
    }
    return loss;
}

static double run_pair_block(const struct pair_block *b, double sums[SUMS])
{
    double loss = 0;
    for (int k = 0; k < PASSES; k++)
        for (int64_t i = 0; i < b->rows; i++) {
            b->pass[k].maximum[i] = (real)-INFINITY;
            b->pass[k].sum[i] = b->pass[k].moment[i] = b->pass[k].logit_sum[i] = 0;
        }
    for (int gradients = 0; gradients < (b->with_gradient ? 2 : 1); gradients++)
        for (int64_t first = 0; first < b->layer.classes; first += TILE_CLASSES) {
            int64_t rest = b->layer.classes - first, n = rest < TILE_CLASSES ? rest : TILE_CLASSES;
            real *tile[PASSES];
            for (int k = 0; k < PASSES; k++) {
                tile[k] = b->pass[k].tiles + (b->with_gradient ? first * b->rows : 0);
                if (!gradients) project_tile(&b->layer, b->rows, b->pass[k].x, first, n, tile[k]);
            }
            for (int64_t i = 0; i < b->rows; i++) {
                real *u = tile[0] + i * n, *v = tile[1] + i * n;
                if (gradients) {
                    row_gradients(b, i, first, n, u, v);
                } else {
                    add_logits(b, &b->pass[0], i, first, n, u, v);
                    add_logits(b, &b->pass[1], i, first, n, v, u);
                }
            }
            for (int k = 0; gradients && k < PASSES; k++)
                propagate_tile(&b->layer, b->rows, b->pass[k].x, first, n, tile[k], b->is_first && k == 0,
                               b->pass[k].dx);
        }
    for (int64_t i = 0; i < b->rows; i++) loss += row_loss_of_pair(b, i, sums);
    return loss;
}

/* Assigns to a pass its part of the workspace, for blocks of `step` rows. Returns the end of that part. */
static real *place_pass(struct pass *pass, real *at, int64_t step, int64_t tile_numbers)
{
    pass->tiles = at;
    pass->maximum = pass->tiles + step * tile_numbers;
    pass->sum = pass->maximum + step;
    pass->moment = pass->sum + step;
    pass->logit_sum = pass->moment + step;
    pass->label_logit = pass->logit_sum + step;
    pass->label_is_beaten = pass->label_logit + step;
    return pass->label_is_beaten + step;
}

static void paired_cross_entropy_forward(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    real *dx = (real *)y->saved + GRADIENTS_AT, *scratch = scratch_of(y);
    struct pair_block b = {
        .y = y,
        .layer = output_layer_of(y, y->input[2], y->input[3], dx + PASSES * x->count),
        .with_gradient = y->needs_gradient,
    };
    int64_t rows = x->shape.size[0], inner = b.layer.inner, classes = b.layer.classes;
    int64_t step = block_rows(rows, inner, PASSES * classes);
    double loss = 0, sums[SUMS] = {0};
    for (int k = 0; k < PASSES; k++)
        scratch = place_pass(&b.pass[k], scratch, step, b.with_gradient ? classes : TILE_CLASSES);
    if (b.with_gradient) memset(b.layer.db, 0, (size_t)classes * sizeof(real));
    for (int64_t first = 0; first < rows; first += step) {
        b.rows = rows - first < step ? rows - first : step;
        b.is_first = first == 0;
        b.labels = y->options.indices + first;
        for (int k = 0; k < PASSES; k++) {
            b.pass[k].x = (const real *)y->input[k]->value + first * inner;
            b.pass[k].dx = y->input[k]->needs_gradient ? dx + k * x->count + first * inner : NULL;
        }
        loss += run_pair_block(&b, sums);
    }
    store_result(y, loss, sums);
}

/* dx += dy * saved dx for both passes, dW += dy * early dW, db += dy * saved db */
static void paired_cross_entropy_backward(struct qkv_tensor *y)
{
    const real *saved = (const real *)y->saved + GRADIENTS_AT;
    real dy = *(const real *)y->gradient;
    int64_t count = y->input[0]->count;
    for (int k = 0; k < PASSES; k++) add_scaled(y->input[k], dy, saved + k * count);
    add_scaled(y->input[2], dy, y->forward_gradient);
    add_scaled(y->input[3], dy, saved + PASSES * count);
}

OP(paired_cross_entropy, .inputs = 4, .optional = INPUT(3), .accumulates_once = INPUT(2) | INPUT(3),
   .forward_gradient = INPUT(2), .shape = RULE(paired_cross_entropy_shape),
   .forward = paired_cross_entropy_forward, .backward = paired_cross_entropy_backward);
