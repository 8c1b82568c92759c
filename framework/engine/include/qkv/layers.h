/* Layers: named parameters, and functions that apply them to tensors.
 *
 * All layers follow one pattern. qkv_<layer>_init declares the parameters "<name>.weight" and so on; call it before
 * qkv_parameters_allocate, which also reports errors of qkv_<layer>_init: memory ran out, a name is taken, a size is below 1,
 * an option has an unknown enum value, such as an activation or a kind of norm, or the rule of attention is inconsistent.
 * qkv_<layer>_apply records the ops; call it after qkv_graph_bind. The graph then reports what only ops check, such as rates
 * and epsilons.
 *
 * Example:
 *     struct qkv_parameters parameters = {0};
 *     struct qkv_dense dense;
 *     struct qkv_dense_options options = {
 *         .inputs = 4, .outputs = 2, .bias = true, .initial = {QKV_INITIALIZER_XAVIER_UNIFORM, 1}};
 *     qkv_dense_init(&dense, &parameters, &options, "dense");
 *     if (!qkv_parameters_allocate(&parameters, QKV_FLOAT32, NULL)) {
 *         qkv_parameters_initialize(&parameters, 42);
 *         struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
 *         qkv_graph_bind(graph, &parameters, NULL, false);
 *         qkv_dense_apply(&dense, graph, qkv_variable(graph, QKV_SHAPE(3, 4)));
 *         qkv_forward(graph);
 *         qkv_graph_free(graph);
 *     }
 *     qkv_parameters_release(&parameters);
 *
 * A layer owns nothing and needs no release. It must outlive the graphs that it is used in, and the parameters must outlive
 * the layer. Options and the name are copied, except options.positions of attention. Shapes: N is the number of rows, the
 * packed tokens of a batch; dense, norm, feed forward and residual accept any number of leading axes. On errors the result
 * is NULL and the graph fails, as for ops (graph.h).
 *
 * Initial weights: Xavier as in graph.h; normal and uniform are divided by sqrt(inputs), for
 * embedding tables by sqrt(width). */
#ifndef QKV_LAYERS_H
#define QKV_LAYERS_H

#include "qkv/graph.h"

/* Applies dropout if the graph has dropout and rate > 0; otherwise, or if rate is NaN, returns x itself. A rate of 1 or
 * more makes the graph fail. */
QKV_API struct qkv_tensor *qkv_dropout_apply(struct qkv_graph *graph, struct qkv_tensor *x, double rate);

/* The same for complete rows of x. */
QKV_API struct qkv_tensor *qkv_dropout_rows_apply(struct qkv_graph *graph, struct qkv_tensor *x, double rate);

/* Applies the activation; returns x itself for QKV_ACTIVATION_NONE. The graph fails for an unknown activation. */
QKV_API struct qkv_tensor *qkv_activation_apply(struct qkv_graph *graph, struct qkv_tensor *x,
                                                enum qkv_activation activation);

/* ---- dense: activation(x W + b), [N, inputs] -> [N, outputs] ---- */

struct qkv_dense_options {
    int64_t inputs, outputs;
    bool bias;
    enum qkv_activation activation;
    struct qkv_initial initial; /* of the weight; biases start at 0 */
};

struct qkv_dense {
    const char *name;
    const struct qkv_parameter *weight, *bias; /* [inputs, outputs]; [outputs] or NULL */
    enum qkv_activation activation;
};

QKV_API void qkv_dense_init(struct qkv_dense *layer, struct qkv_parameters *parameters,
                            const struct qkv_dense_options *options, const char *name);
QKV_API struct qkv_tensor *qkv_dense_apply(const struct qkv_dense *layer, struct qkv_graph *graph,
                                           struct qkv_tensor *x);

/* ---- embedding: rows of a table, multiplied by sqrt(width) if `scale` (Vaswani et al. 2017, 3.4) ---- */

struct qkv_embedding_options {
    int64_t size;  /* rows of the table, one for each id */
    int64_t width; /* columns of the table */
    bool scale;
    struct qkv_initial initial;
};

