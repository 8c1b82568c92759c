/* The ops of attention: composed of scores, weights and mix; of recurrent decoders; the loss of weights; and the fused op. */
#include "kernels/attention.h"
#include "kernels/loss.h"

/* Attention composed of three ops: scores, weights, mix. They are simple on purpose: the fused op is
 * tested against them. */

/* ---- attention_scores: s_ij = scale q_i . k_j + distance terms;  dq_i += scale ds_ij k_j,
 * dk_j += scale ds_ij q_i, dbias_bucket += ds_ij. With a soft cap, c_ij = cap tanh(scale q_i . k_j / cap) replaces the product,
 * and ds_ij is multiplied by its slope, 1 - (c_ij / cap)^2, in dq and dk ---- */

static bool attention_scores_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1];
    if (!check_rule(y) || !check_query_and_key(y, query, key) || !check_bias(y, y->input[2])) return false;
    int64_t query_rows = query->shape.size[0], key_rows = key->shape.size[0];
    if (!check_attention(y, query_rows, key_rows, NULL)) return false;
    y->shape = QKV_SHAPE(ragged_count(&y->options, query_rows, key_rows));
    return true;
}

/* A query-key pair of one head: its rows, its offset (key position - query position), and its index in the
 * ragged block. */
struct pair {
    int64_t query_row, key_row, offset, head, at;
};

typedef void pair_visitor(struct qkv_tensor *y, struct pair pair);

static void visit_pairs(struct qkv_tensor *y, int64_t query_rows, int64_t key_rows, pair_visitor *visit)
{
    const struct qkv_options *options = &y->options;
    int64_t at = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        struct segment p = segment_at(options, s, at, query_rows, key_rows);
        for (int64_t h = 0; h < options->attention.heads; h++)
            for (int64_t i = 0; i < p.queries; i++)
                for (int64_t j = 0; j < p.keys; j++)
                    visit(y, (struct pair){p.query + i, p.key + j, j - (p.keys - p.queries + i), h, at++});
    }
}

/* Offsets of a pair's rows, at the first column of its head, in query and key or in result and value; and the number of
 * columns of a head. */
struct pair_offsets {
    int64_t query, key, width;
};

/* columns: of query or result. */
static struct pair_offsets offsets_of(const struct qkv_tensor *y, struct pair pair, int64_t columns)
{
    const struct qkv_attention_rule *rule = &y->options.attention;
    int64_t width = columns / rule->heads, key_columns = qkv_attention_key_value_heads(rule) * width;
    return (struct pair_offsets){pair.query_row * columns + pair.head * width,
                                 pair.key_row * key_columns + key_head(rule, pair.head) * width, width};
}

static void score_pair(struct qkv_tensor *y, struct pair pair)
{
    const struct pair_offsets offset = offsets_of(y, pair, y->input[0]->shape.size[1]);
    const real *q = (const real *)y->input[0]->value + offset.query,
               *k = (const real *)y->input[1]->value + offset.key;
    real score = score_scale(y, offset.width) * row_dot(offset.width, q, k);
    cap_scores(&y->options.attention, 1, &score);
    ((real *)y->value)[pair.at] = score + distance_term(y, y->input[2], pair.offset, pair.head);
}

static void score_pair_back(struct qkv_tensor *y, struct pair pair)
{
    struct qkv_tensor *query = y->input[0], *key = y->input[1], *bias = y->input[2];
    const struct qkv_attention_rule *rule = &y->options.attention;
    const struct pair_offsets offset = offsets_of(y, pair, query->shape.size[1]);
    real ds = ((const real *)y->gradient)[pair.at], scale = score_scale(y, offset.width), scaled = scale * ds;
    real *dq = gradient_of(query), *dk = gradient_of(key), *db = gradient_of(bias);
    const real *q = (const real *)query->value + offset.query, *k = (const real *)key->value + offset.key;
    if (rule->soft_cap > 0) {
        real score = scale * row_dot(offset.width, q, k);
        cap_scores(rule, 1, &score);
        scaled *= cap_slope(rule, score);
    }
    for (int64_t d = 0; dq && d < offset.width; d++) dq[offset.query + d] += scaled * k[d];
    for (int64_t d = 0; dk && d < offset.width; d++) dk[offset.key + d] += scaled * q[d];
    if (db) db[qkv_attention_bucket(rule, pair.offset) * rule->heads + pair.head] += ds;
}

