/* The ops: one row of ops.def each, where their shapes and formulas stand. Every constructor is
 * struct qkv_tensor *qkv_<op>(struct qkv_graph *graph, ...). */
#ifndef QKV_OPS_H
#define QKV_OPS_H

#include "qkv/graph.h"

enum { QKV_ALL = -1 }; /* as an axis: all of them */

/* What an op needs beside its tensors, by value; each row of ops.def says which fields it uses. */
struct qkv_options {
    double factor, epsilon, rate, smoothing;
    int64_t axis, start, length, heads;
    struct qkv_shape shape;
    int permutation[QKV_MAX_RANK];
    bool transpose_a, transpose_b, causal;
    const int32_t *indices; /* the caller's, must outlive the node */
    int64_t index_count;
    struct qkv_segments queries, keys;
};

/* How fused attention is laid out. Sentence i of `queries` attends to sentence i of `keys`. */
struct qkv_attention {
    int64_t heads;
    struct qkv_segments queries, keys;
    bool causal;    /* row t sees key rows 0 .. t of its sentence */
    double scale;   /* of the scores: 1 / sqrt(key width) in the paper; 0 stands for that */
    double dropout; /* rate on the weights, where the graph drops out */
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

/* Records a node of any op; what the constructors call. `inputs` has QKV_MAX_INPUTS entries. */
QKV_API struct qkv_tensor *qkv_node(struct qkv_graph *graph, enum qkv_op_id op,
                                    struct qkv_tensor *const *inputs, const struct qkv_options *options);

/* The name of an op, "matmul". */
QKV_API const char *qkv_op_name(enum qkv_op_id op);

/* The weights of head `head` (from 0) of sentence `sentence` of a fused attention node, before dropout: a
 * rows x columns block of the graph's dtype, row-major, valid after qkv_forward. NULL where there is no such.
 */
QKV_API const void *qkv_attention_weights_of(const struct qkv_tensor *attention, int64_t sentence,
                                             int64_t head, int64_t *rows, int64_t *columns);

/* Sums that a cross-entropy node made on its way, unscaled and unsmoothed: negative log-likelihood in nats,
 * and rows whose most probable class is the label. */
QKV_API void qkv_cross_entropy_sums(const struct qkv_tensor *loss, double *negative_log_likelihood,
                                    double *correct);

#endif
