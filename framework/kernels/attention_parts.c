/* Attention in three steps (scores, weights, mix), simple on purpose: the fused op is tested against them. */
#include "kernels/attention.h"

/* ---- attention_scores: s_ij = scale q_i . k_j;  dq_i += scale ds_ij k_j, dk_j += scale ds_ij q_i ---- */

static bool attention_scores_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1];
    if (y->options.heads < 1)
        return qkv_refuse(y, "heads is %lld, but must be at least 1", (long long)y->options.heads);
    if (!check_heads(y, query, "query") || !check_heads(y, key, "key")) return false;
    int64_t query_rows = query->shape.size[0], key_rows = key->shape.size[0];
    if (query->shape.size[1] != key->shape.size[1])
        return qkv_refuse(y, "query is %s, but key is %s", qkv_shape_text(query->shape),
                          qkv_shape_text(key->shape));
    if (!check_attention(y, query_rows, key_rows, NULL)) return false;
    y->shape = QKV_SHAPE(ragged_count(&y->options, query_rows, key_rows));
    return true;
}

/* Calls visit for every query-key pair of every head: rows of query and key, and the place in the ragged
 * block. */
struct step {
    int64_t query_row, key_row, head, at;
};

typedef void visitor(struct qkv_tensor *y, struct step step);

static void visit_pairs(struct qkv_tensor *y, int64_t query_rows, int64_t key_rows, visitor *visit)
{
    const struct qkv_options *options = &y->options;
    int64_t at = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        struct pair p = pair_at(options, s, at, query_rows, key_rows);
        for (int64_t h = 0; h < options->heads; h++)
            for (int64_t i = 0; i < p.queries; i++)
                for (int64_t j = 0; j < p.keys; j++) visit(y, (struct step){p.query + i, p.key + j, h, at++});
    }
}

static void score_pair(struct qkv_tensor *y, struct step step)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1];
    int64_t columns = query->shape.size[1], width = columns / y->options.heads;
    const real *q = (const real *)query->value + step.query_row * columns + step.head * width;
    const real *k = (const real *)key->value + step.key_row * columns + step.head * width;
    ((real *)y->value)[step.at] = score_scale(y, width) * row_dot(width, q, k);
}

static void score_pair_back(struct qkv_tensor *y, struct step step)
{
    struct qkv_tensor *query = y->input[0], *key = y->input[1];
    int64_t columns = query->shape.size[1], width = columns / y->options.heads;
    int64_t q = step.query_row * columns + step.head * width, k = step.key_row * columns + step.head * width;
    real ds = score_scale(y, width) * ((const real *)y->gradient)[step.at];
    real *dq = gradient_of(query), *dk = gradient_of(key);
    const real *qs = query->value, *ks = key->value;
    for (int64_t d = 0; dq && d < width; d++) dq[q + d] += ds * ks[k + d];
    for (int64_t d = 0; dk && d < width; d++) dk[k + d] += ds * qs[q + d];
}

static void attention_scores_forward(struct qkv_tensor *y)
{
    visit_pairs(y, y->input[0]->shape.size[0], y->input[1]->shape.size[0], score_pair);
}

static void attention_scores_backward(struct qkv_tensor *y)
{
    visit_pairs(y, y->input[0]->shape.size[0], y->input[1]->shape.size[0], score_pair_back);
}

static const int64_t QUERY_STARTS[] = {0, 2, 3}, QUERY_LENGTHS[] = {2, 1, 3};
static const int64_t KEY_STARTS[] = {0, 1, 5}, KEY_LENGTHS[] = {1, 4, 3};
#define RAGGED .queries = {3, QUERY_STARTS, QUERY_LENGTHS}, .keys = {3, KEY_STARTS, KEY_LENGTHS}
#define SELF   .queries = {3, QUERY_STARTS, QUERY_LENGTHS}, .keys = {3, QUERY_STARTS, QUERY_LENGTHS}

