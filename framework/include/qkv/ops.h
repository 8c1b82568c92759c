/* The ops: one row of ops.def each, where their shapes and formulas stand. Every constructor is
 * struct qkv_tensor *qkv_<op>(struct qkv_graph *graph, ...). */
#ifndef QKV_OPS_H
#define QKV_OPS_H

#include "qkv/attention_rule.h"
#include "qkv/graph.h"

enum { QKV_ALL = -1 }; /* as an axis: all of them */

/* What an op needs beside its tensors, by value; each row of ops.def says which fields it uses. */
struct qkv_options {
    double factor, epsilon, rate, smoothing;
    int64_t axis, start, length; /* slice: elements start .. start + length - 1 of the axis */
    int64_t rows;                /* scatter_rows: of the result */
    int64_t local_window;        /* attention_local: keys on each side of the center */
    struct qkv_attention_rule attention;
    struct qkv_shape shape;
    int permutation[QKV_MAX_RANK];
    bool transpose_a, transpose_b, reverse;
    const int32_t *indices; /* the caller's, must outlive the node */
    int64_t index_count;
    const int64_t *first;              /* the caller's, as indices are */
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

/* Records a node of any op; what the constructors call. `inputs` has QKV_MAX_INPUTS entries. */
QKV_API struct qkv_tensor *qkv_node(struct qkv_graph *graph, enum qkv_op_id op,
                                    struct qkv_tensor *const *inputs, const struct qkv_options *options);

/* The name of an op, "matmul". */
QKV_API const char *qkv_op_name(enum qkv_op_id op);

/* The weights of head `head` (from 0) of sentence `sentence` of an attention node (attention, where they are
 * those before dropout; attention_weights, attention_local, attention_arrange): a rows x columns block of the
 * graph's dtype, row-major, valid after qkv_forward. NULL where there is no such. What the kernel did not
 * keep (all of it with flash, what lies outside of a window) is made at the first call, in the graph's
 * memory; NULL when that is out. */
QKV_API const void *qkv_attention_weights_of(const struct qkv_tensor *attention, int64_t sentence,
                                             int64_t head, int64_t *rows, int64_t *columns);

/* Sums that a cross-entropy node made on its way, unscaled and unsmoothed: negative log-likelihood in nats,
 * and rows whose most probable class is the label. */
QKV_API void qkv_cross_entropy_sums(const struct qkv_tensor *loss, double *negative_log_likelihood,
                                    double *correct);

/* The same of one row, of a node that needs no gradient. */
QKV_API void qkv_cross_entropy_row(const struct qkv_tensor *loss, int64_t row,
                                   double *negative_log_likelihood, double *correct);

#endif