static void attention_scores_forward(struct qkv_tensor *y)
{
    visit_pairs(y, y->input[0]->shape.size[0], y->input[1]->shape.size[0], score_pair);
}

static void attention_scores_backward(struct qkv_tensor *y)
{
    visit_pairs(y, y->input[0]->shape.size[0], y->input[1]->shape.size[0], score_pair_back);
}

OP(attention_scores, .inputs = 3, .optional = INPUT(2), .backward_reads = INPUT(0) | INPUT(1),
   .shape = RULE(attention_scores_shape), .forward = attention_scores_forward,
   .backward = attention_scores_backward);

/* ---- attention_weights: w = softmax of each row over its visible keys and the sink of its head;  ds = w (dw - sum(dw w)),
 * dsink -= (1 - sum(w)) sum(dw w) ---- */

/* Refuses an input 0 that is no ragged block: the segments give the number of rows, which it does not tell. */
static bool check_ragged(struct qkv_tensor *y, const char *what)
{
    const struct qkv_tensor *block = y->input[0];
    int64_t count = ragged_count(&y->options, 0, 0);
    return (block->shape.rank == 1 && block->count == count) ||
           qkv_refuse(y, "%s are %s, but the segments make %lld of them", what, qkv_shape_text(block->shape),
                      (long long)count);
}

static bool attention_weights_shape(struct qkv_tensor *y)
{
    return check_rule(y) && find_segments(y) && check_attention(y, ANY_ROWS, ANY_ROWS, y->input[1]) &&
           check_vector(y, y->input[2], y->options.attention.heads, "sink") && check_ragged(y, "scores") &&
           same_as_input(y);
}

static void attention_weights_forward(struct qkv_tensor *y)
{
    const struct qkv_options *options = &y->options;
    const real *scores = y->input[0]->value;
    const struct mask mask = mask_of(y, y->input[1]);
    real *weights = y->value;
    int64_t at = 0;
    check_mask_values(y, y->input[1]);
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        struct segment p = segment_at(options, s, at, 0, 0);
        for (int64_t row = 0; row < options->attention.heads * p.queries; row++, at += p.keys) {
            int64_t i = row % p.queries;
            struct span span[2];
            spans_of(visible_to(&options->attention, &p, i), 0, p.keys, mask_row(mask, &p, i), span);
            masked_softmax(p.keys, span, sink_of(y->input[2], row / p.queries), scores + at, weights + at);
        }
    }
}

static void attention_weights_backward(struct qkv_tensor *y)
{
    const struct qkv_options *options = &y->options;
    const real *weights = y->value, *dw = y->gradient;
    real *ds = gradient_of(y->input[0]), *dsink = gradient_of(y->input[2]);
    int64_t at = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        struct segment p = segment_at(options, s, at, 0, 0);
        for (int64_t row = 0; row < options->attention.heads * p.queries; row++, at += p.keys) {
            real dot = row_dot(p.keys, weights + at, dw + at);
            if (dsink) dsink[row / p.queries] -= (1 - row_sum(p.keys, weights + at)) * dot;
            for (int64_t j = at; ds && j < at + p.keys; j++) ds[j] += weights[j] * (dw[j] - dot);
        }
    }
}

OP(attention_weights, .inputs = 3, .optional = INPUT(1) | INPUT(2), .backward_reads = RESULT,
   .weights_read = RESULT, .shape = RULE(attention_weights_shape), .forward = attention_weights_forward,
   .backward = attention_weights_backward, .weights = value_of_block);

/* ---- attention_mix: o_i = sum_j w_ij v_j;  dw_ij += do_i . v_j, dv_j += w_ij do_i ---- */

/* Rows of the result: up to the last one of the query segments. */
static int64_t mix_rows(const struct qkv_options *options)
{
    int64_t rows = 0;
    for (int64_t s = 0; s < options->queries.count; s++) {
        int64_t end = options->queries.start[s] + options->queries.length[s];
        if (end > rows) rows = end;
    }
    return rows;
}