static const struct qkv_sample attention_scores_good[] = {
    {"ragged", {IN(6, 6), IN(8, 6)}, .options = {.heads = 2, RAGGED}},
    {"self, scaled", {IN(6, 3), IN(6, 3)}, .options = {.heads = 1, SELF, .factor = 2}},
    {"whole", {IN(2, 4), IN(3, 4)}, .options = {.heads = 4}},
    {0},
};
static const struct qkv_sample attention_scores_bad[] = {
    {"heads",
     {IN(6, 5), IN(8, 5)},
     .options = {.heads = 2, RAGGED},
     .message = "query is [6, 5], but its width must be a multiple of 2 heads"},
    {"no heads",
     {IN(6, 5), IN(8, 5)},
     .options = {.heads = 0},
     .message = "heads is 0, but must be at least 1"},
    {"widths",
     {IN(6, 6), IN(8, 4)},
     .options = {.heads = 2, RAGGED},
     .message = "query is [6, 6], but key is [8, 4]"},
    {"rows",
     {IN(6, 6), IN(7, 6)},
     .options = {.heads = 2, RAGGED},
     .message = "segment 2 of keys is rows 5 to 7, but there are 7 rows"},
    {0},
};
OP(attention_scores, .inputs = 2, .shape = attention_scores_shape, .forward = attention_scores_forward,
   .backward = attention_scores_backward, .good = SAMPLES(attention_scores_good),
   .bad = SAMPLES(attention_scores_bad));

/* ---- attention_weights: w = softmax of each row over its visible keys;  ds = w (dw - sum(dw w)) ---- */

/* With segments these say how many rows there are; without, the sentence is the whole block of one head
 * count. */
static bool attention_weights_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *scores = y->input[0];
    const struct qkv_options *options = &y->options;
    if (options->heads < 1)
        return qkv_refuse(y, "heads is %lld, but must be at least 1", (long long)options->heads);
    if (!options->queries.count || !options->keys.count) return qkv_refuse(y, "needs query and key segments");
    if (!check_attention(y, INT64_MAX / 2, INT64_MAX / 2, y->input[1])) return false;
    int64_t count = ragged_count(options, 0, 0);
    if (scores->shape.rank != 1 || scores->count != count)
        return qkv_refuse(y, "scores are %s, but the segments make %lld of them",
                          qkv_shape_text(scores->shape), (long long)count);
    return same_as_input(y);
}

static void attention_weights_forward(struct qkv_tensor *y)
{
    const struct qkv_options *options = &y->options;
    const real *scores = y->input[0]->value, *mask = y->input[1] ? y->input[1]->value : NULL;
    real *weights = y->value;
    int64_t at = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        struct pair p = pair_at(options, s, at, 0, 0);
        for (int64_t row = 0; row < options->heads * p.queries; row++, at += p.keys) {
            int64_t i = row % p.queries;
            visible_softmax(p.keys, options->causal ? i + 1 : p.keys, mask ? mask + i * p.keys : NULL,
                            scores + at, weights + at);
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
        struct pair p = pair_at(options, s, at, 0, 0);
        for (int64_t row = 0; row < options->heads * p.queries; row++, at += p.keys) {
            real dot = row_dot(p.keys, weights + at, dw + at);
            for (int64_t j = at; j < at + p.keys; j++) ds[j] += weights[j] * (dw[j] - dot);
        }
    }
}

static const int64_t SQUARE_STARTS[] = {0, 3}, SQUARE_LENGTHS[] = {3, 3};
#define SQUARE .queries = {2, SQUARE_STARTS, SQUARE_LENGTHS}, .keys = {2, SQUARE_STARTS, SQUARE_LENGTHS}

