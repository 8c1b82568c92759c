/* Private: the layers of the transformer, which the encoder-decoder (transformer.c) and the decoder alone (decoder_only.c)
 * share. */
#pragma once

#include "models/network.h"

/* An attention layer with its residual connection. */
struct attention_sublayer {
    struct qkv_multi_head attention;
    struct qkv_residual residual;
    struct qkv_part owner; /* stack, layer, kind and heads, for the trace */
};

/* One layer of a stack: self-attention, in the decoder cross-attention, then feed forward, unless ff_size is 0. */
struct transformer_layer {
    struct attention_sublayer self, cross; /* cross: only where the stack has it */
    bool has_feed_forward;                 /* else its two are not set */
    struct qkv_feed_forward feed_forward;
    struct qkv_residual feed_forward_residual;
    struct qkv_part owner; /* stack and layer, for the trace */
};

struct transformer_stack {
    struct qkv_embedding embedding;
    struct qkv_positions positions;
    struct transformer_layer *layers; /* [layer_count] */
    int64_t layer_count;
    bool has_cross;             /* its layers have cross-attention */
    bool has_prefix;            /* its self-attention sees the source as well (decoder_only.c) */
    struct qkv_norm final_norm; /* pre-norm stacks end with a norm */
    bool has_final_norm;
    double embedding_dropout, word_dropout;
    struct qkv_part owner; /* stack, for the trace */
};

/* The data of both networks made of these layers. The encoder of a decoder alone has no layers in a language model; in a
 * translator, it is the pass of the decoder's own layers over the source. */
struct transformer {
    struct transformer_stack encoder, decoder;
};

/* Declares a stack by the config of the encoder or the decoder. shared: the embedding of the other stack, if the two are tied;
 * else NULL. */
void qkv_transformer_declare_stack(struct qkv_model *model, struct transformer_stack *stack, bool is_decoder,
                                   bool has_cross, const struct qkv_embedding *shared);

/* What the self-attention of a decoder alone sees besides its own tokens, the source of each sentence: the keys and values
 * that `trace` has of each layer. */
struct qkv_source_prefix {
    const struct qkv_trace *trace;
    /* [count]: sentence by sentence, the rows of its source and then those of its target, in all sources [Ns] followed by all
     * targets [Nt]; count = Ns + Nt. */
    const int32_t *rows;
    int64_t count;
    struct qkv_segments sentences; /* of these rows */
    struct qkv_tensor *mask;       /* [count]; NULL: nothing is masked */
    const int64_t *first;          /* positions of the first target tokens; NULL: 0 */
};

/* What a stack reads: `count` packed tokens, whose sentences are the segments `own`, and, if it has cross-attention, `memory`,
 * or, if it has a prefix, that. The masks are those of qkv_source_mask, or NULL. */
struct qkv_transformer_inputs {
    const int32_t *ids;
    int64_t count;
    struct qkv_segments own, memory_segments;
    struct qkv_tensor *own_mask, *memory, *memory_mask;
    const struct qkv_source_prefix *prefix;
    bool keys_only; /* stops at the keys and values of the last layer, and returns NULL */
};

/* All layers of a stack: [count, D]. */
struct qkv_tensor *qkv_transformer_apply_stack(const struct transformer_stack *stack, struct qkv_graph *graph,
                                               const struct qkv_transformer_inputs *inputs,
                                               struct qkv_trace *trace);

/* All layers of network->encoder on the sources of a batch: [Ns, D]. mask: qkv_source_mask. keys_only: see above. */
struct qkv_tensor *qkv_transformer_encode(const struct transformer *network, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch, struct qkv_tensor *mask,
                                          bool keys_only, struct qkv_trace *trace);

/* The functions of struct qkv_network_interface, and its decoding, for a model whose data is a struct transformer. */
struct qkv_attention_layers qkv_transformer_attention(const struct qkv_model *model,
                                                      enum qkv_attention_kind kind, int64_t layer);
struct qkv_input_layers qkv_transformer_inputs(const struct qkv_model *model, enum qkv_stack_id stack);
extern const struct qkv_decoding_interface qkv_transformer_decoding;
