/* The ops: functions that record a node in a graph and return its result. Shapes, formulas and sources of all ops
 * are in ops.def, one row each; every op is struct qkv_tensor *qkv_<op>(struct qkv_graph *graph, ...).
 *
 * Example:
 *     struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
 *     struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(8, 4)), *weight = qkv_variable(graph, QKV_SHAPE(4, 2));
 *     struct qkv_tensor *hidden = qkv_relu(graph, qkv_linear(graph, x, weight, NULL, false));
 *     struct qkv_tensor *loss = qkv_mean(graph, qkv_multiply(graph, hidden, hidden), QKV_ALL);
 *     qkv_forward(graph);
 *     qkv_backward(graph, loss, NULL);
 *     qkv_graph_free(graph);
 *
 * An op returns NULL, and the graph fails, when shapes do not fit, an index is out of bounds, an input belongs to
 * another graph, or memory is out. */
#ifndef QKV_OPS_H
#define QKV_OPS_H

#include "qkv/attention_rule.h"
#include "qkv/graph.h"

enum { QKV_ALL = -1 }; /* as an axis: all axes */

/* Arguments of an op other than tensors; each row of ops.def sets the fields that its op uses. Pointers belong to
 * the caller and must stay valid as long as the node. */
struct qkv_options {
    double factor, epsilon, rate, smoothing;
    int64_t axis, start, length; /* slice: elements start .. start + length - 1 of the axis */
    int64_t rows;                /* scatter_rows: of the result */
    int64_t local_window;        /* attention_local: keys on each side of the center */
    struct qkv_attention_rule attention;
    struct qkv_shape shape;
    int permutation[QKV_MAX_RANK];
    bool transpose_a, transpose_b, reverse;
    const int32_t *indices;
    int64_t index_count;
    const int64_t *first;              /* position of the first row of each sentence; NULL: 0 */
    struct qkv_segments segments;      /* sentences of the rows, of ops other than attention */
    struct qkv_segments queries, keys; /* attention: sentences of the query rows and of the key rows */
};

/* Argument of the attention ops: the rule, the tensor that it needs, and the sentences. Sentence i of
 * `queries` attends to sentence i of `keys`. */
struct qkv_attention {
    struct qkv_attention_rule rule;
    struct qkv_tensor *bias; /* [rule.buckets, rule.heads] if the rule has buckets, else NULL */
    struct qkv_segments queries, keys;
};

#define QKV_UNWRAP(...) __VA_ARGS__
#define QKV_NO_OPTIONS  .factor = 0

enum qkv_op_id {
    QKV_OP_leaf,
#define OP(name, parameters, inputs, options) QKV_OP_##name,
#include "qkv/ops.def"
#undef OP
    QKV_OP_COUNT
};

#define OP(name, parameters, inputs, options)                                                                \
    QKV_API struct qkv_tensor *qkv_##name(struct qkv_graph *graph, QKV_UNWRAP parameters);
#include "qkv/ops.def"
#undef OP

/* Records a node of any op: all functions of ops.def call it. `inputs` has QKV_MAX_INPUTS entries, NULL where there
 * is no input. */
QKV_API struct qkv_tensor *qkv_node(struct qkv_graph *graph, enum qkv_op_id op,
                                    struct qkv_tensor *const *inputs, const struct qkv_options *options);

/* Name of an op: "matmul". */
QKV_API const char *qkv_op_name(enum qkv_op_id op);

/* Attention weights of one head of one sentence (both from 0), after qkv_forward: [rows, columns] of the graph's
 * dtype, row-major, in the graph's memory. For nodes of the ops attention (weights before dropout),
 * attention_weights, attention_local and attention_arrange.
 *
 * Weights that the kernel did not keep (flash attention, windows) are computed at the first call. NULL when there
 * is no such sentence or head, when the node has no weights, when memory is out, or when the graph shares memory
 * and has overwritten the operands. */
QKV_API const void *qkv_attention_weights_of(const struct qkv_tensor *attention, int64_t sentence,
                                             int64_t head, int64_t *rows, int64_t *columns);

/* Sums over all rows of a cross_entropy or linear_cross_entropy node, after qkv_forward, without smoothing and
 * factor: negative log-likelihood in nats, and the number of rows whose most probable class is the label. */
QKV_API void qkv_cross_entropy_sums(const struct qkv_tensor *loss, double *negative_log_likelihood,
                                    double *correct);

/* The same for one row. Only nodes without gradient keep rows apart; aborts for others. */
QKV_API void qkv_cross_entropy_row(const struct qkv_tensor *loss, int64_t row,
                                   double *negative_log_likelihood, double *correct);

#endif
