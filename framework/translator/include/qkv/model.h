/* A sequence-to-sequence model: parameters, the loss of a batch, and decoding token by token, for
 * any network (transformer, recurrent, or one of the program's own: qkv/network.h; the config chooses).
 * qkv/translator.h translates sentences; qkv/run.h opens trained models.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_error error;
 *     struct qkv_batch batch = {0};
 *     struct qkv_batch_view view;
 *     const int32_t words[] = {7, 8, 9}; // ids of the vocabularies, which have 100 and 120 entries
 *     const struct qkv_ids sentence = {3, words};
 *     struct qkv_model *model = NULL;
 *     if (!qkv_config_default(&config, &arena, "example"))
 *         model = qkv_model_new(&config.model, 100, 120, QKV_FLOAT32, &error);
 *     struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
 *     if (model && graph && !qkv_batch_make(&batch, 1, &sentence, &sentence, &error)) {
 *         qkv_parameters_initialize(&model->parameters, 42);
 *         qkv_batch_shard(&batch, 0, 1, &view);
 *         qkv_graph_bind(graph, &model->parameters, NULL, false);
 *         struct qkv_tensor *loss = qkv_model_loss(model, graph, &view, NULL, 1, NULL);
 *         qkv_forward(graph);
 *         printf("loss: %g nats\n", qkv_tensor_scalar(loss));
 *     }
 *     qkv_graph_free(graph);
 *     qkv_batch_release(&batch);
 *     qkv_model_free(model);
 *     qkv_arena_release(&arena);
 *
 * Ns and Nt: source and target tokens of a batch; D: width of the decoder (enum qkv_part_role below defines its own
 * letters); C: size of the target vocabulary.
 *
 * A forced pass runs encoder and decoder over sentence pairs with known targets (teacher forcing): decoder step t reads
 * target token t - 1 and predicts target token t. Decoding has no known target: each step reads a token that the search has
 * chosen. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include "qkv/batch.h"
#include "qkv/config.h"
#include "qkv/graph.h"

struct qkv_model;
struct qkv_network_interface;
struct qkv_decoding;
struct qkv_dense;
struct qkv_embedding;
struct qkv_feed_forward;
struct qkv_multi_head;
struct qkv_norm;
struct qkv_positions;
struct qkv_residual;
struct qkv_single_head_attention;

/* ---- the parts of a forced pass, by role ---- */

enum qkv_stack_id { QKV_STACK_ENCODER, QKV_STACK_DECODER };

/* The role of a tensor in a pass. N: number of rows, the tokens of the stack; D: width of the stack's hidden states; E:
 * width of its embeddings (transformer: D); M: width of the encoder's memory (recurrent: the hidden states of both
 * directions side by side; transformer: D); Nq and Nk: the tokens that queries and keys belong to; H: number of query
 * heads; G: number of key and value heads; K and V: width of a key and of a value per head. */
enum qkv_part_role {
    /* of a stack, with layer 0 */
    QKV_PART_EMBEDDING, /* rows of the embedding table, scaled: [N, E] */
    QKV_PART_POSITIONS, /* embeddings plus position encoding: [N, D]; only where one is added */

    /* of a layer of a stack */
    QKV_PART_NORM,   /* a hidden state after layer norm or RMS norm: [N, D]; several in a layer. The norm
                        after the last layer of a pre-norm stack has layer 0 */
    QKV_PART_HIDDEN, /* the output of the layer: [N, D]; recurrent: only of the encoder, [N, M] */

    /* of an attention layer */
    QKV_PART_INPUT,    /* what queries are made from: [Nq, D]; recurrent: hidden states of the decoder */
    QKV_PART_MEMORY,   /* what keys and values are made from: [Nk, M]; self-attention: the node of INPUT */
    QKV_PART_QUERY,    /* [Nq, H K]; rotary: after the rotation */
    QKV_PART_KEY,      /* [Nk, G K]; rotary: after the rotation */
    QKV_PART_VALUE,    /* [Nk, G V] */
    QKV_PART_WEIGHTS,  /* the result of the attention op. qkv_attention_weights_of computes the weights of
                         a head from it; its value need not be the weights: a transformer's is weights times
                         values */
    QKV_PART_CONTEXT,  /* weights times values, 0 for ablated heads (qkv_model_ablate): [Nq, H V] */
    QKV_PART_OUTPUT,   /* [Nq, D]: context times W_O; recurrent: the attentional vector (Luong et al. 2015) */
    QKV_PART_RESIDUAL, /* [Nq, D]: hidden state to which OUTPUT is added; pre-norm: INPUT is its norm */
};

