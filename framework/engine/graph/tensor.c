/* Public access to tensors: shapes, values, gradients, attention weights, sums of the loss. */
#include "graph/graph.h"
#include "graph/internal.h"

#include <math.h>

struct qkv_shape qkv_tensor_shape(const struct qkv_tensor *tensor)
{
    return tensor ? tensor->shape : (struct qkv_shape){0};
}

int64_t qkv_tensor_count(const struct qkv_tensor *tensor)
{
    return tensor ? tensor->count : 0;
}

const char *qkv_tensor_name(const struct qkv_tensor *tensor)
{
    return !tensor ? "no tensor" : tensor->name ? tensor->name : qkv_op_name(tensor->op);
}

const char *qkv_tensor_op(const struct qkv_tensor *tensor)
{
    return tensor ? qkv_op_name(tensor->op) : "no tensor";
}

void *qkv_tensor_value(struct qkv_tensor *tensor)
{
    return tensor ? tensor->value : NULL;
}

void *qkv_tensor_gradient(struct qkv_tensor *tensor)
{
    return tensor ? tensor->gradient : NULL;
}

bool qkv_is_computed(const struct qkv_tensor *y)
{
    const struct qkv_tensor *last = y->graph->last_run;
    if (!last) return false;
    for (const struct qkv_tensor *x = last->next; x; x = x->next)
        if (x == y) return false;
    return true;
}

/* Returns whether `memory` of the tensor exists; if not, the graph fails. */
static bool has_memory(const struct qkv_tensor *tensor, const void *memory, const char *what)
{
    if (!tensor) return false;
    if (!memory)
        qkv_graph_fail(tensor->graph, "%s (%s) keeps no %s", qkv_tensor_name(tensor), qkv_tensor_op(tensor),
                       what);
    return memory != NULL;
}

static void read_numbers(const struct qkv_tensor *tensor, const void *from, const char *what, double *to)
{
    bool is_there = has_memory(tensor, from, what);
    for (int64_t i = 0; i < tensor->count; i++) {
        to[i] = (double)NAN;
        if (is_there) to[i] = qkv_dtype_get(tensor->graph->dtype, from, i);
    }
}

void qkv_tensor_read(const struct qkv_tensor *tensor, double *values)
{
    if (tensor) read_numbers(tensor, tensor->value, "value before qkv_graph_plan", values);
}

void qkv_tensor_read_gradient(const struct qkv_tensor *tensor, double *gradient)
{
    if (tensor) read_numbers(tensor, tensor->gradient, "gradient", gradient);
}

void qkv_tensor_write(struct qkv_tensor *tensor, const double *values)
{
    if (!tensor || !has_memory(tensor, tensor->value, "value before qkv_graph_plan")) return;
    for (int64_t i = 0; i < tensor->count; i++)
        qkv_dtype_set(tensor->graph->dtype, tensor->value, i, values[i]);
    if (tensor->op == QKV_OP_leaf && qkv_is_computed(tensor)) tensor->graph->leaf_written = true;
}

double qkv_tensor_scalar(const struct qkv_tensor *tensor)
{
    if (!tensor || !has_memory(tensor, tensor->value, "value before qkv_graph_plan")) return (double)NAN;
    return qkv_dtype_get(tensor->graph->dtype, tensor->value, 0);
}

/* ---- further results of attention and loss nodes ---- */

/* Whether no value of the set has been overwritten in forward (qkv_graph_share_memory). */
static bool keeps_values(const struct qkv_tensor *y, unsigned values)
{
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (values & QKV_INPUT(i) && y->input[i] && y->input[i]->is_overwritten) return false;
    return !(values & QKV_RESULT && y->is_overwritten);
}

const void *qkv_attention_weights_of(const struct qkv_tensor *attention, int64_t sentence, int64_t head,
                                     int64_t *rows, int64_t *columns)
{
    const struct qkv_op *op = attention ? attention->graph->ops[attention->op] : NULL;
    if (!op || !op->weights || attention->graph->failed || !qkv_is_computed(attention)) return NULL;
    const struct qkv_options *options = &attention->options;
    /* Without segments, the rows of query and key are one sentence. Only the op `attention` allows that, and its
     * inputs 0 and 1 are query and key. */
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
    if (!keeps_values(attention, op->weights_read)) return NULL;
    /* Casts const away: weights that are computed on demand are cached in the node. */
    const char *weights = op->weights((struct qkv_tensor *)(uintptr_t)attention);
    return weights ? weights + (size_t)at * attention->graph->size : NULL;
}

/* Reads the two sums at offset `at` of the numbers that a cross-entropy node has saved (kernels/loss.c describes their
 * layout). -1: the node has not saved them. */
static void read_sums(const struct qkv_tensor *loss, int64_t at, double *negative_log_likelihood,
                      double *correct)
{
    *negative_log_likelihood = *correct = (double)NAN;
    if (!loss || loss->graph->failed) return;
    if (loss->op != QKV_OP_cross_entropy && loss->op != QKV_OP_linear_cross_entropy &&
        loss->op != QKV_OP_paired_cross_entropy && loss->op != QKV_OP_attention_loss) {
        qkv_graph_fail(loss->graph, "%s (%s) is no cross entropy", qkv_tensor_name(loss),
                       qkv_tensor_op(loss));
        return;
    }
    if (!qkv_is_computed(loss)) {
        qkv_graph_fail(loss->graph, "%s (%s): qkv_forward has not computed its sums", qkv_tensor_name(loss),
                       qkv_tensor_op(loss));
        return;
    }
    if (at < 0) {
        qkv_graph_fail(loss->graph, "%s (%s) keeps no sums of this row", qkv_tensor_name(loss),
                       qkv_tensor_op(loss));
        return;
    }
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
    int64_t rows = loss && loss->input[0] ? loss->input[0]->shape.size[0] : 0;
    bool is_kept = row >= 0 && row < rows && !loss->needs_gradient &&
                   loss->op != QKV_OP_paired_cross_entropy && loss->op != QKV_OP_attention_loss;
    read_sums(loss, is_kept ? loss->saved_count - 2 * (rows - row) : -1, negative_log_likelihood, correct);
}
