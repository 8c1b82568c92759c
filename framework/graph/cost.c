/* What nodes cost, from their shapes alone. */
#include "graph/graph.h"

/* Sum over sentences of Tq Tk, and widths of all heads together. */
static double pairs_of(const struct qkv_tensor *y, int64_t query_rows, int64_t key_rows)
{
    double pairs = 0;
    for (int64_t s = 0; s < qkv_segment_count(&y->options.queries); s++)
        pairs += (double)qkv_segment_length(&y->options.queries, s, query_rows) *
                 (double)qkv_segment_length(&y->options.keys, s, key_rows);
    return pairs;
}

/* The same sum over the keys that a window lets the queries see. Causality alone is not counted. */
static double pairs_seen(const struct qkv_tensor *y)
{
    const struct qkv_options *options = &y->options;
    int64_t query_rows = qkv_rows(y->input[0]), key_rows = qkv_rows(y->input[1]);
    double pairs = 0;
    if (!options->attention.window) return pairs_of(y, query_rows, key_rows);
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        int64_t queries = qkv_segment_length(&options->queries, s, query_rows),
                keys = qkv_segment_length(&options->keys, s, key_rows);
        for (int64_t p = keys - queries; p < keys; p++)
            pairs += (double)qkv_visible_count(qkv_attention_visible(&options->attention, p, keys));
    }
    return pairs;
}

/* Multiplications of one product of the node's size. */
static double product_of(const struct qkv_tensor *y)
{
    const struct qkv_tensor *a = y->input[0], *b = y->input[1];
    switch (y->op) {
    case QKV_OP_matmul:
        return (double)y->count * (double)a->shape.size[a->shape.rank - (y->options.transpose_a ? 2 : 1)];
    case QKV_OP_linear:
        return (double)y->count * (double)qkv_columns(a);
    case QKV_OP_linear_cross_entropy:
        return (double)qkv_rows(a) * (double)b->count;
    case QKV_OP_attention_scores:
        return pairs_of(y, qkv_rows(a), qkv_rows(b)) * (double)qkv_columns(a);
    case QKV_OP_attention_mix: /* the weights know no rows: those of the values are the keys */
        return pairs_of(y, qkv_rows(y), qkv_rows(b)) * (double)qkv_columns(y);
    case QKV_OP_attention:
        return pairs_seen(y) * (double)(qkv_columns(a) + qkv_columns(y));
    default:
        return 0;
    }
}

/* Products behind a pass: one forward, one for each side that wants a gradient. */
static int products_of(const struct qkv_tensor *y, bool backward)
{
    int gradients = 0;
    for (int i = 0; i < 2; i++) gradients += y->input[i] && y->input[i]->needs_gradient;
    if (y->op == QKV_OP_attention) gradients = y->needs_gradient ? 2 : 0; /* of scores and mix each */
    if (y->op == QKV_OP_linear_cross_entropy) return backward ? 0 : 1 + gradients;
    return backward ? gradients : 1;
}

/* Rows picked by number are read, not the whole table. */
static double read_of(const struct qkv_tensor *y, int i)
{
    bool picks = y->op == QKV_OP_embedding || y->op == QKV_OP_gather_rows;
    return (double)(picks && i == 0 ? y->count : y->input[i]->count);
}

struct qkv_cost qkv_tensor_cost(const struct qkv_tensor *tensor, bool backward)
{
    double numbers = (double)(tensor->count + tensor->saved_count);
    if (tensor->op == QKV_OP_leaf) return (struct qkv_cost){0, 0};
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (tensor->input[i])
            numbers += read_of(tensor, i) * (backward && tensor->input[i]->needs_gradient ? 2 : 1);
    return (struct qkv_cost){
        .operations = 2 * product_of(tensor) * products_of(tensor, backward),
        .bytes = numbers * (double)tensor->graph->size,
    };
}