/* One tensor of a pass with its role. Lives as long as the tensors of the graph. */
struct qkv_part {
    enum qkv_part_role role;
    enum qkv_stack_id stack;
    enum qkv_attention_kind attention; /* set for the roles INPUT to RESIDUAL */
    int64_t layer;                     /* from 1; 0: of the stack: embeddings, positions, last norm */
    int64_t heads;                     /* heads of the queries; set for the roles INPUT to RESIDUAL */
    struct qkv_tensor *node;
    const struct qkv_part *next; /* in the order of computation */
};

/* The parts of a pass, as a list. The struct is the caller's storage, which qkv_model_loss fills; the
 * parts live in the graph: they are invalid after qkv_graph_reset and qkv_graph_free. */
struct qkv_trace {
    const struct qkv_part *first;
    struct qkv_part *last; /* where parts are appended */

    /* The terms of the loss, for qkv_cross_entropy_sums: */
    const struct qkv_tensor *cross_entropy;
    const struct qkv_tensor *alignment[2]; /* guided alignment: of the first and second pass; or NULL */
};

/* ---- the layers of a network, by role ---- */

/* The parts (layers of layers.h) of one attention layer of a network. The model owns them. */
struct qkv_attention_layers {
    const struct qkv_multi_head *multi_head;             /* transformer; else NULL */
    const struct qkv_single_head_attention *single_head; /* recurrent; else NULL */
    /* Recurrent: [state; context] -> attentional vector. A program's own network may leave it NULL: its single head can
     * then be ablated, but supports neither value norms nor explanations nor what else reads the rows of its output. */
    const struct qkv_dense *attentional;
    /* Transformer: what follows the attention in its layer; NULL: nothing that explanations can show. */
    const struct qkv_residual *residual;         /* around the attention */
    const struct qkv_feed_forward *feed_forward; /* NULL: cross-attention of the same layer comes first */
    const struct qkv_residual *feed_forward_residual; /* around feed forward */
    const struct qkv_norm *last_norm;                 /* after the last layer of a pre-norm stack */
    bool is_last;                                     /* no layer of the stack follows */
};

/* The layers at the bottom of a stack. They belong to the model. */
struct qkv_input_layers {
    const struct qkv_embedding *embedding;
    const struct qkv_positions *positions; /* NULL: recurrent */
};

/* ---- the model ---- */

struct qkv_model {
    const struct qkv_network_interface *interface;
    struct qkv_model_config config;
    int32_t source_size, target_size; /* entries of the vocabularies */
    struct qkv_parameters parameters;
    void *network;                             /* what interface->declare returned */
    const double *settings;                    /* [interface->setting_count], of model.settings */
    const struct qkv_parameter *output_weight; /* [D, C]; tied: the embedding table [C, D] */
    const struct qkv_parameter *output_bias;   /* [C] */
    bool output_tied;
};

/* Makes a model with parameters of `dtype`, all zero: initialize them or load a checkpoint. Returns NULL with a message
 * when memory runs out, when the config is not valid (qkv_config_finish) or names a network that is not registered
 * (network.h), when a vocabulary has fewer than QKV_SPECIALS entries, and when embeddings are tied but the vocabularies
 * differ in size. */
QKV_API struct qkv_model *qkv_model_new(const struct qkv_model_config *config, int32_t source_size,
                                        int32_t target_size, enum qkv_dtype dtype, struct qkv_error *error);
QKV_API void qkv_model_free(struct qkv_model *model); /* NULL: does nothing */

/* ---- ablating heads ---- */