static const struct qkv_sample attention_weights_good[] = {
    {"ragged", {IN(30)}, .options = {.heads = 2, RAGGED}},
    {"causal", {IN(28)}, .options = {.heads = 2, SELF, .causal = true}},
    {"masked", {IN(36), IN(3, 3)}, .options = {.heads = 2, SQUARE}, .constant = 2, .binary = 2},
    {"masked and causal",
     {IN(18), IN(3, 3)},
     .options = {.heads = 1, SQUARE, .causal = true},
     .constant = 2,
     .binary = 2},
    {0},
};
static const struct qkv_sample attention_weights_bad[] = {
    {"count",
     {IN(29)},
     .options = {.heads = 2, RAGGED},
     .message = "scores are [29], but the segments make 30 of them"},
    {"causal",
     {IN(30)},
     .options = {.heads = 2, RAGGED, .causal = true},
     .message = "causal attention needs as many queries as keys, but segment 0 has 2 and 1"},
    {"mask",
     {IN(36), IN(3, 2)},
     .options = {.heads = 2, SQUARE},
     .constant = 2,
     .message = "mask is [3, 2], but segment 0 has 3 queries and 3 keys"},
    {"learned mask",
     {IN(36), IN(3, 3)},
     .options = {.heads = 2, SQUARE},
     .message = "the mask must not need a gradient"},
    {0},
};
OP(attention_weights, .inputs = 2, .optional = 2, .shape = attention_weights_shape,
   .forward = attention_weights_forward, .backward = attention_weights_backward,
   .good = SAMPLES(attention_weights_good), .bad = SAMPLES(attention_weights_bad));

/* ---- attention_mix: o_i = sum_j w_ij v_j;  dw_ij += do_i . v_j, dv_j += w_ij do_i ---- */

/* Rows of the result: all that the query segments name. */
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
    if (options->heads < 1)
        return qkv_refuse(y, "heads is %lld, but must be at least 1", (long long)options->heads);
    if (!options->queries.count || !options->keys.count) return qkv_refuse(y, "needs query and key segments");
    if (!check_heads(y, value, "value") || !check_attention(y, INT64_MAX / 2, value->shape.size[0], NULL))
        return false;
    int64_t count = ragged_count(options, 0, 0);
    if (weights->shape.rank != 1 || weights->count != count)
        return qkv_refuse(y, "weights are %s, but the segments make %lld of them",
                          qkv_shape_text(weights->shape), (long long)count);
    y->shape = QKV_SHAPE(mix_rows(options), value->shape.size[1]);
    return true;
}

static void mix_pair(struct qkv_tensor *y, struct step step)
{
    int64_t columns = qkv_columns(y), width = columns / y->options.heads;
    const real *value = (const real *)y->input[1]->value + step.key_row * columns + step.head * width;
    real *out = (real *)y->value + step.query_row * columns + step.head * width;
    real weight = ((const real *)y->input[0]->value)[step.at];
    for (int64_t d = 0; d < width; d++) out[d] += weight * value[d];
}

static void mix_pair_back(struct qkv_tensor *y, struct step step)
{
    struct qkv_tensor *weights = y->input[0], *value = y->input[1];
    int64_t columns = qkv_columns(y), width = columns / y->options.heads;
    int64_t v = step.key_row * columns + step.head * width;
    const real *out = (const real *)y->gradient + step.query_row * columns + step.head * width;
    real *dw = gradient_of(weights), *dv = gradient_of(value);
    if (dw) dw[step.at] += row_dot(width, out, (const real *)value->value + v);
    for (int64_t d = 0; dv && d < width; d++) dv[v + d] += ((const real *)weights->value)[step.at] * out[d];
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

static const struct qkv_sample attention_mix_good[] = {
    {"ragged", {IN(30), IN(8, 6)}, .options = {.heads = 2, RAGGED}},
    {"one head", {IN(15), IN(8, 3)}, .options = {.heads = 1, RAGGED}},
    {0},
};
static const struct qkv_sample attention_mix_bad[] = {
    {"count",
     {IN(29), IN(8, 6)},
     .options = {.heads = 2, RAGGED},
     .message = "weights are [29], but the segments make 30 of them"},
    {"rows",
     {IN(30), IN(7, 6)},
     .options = {.heads = 2, RAGGED},
     .message = "segment 2 of keys is rows 5 to 7"},
    {0},
};
OP(attention_mix, .inputs = 2, .shape = attention_mix_shape, .forward = attention_mix_forward,
   .backward = attention_mix_backward, .good = SAMPLES(attention_mix_good),
   .bad = SAMPLES(attention_mix_bad));