static bool attention_mix_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *value = y->input[1];
    if (!check_rule(y) || !find_segments(y)) return false;
    const struct qkv_attention_rule *rule = &y->options.attention;
    int64_t heads = qkv_attention_key_value_heads(rule);
    if (!check_heads(y, value, heads, "value") || !check_attention(y, ANY_ROWS, value->shape.size[0], NULL) ||
        !check_ragged(y, "weights"))
        return false;
    y->shape = QKV_SHAPE(mix_rows(&y->options), value->shape.size[1] / heads * rule->heads);
    return true;
}

static void mix_pair(struct qkv_tensor *y, struct pair pair)
{
    const struct pair_offsets offset = offsets_of(y, pair, qkv_columns(y));
    const real *value = (const real *)y->input[1]->value + offset.key;
    real *out = (real *)y->value + offset.query;
    real weight = ((const real *)y->input[0]->value)[pair.at];
    for (int64_t d = 0; d < offset.width; d++) out[d] += weight * value[d];
}

static void mix_pair_back(struct qkv_tensor *y, struct pair pair)
{
    struct qkv_tensor *weights = y->input[0], *value = y->input[1];
    const struct pair_offsets offset = offsets_of(y, pair, qkv_columns(y));
    const real *out = (const real *)y->gradient + offset.query;
    real *dw = gradient_of(weights), *dv = gradient_of(value),
         weight = ((const real *)weights->value)[pair.at];
    if (dw) dw[pair.at] += row_dot(offset.width, out, (const real *)value->value + offset.key);
    for (int64_t d = 0; dv && d < offset.width; d++) dv[offset.key + d] += weight * out[d];
}

static void attention_mix_forward(struct qkv_tensor *y)
{
    memset(y->value, 0, (size_t)y->count * sizeof(real));
    visit_pairs(y, 0, y->input[1]->shape.size[0], mix_pair);
}

static void attention_mix_backward(struct qkv_tensor *y)
{
    visit_pairs(y, 0, y->input[1]->shape.size[0], mix_pair_back);
}

OP(attention_mix, .inputs = 2, .backward_reads = INPUT(0) | INPUT(1), .shape = RULE(attention_mix_shape),
   .forward = attention_mix_forward, .backward = attention_mix_backward);

/* Ops of the attention of recurrent decoders, which also uses those of composed attention: additive scores,
 * weights around a predicted position, and ragged blocks gathered from the steps of a decoder. One head. */

/* The segments fit, and the rule has one head. */
static bool check_one_head(struct qkv_tensor *y, int64_t query_rows, int64_t key_rows)
{
    if (y->options.attention.heads != 1)
        return qkv_refuse(y, "heads is %lld, but must be 1", (long long)y->options.attention.heads);
    return check_rule(y) && check_attention(y, query_rows, key_rows, NULL);
}

/* ---- attention_additive: s_ij = v . tanh(q_i + k_j);  with t = tanh(q_i + k_j):
 * dv += ds_ij t, dq_i += ds_ij v (1 - t^2), dk_j += ds_ij v (1 - t^2) ---- */

static bool attention_additive_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1];
    if (!check_matrix(y, query, "query") || !check_matrix(y, key, "key")) return false;
    int64_t query_rows = query->shape.size[0], key_rows = key->shape.size[0];
    if (query->shape.size[1] != key->shape.size[1])
        return qkv_refuse(y, "query is %s, but key is %s", qkv_shape_text(query->shape),
                          qkv_shape_text(key->shape));
    if (!check_vector(y, y->input[2], query->shape.size[1], "vector")) return false;
    if (!check_one_head(y, query_rows, key_rows)) return false;
    y->shape = QKV_SHAPE(ragged_count(&y->options, query_rows, key_rows));
    y->scratch = 2 * query->shape.size[1];
    return true;
}

static real additive_score(int64_t n, const real *restrict q, const real *restrict k, const real *restrict v)
{
    enum { BLOCK = 256 };
    real t[BLOCK], sum = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t count = n - first < BLOCK ? n - first : BLOCK;
        for (int64_t d = 0; d < count; d++) t[d] = fast_tanh(q[first + d] + k[first + d]);
        sum += row_dot(count, v + first, t);
    }
    return sum;
}

