/* The layers of the recurrent network, shared by the forced pass and by decoding. */
#ifndef QKV_MODELS_RECURRENT_H
#define QKV_MODELS_RECURRENT_H

#include "models/network.h"

/* One layer of the encoder: a cell for each direction that it reads in. */
struct encoder_layer {
    struct qkv_recurrent way[2];
};

struct decoder_layer {
    struct qkv_recurrent cell;
    struct qkv_dense bridge; /* summary [B, M] -> state [B, S]; init_hidden bridge */
};

struct recurrent {
    struct qkv_embedding source_embedding, target_embedding;
    struct encoder_layer *encoder; /* [encoder layers] */
    struct decoder_layer *decoder; /* [decoder layers] */
    int ways;                      /* directions that the encoder reads in */
    struct qkv_single_head_attention attention;
    struct qkv_dense attention_vector; /* [h; context] [H + M] -> tanh [H] (Luong et al. 2015, equation 5) */
    bool attends;
};

/* What the decoder knows of the sources; B sentences. */
struct source {
    struct qkv_segments segments;
    struct qkv_tensor
        *memory;             /* [Ns, M]: top hidden states, directions beside each other; M is their width */
    struct qkv_tensor *keys; /* what memory is looked up by; NULL without attention */
    struct qkv_tensor *summary;  /* [B, M]: the hidden state that each direction of the top layer ends in */
    struct qkv_tensor **initial; /* [decoder layers]: [B, S], or NULL for zeros */
};

/* What a pass leaves of its attention, row by row of the decoder; NULL without attention. */
struct looked {
    struct qkv_tensor *weights; /* the node that qkv_attention_weights_of reads */
    struct qkv_tensor *states;  /* [rows, H]: of the top layer, what asks */
};

/* Runs the encoder. Fails in the graph. */
struct source qkv_recurrent_encode(const struct qkv_model *model, struct qkv_graph *graph, const int32_t *ids,
                                   int64_t count, struct qkv_segments segments);

/* Whether the summary is fed to every step: input feeding without attention (Cho et al. 2014). */
bool qkv_recurrent_feeds_summary(const struct qkv_model *model);

/* Whether a step is fed what the step before it found: input feeding with attention (Luong et al. 2015, 3.3).
 */
bool qkv_recurrent_feeds_steps(const struct qkv_model *model);

/* ids -> input products of the first layer, [count, G H]. */
struct qkv_tensor *qkv_recurrent_embed(const struct qkv_model *model, struct qkv_graph *graph,
                                       const int32_t *ids, int64_t count);

/* Runs all decoder layers through the sentences of `queries`, whole or one step of each, from state[layers],
 * which becomes the states of all rows; then the attention, sentence i at segment i of `keys`. Returns [rows,
 * H]. `looked` may be NULL. */
struct qkv_tensor *qkv_recurrent_decode(const struct qkv_model *model, struct qkv_graph *graph,
                                        struct qkv_tensor *gates, struct qkv_tensor **state,
                                        struct qkv_segments queries, const struct source *source,
                                        struct qkv_segments keys, struct looked *looked);

/* models/recurrent_steps.c: the forced pass where each step is fed what the one before it found. */
struct qkv_tensor *qkv_recurrent_by_steps(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch, const struct source *source,
                                          struct looked *looked);

/* models/recurrent_decoding.c */
extern const struct qkv_decoding_interface qkv_recurrent_decoding;

#endif
