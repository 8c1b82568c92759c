/* The loss of attention weights against given links: guided alignment (Chen et al. 2016). */
#include "core/numbers.h"
#include "kernels/attention.h"
#include "kernels/loss.h"

/* ---- attention_loss: y [1] = factor * sum of t_ij (log sum_k exp s_ik - s_ij);
 * ds_ij = dy factor (softmax(s_i)_j sum_k t_ik - t_ij). saved: the sums, then factor * ds / dy [P] ---- */

static bool attention_loss_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *scores = y->input[0], *target = y->input[1];
    if (!check_rule(y) || !find_sentences(y) || !check_attention(y, ANY_ROWS, ANY_ROWS, NULL)) return false;
    const struct qkv_attention_rule *rule = &y->options.attention;
    if (rule->causal || rule->window)
        return qkv_refuse(y, "every query must see all keys, but attention is causal or has a window");
    int64_t count = ragged_count(&y->options, 0, 0);
    if (scores->shape.rank != 1 || scores->count != count)
        return qkv_refuse(y, "scores are %s, but the segments make %lld of them",
                          qkv_shape_text(scores->shape), (long long)count);
    if (target->shape.rank != 1 || target->count != count)
        return qkv_refuse(y, "target is %s, but scores are %s", qkv_shape_text(target->shape),
                          qkv_shape_text(scores->shape));
    if (target->needs_gradient) return qkv_refuse(y, "target must be a constant: it has no gradient");
    y->shape = QKV_SHAPE(1);
    y->saved_count = GRADIENTS_AT + count;
    return true;
}

/* Returns the loss of a row of n keys without the factor, and sets `gradient` to factor * dscores. A target of zeros has no
 * loss. */
static double row_loss(int64_t n, const real *scores, const real *target, real factor, real *gradient)
{
    real total = row_sum(n, target);
    if (!(total > 0)) {
        memset(gradient, 0, (size_t)n * sizeof(real));
        return 0;
    }
    real maximum = row_maximum(n, scores), sum = row_exp(n, scores, maximum, gradient);
    double log_sum = (double)maximum + qkv_scalar_log((double)sum), loss = 0;
    for (int64_t j = 0; j < n; j++) {
        if (target[j] > 0) loss += (double)target[j] * (log_sum - (double)scores[j]);
        gradient[j] = factor * (total / sum * gradient[j] - target[j]);
    }
    return loss;
}

static void attention_loss_forward(struct qkv_tensor *y)
{
    const struct qkv_options *options = &y->options;
    const real *scores = y->input[0]->value, *target = y->input[1]->value;
    real *gradient = (real *)y->saved + GRADIENTS_AT;
    double sums[SUMS] = {0};
    int64_t at = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        struct sentence p = sentence_at(options, s, at, 0, 0);
        for (int64_t row = 0; row < options->attention.heads * p.queries; row++, at += p.keys)
            sums[SUM_NEGATIVE_LOG_LIKELIHOOD] +=
                row_loss(p.keys, scores + at, target + at, (real)options->factor, gradient + at);
    }
    store_result(y, sums[SUM_NEGATIVE_LOG_LIKELIHOOD], sums);
}

static void attention_loss_backward(struct qkv_tensor *y)
{
    add_scaled(y->input[0], *(const real *)y->gradient, (const real *)y->saved + GRADIENTS_AT);
}

OP(attention_loss, .inputs = 2, .shape = RULE(attention_loss_shape), .forward = attention_loss_forward,
   .backward = attention_loss_backward);
