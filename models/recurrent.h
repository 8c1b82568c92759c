/* The layers of the recurrent network (models/recurrent_layers.c), for the forced pass
 * (recurrent.c, with input feeding recurrent_steps.c) and for decoding (recurrent_decoding.c). */
#ifndef QKV_MODELS_RECURRENT_H
#define QKV_MODELS_RECURRENT_H

#include "models/network.h"

/* One layer of the encoder: a cell for each direction in which it reads. */
struct encoder_layer {
    struct qkv_recurrent direction[2]; /* first the only one, or forward, then backward */
};

struct decoder_layer {
    struct qkv_recurrent cell;
    struct qkv_dense bridge; /* summary [B, M] -> initial state [B, S]; for init_hidden: bridge */
};

/* M: width of the encoder's memory, the hidden states of all directions side by side. */
struct recurrent {
    struct qkv_embedding source_embedding, target_embedding;
    struct encoder_layer *encoder; /* [encoder layers] */
    struct decoder_layer *decoder; /* [decoder layers] */
    int directions;                /* of the encoder: 1 or 2 */
    bool has_attention;
    struct qkv_single_head_attention attention; /* where has_attention is true, as is attentional */
    struct qkv_dense attentional; /* tanh([h; context] W), [H + M] -> [H] (Luong et al. 2015, equation 5) */
};

/* What the encoder gives to the decoder; B sentences of Ns tokens together. */
struct encoded_source {
    struct qkv_segments segments;
    struct qkv_tensor *memory;   /* [Ns, M]: hidden states of the top layer, directions side by side */
    struct qkv_tensor *keys;     /* [Ns, any]: what queries are compared with; NULL without attention */
    struct qkv_tensor *summary;  /* [B, M]: last hidden state of each direction of the top layer */
    struct qkv_tensor **initial; /* [decoder layers]: initial states [B, S]; NULL: zeros */
};

/* Nodes of the attention in a forced pass, one row a decoder step; all NULL without attention. */
struct attention_record {
    struct qkv_tensor *weights; /* the node that qkv_attention_weights_of reads */
    struct qkv_tensor *states;  /* [rows, H]: hidden states of the top layer, which are the queries */
    struct qkv_tensor *context; /* [rows, M] */
};

/* As qkv_network_interface.declare. */
void *qkv_recurrent_declare(struct qkv_model *model);

/* Runs the encoder. Errors are in the graph; memory is NULL then. trace may be NULL. */
struct encoded_source qkv_recurrent_encode(const struct qkv_model *model, struct qkv_graph *graph,
                                           const int32_t *ids, int64_t count, struct qkv_segments segments,
                                           struct qkv_trace *trace);

/* Whether each step is fed the summary: input feeding without attention (Cho et al. 2014). */
bool qkv_recurrent_feeds_summary(const struct qkv_model *model);

/* Whether each step is fed the previous attentional vector: input feeding with attention (Luong et
 * al. 2015, 3.3). */
bool qkv_recurrent_feeds_steps(const struct qkv_model *model);

/* Target ids -> input products of the first decoder layer, [count, G H]. Stores the embeddings
 * [count, E] in *embedded, unless that is NULL. */
struct qkv_tensor *qkv_recurrent_embed(const struct qkv_model *model, struct qkv_graph *graph,
                                       const int32_t *ids, int64_t count, struct qkv_tensor **embedded);

/* Runs the decoder layers and the attention over the rows of `queries`: complete sentences, or one
 * step of each. */
struct decoder_input {
    struct qkv_tensor *gates;    /* [rows, G H] of qkv_recurrent_embed, with what is fed */
    struct qkv_tensor **state;   /* [layers]: in: initial states [B, S], NULL: zeros; out: of all rows */
    struct qkv_segments queries; /* of the rows */
    const struct encoded_source *source;
    struct qkv_segments keys; /* of source->memory: sentence i of queries attends to sentence i of keys */
};

/* Returns the attentional vectors, without attention the hidden states of the top layer: [rows, H].
 * Fills *record, unless that is NULL. */
struct qkv_tensor *qkv_recurrent_decode(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct decoder_input *input, struct attention_record *record);

/* What a forced pass of the decoder leaves for the trace. */
struct decoder_record {
    struct qkv_tensor *embedded; /* [Nt, E] */
    struct attention_record attention;
};

/* models/recurrent_steps.c: the forced pass with input feeding, step by step: [Nt, H]. record may
 * be NULL. */
struct qkv_tensor *qkv_recurrent_by_steps(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch,
                                          const struct encoded_source *source, struct decoder_record *record);

/* models/recurrent_decoding.c */
extern const struct qkv_decoding_interface qkv_recurrent_decoding;

#endif
