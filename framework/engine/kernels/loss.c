/* The losses of predicted classes. */
#include "kernels/loss.h"

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

/* With p = softmax(logits) of C classes, s the smoothing and t the label, and logits from which their maximum is
 * subtracted (sums of large logits would lose digits):
 *     loss = log sum exp(logits) - (1 - s) logit_t - s mean(logits)
 *     dlogits_j = p_j - s / C, and for j = t also - (1 - s)
 * Sets the row's terms of the sums and returns the loss. with_gradient: also replaces the row of logits by
 * factor * dlogits. Losses and sums are double, because adding thousands of rows in float32 would lose digits
 * that training reports. */
static double row_loss(const struct qkv_tensor *y, int64_t classes, real *row, int32_t label,
                       bool with_gradient, double terms[SUMS])
{
    real smoothing = (real)y->options.smoothing, maximum = row_maximum(classes, row);
    bool correct = row[label] >= maximum && !any_reaches(label, row, row[label]);
    double target = (double)row[label] - (double)maximum;
    real logit_sum = smoothing > 0 ? row_sum_above(classes, row, maximum) : 0;
    real sum = with_gradient ? row_exp(classes, row, maximum, row) : row_exp_sum(classes, row, maximum);
    double log_sum = qkv_scalar_log((double)sum);
    terms[SUM_NEGATIVE_LOG_LIKELIHOOD] = log_sum - target;
    terms[SUM_CORRECT] = correct && sum == sum; /* not if there is a NaN */
    if (with_gradient) {
        real factor = (real)y->options.factor, scale = factor / sum,
             shift = factor * smoothing / (real)classes;
        for (int64_t j = 0; j < classes; j++) row[j] = row[j] * scale - shift;
        row[label] -= factor * (1 - smoothing);
    }
    return log_sum - (1 - (double)smoothing) * target - (double)(smoothing * logit_sum) / (double)classes;
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

/* ---- paired_cross_entropy: the cross entropies of two views of the same labels, and how far their predictions
 * are apart (R-Drop, Wu et al. 2021; one-sided: SimCut, Gao et al. 2022). saved: the sums, means of both views; then factor
 * times dx of both views [2, N, D] and db [C]; forward_gradient: factor times dW ----
 *
 * With logits u and v of the two views, p = softmax(u), q = softmax(v), d = log p - log q and weight a:
 *     loss = (cross entropy of p + cross entropy of q) / 2 + a / 4 (KL(p || q) + KL(q || p))
 *     du_j = (p_j - s / C) / 2, for the label less (1 - s) / 2, + a / 4 (p_j (d_j - KL(p || q)) + p_j - q_j)
 *     dv_j is the same with p and q exchanged, and -d instead of d
 * One-sided, the second view has no cross entropy, and only KL(p || q) counts:
 *     loss = cross entropy of p + a KL(p || q)
 *     du_j = p_j - s / C, for the label less 1 - s, + a p_j (d_j - KL(p || q));  dv_j = a (q_j - p_j)
 * The first pass over the tiles keeps the logits, and sums exp(u - max) and exp(u - max) (u - v) of each row, from which
 * KL(p || q) = sum p (u - v) - log sum exp(u) + log sum exp(v). The second pass turns logits into gradients. */

/* Inputs of both ops: the hidden states of each view, the weight, and the bias. NUMBERS_PER_ROW: maximum, sum, reference,
 * moment, logit_sum, label_logit and label_is_beaten of a view. */
enum { VIEWS_MAX = 2, NUMBERS_PER_ROW = 7 };

static int views_of(const struct qkv_tensor *y)
{
    return y->op == QKV_OP_paired_cross_entropy ? 2 : 1;
}

/* Numbers of workspace of a row of a view: its tiles (those of a complete block if there is a second pass), the maxima of the
 * tiles if they replace the logits, and other numbers. */
static int64_t workspace_of_row(const struct qkv_tensor *y, int64_t classes)
{
    return (y->needs_gradient ? classes : TILE_CLASSES) + (views_of(y) == 1 ? tile_count(classes) : 0) +
           NUMBERS_PER_ROW;
}

static bool output_loss_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *second = y->input[1];
    int views = views_of(y);
    double consistency = y->options.consistency;
    int64_t rows = qkv_rows(x), classes = classes_of(y, y->input[views]);
    if (!check_output_layer(y, x, y->input[views], y->input[views + 1])) return false;
    if (views > 1 && (second->shape.rank != 2 || second->shape.size[0] != rows ||
                      second->shape.size[1] != x->shape.size[1]))
        return qkv_refuse(y, "the second input is %s, but must be %s, as the first",
                          qkv_shape_text(second->shape), qkv_shape_text(x->shape));
    if (views > 1 && !(consistency >= 0 && consistency < (double)INFINITY))
        return qkv_refuse(y, "consistency is %g, but must be at least 0 and finite", consistency);
    if (!check_indices(y, rows, classes, "label") || !check_smoothing(y)) return false;
    y->shape = QKV_SHAPE(1);
    y->saved_count = GRADIENTS_AT + (views == 1 ? row_terms_count(y, rows) : 0);
    if (y->needs_gradient) y->saved_count += views * x->count + classes;
    y->scratch_forward = views * block_rows(y->input[views], rows, x->shape.size[1], views * classes) *
                             workspace_of_row(y, classes) +
                         wide_db_scratch(rows, classes);
    return true;
}