struct qkv_embedding {
    const char *name;
    const struct qkv_parameter *table; /* [size, width]; tied layers share it */
    double factor;
};

QKV_API void qkv_embedding_init(struct qkv_embedding *layer, struct qkv_parameters *parameters,
                                const struct qkv_embedding_options *options, const char *name);
/* count ids -> [count, width]. As every op, it copies the ids: they need not outlive the call, except in a graph that
 * is rewound (qkv_graph_rewind), which reads them again. The graph fails for an id outside 0 .. size - 1. */
QKV_API struct qkv_tensor *qkv_embedding_apply(const struct qkv_embedding *layer, struct qkv_graph *graph,
                                               const int32_t *ids, int64_t count);

/* ---- positions: x + table[position], rotation of queries and keys, or the table of a distance bias ---- */

struct qkv_positions_options {
    enum qkv_position_kind kind;
    int64_t length; /* rows of the table. Positions of the longest sentence; relative: rule.buckets */
    int64_t width;  /* columns of the table. Width of x; rotary: key width per head; relative: rule.heads */
    double base;    /* sinusoidal, rotary: above 0 */
    struct qkv_initial initial; /* learned, relative */
};

struct qkv_positions {
    const char *name;
    enum qkv_position_kind kind;
    int64_t length, width;
    const struct qkv_parameter *table; /* learned, relative: [length, width]; else NULL */
    double base;                       /* sinusoidal, rotary */
    const struct qkv_table *sinusoids; /* sinusoidal, rotary: [length, width]; else NULL */
};

QKV_API void qkv_positions_init(struct qkv_positions *layer, struct qkv_parameters *parameters,
                                const struct qkv_positions_options *options, const char *name);
/* x [N, width] + table[position]: row i of each segment has position first[segment] + i (first NULL: all 0). `first` is read
 * now, and again in a rewound graph (qkv_graph_rewind), so that one graph can serve every step of decoding. Returns x itself
 * for rotary and relative positions, which work inside attention. The graph fails if a position is not below options.length. */
QKV_API struct qkv_tensor *qkv_positions_apply(const struct qkv_positions *layer, struct qkv_graph *graph,
                                               struct qkv_tensor *x, struct qkv_segments segments,
                                               const int64_t *first);

/* Rotary: rotates queries or keys [N, heads * width] by their positions, as above. Returns x itself for
 * other kinds and if layer is NULL. */
QKV_API struct qkv_tensor *qkv_positions_rotate(const struct qkv_positions *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *x, struct qkv_segments segments,
                                                const int64_t *first);

/* Column j of position p (Vaswani et al. 2017, 3.5): sin(p / base^(2i/width)) for j = 2i, cos of the same
 * for 2i + 1. The last column of an odd width has no partner and stays 0. */
QKV_API double qkv_sinusoid(int64_t position, int64_t column, int64_t width, double base);

/* ---- norm: layer norm or RMS norm of each row ---- */

struct qkv_norm_options {
    enum qkv_norm_kind kind;
    int64_t width;
    double epsilon;
};

struct qkv_norm {
    const char *name;
    enum qkv_norm_kind kind;
    const struct qkv_parameter *gain, *bias; /* [width]; bias is NULL for RMS norm */
    double epsilon;
};

QKV_API void qkv_norm_init(struct qkv_norm *layer, struct qkv_parameters *parameters,
                           const struct qkv_norm_options *options, const char *name);
QKV_API struct qkv_tensor *qkv_norm_apply(const struct qkv_norm *layer, struct qkv_graph *graph,
                                          struct qkv_tensor *x);

/* ---- inputs of attention: sentence i of `queries` attends to sentence i of `keys` ---- */

struct qkv_attention_inputs {
    struct qkv_tensor *x;        /* [Nq, D]: one query per row */
    struct qkv_tensor *memory;   /* [Nk, D]: one key and value per row; x itself for self-attention */
    struct qkv_tensor *mask;     /* which keys queries see, as for qkv_attention (ops.def); NULL: no mask */
    struct qkv_segments queries; /* the sentences in the rows of x */
    struct qkv_segments keys;    /* the sentences in the rows of memory */
};

