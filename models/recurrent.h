/* The layers of the recurrent network (models/recurrent_layers.c), for the forced pass
 * (recurrent.c, with input feeding recurrent_steps.c) and for decoding (recurrent_decoding.c).
 *
 * B: sentences of a batch; Ns, Nt: their source and target tokens, packed; E: width of embeddings;
 * H: width of the decoder's hidden states; S: width of a cell's state (LSTM: 2 H, else H); G: gates
 * of a cell (layers.h); M: width of the encoder's memory, which is the hidden states of all
 * directions side by side. The summary of a sentence is the last hidden state of each direction.
 * Input feeding: each decoder step also reads a vector: with attention the attentional vector of the
 * step before it (Luong et al. 2015), without attention the summary (Cho et al. 2014). */
#ifndef QKV_MODELS_RECURRENT_H
#define QKV_MODELS_RECURRENT_H

#include "qkv/network.h"

/* One layer of the encoder: a cell for each direction in which it reads. */
struct encoder_layer {
    struct qkv_recurrent direction[2]; /* bidirectional: forward, backward; else only the first is used */
};

struct decoder_layer {
    struct qkv_recurrent cell;
    struct qkv_dense bridge; /* summary [B, M] -> initial state [B, S]; for init_hidden: bridge */
};

struct recurrent {
    struct qkv_embedding source_embedding, target_embedding;
    struct encoder_layer *encoder; /* [encoder layers] */
    struct decoder_layer *decoder; /* [decoder layers] */
    int directions;                /* of the encoder: 1 or 2 */
    bool has_attention;
    struct qkv_single_head_attention attention; /* declared only if has_attention, like attentional */
    struct qkv_dense attentional; /* tanh([h; context] W), [H + M] -> [H] (Luong et al. 2015, equation 5) */
};

/* The encoder's results for the decoder: B sentences with Ns tokens in total. */
struct encoded_source {
    struct qkv_segments segments;
    struct qkv_tensor *memory;   /* [Ns, M]: hidden states of the top layer, directions side by side */
    struct qkv_tensor *keys;     /* [Ns, any]: keys of the memory (width by score); NULL without attention */
    struct qkv_tensor *summary;  /* [B, M]: last hidden state of each direction of the top layer */
    struct qkv_tensor **initial; /* [decoder layers]: initial states [B, S]; NULL: zeros */
    struct qkv_tensor *mask;     /* qkv_source_mask; NULL without attention */
};

/* Nodes of the attention in a forced pass, one row per decoder step; all NULL without attention. */
struct attention_record {
    struct qkv_tensor *weights; /* the node that qkv_attention_weights_of reads */
    struct qkv_tensor *states;  /* [rows, H]: hidden states of the top layer, which are the queries */
    struct qkv_tensor *context; /* [rows, M] */
};

/* As qkv_network_interface.declare. */
void *qkv_recurrent_declare(struct qkv_model *model, struct qkv_error *error);

/* Runs the encoder. On errors, which qkv_graph_check reports, memory is NULL. trace may be NULL. */
struct encoded_source qkv_recurrent_encode(const struct qkv_model *model, struct qkv_graph *graph,
                                           const struct qkv_batch_view *batch, struct qkv_trace *trace);

/* Whether the decoder has input feeding without attention: it reads the summary in each step. */
bool qkv_recurrent_feeds_summary(const struct qkv_model *model);

/* Whether the decoder has input feeding with attention: it reads the attentional vector of the step
 * before, so that steps must run one after the other. */
bool qkv_recurrent_feeds_attentional(const struct qkv_model *model);

/* Embeds target ids and multiplies the embeddings by the input weights of the first decoder layer. The
 * result, [count, G H], is the argument `gates` of qkv_recurrent_run, which adds the recurrent product.
 * Stores the embeddings [count, E] in *embedded, unless that is NULL. */
struct qkv_tensor *qkv_recurrent_embed(const struct qkv_model *model, struct qkv_graph *graph,
                                       const int32_t *ids, int64_t count, struct qkv_tensor **embedded);

/* The arguments of qkv_recurrent_decode. */
struct decoder_input {
    /* [rows, G H]: qkv_recurrent_embed, plus qkv_recurrent_add_input if input is fed */
    struct qkv_tensor *gates;
    /* [layers]: the initial states [B, S], NULL for zeros. qkv_recurrent_decode replaces them by the states after each row,
     * [rows, S]. */
    struct qkv_tensor **state;
    /* Of the rows: a segment has all tokens of a sentence, or the one of a step */
    struct qkv_segments queries;
    const struct encoded_source *source;
    struct qkv_segments keys; /* of source->memory: sentence i of queries attends to sentence i of keys */
};

/* Runs the decoder layers and the attention over the rows of input->queries. Returns the
 * attentional vectors, without attention the hidden states of the top layer: [rows, H]. Fills
 * *record, unless that is NULL. */
struct qkv_tensor *qkv_recurrent_decode(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct decoder_input *input, struct attention_record *record);

/* The tensors of a forced pass of the decoder that the trace records. */
struct decoder_record {
    struct qkv_tensor *embedded; /* [Nt, E] */
    struct attention_record attention;
};

/* models/recurrent_steps.c: the decoder's forced pass with input feeding, one step after the other.
 * Returns the attentional vectors [Nt, H]. record may be NULL. */
struct qkv_tensor *qkv_recurrent_by_steps(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch,
                                          const struct encoded_source *source, struct decoder_record *record);

/* models/recurrent_decoding.c */
extern const struct qkv_decoding_interface qkv_recurrent_decoding;

#endif
