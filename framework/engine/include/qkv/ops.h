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
 * another graph, or memory runs out.
 *
 * Segments (struct qkv_segments) mean the same in every op. A count of 0 is one sentence that has all rows. Segments may be
 * in any order, have gaps between them, and have length 0. They must not overlap, except the key segments of attention:
 * sentences may share keys, whose gradients are then summed over these sentences. Rows outside all segments are 0 in the
 * result, except where the op adds something to its input (add_positions, rotate): there they are copied. */
#ifndef QKV_OPS_H
#define QKV_OPS_H

#include "qkv/graph.h"

/* ---- the rule of attention: every property of multi-head attention that is not a tensor, as one value ----
 * Layers and ops keep copies of it. To add a variant of attention, add a field here. */

/* How fused attention is computed. The results are the same except for rounding. */
enum qkv_attention_kernel {
    QKV_KERNEL_AUTO,  /* flash for long sentences, exact for short ones: whichever is faster */
    QKV_KERNEL_EXACT, /* keeps the weights: memory grows with the square of the length, or with the window */
    QKV_KERNEL_FLASH, /* keeps one number per row and head, recomputes the weights (Dao et al. 2022) */
};

/* What the values of an attention mask mean. */
enum qkv_mask_values {
    QKV_MASK_VALUES_BINARY,   /* 1: the key may be seen; 0: it is hidden. As PyTorch's boolean masks */
    QKV_MASK_VALUES_ADDITIVE, /* 0: the key may be seen; -infinity: it is hidden. As PyTorch's float masks */
};

/* In every field but `heads`, 0 means that the property is not set; {.heads = H} is plain attention.
 *
 * Positions: the queries of a sentence have the last positions of its keys. With Tq queries and Tk >= Tq keys, query i has
 * position p = Tk - Tq + i; key j has position j. The score of the pair in head h is
 *     scale * query . key - slope_h |p - j| + bias[bucket(j - p), h] */
struct qkv_attention_rule {
    int64_t heads; /* H, query heads; at least 1 */
    /* G, heads of keys and values: H / G consecutive query heads share one (Ainslie et al. 2023); 0: H */
    int64_t key_value_heads;
    bool causal; /* p sees no key after p */
    /* p sees keys p - window .. p + window (Beltagy et al. 2020, whose w is twice this; causal: Jiang et
     * al. 2023); 0: all keys */
    int64_t window;
    /* Number of positions at the beginning of each sentence that see all keys and are seen by all queries,
     * except where causality forbids it (Beltagy et al. 2020, with shared projections). Needs a window; 0:
     * none */
    int64_t global_tokens;
    bool alibi;           /* subtract slope_h |p - j| (Press et al. 2022) */
    int64_t buckets;      /* add a learned bias per distance bucket and head (Raffel et al. 2020); 0: none */
    int64_t max_distance; /* with buckets: all distances from here on share the last bucket */
    double scale;         /* of the scores; 0: 1 / sqrt(key width) (Vaswani et al. 2017) */
    double dropout;       /* rate of dropout on the weights, in graphs with dropout */
    enum qkv_attention_kernel kernel;
    enum qkv_mask_values mask_values; /* of the mask, if there is one */
};

/* ---- arguments of ops ---- */

enum { QKV_ALL = -1 }; /* as an axis: all axes */

/* Axes in the order of the result of qkv_permute: QKV_AXES(1, 0) transposes a matrix. */
struct qkv_axes {
    int count, axis[QKV_MAX_RANK];
};

#ifdef __cplusplus /* has no compound literals */
#    define QKV_AXES(...) (qkv_axes{(int)std::initializer_list<int>{__VA_ARGS__}.size(), {__VA_ARGS__}})
#else
#    define QKV_AXES(...)                                                                                    \
        ((struct qkv_axes){(int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}})
#endif

/* Arguments of an op other than tensors; each row of ops.def sets the fields that its op uses. Arrays belong to
 * the caller. The node reads copies of them, and copies them again only in a rewound graph (qkv_graph_rewind). */
