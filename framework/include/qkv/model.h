/* A sequence-to-sequence model behind one interface, whatever network it is made of. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include "qkv/attention_kind.h"
#include "qkv/batch.h"
#include "qkv/config.h"
#include "qkv/graph.h"
#include "qkv/parameters.h"

struct qkv_model;
struct qkv_decoding;
struct qkv_dense;
struct qkv_embedding;
struct qkv_multi_head;
struct qkv_positions;
struct qkv_single_head_attention;

/* ---- the parts of a forced pass, by role ---- */

enum qkv_stack_id { QKV_STACK_ENCODER, QKV_STACK_DECODER };

/* What a tensor of a pass is for. N rows: the tokens of the stack; Nq and Nk: the tokens that queries and keys
 * belong to; H heads, G heads of keys and values. */
enum qkv_part_role {
    /* of a stack: layer 0 */
    QKV_PART_EMBEDDING, /* rows of the embedding table, scaled: [N, D] */
    QKV_PART_POSITIONS, /* embeddings plus position encoding: [N, D]; only where one is added */

    /* of a layer of a stack */
    QKV_PART_NORM,   /* a hidden state after layer norm or RMS norm: [N, D]; several in a layer */
    QKV_PART_HIDDEN, /* the hidden state that leaves the layer: [N, D] */

    /* of an attention layer */
    QKV_PART_INPUT,   /* what queries are made from: [Nq, D]; recurrent: hidden states of the decoder */
    QKV_PART_MEMORY,  /* what keys and values are made from: [Nk, D]; self-attention: INPUT again */
    QKV_PART_QUERY,   /* [Nq, H K]; rotary: after the rotation */
    QKV_PART_KEY,     /* [Nk, G K]; rotary: after the rotation */
    QKV_PART_VALUE,   /* [Nk, G V] */
    QKV_PART_WEIGHTS, /* the node whose weights qkv_attention_weights_of reads */
    QKV_PART_CONTEXT, /* weights times values: [Nq, H V] */
    QKV_PART_OUTPUT,  /* [Nq, D]: context times W_O; recurrent: the attentional vector (Luong et al. 2015) */
};

/* One tensor of a pass with its role. Lives as long as the tensors of the graph. */
struct qkv_part {
    enum qkv_part_role role;
    enum qkv_stack_id stack;
    enum qkv_attention_kind attention; /* of roles INPUT to OUTPUT */
    int64_t layer;                     /* from 1; 0: before the first layer */
    int64_t heads;                     /* of roles INPUT to OUTPUT: heads of the queries */
    struct qkv_tensor *node;
    const struct qkv_part *next; /* in the order in which the pass computes them */
};

/* The parts of a pass; caller's storage, filled by qkv_model_loss. The parts are in the memory of the graph:
 * qkv_graph_reset and qkv_graph_free end them. */
struct qkv_trace {
    const struct qkv_part *first;
    struct qkv_part *last;
};

/* The part with this role, for a role of an attention layer (`layer` from 1) or of a stack (layer 0). NULL
 * when the pass has none. */
QKV_API const struct qkv_part *qkv_trace_attention(const struct qkv_trace *trace, enum qkv_part_role role,
                                                   enum qkv_attention_kind attention, int64_t layer);
QKV_API const struct qkv_part *qkv_trace_stack(const struct qkv_trace *trace, enum qkv_part_role role,
                                               enum qkv_stack_id stack);

/* Whether the pass holds `node` in this role. */
QKV_API bool qkv_trace_has(const struct qkv_trace *trace, enum qkv_part_role role,
                           const struct qkv_tensor *node);

/* ---- the layers of a network, by role ---- */

/* The layers that make up one attention layer of a network. They belong to the model. */
struct qkv_attention_layers {
    const struct qkv_multi_head *multi_head;             /* transformer; else NULL */
    const struct qkv_single_head_attention *single_head; /* recurrent; else NULL */
    const struct qkv_dense *attentional;                 /* recurrent: [state; context] -> output */
};

/* The layers at the bottom of a stack. They belong to the model. */
struct qkv_input_layers {
    const struct qkv_embedding *embedding;
    const struct qkv_positions *positions; /* NULL: recurrent */
};

/* ---- the interface of a network; models/<network>.c has one ---- */

/* Decoding, token by token; see qkv_decoding_* below. */
struct qkv_decoding_interface {
    size_t size; /* of the network's struct, which begins with a struct qkv_decoding; made all zero but for
                    that */
    enum qkv_status (*start)(struct qkv_decoding *decoding, const struct qkv_batch_view *batch, int64_t rows,
                             int64_t length, struct qkv_error *error);
    const struct qkv_next *(*step)(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                                   const int64_t *sentences, struct qkv_error *error);
    void (*reorder)(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents);
};

struct qkv_network_interface {
    const char *name;