/* A block of rows of one view, and its workspace. */
struct view_block {
    const real *x;
    real *tiles;         /* one [rows, classes of the tile] after the other */
    real *tile_maximum;  /* [number of tiles, rows]: m_t; only if there is no other view */
    real *maximum, *sum; /* [rows]: m; S = sum exp(logits - m) */
    real *
        reference; /* [rows]: the maximum of the first tile; large logits lose digits in sums unless it is subtracted */
    real *moment;          /* [rows]: sum exp(logits - m) (logits - those of the other view) */
    real *logit_sum;       /* [rows]: of the logits less the reference */
    real *label_logit;     /* [rows] */
    real *label_is_beaten; /* [rows]: 1: a class before the label has the same logit or a greater one */
    real *dx;              /* NULL if x needs no gradient */
};

struct block {
    const struct qkv_tensor *y;
    struct output_layer layer;
    int views;
    int64_t rows;
    bool with_gradient;
    bool is_first; /* the first block: dW is uninitialised */
    const int32_t *labels;
    real *row_terms; /* [rows, SUMS] or NULL */
    struct view_block view[VIEWS_MAX];
};

/* Sets the reference of row i, if the n logits are those of the first tile. */
static real reference_of(const struct view_block *view, int64_t i, int64_t first, int64_t n, const real *row)
{
    if (first == 0) view->reference[i] = row_maximum(n, row);
    if (!(view->reference[i] > (real)-INFINITY)) view->reference[i] = 0;
    return view->reference[i];
}

/* Adds n logits of row i of a view, of classes `first` and on, to its sums. other: those of the other view; NULL: there is
 * none, and exp(logits - m_t) replaces the logits. */
static void add_logits(const struct block *b, const struct view_block *view, int64_t i, int64_t first,
                       int64_t n, real *row, const real *other)
{
    real weights[TILE_CLASSES], differences[TILE_CLASSES], maximum = row_maximum(n, row);
    int64_t label = b->labels[i] - first;
    if (label >= 0 && label < n) {
        real logit = view->label_logit[i] = row[label];
        view->label_is_beaten[i] =
            view->maximum[i] >= logit || (logit >= maximum && any_reaches(label, row, logit));
    }
    if (b->y->options.smoothing > 0)
        view->logit_sum[i] +=
            other ? row_sum(n, row) : row_sum_above(n, row, reference_of(view, i, first, n, row));
    real sum = row_exp(n, row, maximum, other ? weights : row);
    real maximum_so_far = maximum > view->maximum[i] ? maximum : view->maximum[i];
    /* Compares the maxima before it subtracts them: infinity - infinity is NaN. */
    real before = view->maximum[i] < maximum_so_far ? fast_exp(view->maximum[i] - maximum_so_far) : 1;
    real now = maximum < maximum_so_far ? fast_exp(maximum - maximum_so_far) : 1;
    view->sum[i] = view->sum[i] * before + sum * now;
    view->maximum[i] = maximum_so_far;
    if (!other) {
        view->tile_maximum[first / TILE_CLASSES * b->rows + i] = maximum;
        return;
    }
#pragma omp simd
    for (int64_t j = 0; j < n; j++) differences[j] = row[j] - other[j];
    view->moment[i] = view->moment[i] * before + row_dot(n, weights, differences) * now;
}

static double log_sum_of(const struct view_block *view, int64_t i)
{
    return (double)view->maximum[i] + qkv_scalar_log((double)view->sum[i]);
}

/* KL(p || q), with p the softmax of row i of view number `of`, and q that of the other view. */
static double divergence_of(const struct block *b, int of, int64_t i)
{
    const struct view_block *view = &b->view[of];
    return (double)view->moment[i] / (double)view->sum[i] - log_sum_of(view, i) +
           log_sum_of(&b->view[1 - of], i);
}

