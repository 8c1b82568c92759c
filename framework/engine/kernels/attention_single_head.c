/* Ops of the attention of recurrent decoders, which also uses those of attention_parts.c: additive scores,
 * weights around a predicted position, and ragged blocks gathered from the steps of a decoder. One head. */
#include "kernels/attention.h"

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
        struct sentence p = sentence_at(&y->options, s, at, query->shape.size[0], key->shape.size[0]);
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
        struct sentence p = sentence_at(&y->options, s, at, query->shape.size[0], key->shape.size[0]);
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

/* ---- attention_local: query i looks at position p = Tk center_i, where center_i is a fraction of the sentence.
 * For the keys j with |j - p| <= D, where D is the option local_window, and with sigma = D / 2:
 *     a = softmax of the scores of those keys, g_j = exp(-(j - p)^2 / (2 sigma^2)), w = a g
 *     da = dw g, ds = a (da - sum(da a)), dcenter_i += Tk sum(dw w (j - p)) / sigma^2
 * saved: a, named `soft` below; g_j is bell(j) ---- */

static bool attention_local_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *scores = y->input[0], *center = y->input[1];
    const struct qkv_options *options = &y->options;
    if (!find_sentences(y)) return false;
    if (options->local_window < 1)
        return qkv_refuse(y, "the window is %lld, but must be at least 1", (long long)options->local_window);
    if (!check_matrix(y, center, "center")) return false;
    if (center->shape.size[1] != 1)
        return qkv_refuse(y, "center is %s, but must have 1 column", qkv_shape_text(center->shape));
    if (!check_one_head(y, center->shape.size[0], ANY_ROWS)) return false;
    int64_t count = ragged_count(options, 0, 0);
    if (scores->shape.rank != 1 || scores->count != count)
        return qkv_refuse(y, "scores are %s, but the segments make %lld of them",
                          qkv_shape_text(scores->shape), (long long)count);
    y->saved_count = count;
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
        struct sentence p = sentence_at(&y->options, s, at, 0, 0);
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
        struct sentence p = sentence_at(&y->options, s, at, 0, 0);
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
