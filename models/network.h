/* What the networks share. */
#ifndef QKV_MODELS_NETWORK_H
#define QKV_MODELS_NETWORK_H

#include "qkv/layers.h"
#include "qkv/model.h"

/* Every decoding begins with these; the network's own state follows. */
struct qkv_decoding {
    const struct qkv_model *model;
    struct qkv_graph *encoder, *decoder; /* of a batch, of a step */
    struct qkv_next next;
};

extern const struct qkv_network_kind qkv_network_transformer, qkv_network_recurrent;

/* Logits [N, C] of hidden states [N, D]. */
struct qkv_tensor *qkv_model_logits(const struct qkv_model *model, struct qkv_graph *graph,
                                    struct qkv_tensor *hidden);

/* The end of a step's graph: scores of the next token from the hidden states [rows, D]. They have values once
 * the graph has run. */
void qkv_decoding_finish(struct qkv_decoding *decoding, struct qkv_tensor *hidden);

/* A graph to decode with: the model's parameters, no gradients, no dropout. NULL when memory is out. */
struct qkv_graph *qkv_decoding_graph(const struct qkv_model *model);

#endif
