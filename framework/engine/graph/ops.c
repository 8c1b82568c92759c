/* The functions of ops.def, ops that are composed of others, the cost of ops, and the rule of attention. */
#include "core/numbers.h"
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

static enum qkv_status check_buckets(const struct qkv_attention_rule *rule, struct qkv_error *error)
{
    int64_t single = qkv_attention_single_buckets(rule->buckets, rule->causal);
    if (!rule->buckets) return QKV_OK;
    if (single < 1 || (!rule->causal && rule->buckets % 2))
        return qkv_error_set(error, "buckets is %lld, but must be %s", (long long)rule->buckets,
                             rule->causal ? "at least 2" : "even and at least 4");
    if (rule->max_distance <= single)
        return qkv_error_set(error, "max_distance is %lld, but must be above %lld for %lld buckets",
                             (long long)rule->max_distance, (long long)single, (long long)rule->buckets);
    return QKV_OK;
}

enum qkv_status qkv_attention_rule_check(const struct qkv_attention_rule *rule, struct qkv_error *error)
{
    if (rule->heads < 1)
        return qkv_error_set(error, "heads is %lld, but must be at least 1", (long long)rule->heads);
    if (rule->key_value_heads < 0 || rule->heads % qkv_attention_key_value_heads(rule))
        return qkv_error_set(error, "key_value_heads is %lld, but must divide %lld heads",
                             (long long)rule->key_value_heads, (long long)rule->heads);
    if (rule->window < 0 || rule->global_tokens < 0)
        return qkv_error_set(error, "window is %lld and global_tokens %lld, but neither may be negative",
                             (long long)rule->window, (long long)rule->global_tokens);
    if (rule->global_tokens && !rule->window) return qkv_error_set(error, "global_tokens need a window");
    if (!(rule->dropout >= 0 && rule->dropout < 1))
        return qkv_error_set(error, "the dropout rate is %g, but must be at least 0 and below 1",
                             rule->dropout);
    if (!isfinite(rule->scale))
        return qkv_error_set(error, "the scale is %g, but must be finite", rule->scale);
    if ((int)rule->kernel < QKV_KERNEL_AUTO || (int)rule->kernel > QKV_KERNEL_FLASH)
        return qkv_error_set(error, "kernel is %d, which is no value of enum qkv_attention_kernel",
                             (int)rule->kernel);
    if ((int)rule->mask_values < QKV_MASK_VALUES_BINARY || (int)rule->mask_values > QKV_MASK_VALUES_ADDITIVE)
        return qkv_error_set(error, "mask_values is %d, which is no value of enum qkv_mask_values",
                             (int)rule->mask_values);
    return check_buckets(rule, error);
}

double qkv_attention_slope(const struct qkv_attention_rule *rule, int64_t head)
{
    int64_t power = 1;
    while (power <= rule->heads / 2) power *= 2;
    double exponent = head < power ? ((double)head + 1) / (double)power
                                   : (2 * ((double)head - (double)power) + 1) / (2 * (double)power);
    return qkv_scalar_exp2(-8 * exponent);
}

int64_t qkv_attention_single_buckets(int64_t buckets, bool causal)
{
    return buckets / (causal ? 2 : 4);
}

int64_t qkv_attention_bucket(const struct qkv_attention_rule *rule, int64_t offset)
{
    int64_t buckets = rule->causal ? rule->buckets : rule->buckets / 2; /* of one direction */
    int64_t single = qkv_attention_single_buckets(rule->buckets, rule->causal);
    int64_t first = !rule->causal && offset > 0 ? buckets : 0;
    if (buckets < 1) return 0;                              /* a rule that qkv_attention_rule_check refuses */
    int64_t distance = offset < 0 ? -(offset + 1) : offset; /* - 1 below 0: INT64_MIN has no opposite */
    distance = offset > 0 && rule->causal ? 0 : offset < 0 && distance < INT64_MAX ? distance + 1 : distance;
    if (distance < single) return first + distance;
    /* qkv_attention_rule_check refuses such a rule, too: it has no distances for the logarithmic scale. */
    if (single < 1 || rule->max_distance <= single) return first + buckets - 1;
    double grown = qkv_scalar_log((double)distance / (double)single) /
                   qkv_scalar_log((double)rule->max_distance / (double)single);
    if (!(grown < 1)) return first + buckets - 1; /* or NaN, where max_distance rounds to single */
    return first + single + (int64_t)(grown * (double)(buckets - single));
}