static void attention_additive_forward(struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1];
    const real *q = query->value, *k = key->value, *v = y->input[2]->value;
    int64_t n = query->shape.size[1], at = 0;
    real *scores = y->value;
    for (int64_t s = 0; s < qkv_segment_count(&y->options.queries); s++) {
        struct segment p = segment_at(&y->options, s, at, query->shape.size[0], key->shape.size[0]);
        for (int64_t i = 0; i < p.queries; i++)
            for (int64_t j = 0; j < p.keys; j++)
                scores[at++] = additive_score(n, q + (p.query + i) * n, k + (p.key + j) * n, v);
    }
}

/* What a pair adds to the gradients: dq and dk += dsum = ds v (1 - t^2), dv += dvector = ds t. */
static void additive_back(int64_t n, real ds, const real *restrict q, const real *restrict k,
                          const real *restrict v, real *restrict dsum, real *restrict dvector)
{
    for (int64_t d = 0; d < n; d++) {
        real t = fast_tanh(q[d] + k[d]);
        dsum[d] = ds * v[d] * (1 - t * t);
        dvector[d] = ds * t;
    }
}

static void attention_additive_backward(struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1];
    const real *q = query->value, *k = key->value, *v = y->input[2]->value, *ds = y->gradient;
    real *dq = gradient_of(y->input[0]), *dk = gradient_of(y->input[1]), *dv = gradient_of(y->input[2]);
    int64_t n = query->shape.size[1], at = 0;
    real *dsum = scratch_of(y), *dvector = dsum + n;
    for (int64_t s = 0; s < qkv_segment_count(&y->options.queries); s++) {
        struct segment p = segment_at(&y->options, s, at, query->shape.size[0], key->shape.size[0]);
        for (int64_t i = 0; i < p.queries; i++)
            for (int64_t j = 0; j < p.keys; j++) {
                int64_t qi = (p.query + i) * n, kj = (p.key + j) * n;
                additive_back(n, ds[at++], q + qi, k + kj, v, dsum, dvector);
                if (dq) accumulate(n, 1, dsum, dq + qi);
                if (dk) accumulate(n, 1, dsum, dk + kj);
                if (dv) accumulate(n, 1, dvector, dv);
            }
    }
}

OP(attention_additive, .inputs = 3, .backward_reads = INPUT(0) | INPUT(1) | INPUT(2),
   .shape = RULE(attention_additive_shape), .forward = attention_additive_forward,
   .backward = attention_additive_backward);

/* ---- attention_local: query i looks at position p = Tk center_i, where center_i is a fraction of the segment.
 * For the keys j with |j - p| <= D, where D is the option local_window, and with sigma = D / 2:
 *     a = softmax of the scores of those keys, g_j = exp(-(j - p)^2 / (2 sigma^2)), w = a g
 *     da = dw g, ds = a (da - sum(da a)), dcenter_i += Tk sum(dw w (j - p)) / sigma^2
 * saved: a, named `soft` below; g_j is bell(j) ---- */

static bool attention_local_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *scores = y->input[0], *center = y->input[1];
    const struct qkv_options *options = &y->options;
    if (!find_segments(y)) return false;
    if (options->local_window < 1)
        return qkv_refuse(y, "the window is %lld, but must be at least 1", (long long)options->local_window);
    if (!check_matrix(y, center, "center")) return false;
    if (center->shape.size[1] != 1)
        return qkv_refuse(y, "center is %s, but must have 1 column", qkv_shape_text(center->shape));
    if (!check_one_head(y, center->shape.size[0], ANY_ROWS) || !check_ragged(y, "scores")) return false;
    y->saved_count = scores->count;
    return same_as_input(y);
}

/* The window around a position p: keys first .. end - 1. */
struct window {
    real position;
    int64_t first, end;
};

