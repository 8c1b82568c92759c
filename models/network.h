/* Private to models/: what the networks share. */
#ifndef QKV_MODELS_NETWORK_H
#define QKV_MODELS_NETWORK_H

#include "qkv/arena.h"
#include "qkv/layers.h"
#include "qkv/model.h"

/* What the decodings of all networks have. It is the first member of the network's own struct,
 * which qkv_decoding_new allocates zeroed. */
struct qkv_decoding {
    const struct qkv_decoding_interface *interface;
    const struct qkv_model *model; /* of an ensemble: the first */
    int64_t longest;               /* tokens with </s> that the decoder has positions for */
    struct qkv_graph *encoder;     /* runs once per batch; NULL: an ensemble */
    struct qkv_graph *decoder;     /* runs once per step; NULL: an ensemble */
    struct qkv_arena arena;        /* arrays that the network allocates per batch */
    size_t number_size;            /* bytes of one number of the model's dtype */
    bool sums;                     /* also compute next.sums */
    int64_t rows, length;          /* capacity: hypotheses, steps; 0 before qkv_decoding_start */
    int64_t sentences;             /* of the batch */
    int64_t step;                  /* steps done */
    int64_t active;                /* rows of the last step or reordering: the next step has no more */
    bool misused;                  /* qkv_decoding_reorder was refused; later steps fail */
    struct qkv_next_scores next;   /* result of the last step; its arrays are tensors of `decoder` */
};

extern const struct qkv_network_interface qkv_network_transformer, qkv_network_recurrent;

/* Appends `node` to the trace as a part with this role; copies the other fields (stack, attention,
 * layer, heads) from `owner`. Does nothing when trace or node is NULL. */
void qkv_trace_record(struct qkv_trace *trace, struct qkv_graph *graph, const struct qkv_part *owner,
                      enum qkv_part_role role, struct qkv_tensor *node);

/* hidden states [N, D] -> logits [N, C] */
struct qkv_tensor *qkv_model_logits(const struct qkv_model *model, struct qkv_graph *graph,
                                    struct qkv_tensor *hidden);

/* Adds the output layer to the graph of a step and plans its memory: hidden states [rows, D] ->
 * decoding->next, whose numbers are valid when the graph has run. */
void qkv_decoding_add_output(struct qkv_decoding *decoding, struct qkv_tensor *hidden);

#endif
