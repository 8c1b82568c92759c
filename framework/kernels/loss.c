/* Cross entropy with label smoothing, from logits or straight from the last hidden states. */
#include "kernels/gemm.h"
#include "kernels/softmax.h"

/* Both ops keep these sums first in `saved`; see qkv_cross_entropy_sums. */
enum { SUM_LIKELIHOOD, SUM_CORRECT, SUMS };

static bool smoothing_is_sound(struct qkv_tensor *y)
{
    double smoothing = y->options.smoothing;
    if (smoothing >= 0 && smoothing < 1) return true;
    return qkv_refuse(y, "smoothing is %g, but must be at least 0 and below 1", smoothing);
}

/* With p = softmax(logits) of C classes, s the smoothing and t the label:
 *     loss = log sum exp(logits) - (1 - s) logit_t - s mean(logits),   dlogits = p - s / C - (1 - s) [label]
 * Turns the row of logits into factor * dlogits where `keep` says so, adds to the sums, returns the loss.
 * Sums over rows are kept in double: thousands of rows of float32 would lose the digits that training
 * watches. */
static double row_loss(const struct qkv_tensor *y, int64_t classes, real *row, int32_t label, bool keep,
                       double sums[SUMS])
{
    real smoothing = (real)y->options.smoothing, target = row[label];
    real most = row_maximum(classes, row), total = smoothing > 0 ? row_sum(classes, row) : 0;
    real sum;
    if (keep)
        sum = row_exp(classes, row, most, row);
    else {
        sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < classes; j++) sum += fast_exp(row[j] - most);
    }
    double log_sum = (double)most + log((double)sum);
    sums[SUM_LIKELIHOOD] += log_sum - (double)target;
    sums[SUM_CORRECT] += target >= most;
    if (keep) {
        real factor = (real)y->options.factor, scale = factor / sum,
             shift = factor * smoothing / (real)classes;
        for (int64_t j = 0; j < classes; j++) row[j] = row[j] * scale - shift;
        row[label] -= factor * (1 - smoothing);
    }
    return log_sum - (1 - (double)smoothing) * (double)target - (double)(smoothing * total) / (double)classes;
}

/* Sums that are counts or likelihoods of a shard fit a float32 well enough to be reported. */
static void finish(struct qkv_tensor *y, double loss, const double sums[SUMS])
{
    real *saved = y->saved;
    *(real *)y->value = (real)(y->options.factor * loss);
    for (int i = 0; i < SUMS; i++) saved[i] = (real)sums[i];
}

/* dx += dy * saved, where dy is the one number of the loss's gradient. */
static void add_scaled(struct qkv_tensor *x, real dy, const real *restrict saved)
{
    real beta;
    real *restrict dx = claim_gradient(x, &beta);
    if (!dx) return;
    if (beta > 0)
        for (int64_t i = 0; i < x->count; i++) dx[i] += dy * saved[i];
    else
        for (int64_t i = 0; i < x->count; i++) dx[i] = dy * saved[i];
}

/* ---- cross_entropy. saved: the sums, dlogits ---- */

static bool cross_entropy_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *logits = y->input[0];
    if (logits->shape.rank != 2)
        return qkv_refuse(y, "logits are %s, but must have 2 axes", qkv_shape_text(logits->shape));
    if (!check_indices(y, logits->shape.size[0], logits->shape.size[1], "label") || !smoothing_is_sound(y))
        return false;
    y->shape = QKV_SHAPE(1);
    y->saved_count = SUMS + logits->count;
    return true;
}

static void cross_entropy_forward(struct qkv_tensor *y)
{
    const struct qkv_tensor *logits = y->input[0];
    int64_t rows = logits->shape.size[0], classes = logits->shape.size[1];
    real *gradient = (real *)y->saved + SUMS;
    double loss = 0, sums[SUMS] = {0};
    memcpy(gradient, logits->value, (size_t)logits->count * sizeof(real));
    for (int64_t i = 0; i < rows; i++)
        loss += row_loss(y, classes, gradient + i * classes, y->options.indices[i], y->needs_gradient, sums);
    finish(y, loss, sums);
}

