/* Layers: parameters with names, and a function that applies them to tensors.
 *
 * All follow one pattern. qkv_<layer>_init(layer, parameters, options, name) declares the layer's parameters
 * as
 * "<name>.weight" and so on (before qkv_parameters_allocate; it cannot fail by itself, lack of memory shows
 * there). qkv_<layer>_apply(layer, graph, x, ...) records the ops. A layer owns nothing and needs no release;
 * it must outlive the graphs that it is used in. N rows are the packed tokens of a batch.
 *
 * Initialisers of weights: xavier as in parameters.h; normal and uniform are divided by sqrt(inputs), for
 * embedding tables by sqrt(width). */
#ifndef QKV_LAYERS_H
#define QKV_LAYERS_H

#include "qkv/config.h"
#include "qkv/ops.h"
#include "qkv/parameters.h"

/* Dropout where the graph drops out and rate > 0, else x itself. */
QKV_API struct qkv_tensor *qkv_dropout_apply(struct qkv_graph *graph, struct qkv_tensor *x, double rate);

/* The activation's op; x itself for NONE. */
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

/* ---- embedding: rows of a table, times sqrt(width) where scaled (Vaswani et al. 2017, 3.4) ---- */

struct qkv_embedding_options {
    int64_t size, width; /* C, D */
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
/* count ids -> [count, width]; the ids must outlive the graph's nodes. */
QKV_API struct qkv_tensor *qkv_embedding_apply(const struct qkv_embedding *layer, struct qkv_graph *graph,
                                               const int32_t *ids, int64_t count);

/* ---- positions: x + table[position], or what self attention makes of distances ---- */

struct qkv_positions_options {
    enum qkv_position_kind kind;
    int64_t length;             /* rows of the table: no sentence may be longer; relative: buckets */
    int64_t width;              /* its columns: those of x; rotary: of the keys of a head; relative: heads */
    double base;                /* sinusoidal, rotary */
    struct qkv_initial initial; /* learned, relative */
};

struct qkv_positions {
    const char *name;
    enum qkv_position_kind kind;
    int64_t length, width;
    const struct qkv_parameter *table; /* learned, relative: [length, width] */
    void *sinusoids[2]; /* sinusoidal, rotary: [length, width], by dtype; lives with the parameters */
};

QKV_API void qkv_positions_init(struct qkv_positions *layer, struct qkv_parameters *parameters,
                                const struct qkv_positions_options *options, const char *name);
/* x [N, width]: row i of each segment gets position first + i. x itself for the kinds that work in attention.
 */
QKV_API struct qkv_tensor *qkv_positions_apply(const struct qkv_positions *layer, struct qkv_graph *graph,
                                               struct qkv_tensor *x, struct qkv_segments segments,
                                               const int64_t *first);

/* rotary: turns queries or keys [N, heads * width], likewise; x itself for the other kinds and where layer is
 * NULL. */
QKV_API struct qkv_tensor *qkv_positions_rotate(const struct qkv_positions *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *x, struct qkv_segments segments,
                                                const int64_t *first);

/* Column j of position p (Vaswani et al. 2017, 3.5): sin(p / base^(2i/width)) for j = 2i, cos of the same for
 * 2i + 1. The last column of an odd width has no partner and stays 0. */
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

/* ---- multi-head attention (Vaswani et al. 2017, 3.2) ----
 * query = x W_Q [Nq, H K], key = memory W_K [Nk, G K], value = memory W_V [Nk, G V], result = mix W_O [Nq,
 * D]. */

struct qkv_multi_head_options {
    struct qkv_attention_rule rule;
    int64_t width;                  /* D: of x, memory and result */
    int64_t key_width, value_width; /* K, V: per head, independent of D */
    bool bias;                      /* of the four projections */
    struct qkv_initial initial, output_initial;
    /* Self attention: rotary positions rotate queries and keys, relative positions hold the bias that
     * rule.buckets needs. NULL: neither. Must outlive the layer. */
    const struct qkv_positions *positions;
};

struct qkv_multi_head {
    const char *name;
    struct qkv_attention_rule rule;
    struct qkv_dense query, key, value, output;
    const struct qkv_positions *positions;
};

QKV_API void qkv_multi_head_init(struct qkv_multi_head *layer, struct qkv_parameters *parameters,
                                 const struct qkv_multi_head_options *options, const char *name);
/* Each sentence of `queries` (rows of x) attends to the same sentence of `keys` (rows of memory; x itself for
 * self attention). mask: NULL, or as for qkv_attention. The attention node, whose weights can be read, is
 * stored in *node where node is not NULL. */
QKV_API struct qkv_tensor *qkv_multi_head_apply(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *x, struct qkv_tensor *memory,
                                                struct qkv_tensor *mask, struct qkv_segments queries,
                                                struct qkv_segments keys, struct qkv_tensor **node);
/* The projections alone, [N, H K], [N, G K] and [N, G V]; row i of each segment has position first + i. */
QKV_API struct qkv_tensor *qkv_multi_head_query(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *x, struct qkv_segments segments,
                                                const int64_t *first);
QKV_API struct qkv_tensor *qkv_multi_head_key(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                              struct qkv_tensor *memory, struct qkv_segments segments,
                                              const int64_t *first);
QKV_API struct qkv_tensor *qkv_multi_head_value(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *memory);
/* The part behind the projections: key and value are given, as from a cache. The queries of a sentence may be
 * fewer than its keys: they are the last ones. */
QKV_API struct qkv_tensor *qkv_multi_head_attend(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                                 struct qkv_tensor *query, struct qkv_tensor *key,
                                                 struct qkv_tensor *value, struct qkv_tensor *mask,
                                                 struct qkv_segments queries, struct qkv_segments keys,
                                                 struct qkv_tensor **node);

/* ---- feed forward: activation(x W1 + b1) W2 + b2, with dropout after the activation ---- */

struct qkv_feed_forward_options {
    int64_t width, inner_width; /* D, F */
    enum qkv_activation activation;
    double dropout;
    struct qkv_initial initial, output_initial;
};

struct qkv_feed_forward {
    struct qkv_dense inner, outer;
    enum qkv_activation activation;
    double dropout;
};

QKV_API void qkv_feed_forward_init(struct qkv_feed_forward *layer, struct qkv_parameters *parameters,
                                   const struct qkv_feed_forward_options *options, const char *name);
QKV_API struct qkv_tensor *qkv_feed_forward_apply(const struct qkv_feed_forward *layer,
                                                  struct qkv_graph *graph, struct qkv_tensor *x);

/* ---- residual: what stands around each sub-layer f ----
 * pre-norm:  x + dropout(f(norm(x)));  post-norm: norm(x + dropout(f(x))) */

struct qkv_residual {
    struct qkv_norm norm;
    enum qkv_norm_place place;
    double dropout;
};

QKV_API void qkv_residual_init(struct qkv_residual *layer, struct qkv_parameters *parameters,
                               const struct qkv_norm_options *norm, enum qkv_norm_place place, double dropout,
                               const char *name);
/* What f is applied to. */
QKV_API struct qkv_tensor *qkv_residual_enter(const struct qkv_residual *layer, struct qkv_graph *graph,
                                              struct qkv_tensor *x);
/* x with what f made of it. */
QKV_API struct qkv_tensor *qkv_residual_leave(const struct qkv_residual *layer, struct qkv_graph *graph,
                                              struct qkv_tensor *x, struct qkv_tensor *result);

/* ---- recurrent: a cell over whole sequences, [N, inputs] -> states [N, S] ----
 * S is the width H, for an LSTM 2 H: the hidden state and behind it the memory cell. G gates of width H: 1 of
 * tanh, 3 of a GRU, 4 of an LSTM, in the order of ops.def. */

struct qkv_recurrent_options {
    enum qkv_cell cell;
    int64_t inputs, width;
    int64_t feed;                          /* width of a second input, which comes step by step; 0: none */
    double forget_bias;                    /* where the forget gates of an LSTM start; other biases: 0 */
    struct qkv_initial initial, recurrent; /* xavier counts the outputs of one gate */
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
/* S of a cell of width H. */
QKV_API int64_t qkv_recurrent_states(enum qkv_cell cell, int64_t width);
/* Input products of all rows at once, [N, G H]; and with the product of the second input [N, feed] added. */
QKV_API struct qkv_tensor *qkv_recurrent_gates(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                               struct qkv_tensor *x);
QKV_API struct qkv_tensor *qkv_recurrent_feed(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                              struct qkv_tensor *gates, struct qkv_tensor *feed);
/* Runs the cell through each sentence, backwards where `reverse`, from `initial` [sentences, S] or zeros. */
QKV_API struct qkv_tensor *qkv_recurrent_run(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                             struct qkv_tensor *gates, struct qkv_tensor *initial,
                                             struct qkv_segments segments, bool reverse);
/* The hidden states [N, H] of states [N, S]. */
QKV_API struct qkv_tensor *qkv_recurrent_hidden(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                                struct qkv_tensor *states);

/* ---- scored attention: one head, scores of any kind but none ----
 * What h [Nq, Q] finds in a memory [Nk, M]: sum of weight * memory row, [Nq, M]. */

struct qkv_single_head_attention_options {
    enum qkv_attention_score score;
    int64_t query_width, memory_width; /* Q, M; equal for dot */
    int64_t key_width;                 /* K of scaled_dot, additive, concat and the place of local_p */
    int64_t window;                    /* local_p: D */
    double dropout;                    /* on the weights */
    struct qkv_initial initial;
};

struct qkv_single_head_attention {
    const char *name;
    enum qkv_attention_score score;
    int64_t query_width, memory_width, window;
    double dropout;
    struct qkv_dense query, key;          /* "query.weight" [Q, K], "key.weight" [M, K or Q] */
    const struct qkv_parameter *vector;   /* additive, concat: [K] */
    const struct qkv_parameter *joint;    /* concat: [Q + M, K] */
    struct qkv_dense place, place_vector; /* local_p: [Q, K], [K, 1] */
};

QKV_API void qkv_single_head_attention_init(struct qkv_single_head_attention *layer,
                                            struct qkv_parameters *parameters,
                                            const struct qkv_single_head_attention_options *options,
                                            const char *name);
/* What the memory is looked up by; once for all queries. */
QKV_API struct qkv_tensor *qkv_single_head_attention_keys(const struct qkv_single_head_attention *layer,
                                                          struct qkv_graph *graph, struct qkv_tensor *memory);
/* Each sentence of `queries` looks at the same sentence of `keys`; both need segments. The node whose weights
 * qkv_attention_weights_of reads is stored in *node where node is not NULL. */
QKV_API struct qkv_tensor *qkv_single_head_attention_apply(const struct qkv_single_head_attention *layer,
                                                           struct qkv_graph *graph, struct qkv_tensor *h,
                                                           struct qkv_tensor *keys, struct qkv_tensor *memory,
                                                           struct qkv_segments queries,
                                                           struct qkv_segments key_segments,
                                                           struct qkv_tensor **node);

/* ---- the table of layers, for the gradient check ---- */

/* A layer with certain options, applied to one or two random inputs (rank 0: none). */
struct qkv_layer_sample {
    const char *name;
    const void *options;
    struct qkv_shape input[2];
    struct qkv_segments segments[2];
};

struct qkv_layer_interface {
    const char *name;
    size_t size;
    void (*init)(void *layer, struct qkv_parameters *parameters, const void *options, const char *name);
    struct qkv_tensor *(*apply)(const void *layer, struct qkv_graph *graph, struct qkv_tensor *const *input,
                                const struct qkv_layer_sample *sample);
    const struct qkv_layer_sample *samples; /* ends with a NULL name */
};

enum qkv_layer_id {
#define LAYER(name) QKV_LAYER_##name,
#include "qkv/layers.def"
#undef LAYER
    QKV_LAYER_COUNT
};

QKV_API const struct qkv_layer_interface *qkv_layer_interface(enum qkv_layer_id layer);

#endif