static struct window window_at(const struct qkv_tensor *y, real center, int64_t keys)
{
    struct window w = {.position = (real)keys * center};
    real reach = (real)y->options.local_window, low = REAL(ceil)(w.position - reach),
         high = REAL(floor)(w.position + reach) + 1;
    /* Clamped before the conversion: a center that has diverged does not fit an index. */
    w.first = low > 0 ? low < (real)keys ? (int64_t)low : keys : 0;
    w.end = high < (real)keys ? high > 0 ? (int64_t)high : 0 : keys;
    if (w.first > w.end) w.first = w.end;
    return w;
}

static real bell(const struct qkv_tensor *y, struct window window, int64_t j)
{
    real sigma = (real)y->options.local_window / 2, far = ((real)j - window.position) / sigma;
    return fast_exp(-far * far / 2);
}

COLD static void attention_local_forward(struct qkv_tensor *y)
{
    const real *scores = y->input[0]->value, *center = y->input[1]->value;
    real *weights = y->value, *soft = y->saved;
    int64_t at = 0;
    for (int64_t s = 0; s < y->options.queries.count; s++) {
        struct segment p = segment_at(&y->options, s, at, 0, 0);
        for (int64_t i = 0; i < p.queries; i++, at += p.keys) {
            struct window w = window_at(y, center[p.query + i], p.keys);
            memset(soft + at, 0, (size_t)p.keys * sizeof(real));
            memset(weights + at, 0, (size_t)p.keys * sizeof(real));
            if (w.end > w.first) row_softmax(w.end - w.first, scores + at + w.first, soft + at + w.first);
            for (int64_t j = w.first; j < w.end; j++) weights[at + j] = soft[at + j] * bell(y, w, j);
        }
    }
}

COLD static void attention_local_backward(struct qkv_tensor *y)
{
    const real *center = y->input[1]->value, *weights = y->value, *soft = y->saved, *dw = y->gradient;
    real *ds = gradient_of(y->input[0]), *dcenter = gradient_of(y->input[1]);
    real sigma = (real)y->options.local_window / 2;
    int64_t at = 0;
    for (int64_t s = 0; s < y->options.queries.count; s++) {
        struct segment p = segment_at(&y->options, s, at, 0, 0);
        for (int64_t i = 0; i < p.queries; i++, at += p.keys) {
            struct window w = window_at(y, center[p.query + i], p.keys);
            real dot = row_dot(p.keys, dw + at, weights + at), pull = 0;
            for (int64_t j = w.first; ds && j < w.end; j++)
                ds[at + j] += soft[at + j] * (dw[at + j] * bell(y, w, j) - dot);
            for (int64_t j = w.first; j < w.end; j++)
                pull += dw[at + j] * weights[at + j] * ((real)j - w.position) / (sigma * sigma);
            if (dcenter) dcenter[p.query + i] += (real)p.keys * pull;
        }
    }
}

OP(attention_local, .inputs = 2, .backward_reads = INPUT(1) | RESULT, .weights_read = RESULT,
   .shape = RULE(attention_local_shape), .forward = attention_local_forward,
   .backward = attention_local_backward, .weights = value_of_block);

/* ---- attention_arrange: y[i] = x[numbers[i]], with numbers = options.indices;  dx[numbers[i]] += dy[i] ---- */

static bool attention_arrange_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    const struct qkv_options *options = &y->options;
    if (!options->queries.count || !options->keys.count)
        return qkv_refuse(y, "needs attention.queries and attention.keys");
    if (x->shape.rank != 1)
        return qkv_refuse(y, "input is %s, but must have 1 axis", qkv_shape_text(x->shape));
    if (!check_rule(y)) return false;
    if (!check_attention(y, ANY_ROWS, ANY_ROWS, NULL)) return false;
    y->shape = QKV_SHAPE(ragged_count(options, 0, 0));
    return check_indices(y, y->shape.size[0], x->count, "number");
}

static void attention_arrange_forward(struct qkv_tensor *y)
{
    const real *x = y->input[0]->value;
    real *out = y->value;
    for (int64_t i = 0; i < y->count; i++) out[i] = x[y->options.indices[i]];
}

static void attention_arrange_backward(struct qkv_tensor *y)
{
    const real *dy = y->gradient;
    real *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; i < y->count; i++) dx[y->options.indices[i]] += dy[i];
}

OP(attention_arrange, .inputs = 1, .weights_read = RESULT, .shape = RULE(attention_arrange_shape),
   .forward = attention_arrange_forward, .backward = attention_arrange_backward, .weights = value_of_block);