static void cross_entropy_backward(struct qkv_tensor *y)
{
    add_scaled(y->input[0], *(const real *)y->gradient, (const real *)y->saved + SUMS);
}

static const int32_t SAMPLE_LABELS[] = {2, 0, 2, 3, 1, 0, 3, 1, 2, 2, 0, 1, 3, 3, 0, 1, 2, 0,
                                        3, 1, 2, 2, 0, 1, 3, 3, 0, 1, 2, 3, 1, 0, 2, 1, 3};
static const struct qkv_sample cross_entropy_good[] = {
    {"plain", {IN(5, 4)}, .options = {.indices = SAMPLE_LABELS, .factor = 0.2}},
    {"smoothed", {IN(5, 7)}, .options = {.indices = SAMPLE_LABELS, .factor = 1, .smoothing = 0.1}},
    {"wide values",
     {IN(3, 4)},
     .low = -9,
     .high = 9,
     .options = {.indices = SAMPLE_LABELS, .factor = 1, .smoothing = 0.3}},
    {0},
};
static const struct qkv_sample cross_entropy_bad[] = {
    {"label",
     {IN(5, 3)},
     .options = {.indices = SAMPLE_LABELS, .factor = 1},
     .message = "label 3 is 3, but must lie in 0 to 2"},
    {"smoothing",
     {IN(5, 4)},
     .options = {.indices = SAMPLE_LABELS, .smoothing = 1},
     .message = "smoothing is 1, but must be at least 0 and below 1"},
    {"a vector",
     {IN(5)},
     .options = {.indices = SAMPLE_LABELS},
     .message = "logits are [5], but must have 2 axes"},
    {0},
};
OP(cross_entropy, .inputs = 1, .shape = cross_entropy_shape, .forward = cross_entropy_forward,
   .backward = cross_entropy_backward, .good = SAMPLES(cross_entropy_good),
   .bad = SAMPLES(cross_entropy_bad));

/* ---- linear_cross_entropy: logits = x W + b in blocks of rows that stay in cache. The gradients are made in
 * the same pass, while a block's logits are at hand: saved = the sums, dx [N, D], dW [like W], db [C] ---- */

/* Rows of logits in flight: enough for the product to run at full speed, few enough for the second-level
 * cache. */
enum { BLOCK_NUMBERS = 1 << 17, FEWEST_ROWS = 16 };

static int64_t block_rows(int64_t rows, int64_t classes)
{
    int64_t block = BLOCK_NUMBERS / classes;
    if (block < FEWEST_ROWS) block = FEWEST_ROWS;
    return block < rows ? block : rows;
}

static bool linear_cross_entropy_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *weight = y->input[1], *bias = y->input[2];
    bool transposed = y->options.transpose_b;
    if (x->shape.rank != 2 || weight->shape.rank != 2 ||
        weight->shape.size[transposed ? 1 : 0] != x->shape.size[1])
        return qkv_refuse(y, "input is %s, but weight is %s%s", qkv_shape_text(x->shape),
                          qkv_shape_text(weight->shape), transposed ? " transposed" : "");
    int64_t rows = x->shape.size[0], classes = weight->shape.size[transposed ? 0 : 1];
    if (!check_vector(y, bias, classes, "bias") || !check_indices(y, rows, classes, "label") ||
        !smoothing_is_sound(y))
        return false;
    y->shape = QKV_SHAPE(1);
    y->saved_count = SUMS;
    if (y->needs_gradient) y->saved_count += x->count + weight->count + classes;
    y->scratch = block_rows(rows, classes) * classes;
    return true;
}