struct qkv_options {
    double factor;          /* scale, embedding, the cross entropies: the result is multiplied by it */
    double addend;          /* add_scalar */
    double exponent;        /* pow */
    double lowest, highest; /* clamp */
    double epsilon;         /* layer_norm, rms_norm: added to the variance or mean square */
    double rate;            /* dropout, dropout_rows: probability of 0 */
    double smoothing;       /* the cross entropies: of labels */
    double consistency;     /* paired_cross_entropy: weight of the divergences */
    bool one_sided;         /* paired_cross_entropy: see ops.def */
    int64_t axis; /* concat, slice, cumulative_sum; sum, mean, min, max and others also take QKV_ALL */
    int64_t start, length; /* slice, neighbours: elements start .. start + length - 1; top_k: length */
    int64_t rows;          /* scatter_rows: rows of the result */
    int64_t local_window;  /* attention_local: keys on each side of the center */
    struct qkv_attention_rule attention;
    struct qkv_shape shape;
    struct qkv_axes permutation;
    bool transpose_a, transpose_b, reverse;
    const int32_t *indices;
    int64_t index_count;
    const int64_t *first;         /* one number: the position of the first row of every sentence; NULL: 0 */
    struct qkv_segments segments; /* sentences of the rows, of ops other than attention */
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
/* Options of the ops with an argument `attention`. */
#define QKV_ATTENTION_OPTIONS                                                                                \
    .attention = attention.rule, .queries = attention.queries, .keys = attention.keys

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

/* Concatenates `count` tensors along `axis` in order; the other axes must be equal. With count 1 it returns the tensor
 * itself. Returns NULL, and the graph fails, if count is below 1. Copies each number log2(count) times. */
QKV_API struct qkv_tensor *qkv_concat_all(struct qkv_graph *graph, struct qkv_tensor *const *tensors,
                                          int64_t count, int64_t axis);

/* Convolution over the rows of each sentence (cross-correlation, as in PyTorch): x [N, I], weight [width I, O], bias [O] or
 * NULL -> [N, O]. Row i of the result is the bias plus the rows i + first .. i + first + width - 1 of its sentence, times
 * the blocks 0 .. width - 1 of I rows of the weight; rows outside the sentence count as zeros. first = -(width / 2) looks
 * to both sides; first = 1 - width never looks ahead, which a decoder needs (Gehring et al. 2017). */
QKV_API struct qkv_tensor *qkv_convolution(struct qkv_graph *graph, struct qkv_tensor *x,
                                           struct qkv_tensor *weight, struct qkv_tensor *bias,
                                           struct qkv_segments segments, int64_t first);

/* Name of an op: "matmul"; "unknown op" for any other number. */
QKV_API const char *qkv_op_name(enum qkv_op_id op);

/* Attention weights of one head of one sentence (both from 0), after qkv_forward: [rows, columns] of the graph's
 * dtype, row-major, with a row for each query and a column for each key of the sentence. They are in the graph's memory, and
 * valid until it runs again, is reset or freed. For nodes of the ops attention (weights before dropout),
 * attention_weights, attention_local and attention_arrange.
 *
 * Weights that the kernel did not keep (flash attention, windows) are computed at the first call: make it before the
 * optimizer changes a bias of the scores. NULL when there is no such sentence or head, when the node has no weights,
 * before qkv_forward, when memory runs out, when the graph has failed, when it shares memory and has overwritten the operands,
 * or when weights must be computed that read a variable or parameter directly (such as the bias), and a variable or
 * parameter of the graph has been written since qkv_forward; rows and columns are then arbitrary. */
QKV_API const void *qkv_attention_weights_of(const struct qkv_tensor *attention, int64_t sentence,
                                             int64_t head, int64_t *rows, int64_t *columns);

/* Sums over all rows of a cross_entropy, linear_cross_entropy or paired_cross_entropy node, after qkv_forward, without
 * smoothing, consistency and factor: the negative log-likelihood in nats, and the number of rows whose most probable class
 * is the label. For a paired_cross_entropy node these are the means of both passes, or with one_sided the values of the
 * first pass. For an attention_loss node they are the sum of its rows, and 0. Both are NaN, and the graph fails, if `loss`
 * is another op or qkv_forward has not computed it. */
QKV_API void qkv_cross_entropy_sums(const struct qkv_tensor *loss, double *negative_log_likelihood,
                                    double *correct);

#endif