/* One head of attention: the one head of a recurrent network is cross attention, layer 1, head 1. */
struct qkv_head {
    enum qkv_attention_kind attention;
    int64_t layer, head; /* from 1 */
};

/* The heads of a model: their number, and head `index` (from 0). They are sorted by kind (encoder, decoder, cross
 * attention), then by layer, then by head. All fields are 0 for an index out of range. */
QKV_API int64_t qkv_model_head_count(const struct qkv_model *model);
QKV_API struct qkv_head qkv_model_head(const struct qkv_model *model, int64_t index);

/* Ablates a head, or undoes that: the context (weights times values) of an ablated head is replaced by 0, so that it adds
 * nothing to the output of its layer, in forced passes as well as in decoding (Michel et al. 2019, "Are Sixteen Heads
 * Really Better than One?"). Its attention weights are still computed. Takes effect in graphs built, and decodings started,
 * after the call; no other thread may use the model meanwhile. Checkpoints do not record which heads are ablated. Returns
 * false if the model has no such head. */
QKV_API bool qkv_model_ablate(struct qkv_model *model, struct qkv_head head, bool is_ablated);

/* Whether a head is ablated; false for a head that does not exist. */
QKV_API bool qkv_model_is_ablated(const struct qkv_model *model, struct qkv_head head);

/* A link: source token `source` has the share `share` of the links of target token `target`. Tokens count from 0, without
 * <s> and </s>. */
struct qkv_token_link {
    int32_t target, source;
    double share; /* the shares of a target token sum to 1 */
};

/* The links between the tokens of the pairs of a corpus (metrics/links.h reads them). */
struct qkv_token_links {
    int64_t pairs;
    int64_t *start;               /* [pairs + 1]: pair i has links start[i] .. start[i + 1] - 1 */
    struct qkv_token_link *links; /* [start[pairs]] */
};

/* Guided alignment (Chen et al. 2016; of one head, Garg et al. 2019): trains one head of cross attention to attend to the
 * source tokens that the links name. For each target token with links, the loss grows by `weight` times the cross entropy
 * of the shares of its links and the attention weights (before dropout) of the step that predicts the token, or with
 * QKV_READING_READ of the step that reads it. Target tokens without links add nothing. All zero: off. */
struct qkv_guided_alignment {
    double weight;
    int64_t layer, head;                 /* from 1; layer 0: the last but one, or the only one */
    const struct qkv_token_links *links; /* by qkv_batch.index; NULL: off */
    enum qkv_alignment_reading reading;
};

/* What training minimises. All zero: the cross entropy. */
struct qkv_objective {
    double smoothing; /* of labels (Szegedy et al. 2016) */
    /* R-Drop (Wu et al. 2021), weight a: the batch passes twice, with different dropout masks. With predictions p and q of
     * the passes, the loss is the mean of both cross entropies + a / 4 (KL(p || q) + KL(q || p)). 0: one pass. */
    double r_drop;
    /* SimCut (Gao et al. 2022), weight a, not together with r_drop: in a second pass, embedding layers drop each token with
     * probability simcut_rate (qkv_graph_set_token_cutoff); the loss is the cross entropy of the first + a KL(p || q). 0:
     * one pass. */
    double simcut, simcut_rate;
    struct qkv_guided_alignment guided; /* with R-Drop the mean of both passes, with SimCut the first */
};

/* Adds the loss of a batch with targets to the graph: factor times the sum over its target tokens of the objective (NULL:
 * the cross entropy), in nats; a scalar. In a graph without dropout two passes would be equal, so there is only one. The
 * graph must be bound to model->parameters. trace: filled with the parts of the (first) pass, unless it is NULL.
 * qkv_graph_check reports errors, such as a sentence that is longer than the positions. */
QKV_API struct qkv_tensor *qkv_model_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch,
                                          const struct qkv_objective *objective, double factor,
                                          struct qkv_trace *trace);

/* Adds the forced pass of a batch to the graph, without output layer and loss: hidden states of the decoder [Nt, D]. Graph,
 * trace and errors as in qkv_model_loss. */
QKV_API struct qkv_tensor *qkv_model_forward(const struct qkv_model *model, struct qkv_graph *graph,
                                             const struct qkv_batch_view *batch, struct qkv_trace *trace);