    /* Declares the network's parameters in model->parameters and returns its layers, in the parameters'
     * arena; NULL when memory is out. */
    void *(*declare)(struct qkv_model *model);

    /* Hidden states of the decoder, [Nt, D], for a batch whose target is given; trace may be NULL. */
    struct qkv_tensor *(*hidden)(const struct qkv_model *model, struct qkv_graph *graph,
                                 const struct qkv_batch_view *batch, struct qkv_trace *trace);

    /* The layers of an attention layer (from 1); all NULL when the network has no such attention layer. */
    struct qkv_attention_layers (*attention)(const struct qkv_model *model, enum qkv_attention_kind kind,
                                             int64_t layer);

    /* The layers that turn the tokens of a stack into vectors. */
    struct qkv_input_layers (*inputs)(const struct qkv_model *model, enum qkv_stack_id stack);

    const struct qkv_decoding_interface *decoding;
};

struct qkv_model {
    const struct qkv_network_interface *kind;
    struct qkv_model_config config;
    int32_t source_size, target_size; /* C of both vocabularies */
    struct qkv_parameters parameters;
    void *network;
    const struct qkv_parameter *output_weight, *output_bias; /* [D, C] or the tied table [C, D]; [C] */
    bool output_tied;
};

/* Makes a model with parameters of `dtype`, all zero. NULL with a sentence when memory is out. */
QKV_API struct qkv_model *qkv_model_new(const struct qkv_model_config *config, int32_t source_size,
                                        int32_t target_size, enum qkv_dtype dtype, struct qkv_error *error);
QKV_API void qkv_model_free(struct qkv_model *model);

/* The longest sentence, in tokens with </s>, that positions exist for on both sides. */
QKV_API int64_t qkv_model_longest(const struct qkv_model *model);

/* The layers of an attention layer (from 1), all NULL when the model has no such attention layer; and the layers
 * that turn the tokens of a stack into vectors. */
QKV_API struct qkv_attention_layers qkv_model_attention(const struct qkv_model *model,
                                                        enum qkv_attention_kind kind, int64_t layer);
QKV_API struct qkv_input_layers qkv_model_inputs(const struct qkv_model *model, enum qkv_stack_id stack);

/* Records the loss of a batch: factor * sum over its target tokens of the smoothed cross entropy (nats). The
 * graph must be bound to model->parameters. trace may be NULL. */
QKV_API struct qkv_tensor *qkv_model_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch, double smoothing, double factor,
                                          struct qkv_trace *trace);

/* ---- decoding step by step, keys and values cached ---- */

/* NULL when memory is out. float32 models decode in float32. */
QKV_API struct qkv_decoding *qkv_decoding_new(const struct qkv_model *model);

/* From now on large products are split among these workers, which must have nothing else to do while decoding
 * runs: for a team that has but one batch to translate. NULL: the caller alone, as at first. Numbers are the
 * same bits either way. */
QKV_API void qkv_decoding_set_workers(struct qkv_decoding *decoding, struct qkv_workers *workers);

/* Decoding reads these panels of the model's parameters; see graph.h. NULL: none, as at first. */
QKV_API void qkv_decoding_read_panels(struct qkv_decoding *decoding, struct qkv_panels *panels);

/* Encodes the sources of a batch and makes room for `rows` hypotheses of at most `length` tokens. `sums`:
 * whether steps give log sums, too, without which only tokens behind the same row can be compared, but which
 * take time. */
QKV_API enum qkv_status qkv_decoding_start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                           int64_t rows, int64_t length, bool sums, struct qkv_error *error);

/* Scores of what may come next behind each of the rows. */
struct qkv_next {
    enum qkv_dtype dtype;
    int64_t classes;       /* C */
    const void *logits;    /* [rows, C] */
    const void *group_max; /* [rows, runs]: the greatest logit of each run of QKV_GROUP */
    const void *sums;      /* [rows]: log sum exp(logits); NULL where it is not wanted */
};

static inline int64_t qkv_next_runs(const struct qkv_next *next)
{
    return (next->classes + QKV_GROUP - 1) / QKV_GROUP;
}

/* log p(token) = its logit - log sum exp(logits), nats; where there are sums. */
QKV_API double qkv_next_log_probability(const struct qkv_next *next, int64_t row, int32_t token);

/* Feeds one token to each hypothesis; sentences[i] is the source that row i translates. What is returned is
 * good until the next call; NULL with a sentence. */
QKV_API const struct qkv_next *qkv_decoding_step(struct qkv_decoding *decoding, int64_t rows,
                                                 const int32_t *ids, const int64_t *sentences,
                                                 struct qkv_error *error);

/* Row i continues what was row parents[i]; rows that are no one's parent are forgotten. */
QKV_API void qkv_decoding_reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents);
QKV_API void qkv_decoding_free(struct qkv_decoding *decoding);

#endif