/* Replaces what the first pass has left of the n logits of row i, of classes `first` and on, by their gradients. */
static void row_gradient(const struct block *b, int64_t i, int64_t first, int64_t n, real *restrict row)
{
    const struct view_block *view = &b->view[0];
    real smoothing = (real)b->y->options.smoothing, factor = (real)b->y->options.factor;
    real shift = factor * smoothing / (real)b->layer.classes;
    real tile_maximum = view->tile_maximum[first / TILE_CLASSES * b->rows + i];
    real scale = factor * (tile_maximum < view->maximum[i] ? fast_exp(tile_maximum - view->maximum[i]) : 1) /
                 view->sum[i];
    int64_t label = b->labels[i] - first;
    for (int64_t j = 0; j < n; j++) row[j] = row[j] * scale - shift;
    if (label >= 0 && label < n) row[label] -= factor * (1 - smoothing);
}

/* The weights of the parts of the loss. */
struct pair_weights {
    real cross_entropy[VIEWS_MAX];
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
static void pair_gradients(const struct block *b, int64_t i, int64_t first, int64_t n, real *restrict u,
                           real *restrict v)
{
    const struct view_block *p_view = &b->view[0], *q_view = &b->view[1];
    real factor = (real)b->y->options.factor, smoothing = (real)b->y->options.smoothing;
    const struct pair_weights weights = weights_of(&b->y->options);
    real own_p = factor * weights.cross_entropy[0], own_q = factor * weights.cross_entropy[1];
    real uniform_p = own_p * smoothing / (real)b->layer.classes;
    real uniform_q = own_q * smoothing / (real)b->layer.classes;
    real pull = factor * weights.divergence, mutual = weights.mutual;
    real p_maximum = p_view->maximum[i], p_scale = 1 / p_view->sum[i];
    real q_maximum = q_view->maximum[i], q_scale = 1 / q_view->sum[i];
    real p_divergence = (real)divergence_of(b, 0, i), q_divergence = (real)divergence_of(b, 1, i);
    real shift = (real)(log_sum_of(p_view, i) - log_sum_of(q_view, i));
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

/* Adds the views of row i that have a cross entropy to the sums, and returns the loss of the row. Sums over rows are double,
 * as in row_loss. */
static double loss_of_row(const struct block *b, int64_t i, double sums[SUMS])
{
    bool both = b->views > 1 && !b->y->options.one_sided;
    double smoothing = b->y->options.smoothing, loss = 0;
    double share = both ? 0.5 : 1, consistency = b->y->options.consistency / (both ? 4 : 1);
    for (int k = 0; k < (both ? 2 : 1); k++) {
        const struct view_block *view = &b->view[k];
        double maximum = (double)view->maximum[i], log_sum = qkv_scalar_log((double)view->sum[i]),
               target = (double)view->label_logit[i] - maximum,
               reference = b->views > 1 ? 0 : (double)view->reference[i];
        bool correct = target >= 0 && view->label_is_beaten[i] == 0 && view->sum[i] == view->sum[i];
        const double row_terms[SUMS] = {[SUM_NEGATIVE_LOG_LIKELIHOOD] = (log_sum - target) * share,
                                        [SUM_CORRECT] = (double)correct * share};
        add_row_terms(b->row_terms, i, row_terms, sums);
        double apart = b->views > 1 ? consistency * divergence_of(b, k, i) : 0;
        double mean = (double)view->logit_sum[i] / (double)b->layer.classes + (reference - maximum);
        loss += (log_sum - (1 - smoothing) * target - (smoothing > 0 ? smoothing * mean : 0)) * share + apart;
    }
    return loss;
}

/* One pass over classes first .. first + n - 1 of all views. The first pass computes tiles of logits and adds them to the sums;
 * the second replaces them by g, the gradient of the logits: dx += g W^T, dW += x^T g, db += the sum of the rows of g. */
static void run_tile(const struct block *b, bool is_second, int64_t first, int64_t n)
{
    real *tile[VIEWS_MAX];
    for (int k = 0; k < b->views; k++) {
        tile[k] = b->view[k].tiles + (b->with_gradient ? first * b->rows : 0);
        if (!is_second) project_tile(&b->layer, b->rows, b->view[k].x, first, n, tile[k]);
    }
    for (int64_t i = 0; i < b->rows; i++) {
        real *u = tile[0] + i * n, *v = b->views > 1 ? tile[1] + i * n : NULL;
        /* The logits of two views are replaced, because their differences lose digits, too. */
        for (int k = 0; v && !is_second && k < 2; k++) {
            real reference = reference_of(&b->view[k], i, first, n, tile[k] + i * n);
            for (int64_t j = 0; j < n; j++) tile[k][i * n + j] -= reference;
        }
        if (!is_second) add_logits(b, &b->view[0], i, first, n, u, v);
        if (!is_second && v) add_logits(b, &b->view[1], i, first, n, v, u);
        if (is_second && v) pair_gradients(b, i, first, n, u, v);
        if (is_second && !v) row_gradient(b, i, first, n, u);
    }
    for (int k = 0; is_second && k < b->views; k++)
        propagate_tile(&b->layer, b->rows, b->view[k].x, first, n, tile[k], b->is_first && k == 0,
                       b->view[k].dx);
}

/* Runs the passes, adds to the sums, and returns the loss of the block. */
static double run_block(const struct block *b, double sums[SUMS])
{
    double loss = 0;
    for (int k = 0; k < b->views; k++)
        for (int64_t i = 0; i < b->rows; i++) {
            b->view[k].maximum[i] = (real)-INFINITY;
            b->view[k].sum[i] = b->view[k].moment[i] = b->view[k].logit_sum[i] = 0;
        }
    for (int pass = 0; pass < (b->with_gradient ? 2 : 1); pass++)
        for (int64_t first = 0; first < b->layer.classes; first += TILE_CLASSES) {
            int64_t rest = b->layer.classes - first;
            run_tile(b, pass == 1, first, rest < TILE_CLASSES ? rest : TILE_CLASSES);
        }
    for (int64_t i = 0; i < b->rows; i++) loss += loss_of_row(b, i, sums);
    return loss;
}

static void output_loss_forward(struct qkv_tensor *y)
{
    int views = views_of(y);
    const struct qkv_tensor *x = y->input[0];
    real *dx = (real *)y->saved + GRADIENTS_AT, *at = scratch_of(y);
    struct block b = {
        .y = y,
        .layer = output_layer_of(y, y->input[views], y->input[views + 1], dx + views * x->count),
        .views = views,
        .with_gradient = y->needs_gradient,
    };
    int64_t rows = x->shape.size[0], inner = b.layer.inner, classes = b.layer.classes;
    int64_t step = block_rows(y->input[views], rows, inner, views * classes);
    double loss = 0, sums[SUMS] = {0};
    for (int k = 0; k < views; k++, at += step * workspace_of_row(y, classes)) {
        struct view_block *view = &b.view[k];
        real **const parts[NUMBERS_PER_ROW] = {&view->maximum,        &view->sum,       &view->reference,
                                               &view->moment,         &view->logit_sum, &view->label_logit,
                                               &view->label_is_beaten};
        view->tiles = at;
        view->tile_maximum = at + step * (b.with_gradient ? classes : TILE_CLASSES);
        for (int i = 0; i < NUMBERS_PER_ROW; i++)
            *parts[i] = at + step * (workspace_of_row(y, classes) - NUMBERS_PER_ROW + i);
    }
    if (b.with_gradient) begin_db(&b.layer, rows, at);
    for (int64_t first = 0; first < rows; first += step) {
        b.rows = rows - first < step ? rows - first : step;
        b.is_first = first == 0;
        b.labels = y->options.indices + first;
        b.row_terms = views == 1 ? terms_of_rows(y, first, rows) : NULL;
        for (int k = 0; k < views; k++) {
            b.view[k].x = (const real *)y->input[k]->value + first * inner;
            b.view[k].dx = y->input[k]->needs_gradient ? dx + k * x->count + first * inner : NULL;
        }
        loss += run_block(&b, sums);
    }
    end_db(&b.layer);
    store_result(y, loss, sums);
}

/* dx += dy * saved dx for each view, dW += dy * early dW, db += dy * saved db */
static void output_loss_backward(struct qkv_tensor *y)
{
    const real *saved = (const real *)y->saved + GRADIENTS_AT;
    real dy = *(const real *)y->gradient;
    int64_t count = y->input[0]->count;
    int views = views_of(y);
    for (int k = 0; k < views; k++) add_scaled(y->input[k], dy, saved + k * count);
    add_scaled(y->input[views], dy, y->forward_gradient);
    add_scaled(y->input[views + 1], dy, saved + views * count);
}

OP(linear_cross_entropy, .inputs = 3, .optional = INPUT(2), .accumulates_once = INPUT(1) | INPUT(2),
   .forward_gradient = INPUT(1), .shape = RULE(output_loss_shape), .forward = output_loss_forward,
   .backward = output_loss_backward);
OP(paired_cross_entropy, .inputs = 4, .optional = INPUT(3), .accumulates_once = INPUT(2) | INPUT(3),
   .forward_gradient = INPUT(2), .shape = RULE(output_loss_shape), .forward = output_loss_forward,
   .backward = output_loss_backward);