/* The loss of attention weights against given links: guided alignment (Chen et al. 2016). */

/* ---- attention_loss: y [1] = factor * sum of t_ij (log sum_k exp s_ik - s_ij);
 * ds_ij = dy factor (softmax(s_i)_j sum_k t_ik - t_ij). saved: the sums, then factor * ds / dy [P] ---- */

static bool attention_loss_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *scores = y->input[0], *target = y->input[1];
    if (!check_rule(y) || !find_segments(y) || !check_attention(y, ANY_ROWS, ANY_ROWS, NULL)) return false;
    const struct qkv_attention_rule *rule = &y->options.attention;
    if (rule->causal || rule->window)
        return qkv_refuse(y, "every query must see all keys, but attention is causal or has a window");
    if (!check_ragged(y, "scores")) return false;
    if (target->shape.rank != 1 || target->count != scores->count)
        return qkv_refuse(y, "target is %s, but scores are %s", qkv_shape_text(target->shape),
                          qkv_shape_text(scores->shape));
    if (target->needs_gradient) return qkv_refuse(y, "target must be a constant: it has no gradient");
    y->shape = QKV_SHAPE(1);
    y->saved_count = GRADIENTS_AT + scores->count;
    return true;
}

/* Returns the loss of a row of n keys without the factor, and sets `gradient` to factor * dscores. A target of zeros has no
 * loss. */
static double row_loss(int64_t n, const real *scores, const real *target, real factor, real *gradient)
{
    real total = row_sum(n, target);
    if (total <= 0) {
        memset(gradient, 0, (size_t)n * sizeof(real));
        return 0;
    }
    real maximum = row_maximum(n, scores), sum = row_exp(n, scores, maximum, gradient);
    double log_sum = qkv_scalar_log((double)sum), loss = 0;
    for (int64_t j = 0; j < n; j++) {
        if (!(target[j] <= 0)) loss += (double)target[j] * (log_sum - ((double)scores[j] - (double)maximum));
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
        struct segment p = segment_at(options, s, at, 0, 0);
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

/* Multi-head attention in one op, computed by one of two kernels: exact or flash. Heads are columns of
 * the packed matrices; nothing is copied into tensors per head. */

/* Queries times keys of a segment from which flash is faster, because a head's weights no longer fit the
 * first-level cache: 256 queries and 256 keys. Measured: flash is 1.05 to 1.3 times as fast there, 2.5 times
 * at 1,024 words; at 128 words it takes a sixth longer. */
enum { FLASH_PAIRS = 1 << 16 };

/* Backward computes the result again, from the kept weights, if it has at least this many columns for each key that a query
 * sees on average. Per row, the product of weights and values grows with keys times columns, and the linear layers with
 * columns times columns. Measured at 8.5 columns per key: 0.7 % of a training step; at 6.4: 1.2 %. */
enum { RECOMPUTED_WIDTH = 8 };

static struct attention attention_of(const struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1], *value = y->input[2];
    const struct qkv_options *options = &y->options;
    struct attention a = {
        .options = options,
        .rule = &options->attention,
        .query_rows = query->shape.size[0],
        .key_rows = key->shape.size[0],
        .heads = options->attention.heads,
        .query_ld = query->shape.size[1],
        .key_ld = key->shape.size[1],
        .value_ld = value->shape.size[1],
        .drops = y->graph->has_dropout && options->attention.dropout > 0,
        .keep_weights = y->needs_gradient || (y->graph->has_dropout && options->attention.dropout > 0),
        .query = query->value,
        .key = key->value,
        .value = value->value,
        .mask = mask_of(y, y->input[3]),
        .bias = y->input[4],
        .sink = y->input[5],
    };
    a.group = a.heads / qkv_attention_key_value_heads(&options->attention);
    a.key_width = a.query_ld / a.heads;
    a.value_width = a.value_ld / qkv_attention_key_value_heads(&options->attention);
    a.out_ld = a.heads * a.value_width;
    a.scale = score_scale(y, a.key_width);
    a.longest_queries = longest_segment(&options->queries, a.query_rows);
    a.longest_keys = longest_segment(&options->keys, a.key_rows);
    return a;
}

static const struct qkv_attention_kernels *kernels_of(const struct attention *a)
{
    bool flash = a->rule->kernel == QKV_KERNEL_FLASH ||
                 (a->rule->kernel == QKV_KERNEL_AUTO && a->longest_queries * a->longest_keys >= FLASH_PAIRS);
    return flash ? &VARIANT(qkv_attention_, flash) : &VARIANT(qkv_attention_, exact);
}

static bool attention_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1], *value = y->input[2];
    if (!check_rule(y) || !check_query_and_key(y, query, key) ||
        !check_heads(y, value, qkv_attention_key_value_heads(&y->options.attention), "value") ||
        !check_bias(y, y->input[4]) || !check_vector(y, y->input[5], y->options.attention.heads, "sink"))
        return false;
    if (key->shape.size[0] != value->shape.size[0])
        return qkv_refuse(y, "key is %s, but value is %s", qkv_shape_text(key->shape),
                          qkv_shape_text(value->shape));
    if (!check_attention(y, query->shape.size[0], key->shape.size[0], y->input[3])) return false;
    struct attention a = attention_of(y);
    y->shape = QKV_SHAPE(a.query_rows, a.out_ld);
    /* The layout of y->saved depends on the kernel, so the choice is made here and stays, even if segments are shorter when
     * the node runs. */
    y->options.attention.kernel =
        kernels_of(&a) == &VARIANT(qkv_attention_, flash) ? QKV_KERNEL_FLASH : QKV_KERNEL_EXACT;
    y->saved_count = kernels_of(&a)->saved(&a);
    y->scratch = kernels_of(&a)->scratch(&a);
    y->keeps_result =
        !kernels_of(&a)->mix || RECOMPUTED_WIDTH * y->saved_count > a.heads * a.query_rows * a.out_ld;
    return true;
}

