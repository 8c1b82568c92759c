/* What the networks share. */
#ifndef QKV_MODELS_NETWORK_H
#define QKV_MODELS_NETWORK_H

#include "qkv/arena.h"
#include "qkv/layers.h"
#include "qkv/model.h"

/* Every decoding begins with these; the network's own state follows, all zero at first, and what that refers
 * to is in the arena. */
struct qkv_decoding {
    const struct qkv_model *model;
    struct qkv_graph *encoder, *decoder; /* of a batch, of a step */
    struct qkv_arena arena;              /* of a batch */
    size_t size;                         /* of a number */
    bool sums;                           /* whether steps give them */
    struct qkv_next_scores next;
};

extern const struct qkv_network_interface qkv_network_transformer, qkv_network_recurrent;

/* Adds `node` to the trace with this role; the other fields are those of `place`. Does nothing when trace or
 * node is NULL. */
void qkv_trace_record(struct qkv_trace *trace, struct qkv_graph *graph, const struct qkv_part *place,
                      enum qkv_part_role role, struct qkv_tensor *node);

/* Logits [N, C] of hidden states [N, D]. */
struct qkv_tensor *qkv_model_logits(const struct qkv_model *model, struct qkv_graph *graph,
                                    struct qkv_tensor *hidden);

/* The end of a step's graph: scores of the next token from the hidden states [rows, D]. They have values once
 * the graph has run. */
void qkv_decoding_finish(struct qkv_decoding *decoding, struct qkv_tensor *hidden);

#endif