/* The same after projection, of multi-head attention. */
struct qkv_attention_projections {
    struct qkv_tensor *query, *key, *value; /* [Nq, H K], [Nk, G K], [Nk, G V] */
    struct qkv_tensor *mask;
    struct qkv_segments queries, keys;
    struct qkv_tensor *gate; /* [Nq, H V]: of qkv_multi_head_gate; NULL: none */
};

/* ---- multi-head attention (Vaswani et al. 2017, 3.2) ---- query = x W_Q [Nq, H K], key = memory W_K
 * [Nk, G K], value = memory W_V [Nk, G V], with H = rule.heads and G key and value heads; context =
 * attention(query, key, value) [Nq, H V], result = context W_O [Nq, D]. With an output gate (Qiu et al. 2025), the context is
 * multiplied by sigmoid(x W_gate). With QK-norm (Henry et al. 2020), queries and keys are divided, head by head, by their root
 * mean square, and multiplied by learned gains, before positions rotate them. */

struct qkv_multi_head_options {
    struct qkv_attention_rule rule;
    int64_t width;                  /* D: of x, memory and result */
    int64_t key_width, value_width; /* K, V: per head, independent of D */
    bool bias;                      /* of the projections */
    bool output_gate;
    bool qk_norm;
    double norm_epsilon; /* of qk_norm */
    enum qkv_attention_sink sink;
    struct qkv_initial initial, output_initial;
    /* Self-attention: rotary positions rotate queries and keys; relative positions hold the bias that rule.buckets needs
     * (the graph fails without it). NULL: neither. Must outlive the layer. */
    const struct qkv_positions *positions;
};

struct qkv_multi_head {
    const char *name;
    struct qkv_attention_rule rule;
    struct qkv_dense query, key, value, output, gate; /* gate.weight NULL: no output gate */
    struct qkv_norm query_norm, key_norm;             /* gain [K], for all heads; NULL: no QK-norm */
    enum qkv_attention_sink sink;
    const struct qkv_parameter *sink_score; /* [H]: of a learned sink */
    const struct qkv_positions *positions;
    /* [H]: heads whose context is replaced by 0 in graphs built from now on; all false at first */
    bool *is_ablated;
};

QKV_API void qkv_multi_head_init(struct qkv_multi_head *layer, struct qkv_parameters *parameters,
                                 const struct qkv_multi_head_options *options, const char *name);
/* Returns the result [Nq, D]. Unless node is NULL, *node is set to the attention node, whose weights
 * qkv_attention_weights_of reads. */
QKV_API struct qkv_tensor *qkv_multi_head_apply(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                const struct qkv_attention_inputs *inputs,
                                                struct qkv_tensor **node);

/* The steps of qkv_multi_head_apply, for callers that cache or record projections. */

/* Project to queries [Nq, H K], keys [Nk, G K] and values [Nk, G V]. Rotary layers rotate queries and keys:
 * row i of each segment has position first[segment] + i, as for qkv_positions_rotate. */
QKV_API struct qkv_tensor *qkv_multi_head_query(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *x, struct qkv_segments segments,
                                                const int64_t *first);
QKV_API struct qkv_tensor *qkv_multi_head_key(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                              struct qkv_tensor *memory, struct qkv_segments segments,
                                              const int64_t *first);
QKV_API struct qkv_tensor *qkv_multi_head_value(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *memory);
/* The output gate of the rows with queries, [Nq, H V]; NULL: the layer has none. */
QKV_API struct qkv_tensor *qkv_multi_head_gate(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                               struct qkv_tensor *x);
/* Applies attention: the context of all heads, times the gate if there is one, 0 for ablated heads: [Nq, H V]. node as for
 * qkv_multi_head_apply. A sentence may have fewer queries than keys, as in decoding with a cache: its queries then have the
 * last positions. */
