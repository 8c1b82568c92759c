/* The functions of ops.def, ops that are composed of others, and the cost of ops. */
#include "graph/attention_rule.h"
#include "graph/graph.h"

#include <math.h>

/* The functions qkv_<op>, one per row of ops.def. */

#define OP(name, parameters, inputs, ...)                                                                    \
    struct qkv_tensor *qkv_##name(struct qkv_graph *graph, QKV_UNWRAP parameters)                            \
    {                                                                                                        \
        return qkv_node(graph, QKV_OP_##name, (struct qkv_tensor *[QKV_MAX_INPUTS]){QKV_UNWRAP inputs},      \
                        &(struct qkv_options){QKV_UNWRAP __VA_ARGS__});                                      \
    }
#include "qkv/ops.def"
#undef OP

/* Functions of graph.h that are made of several ops. */

struct qkv_tensor *qkv_concat_all(struct qkv_graph *graph, struct qkv_tensor *const *tensors, int64_t count,
                                  int64_t axis)
{
    if (count < 1) return qkv_graph_fail(graph, "concat_all: there are %lld tensors", (long long)count);
    if (count == 1) return tensors[0];
    int64_t half = count / 2;
    struct qkv_tensor *first = qkv_concat_all(graph, tensors, half, axis),
                      *second = qkv_concat_all(graph, tensors + half, count - half, axis);
    return qkv_concat(graph, first, second, axis);
}

struct qkv_tensor *qkv_convolution(struct qkv_graph *graph, struct qkv_tensor *x, struct qkv_tensor *weight,
                                   struct qkv_tensor *bias, struct qkv_segments segments, int64_t first)
{
    if (!x || !weight)
        return qkv_graph_fail(graph, "convolution: %s is NULL", x ? "the weight" : "the input");
    struct qkv_shape input = x->shape, shape = weight->shape;
    if (input.rank != 2 || shape.rank != 2 || shape.size[0] % input.size[1])
        return qkv_graph_fail(graph,
                              "convolution: input is %s, but weight is %s, whose rows must be a multiple of "
                              "the input's columns",
                              qkv_shape_text(input), qkv_shape_text(shape));
    struct qkv_tensor *rows = qkv_neighbours(graph, x, segments, first, shape.size[0] / input.size[1]);
    return qkv_linear(graph, rows, weight, bias, false);
}

/* Cost of a node: operations and bytes, computed from shapes alone (qkv_tensor_cost). */

/* Pairs of a query and a key in the same sentence: the sum of Tq Tk over all sentences. Heads are
 * not counted. */
static double count_pairs(const struct qkv_tensor *y, int64_t query_rows, int64_t key_rows)
{
    double pairs = 0;
    for (int64_t s = 0; s < qkv_segment_count(&y->options.queries); s++)
        pairs += (double)qkv_segment_length(&y->options.queries, s, query_rows) *
                 (double)qkv_segment_length(&y->options.keys, s, key_rows);
    return pairs;
}

/* Number of query-key pairs that the attention op computes: with a window the visible pairs, otherwise all pairs, also for
 * a causal rule, as is customary. */
static double count_attended_pairs(const struct qkv_tensor *y)
{
    const struct qkv_options *options = &y->options;
    int64_t query_rows = qkv_rows(y->input[0]), key_rows = qkv_rows(y->input[1]);
    double pairs = 0;
    if (!options->attention.window) return count_pairs(y, query_rows, key_rows);
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        int64_t queries = qkv_segment_length(&options->queries, s, query_rows),
                keys = qkv_segment_length(&options->keys, s, key_rows);
        for (int64_t p = keys - queries; p < keys; p++)
            pairs += (double)qkv_visible_count(qkv_attention_visible(&options->attention, p, keys));
    }
    return pairs;
}

/* Steps of all sentences. */
static double count_steps(const struct qkv_tensor *y)
{
    double steps = 0;
    for (int64_t s = 0; s < qkv_segment_count(&y->options.segments); s++)
        steps += (double)qkv_segment_length(&y->options.segments, s, qkv_rows(y));
    return steps;
}

/* Multiplications of the matrix products of one forward pass; 0 for ops without products. The columns of query, key,
 * value and result are those of all heads together. */
static double multiplications_of(const struct qkv_tensor *y)
{
    const struct qkv_tensor *a = y->input[0], *b = y->input[1];
    switch (y->op) {
    case QKV_OP_matmul:
        return (double)y->count * (double)a->shape.size[a->shape.rank - (y->options.transpose_a ? 2 : 1)];
    case QKV_OP_linear:
        return (double)y->count * (double)qkv_columns(a);
    case QKV_OP_linear_cross_entropy:
        return (double)qkv_rows(a) * (double)b->count;
    case QKV_OP_paired_cross_entropy: /* of both passes together */
        return 2 * (double)qkv_rows(a) * (double)y->input[2]->count;
    case QKV_OP_attention_scores:
        return count_pairs(y, qkv_rows(a), qkv_rows(b)) * (double)qkv_columns(a);
    case QKV_OP_attention_mix: /* input 0, the weights, is a vector; the rows of input 1 are the keys */
        return count_pairs(y, qkv_rows(y), qkv_rows(b)) * (double)qkv_columns(y);
    case QKV_OP_attention:
        return count_attended_pairs(y) * (double)(qkv_columns(a) + qkv_columns(y));
    case QKV_OP_rnn:
    case QKV_OP_gru:
    case QKV_OP_lstm: /* each step multiplies a hidden state by the weight, input 1 */
        return count_steps(y) * (double)b->count;
    default:
        return 0;
    }
}

/* Number of matrix products of a node in a pass. All are as large as the product of forward: backward has one for each
 * operand that needs a gradient. The fused cross entropies compute their gradients in forward. */
static int count_products(const struct qkv_tensor *y, bool backward)
{
    bool is_pair = y->op == QKV_OP_paired_cross_entropy;
    const struct qkv_tensor *const operand[] = {y->input[0], y->input[is_pair ? 2 : 1]};
    int gradients = 0;
    bool is_recurrent = y->op == QKV_OP_rnn || y->op == QKV_OP_gru || y->op == QKV_OP_lstm;
    for (int i = 0; y->needs_gradient && i < 2; i++)
        gradients +=
            operand[i] && (operand[i]->needs_gradient || (is_recurrent && i == 0)); /* of the states */
    if (y->op == QKV_OP_attention)
        gradients = y->needs_gradient ? 2 : 0; /* of scores and mix: multiplications_of adds these two up */
    if (is_pair || y->op == QKV_OP_linear_cross_entropy) return backward ? 0 : 1 + gradients;
    return backward ? gradients : 1;
}

/* Numbers of input i that the op reads: of a table, only the selected rows. */
static double count_numbers_read(const struct qkv_tensor *y, int i)
{
    bool is_lookup = y->op == QKV_OP_embedding || y->op == QKV_OP_gather_rows;
    return (double)(is_lookup && i == 0 ? y->count : y->input[i]->count);
}

struct qkv_cost qkv_tensor_cost(const struct qkv_tensor *tensor, bool backward)
{
    if (!tensor || tensor->op == QKV_OP_leaf || tensor->graph->failed) return (struct qkv_cost){0, 0};
    double numbers = (double)(tensor->count + tensor->saved_count);
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (tensor->input[i])
            numbers += count_numbers_read(tensor, i) * (backward && tensor->input[i]->needs_gradient ? 2 : 1);
    return (struct qkv_cost){
        .operations = 2 * multiplications_of(tensor) * count_products(tensor, backward),
        .bytes = numbers * (double)tensor->graph->size,
    };
}
