/* Attention composed of three ops: scores, weights, mix. They are simple on purpose: the fused op is
 * tested against them. */
#include "graph/attention_rule.h"
#include "kernels/attention.h"

/* ---- attention_scores: s_ij = scale q_i . k_j + distance terms;  dq_i += scale ds_ij k_j,
 * dk_j += scale ds_ij q_i, dbias_bucket += ds_ij ---- */

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

typedef void visitor(struct qkv_tensor *y, struct pair pair);

static void visit_pairs(struct qkv_tensor *y, int64_t query_rows, int64_t key_rows, visitor *visit)
{
    const struct qkv_options *options = &y->options;
    int64_t at = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        struct sentence p = sentence_at(options, s, at, query_rows, key_rows);
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
    ((real *)y->value)[pair.at] = score_scale(y, offset.width) * row_dot(offset.width, q, k) +
                                  distance_term(y, y->input[2], pair.offset, pair.head);
}

static void score_pair_back(struct qkv_tensor *y, struct pair pair)
{
    struct qkv_tensor *query = y->input[0], *key = y->input[1], *bias = y->input[2];
    const struct qkv_attention_rule *rule = &y->options.attention;
    const struct pair_offsets offset = offsets_of(y, pair, query->shape.size[1]);
    real ds = ((const real *)y->gradient)[pair.at], scaled = score_scale(y, offset.width) * ds;
    real *dq = gradient_of(query), *dk = gradient_of(key), *db = gradient_of(bias);
    const real *q = (const real *)query->value + offset.query, *k = (const real *)key->value + offset.key;
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

/* ---- attention_weights: w = softmax of each row over its visible keys;  ds = w (dw - sum(dw w)) ---- */

/* The segments give the number of rows, which scores [P] do not tell. */
static bool attention_weights_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *scores = y->input[0];
    const struct qkv_options *options = &y->options;
    if (!check_rule(y) || !find_sentences(y) || !check_attention(y, ANY_ROWS, ANY_ROWS, y->input[1]))
        return false;
    int64_t count = ragged_count(options, 0, 0);
    if (scores->shape.rank != 1 || scores->count != count)
        return qkv_refuse(y, "scores are %s, but the segments make %lld of them",
                          qkv_shape_text(scores->shape), (long long)count);
    return same_as_input(y);
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
        struct sentence p = sentence_at(options, s, at, 0, 0);
        for (int64_t row = 0; row < options->attention.heads * p.queries; row++, at += p.keys) {
            int64_t i = row % p.queries;
            struct span span[2];
            spans_of(visible_to(&options->attention, &p, i), 0, p.keys, mask_row(mask, &p, i), span);
            masked_softmax(p.keys, span, scores + at, weights + at);
        }
    }
}

static void attention_weights_backward(struct qkv_tensor *y)
{
    const struct qkv_options *options = &y->options;
    const real *weights = y->value, *dw = y->gradient;
    real *ds = gradient_of(y->input[0]);
    int64_t at = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        struct sentence p = sentence_at(options, s, at, 0, 0);
        for (int64_t row = 0; row < options->attention.heads * p.queries; row++, at += p.keys) {
            real dot = row_dot(p.keys, weights + at, dw + at);
            for (int64_t j = at; j < at + p.keys; j++) ds[j] += weights[j] * (dw[j] - dot);
        }
    }
}

OP(attention_weights, .inputs = 2, .optional = INPUT(1), .backward_reads = RESULT, .weights_read = RESULT,
   .shape = RULE(attention_weights_shape), .forward = attention_weights_forward,
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
    const struct qkv_tensor *weights = y->input[0], *value = y->input[1];
    const struct qkv_options *options = &y->options;
    if (!check_rule(y) || !find_sentences(y)) return false;
    if (!check_heads(y, value, qkv_attention_key_value_heads(&options->attention), "value") ||
        !check_attention(y, ANY_ROWS, value->shape.size[0], NULL))
        return false;
    int64_t count = ragged_count(options, 0, 0);
    if (weights->shape.rank != 1 || weights->count != count)
        return qkv_refuse(y, "weights are %s, but the segments make %lld of them",
                          qkv_shape_text(weights->shape), (long long)count);
    y->shape = QKV_SHAPE(mix_rows(options), value->shape.size[1] /
                                                qkv_attention_key_value_heads(&options->attention) *
                                                options->attention.heads);
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