static void linear_cross_entropy_forward(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *weight = y->input[1], *bias = y->input[2];
    bool transposed = y->options.transpose_b, keep = y->needs_gradient;
    int64_t rows = x->shape.size[0], inner = x->shape.size[1], ldw = weight->shape.size[1];
    int64_t classes = weight->shape.size[transposed ? 0 : 1], block = block_rows(rows, classes);
    real *logits = scratch_of(y), *dx = (real *)y->saved + SUMS, *dw = dx + x->count,
         *db = dw + weight->count;
    double loss = 0, sums[SUMS] = {0};
    if (keep) memset(db, 0, (size_t)classes * sizeof(real));
    for (int64_t first = 0; first < rows; first += block) {
        int64_t n = rows - first < block ? rows - first : block;
        const real *xs = (const real *)x->value + first * inner;
        for (int64_t i = 0; bias && i < n; i++)
            memcpy(logits + i * classes, bias->value, (size_t)classes * sizeof(real));
        gemm(false, transposed, n, classes, inner, xs, inner, weight->value, ldw, bias ? 1 : 0, logits,
             classes);
        for (int64_t i = 0; i < n; i++)
            loss += row_loss(y, classes, logits + i * classes, y->options.indices[first + i], keep, sums);
        if (!keep) continue;
        real beta = first > 0 ? 1 : 0;
        if (x->needs_gradient)
            gemm(false, !transposed, n, inner, classes, logits, classes, weight->value, ldw, 0,
                 dx + first * inner, inner);
        if (weight->needs_gradient && !transposed)
            gemm(true, false, inner, classes, n, xs, inner, logits, classes, beta, dw, classes);
        if (weight->needs_gradient && transposed)
            gemm(true, false, classes, inner, n, logits, classes, xs, inner, beta, dw, inner);
        for (int64_t i = 0; bias && i < n; i++)
            for (int64_t j = 0; j < classes; j++) db[j] += logits[i * classes + j];
    }
    finish(y, loss, sums);
}

static void linear_cross_entropy_backward(struct qkv_tensor *y)
{
    struct qkv_tensor *x = y->input[0], *weight = y->input[1], *bias = y->input[2];
    const real *saved = (const real *)y->saved + SUMS;
    real dy = *(const real *)y->gradient;
    add_scaled(x, dy, saved);
    add_scaled(weight, dy, saved + x->count);
    add_scaled(bias, dy, saved + x->count + weight->count);
}

static const struct qkv_sample linear_cross_entropy_good[] = {
    {"with bias",
     {IN(5, 3), IN(3, 4), IN(4)},
     .options = {.indices = SAMPLE_LABELS, .factor = 0.2, .smoothing = 0.1}},
    {"without bias", {IN(5, 3), IN(3, 4)}, .options = {.indices = SAMPLE_LABELS, .factor = 1}},
    {"transposed",
     {IN(5, 3), IN(4, 3), IN(4)},
     .options = {.indices = SAMPLE_LABELS, .factor = 1, .smoothing = 0.2, .transpose_b = true}},
    {"constant weight",
     {IN(5, 3), IN(3, 4), IN(4)},
     .options = {.indices = SAMPLE_LABELS, .factor = 1},
     .constant = 2},
    {"several blocks",
     {IN(35, 1), IN(1, 8200)},
     .options = {.indices = SAMPLE_LABELS, .factor = 0.1, .smoothing = 0.1},
     .constant = 2},
    {0},
};
static const struct qkv_sample linear_cross_entropy_bad[] = {
    {"inner",
     {IN(5, 3), IN(4, 4)},
     .options = {.indices = SAMPLE_LABELS},
     .message = "input is [5, 3], but weight is [4, 4]"},
    {"bias",
     {IN(5, 3), IN(3, 4), IN(3)},
     .options = {.indices = SAMPLE_LABELS},
     .message = "bias is [3], but must be [4]"},
    {"label",
     {IN(5, 3), IN(3, 2)},
     .options = {.indices = SAMPLE_LABELS},
     .message = "label 0 is 2, but must lie in 0 to 1"},
    {0},
};
OP(linear_cross_entropy, .inputs = 3, .optional = 4, .shape = linear_cross_entropy_shape,
   .forward = linear_cross_entropy_forward, .backward = linear_cross_entropy_backward,
   .good = SAMPLES(linear_cross_entropy_good), .bad = SAMPLES(linear_cross_entropy_bad));