QKV_API struct qkv_tensor *qkv_multi_head_context(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                  const struct qkv_attention_projections *projections,
                                                  struct qkv_tensor **node);
/* The same with the output projection after it: [Nq, D]. */
QKV_API struct qkv_tensor *qkv_multi_head_attend(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                 const struct qkv_attention_projections *projections,
                                                 struct qkv_tensor **node);

/* ---- feed forward: activation(x W1 + b1) W2 + b2, with dropout after the activation. Gated (GLU; Shazeer 2020):
 * (activation(x W_gate + b_gate) * (x W1 + b1)) W2 + b2, with dropout after the product ---- */

struct qkv_feed_forward_options {
    int64_t width, inner_width; /* D, F */
    enum qkv_activation activation;
    double dropout;
    struct qkv_initial initial, output_initial;
    bool gated;
};

struct qkv_feed_forward {
    struct qkv_dense inner, outer, gate; /* gate.weight NULL: not gated */
    enum qkv_activation activation;
    double dropout;
};

QKV_API void qkv_feed_forward_init(struct qkv_feed_forward *layer, struct qkv_parameters *parameters,
                                   const struct qkv_feed_forward_options *options, const char *name);
QKV_API struct qkv_tensor *qkv_feed_forward_apply(const struct qkv_feed_forward *layer,
                                                  struct qkv_graph *graph, struct qkv_tensor *x);

/* ---- residual: the residual connection around a sublayer f ----
 * pre-norm: x + dropout(f(norm(x)));  post-norm: norm(x + dropout(f(x))) */

struct qkv_residual {
    struct qkv_norm norm;
    enum qkv_norm_place place;
    double dropout;
};

QKV_API void qkv_residual_init(struct qkv_residual *layer, struct qkv_parameters *parameters,
                               const struct qkv_norm_options *norm, enum qkv_norm_place place, double dropout,
                               const char *name);
/* The input of f: norm(x) for pre-norm, x for post-norm. */
QKV_API struct qkv_tensor *qkv_residual_input(const struct qkv_residual *layer, struct qkv_graph *graph,
                                              struct qkv_tensor *x);
/* Returns the output of the residual connection. result: f(qkv_residual_input(x)). */
QKV_API struct qkv_tensor *qkv_residual_output(const struct qkv_residual *layer, struct qkv_graph *graph,
                                               struct qkv_tensor *x, struct qkv_tensor *result);

/* ---- recurrent: a cell over complete sequences, [N, inputs] -> states [N, S] ---- S is the width H; for
 * an LSTM 2 H, the hidden state followed by the cell state. G gates of width H: 1 for tanh, 3 for a GRU,
 * 4 for an LSTM, in the order of ops.def. */

struct qkv_recurrent_options {
    enum qkv_cell cell;
    int64_t inputs, width;
    int64_t feed;       /* width of a second input (qkv_recurrent_add_input); 0: none */
    double forget_bias; /* initial bias of an LSTM's forget gates; other biases: 0 */
    /* Of the input weights and of the recurrent weights. Xavier counts the outputs of one gate only, though all
     * gates are columns of one matrix. */
    struct qkv_initial initial, recurrent;
};

struct qkv_recurrent {
    const char *name;
    enum qkv_cell cell;
    int64_t width;
    struct qkv_dense input;             /* [inputs, G H], [G H] */
    const struct qkv_parameter *weight; /* "<name>.recurrent.weight" [H, G H] */
    const struct qkv_parameter *bias;   /* GRU: "<name>.recurrent.bias" [H] */
    const struct qkv_parameter *feed;   /* "<name>.feed.weight" [feed, G H] or NULL */
};

QKV_API void qkv_recurrent_init(struct qkv_recurrent *layer, struct qkv_parameters *parameters,
                                const struct qkv_recurrent_options *options, const char *name);