static void attention_forward(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    y->weights = NULL;
    check_mask_values(y, y->input[3]);
    if (a.options->queries.count)
        memset(y->value, 0, (size_t)y->count * sizeof(real)); /* rows outside all segments */
    kernels_of(&a)->forward(y, &a);
}

static void attention_recompute(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    const struct qkv_segments *queries = &a.options->queries;
    int64_t rows = 0;
    for (int64_t s = 0; s < queries->count; s++) rows += queries->length[s];
    if (queries->count && rows < a.query_rows) memset(y->value, 0, (size_t)y->count * sizeof(real));
    kernels_of(&a)->mix(y, &a);
}

static void attention_backward(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    kernels_of(&a)->backward(y, &a);
}

/* Whether a leaf that the weights depend on may have been written since forward: some leaf of the graph has. */
static bool operands_may_have_changed(const struct qkv_tensor *y)
{
    if (!y->graph->leaf_written && !qkv_parameters_changed(y->graph)) return false;
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (y->graph->ops[y->op]->weights_read & INPUT(i) && y->input[i] && y->input[i]->op == QKV_OP_leaf)
            return true;
    return false;
}

static const void *attention_all_weights(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    size_t bytes = (size_t)ragged_count(a.options, a.query_rows, a.key_rows) * sizeof(real);
    bool exact = kernels_of(&a) == &VARIANT(qkv_attention_, exact);
    if (exact && a.keep_weights && !a.rule->window && !a.drops) return y->saved;
    if (y->weights || operands_may_have_changed(y)) return y->weights;
    y->weights = qkv_arena_zeroed(&y->graph->arena, bytes);
    if (y->weights) kernels_of(&a)->unpack_weights(y, &a);
    return y->weights;
}

OP(attention, .inputs = 6, .optional = INPUT(3) | INPUT(4) | INPUT(5), .random = true,
   .backward_reads = INPUT(0) | INPUT(1) | INPUT(2) | INPUT(3) | INPUT(4) | INPUT(5),
   .weights_read = INPUT(0) | INPUT(1) | INPUT(3) | INPUT(4) | INPUT(5), .shape = RULE(attention_shape),
   .forward = attention_forward, .backward = attention_backward, .recompute = attention_recompute,
   .weights = attention_all_weights);
