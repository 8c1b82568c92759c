/* Private to models/: what the networks share. */
#ifndef QKV_MODELS_NETWORK_H
#define QKV_MODELS_NETWORK_H

#include "qkv/arena.h"
#include "qkv/layers.h"
#include "qkv/model.h"

/* The first member of each network's decoding struct, whose other members start zeroed. */
struct qkv_decoding {
    const struct qkv_model *model;
    struct qkv_graph *encoder; /* of a batch */
    struct qkv_graph *decoder; /* of a step */
    struct qkv_arena arena;    /* what the network allocates for a batch */
    size_t size;               /* bytes of a number */
    bool sums;                 /* compute next.sums */
    struct qkv_next_scores next;
};

extern const struct qkv_network_interface qkv_network_transformer, qkv_network_recurrent;

/* Adds `node` to the trace with this role; the other fields are those of `place`. Does nothing when
 * trace or node is NULL. */
void qkv_trace_record(struct qkv_trace *trace, struct qkv_graph *graph, const struct qkv_part *place,
                      enum qkv_part_role role, struct qkv_tensor *node);

/* hidden states [N, D] -> logits [N, C] */
struct qkv_tensor *qkv_model_logits(const struct qkv_model *model, struct qkv_graph *graph,
                                    struct qkv_tensor *hidden);

/* Ends the graph of a step: hidden states [rows, D] -> decoding->next, whose numbers are valid when
 * the graph has run. */
void qkv_decoding_finish(struct qkv_decoding *decoding, struct qkv_tensor *hidden);

#endif