/* Returns the width S of the states of a cell of width H; 0 for a cell that does not exist. */
QKV_API int64_t qkv_recurrent_state_width(enum qkv_cell cell, int64_t width);
/* The pre-activations of the gates before h W is added: x W + b [N, G H]. One product for all steps. */
QKV_API struct qkv_tensor *qkv_recurrent_gates(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                               struct qkv_tensor *x);
/* gates + feed W: adds the product of the second input [N, feed], such as the previous attentional vector
 * (Luong et al. 2015, 3.3). Only for layers with a feed. */
QKV_API struct qkv_tensor *qkv_recurrent_add_input(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                                   struct qkv_tensor *gates, struct qkv_tensor *feed);
/* Runs the cell over each sentence, from its last row to its first if `reverse`. initial: states [sentences, S]
 * before the first step; NULL: zeros. Row i of the result [N, S] is the state after row i. */
QKV_API struct qkv_tensor *qkv_recurrent_run(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                             struct qkv_tensor *gates, struct qkv_tensor *initial,
                                             struct qkv_segments segments, bool reverse);
/* The hidden states [N, H] of states [N, S]. */
QKV_API struct qkv_tensor *qkv_recurrent_hidden(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *states);

/* ---- single-head attention, with any score of enum qkv_attention_score except QKV_ATTENTION_SCORE_NONE ----
 * For each row of x [Nq, Q], such as a decoder's hidden state, the weighted sum of the rows of a memory
 * [Nk, M]: the context [Nq, M]. Scores: Luong et al. 2015; additive: Bahdanau et al. 2015. */

struct qkv_single_head_attention_options {
    enum qkv_attention_score score;
    int64_t query_width, memory_width; /* Q, M; equal for dot */
    int64_t key_width;                 /* K: for scaled_dot, additive, concat and the position of local_p */
    int64_t local_window;              /* local_p: keys on each side of the predicted position */
    double dropout;                    /* on the weights */
    struct qkv_initial initial;
};

struct qkv_single_head_attention {
    const char *name;
    enum qkv_attention_score score;
    int64_t query_width, memory_width, local_window;
    double dropout;
    struct qkv_dense query, key;        /* "query.weight" [Q, K], "key.weight" [M, K or Q] */
    const struct qkv_parameter *vector; /* additive, concat: [K] */
    const struct qkv_parameter *joint;  /* concat: [Q + M, K] */
    /* local_p: weights [Q, K] and [K, 1], which predict the center of the window as a fraction of the sentence's
     * length: sigmoid(place_vector tanh(place x)). */
    struct qkv_dense place, place_vector;
    bool *is_ablated; /* [1]: replace the context by 0, as in struct qkv_multi_head */
};

QKV_API void qkv_single_head_attention_init(struct qkv_single_head_attention *layer,
                                            struct qkv_parameters *parameters,
                                            const struct qkv_single_head_attention_options *options,
                                            const char *name);
/* The keys of a memory [Nk, M]: [Nk, K]; for general and local_p [Nk, Q], for dot the memory itself. A decoder
 * that runs step by step computes them once per sentence. */
QKV_API struct qkv_tensor *qkv_single_head_attention_keys(const struct qkv_single_head_attention *layer,
                                                          struct qkv_graph *graph, struct qkv_tensor *memory);
/* Returns the context [Nq, M]. key: from qkv_single_head_attention_keys(inputs->memory). The values of
 * inputs->mask are 1 (visible) and 0 (hidden); local_p takes no mask: with one, the graph fails. Unless node is
 * NULL, *node is set to the node whose weights qkv_attention_weights_of reads. */
QKV_API struct qkv_tensor *qkv_single_head_attention_apply(const struct qkv_single_head_attention *layer,
                                                           struct qkv_graph *graph, struct qkv_tensor *key,
                                                           const struct qkv_attention_inputs *inputs,
                                                           struct qkv_tensor **node);

enum qkv_layer_id {
#define LAYER(name) QKV_LAYER_##name,
#include "qkv/layers.def"
#undef LAYER
    QKV_LAYER_COUNT
};

#endif
