/* The layers of the transformer, shared by the forced pass and by decoding. */
#ifndef QKV_MODELS_TRANSFORMER_H
#define QKV_MODELS_TRANSFORMER_H

#include "models/network.h"

/* One layer of a stack: self attention, in the decoder cross attention, feed forward; each with its residual.
 */
struct block {
    struct qkv_multi_head self, cross;
    struct qkv_feed_forward feed_forward;
    struct qkv_residual self_residual, cross_residual, feed_forward_residual;
};

struct stack {
    struct qkv_embedding embedding;
    struct qkv_positions positions;
    struct block *blocks; /* [layers] */
    int64_t layers;
    struct qkv_norm final_norm; /* pre-norm stacks end with one */
    bool normed;
    double embedding_dropout;
    const char *name;
};

struct transformer {
    struct stack encoder, decoder;
};

/* ids -> embedded tokens with positions, [count, D]; the first token of each segment has position `first`. */
struct qkv_tensor *qkv_transformer_embed(const struct stack *stack, struct qkv_graph *graph,
                                         const int32_t *ids, int64_t count, struct qkv_segments segments,
                                         const int64_t *first);

/* All encoder layers: [Ns, D]. */
struct qkv_tensor *qkv_transformer_encode(const struct transformer *network, struct qkv_graph *graph,
                                          const int32_t *ids, int64_t count, struct qkv_segments segments,
                                          struct qkv_trace *trace);

/* The feed-forward sub-layer with its residual. */
struct qkv_tensor *qkv_transformer_feed_forward(const struct block *block, struct qkv_graph *graph,
                                                struct qkv_tensor *x);

/* The norm behind the last layer of a pre-norm stack. */
struct qkv_tensor *qkv_transformer_finish(const struct stack *stack, struct qkv_graph *graph,
                                          struct qkv_tensor *x);

/* models/transformer_decoding.c */
extern const struct qkv_decoding_interface qkv_transformer_decoding;

#endif
