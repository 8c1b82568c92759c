/* Public access to tensors: shapes, values, gradients, attention weights, sums of the loss. */
#include "graph/graph.h"

#include <string.h>

struct qkv_shape qkv_tensor_shape(const struct qkv_tensor *tensor)
{
    return tensor->shape;
}

int64_t qkv_tensor_count(const struct qkv_tensor *tensor)
{
    return tensor->count;
}

const char *qkv_tensor_name(const struct qkv_tensor *tensor)
{
    return tensor->name ? tensor->name : qkv_op_name(tensor->op);
}

const char *qkv_tensor_op(const struct qkv_tensor *tensor)
{
    return qkv_op_name(tensor->op);
}

void *qkv_tensor_value(struct qkv_tensor *tensor)
{
    return tensor->value;
}

void *qkv_tensor_gradient(struct qkv_tensor *tensor)
{
    return tensor->gradient;
}

static void read_numbers(const struct qkv_tensor *tensor, const void *from, double *to)
{
    for (int64_t i = 0; i < tensor->count; i++) to[i] = qkv_dtype_get(tensor->graph->dtype, from, i);
}

void qkv_tensor_read(const struct qkv_tensor *tensor, double *values)
{
    read_numbers(tensor, tensor->value, values);
}

void qkv_tensor_read_gradient(const struct qkv_tensor *tensor, double *gradient)
{
    QKV_BUG(!tensor->gradient, "%s keeps no gradient", qkv_tensor_name(tensor));
    read_numbers(tensor, tensor->gradient, gradient);
}

void qkv_tensor_write(struct qkv_tensor *tensor, const double *values)
{
    for (int64_t i = 0; i < tensor->count; i++)
        qkv_dtype_set(tensor->graph->dtype, tensor->value, i, values[i]);
}

double qkv_tensor_scalar(const struct qkv_tensor *tensor)
{
    return qkv_dtype_get(tensor->graph->dtype, tensor->value, 0);
}

/* ---- further results of attention and loss nodes ---- */

/* Whether no value of the set has been overwritten in forward (qkv_graph_share_memory). */
static bool keeps_values(const struct qkv_tensor *y, unsigned values)
{
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (values & QKV_INPUT(i) && y->input[i] && y->input[i]->keeps_no_value) return false;
    return !(values & QKV_RESULT && y->keeps_no_value);
}

const void *qkv_attention_weights_of(const struct qkv_tensor *attention, int64_t sentence, int64_t head,
                                     int64_t *rows, int64_t *columns)
{
    const struct qkv_op *rule = attention ? attention->graph->ops[attention->op] : NULL;
    if (!rule || !rule->weights) return NULL;
    const struct qkv_options *options = &attention->options;
    /* Without segments, the rows of query and key are one sentence. Only the fused op allows that,
     * and its inputs 0 and 1 are query and key. */
    const struct qkv_tensor *query = attention->input[0], *key = attention->input[1];
    int64_t query_rows = query ? query->shape.size[0] : 0, key_rows = key ? key->shape.size[0] : 0;
    if (sentence < 0 || sentence >= qkv_segment_count(&options->queries) || head < 0 ||
        head >= options->attention.heads)
        return NULL;
    int64_t at = 0;
    for (int64_t s = 0; s <= sentence; s++) {
        *rows = qkv_segment_length(&options->queries, s, query_rows);
        *columns = qkv_segment_length(&options->keys, s, key_rows);
        at += (s < sentence ? options->attention.heads : head) * *rows * *columns;
    }
    if (!keeps_values(attention, rule->weights_read)) return NULL;
    /* Casts const away: weights that are computed on demand are cached in the node. */
    const char *weights = rule->weights((struct qkv_tensor *)(uintptr_t)attention);
    return weights ? weights + (size_t)at * attention->graph->size : NULL;
}

/* Reads the two sums at offset `at` of the numbers that a cross-entropy node has saved. */
static void read_sums(const struct qkv_tensor *loss, int64_t at, double *negative_log_likelihood,
                      double *correct)
{
    QKV_BUG(loss->op != QKV_OP_cross_entropy && loss->op != QKV_OP_linear_cross_entropy,
            "%s is no cross entropy", qkv_tensor_name(loss));
    *negative_log_likelihood = qkv_dtype_get(loss->graph->dtype, loss->saved, at);
    *correct = qkv_dtype_get(loss->graph->dtype, loss->saved, at + 1);
}

void qkv_cross_entropy_sums(const struct qkv_tensor *loss, double *negative_log_likelihood, double *correct)
{
    read_sums(loss, 0, negative_log_likelihood, correct);
}

void qkv_cross_entropy_row(const struct qkv_tensor *loss, int64_t row, double *negative_log_likelihood,
                           double *correct)
{
    int64_t rows = loss->input[0]->shape.size[0];
    QKV_BUG(loss->needs_gradient || row < 0 || row >= rows, "row %lld of %lld of %s is not kept",
            (long long)row, (long long)rows, qkv_tensor_name(loss));
    read_sums(loss, loss->saved_count - 2 * (rows - row), negative_log_likelihood, correct);
}