/* ---- decoding step by step ---- qkv_decoding_start encodes a batch; each qkv_decoding_step feeds
 * one token to every hypothesis and gives the scores of the next tokens; qkv_decoding_reorder
 * replaces hypotheses between steps. Keys, values and states of earlier tokens are kept. A row is a
 * hypothesis. One thread at a time may use a decoding. */

/* Makes the state of a decoding; the model must outlive it. Numbers have the dtype of the model.
 * NULL when memory runs out. */
QKV_API struct qkv_decoding *qkv_decoding_new(const struct qkv_model *model);

/* Models that translate together. They may have any architectures, but must be made for the same two
 * vocabularies: the id of a token must mean the same to all, which this library cannot see (qkv_vocabulary_difference in
 * vocabulary.h). The same model may occur several times. */
struct qkv_ensemble {
    int64_t count;
    const struct qkv_model *const *models; /* [count] */
};

/* Makes the decoding of an ensemble, whose models must outlive it. The probability of a token is the mean of its
 * probabilities by all models: log p = log((p_1 + .. + p_n) / n), computed in float64. It is used like the decoding of one
 * model: qkv_next_scores.log_sum_exp holds the means of the members' log_sum_exp, and logits are log p plus these. The
 * member with the fewest positions limits the length. NULL with a message when memory runs out, for an
 * ensemble without models or with one that is NULL, and when two models have vocabularies of different sizes. */
QKV_API struct qkv_decoding *qkv_decoding_new_ensemble(struct qkv_ensemble ensemble, struct qkv_error *error);

/* Encodes the sources of a batch and allocates room for `rows` hypotheses and `length` steps, each of
 * which feeds one token; the first token fed is <s>. log_sum_exp: also compute the log-sum-exp of each row of
 * logits, which makes log-probabilities of different hypotheses comparable; costs one pass over the
 * logits. The batch is copied: it need not outlive the call. Fails when a sentence has more tokens than the model has
 * positions, or when memory runs out. */
QKV_API enum qkv_status qkv_decoding_start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                           int64_t rows, int64_t length, bool log_sum_exp,
                                           struct qkv_error *error);

/* Result of qkv_decoding_step: for each row, the scores of all tokens that may follow. */
struct qkv_next_scores {
    enum qkv_dtype dtype;
    int64_t rows;
    int64_t classes;         /* C */
    const void *logits;      /* [rows, C] */
    const void *group_max;   /* [rows, qkv_next_groups]: greatest logit of each QKV_GROUP consecutive ids */
    const void *log_sum_exp; /* [rows]: log sum exp(logits); NULL when decoding started without log_sum_exp */
};

/* Groups of tokens in group_max; the last may have fewer than QKV_GROUP tokens. */
static inline int64_t qkv_next_groups(const struct qkv_next_scores *next)
{
    return next->classes > 0 ? (next->classes - 1) / QKV_GROUP + 1 : 0;
}

/* log p(token) = logit - log sum exp(logits), in nats. NaN when decoding started without log_sum_exp, and for a row or
 * token that does not exist. */
QKV_API double qkv_next_log_probability(const struct qkv_next_scores *next, int64_t row, int32_t token);

/* Feeds ids[i] to row i, which translates sentence sentences[i] of the batch. The result is valid until the next
 * call. NULL with a message when an id is not in the vocabulary, a sentence is not in the batch, memory runs out, or
 * when there are more rows than in the last step or reordering, or more steps than qkv_decoding_start made room
 * for. */
QKV_API const struct qkv_next_scores *qkv_decoding_step(struct qkv_decoding *decoding, int64_t rows,
                                                        const int32_t *ids, const int64_t *sentences,
                                                        struct qkv_error *error);

/* Makes row i the continuation of row parents[i] of the last step. Rows that are not in parents are dropped. When a
 * parent is not a row of the last step, later steps fail. Does nothing before qkv_decoding_start. */
QKV_API void qkv_decoding_reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents);
QKV_API void qkv_decoding_free(struct qkv_decoding *decoding);

#endif
