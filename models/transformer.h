/* The layers of the transformer (models/transformer_layers.c), for the forced pass (transformer.c)
 * and for decoding (transformer_decoding.c).
 *
 * D: width; N: tokens of a batch, packed one sentence after another; Ns: of its sources; Nq, Nk:
 * tokens with queries, with keys. An `owner` is a struct qkv_part that says which stack or layer
 * tensors belong to; qkv_trace_record copies it and sets role and node. */
#ifndef QKV_MODELS_TRANSFORMER_H
#define QKV_MODELS_TRANSFORMER_H

#include "qkv/network.h"

/* An attention layer with its residual connection. */
struct attention_sublayer {
    struct qkv_multi_head attention;
    struct qkv_residual residual;
    struct qkv_part owner; /* stack, layer, kind and heads, for the trace */
};

/* One layer of a stack: self-attention, in the decoder cross-attention, then feed forward. */
struct transformer_layer {
    struct attention_sublayer self, cross; /* cross: only in the decoder */
    struct qkv_feed_forward feed_forward;
    struct qkv_residual feed_forward_residual;
    struct qkv_part owner; /* stack and layer, for the trace */
};

struct transformer_stack {
    struct qkv_embedding embedding;
    struct qkv_positions positions;
    struct transformer_layer *layers; /* [layer_count] */
    int64_t layer_count;
    struct qkv_norm final_norm; /* pre-norm stacks end with a norm */
    bool has_final_norm;
    double embedding_dropout, word_dropout;
    struct qkv_part owner; /* stack, for the trace */
};

struct transformer {
    struct transformer_stack encoder, decoder;
};

/* As qkv_network_interface.declare. */
void *qkv_transformer_declare(struct qkv_model *model, struct qkv_error *error);

/* Token ids -> embeddings with positions and dropout, [count, D]. A segment is the rows of
 * one sentence; its first token has position *first, which is read when the graph runs, or 0 when
 * first is NULL. trace may be NULL. */
struct qkv_tensor *qkv_transformer_embed(const struct transformer_stack *stack, struct qkv_graph *graph,
                                         const int32_t *ids, int64_t count, struct qkv_segments segments,
                                         const int64_t *first, struct qkv_trace *trace);

/* Attention with its residual connection over packed sentences: inputs->x [Nq, D] -> [Nq, D]. inputs->memory NULL:
 * self-attention. trace may be NULL. */
struct qkv_tensor *qkv_transformer_attend(const struct attention_sublayer *sublayer, struct qkv_graph *graph,
                                          const struct qkv_attention_inputs *inputs, struct qkv_trace *trace);

/* All encoder layers on the sources of a batch: [Ns, D]. mask: qkv_source_mask. trace may be NULL. */
struct qkv_tensor *qkv_transformer_encode(const struct transformer *network, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch, struct qkv_tensor *mask,
                                          struct qkv_trace *trace);

/* The feed-forward part of a layer with its residual connection: [N, D] -> [N, D]. trace may be
 * NULL. */
struct qkv_tensor *qkv_transformer_feed_forward(const struct transformer_layer *layer,
                                                struct qkv_graph *graph, struct qkv_tensor *x,
                                                struct qkv_trace *trace);

/* The norm after the last layer of a pre-norm stack; x itself for post-norm. trace may be NULL. */
struct qkv_tensor *qkv_transformer_finish(const struct transformer_stack *stack, struct qkv_graph *graph,
                                          struct qkv_tensor *x, struct qkv_trace *trace);

/* models/transformer_decoding.c */
extern const struct qkv_decoding_interface qkv_transformer_decoding;

#endif
