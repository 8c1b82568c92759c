/* A sequence-to-sequence model: parameters, the loss of a batch, and decoding token by token, for
 * any network (transformer, recurrent, or one of the program's own, see below; the config chooses); and
 * translation: search in one batch, and in many batches on many threads. qkv/run.h opens trained models.
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

#include "qkv/base.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/graph.h"
#include "qkv/layers.h"

struct qkv_model;
struct qkv_network_interface;
struct qkv_decoding;
struct qkv_dense;
struct qkv_embedding;
struct qkv_feed_forward;
struct qkv_multi_head;
struct qkv_norm;
struct qkv_positions;
struct qkv_processes;
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
    QKV_PART_CONTEXT,  /* weights times values, times the output gate if there is one; 0 for ablated heads
                         (qkv_model_ablate): [Nq, H V] */
    QKV_PART_GATE,     /* the output gate: [Nq, H V] */
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
    const struct qkv_residual *residual; /* around the attention */
    bool cross_follows;                  /* cross-attention of the same layer comes before feed forward */
    const struct qkv_feed_forward *feed_forward; /* NULL: the layer has none, or cross-attention follows */
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
 * (qkv_network_register), when a vocabulary has fewer than QKV_SPECIALS entries, and when embeddings are tied but the
 * vocabularies differ in size. */
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

/* The links between the tokens of the pairs of a corpus. */
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
     * probability simcut_rate; the loss is the cross entropy of the first + a KL(p || q). 0:
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

/* Models that translate together. They may have any architectures, but must be made for the same two vocabularies: the id
 * of a token must mean the same to all, which this library cannot see. The same model may occur several times. */
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
    int64_t classes;    /* C */
    const void *logits; /* [rows, C] */
    const void
        *group_max; /* [rows, (C - 1) / QKV_GROUP + 1]: greatest logit of each QKV_GROUP consecutive ids */
    const void *log_sum_exp; /* [rows]: log sum exp(logits); NULL when decoding started without log_sum_exp */
};

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

/* ======== networks of a program ========
 * The interface for a program's own network: a program that implements it can use training, search, checkpoints, evaluation
 * and attention maps with its network. The two networks of qkv (models/transformer.c, models/recurrent.c) use this header,
 * too.
 *
 * A network needs a name, declare and forward. A config chooses it with `model.network: NAME`, once the program has
 * registered it; the network then decides what the keys of model.encoder and model.decoder mean, but they are checked as
 * those of the network that model.encoder.type names. The checks for the default, transformer, are: num_heads divides
 * hidden_size, hidden_size is the same in both stacks, and no sentence with </s> is longer than positions.max_length (no
 * limit with positions.type none). Everything after the hidden states of the decoder (output layer, loss, search) is the
 * model's. examples/own_network.c is a complete program, examples/own_decoding.c one that also has its own decoding. The
 * command qkv cannot open runs of such a network; the program uses trainer.h, run.h and
 * attention_map.h instead.
 *
 * Example:
 *     // The program's own functions:
 *     void *declare(struct qkv_model *model, struct qkv_error *error);
 *     struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
 *                               const struct qkv_batch_view *batch, struct qkv_trace *trace);
 *     static struct qkv_network_interface network = {.name = "convolution"};
 *     struct qkv_error error;
 *     network.declare = declare;
 *     network.forward = forward;
 *     if (qkv_network_register(&network, &error)) fprintf(stderr, "%s\n", error.message);
 *     // From here on, configs with `model.network: convolution` train, and their runs open.
 */

/* ---- decoding ---- */

/* The fields that the decodings of all networks have. A network that keeps data between steps defines a struct whose first
 * member is this one; qkv_decoding_new allocates it and zeroes what follows the first member. */
struct qkv_decoding {
    const struct qkv_decoding_interface *interface;
    const struct qkv_model *model; /* of an ensemble: the first */
    int64_t max_length;            /* tokens (with </s>) that the decoder has positions for */
    struct qkv_graph *encoder;     /* for the ops that run once per batch; NULL: an ensemble */
    struct qkv_graph *decoder;     /* for the ops that run once per step; NULL: an ensemble */
    struct qkv_arena arena;        /* for arrays of one batch; `start` finds its sources here */
    size_t element_size;           /* bytes of one number of the model's dtype */
    bool needs_log_sum_exp;        /* qkv_next_scores.log_sum_exp is needed */
    int64_t rows, length;          /* capacity: hypotheses, steps; 0 before qkv_decoding_start */
    int64_t sentences;             /* of the batch */
    int64_t step;                  /* steps done */
    int64_t active;                /* rows of the last step or reordering: the next step has no more */
    bool misused;                  /* qkv_decoding_reorder was refused; later steps fail */
    struct qkv_next_scores next;   /* result of the last step; its arrays are tensors of `decoder` */
};

/* Decoding token by token: the network's part of qkv_decoding_start, _step and _reorder, which check their
 * arguments first. Both graphs are bound to the model's parameters, without gradients and dropout; the functions below
 * reset and run them. The graphs keep every value until they are reset, unless the network lets them share memory
 * (qkv_graph_share_memory). qkv_network_check_decoding compares a decoding with forward; examples/own_decoding.c has a
 * complete one. */
struct qkv_decoding_interface {
    size_t size; /* of the network's own struct */

    /* Encodes the sources of the batch and makes room for decoding->rows hypotheses of decoding->length tokens. The batch
     * is a copy without targets in decoding->arena, which later steps may read. */
    enum qkv_status (*start)(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                             struct qkv_error *error);

    /* Feeds ids[i] to row i of `rows`, which translates sentence sentences[i]; decoding->step tells how many tokens were
     * fed before. Ids may lie outside the vocabulary: the network must refuse them, as the embedding does when a graph is
     * built. Builds or rewinds the graph decoding->decoder, which must end with qkv_decoding_add_output of one hidden state
     * per row, and runs it; the step fails if decoding->next does not have `rows` rows of scores. Values of
     * decoding->encoder enter this graph by qkv_wrap; in attention, rows of the same sentence may share its keys. */
    enum qkv_status (*step)(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *error);

    /* Makes row i continue row parents[i] of the last step. */
    void (*reorder)(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents);

    void (*release)(struct qkv_decoding *decoding); /* frees what is not in graphs or arena; or NULL */

    struct qkv_decoding *(*member)(struct qkv_decoding *decoding, int64_t i); /* NULL: not an ensemble */
};

/* Adds the model's output layer to the graph of a step and plans the graph's memory: hidden states [rows, D] ->
 * decoding->next, whose arrays are valid after the graph has run. */
QKV_API void qkv_decoding_add_output(struct qkv_decoding *decoding, struct qkv_tensor *hidden);

/* ---- the network ---- */

/* A number that configs of the network may set, in `model.settings: "kernel_width=5 depth=2"`. */
struct qkv_network_setting {
    const char *name;     /* letters, digits and `_` */
    double default_value; /* value if the config does not set it */
    double min, max;
    bool is_integer;
};

/* The attention mask (ops.def) of the source tokens of a batch, one number per token: [Ns]. NULL if no token is masked. */
QKV_API struct qkv_tensor *qkv_source_mask(struct qkv_graph *graph, const struct qkv_batch_view *batch);

struct qkv_network_interface {
    const char *name; /* letters, digits, `_` and `-` */
    const struct qkv_network_setting *settings;
    int setting_count;

    /* Declares the network's parameters in model->parameters, by layers (layers.h) or qkv_parameters_add, according to
     * model->config; model->source_size and target_size are the sizes of the vocabularies. Returns the data that `forward`
     * needs, allocated in the arena of the parameters (qkv_arena_allocate); it becomes model->network. Returns NULL with a
     * message if the config cannot be used, and NULL without a message when memory runs out. */
    void *(*declare)(struct qkv_model *model, struct qkv_error *error);

    /* The forced pass: hidden states of the decoder [Nt, D] for a batch with targets, with D of model.decoder.hidden_size;
     * other shapes are refused. Row t of a sentence may depend on all source tokens, but of the targets only on
     * target_input up to row t, and on no other sentence (qkv_network_check_forward). Attention to the source takes the mask
     * qkv_source_mask. Records the parts of the pass in the trace (qkv_trace_record), which may be NULL; without
     * QKV_PART_WEIGHTS there are no attention maps, and the comment of qkv_trace_record lists what needs the other parts.
     * Errors go to the graph (qkv_graph_fail); qkv_graph_scope names nodes for messages. Must be safe on several threads at
     * once. */
    struct qkv_tensor *(*forward)(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace);

    /* Returns the layers of attention layer `layer` (from 1) of a kind; all NULL when the network has no such layer, so
     * that the first missing number ends the kind. It is not called for layers above QKV_LAYERS_MAX. Heads of these layers
     * can be ablated and explained. NULL: the network has no such layers. */
    struct qkv_attention_layers (*attention)(const struct qkv_model *model, enum qkv_attention_kind kind,
                                             int64_t layer);

    /* Returns the layers that turn the tokens of a stack into vectors. model.tied_softmax shares the embedding of the
     * decoder. NULL: none. */
    struct qkv_input_layers (*inputs)(const struct qkv_model *model, enum qkv_stack_id stack);

    /* NULL: every step runs `forward` for all tokens so far, so the time for a sentence grows at least with the square of
     * its length. That is correct for every network; a faster decoding must give the same numbers
     * (qkv_network_check_decoding). */
    const struct qkv_decoding_interface *decoding;
};

/* Registers a network until the program ends, for every function that reads configs and runs: qkv_model_new, qkv_train,
 * qkv_run_open. The interface must stay valid that long. No other thread may use the library during the call. Fails for a
 * name that has other characters than letters, digits, `_` and `-` or is already registered, for a missing function, a
 * setting whose default is out of range or a negative number of settings, and when there are 32 networks. */
QKV_API enum qkv_status qkv_network_register(const struct qkv_network_interface *network,
                                             struct qkv_error *error);

/* Fails when forward breaks its rules on two short sentences: the shape of its result, rows that change with a later row of
 * target_input, rows that change with another sentence. A network that looks ahead trains to a loss near 0, and then
 * translates into nonsense. The parameters must be initialized, because all rows are equal otherwise. Checks nothing when
 * the model has positions for less than two tokens. qkv_train calls it for networks that a program has registered. */
QKV_API enum qkv_status qkv_network_check_forward(const struct qkv_model *model, struct qkv_error *error);

/* Fails when the network's decoding gives other log-probabilities than forward, up to rounding, for
 * two short sentences: in rows that stay where they are, and in rows that are reordered between steps, some of them continued
 * twice, others dropped. Such a network trains well and then translates badly. The parameters must be initialized. Checks
 * nothing when the network has no decoding of its own, the model has positions for less than two tokens, or its products are
 * narrow (qkv_parameters_set_precision). qkv_train calls it for networks that a program has registered. */
QKV_API enum qkv_status qkv_network_check_decoding(const struct qkv_model *model, struct qkv_error *error);

/* The value of one of the network's settings for this model; NaN, which must not be cast to an integer, when the network
 * has no setting of that name. */
QKV_API double qkv_model_setting(const struct qkv_model *model, const char *name);

/* ---- the parts of a pass ---- */

/* Appends `node` to the trace as a part with this role; copies the other fields (stack, attention, layer, heads) from
 * `owner`. Does nothing when trace or node is NULL. The graph fails, also without a trace, for roles of attention in a
 * layer below 1 or of a kind that does not exist, and for QKV_PART_WEIGHTS when the node is no attention op with
 * owner->heads heads.
 *
 * Which parts each feature needs, in the shapes of enum qkv_part_role; a feature that lacks a part is refused with a
 * message that names the part:
 *
 * - attention maps (qkv_attention_collect): WEIGHTS, with a row for each token of the queries' side of a sentence and a
 *   column for each token of the keys' side.
 * - measures of heads (qkv_heads_measure): WEIGHTS of exactly the layers and heads that the function attention gives, in
 *   the order of qkv_model_head; and norms.
 * - norms (qkv_heads_options.norms): VALUE of each layer with a map, whose layers attention gives, with attentional in
 *   those of a single head.
 * - explanations (`qkv explain`): INPUT and MEMORY of the layer, which attention gives; RESIDUAL, too, if the layer is
 *   pre-norm; of a single head OUTPUT, too, if model.decoder.input_feeding is on, and attentional. EMBEDDING of the stack
 *   of the queries, of cross attention and of a single head of both stacks, whose embeddings the function inputs gives; its
 *   positions where POSITIONS are recorded. */
QKV_API void qkv_trace_record(struct qkv_trace *trace, struct qkv_graph *graph, const struct qkv_part *owner,
                              enum qkv_part_role role, struct qkv_tensor *node);

/* ======== translation ========
 * Translates any number of sentences, given as token ids, on several threads (qkv/base.h).
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_error error;
 *     const int32_t words[] = {7, 8, 9};
 *     const struct qkv_ids sources[] = {{3, words}, {2, words}};
 *     const struct qkv_search_options options = {.beam_size = 1, .n_best = 1};
 *     struct qkv_workers *workers = qkv_workers_new(2, &error);
 *     struct qkv_model *model = NULL;
 *     if (!qkv_config_default(&config, &arena, "example"))
 *         model = qkv_model_new(&config.model, 100, 120, QKV_FLOAT32, &error);
 *     struct qkv_translator *translator = model ? qkv_translator_new(model, workers, &error) : NULL;
 *     const struct qkv_hypothesis *best;
 *     if (translator && !qkv_translator_run(translator, 2, sources, 32, &options, &best, &error))
 *         for (int i = 0; i < 2; i++) printf("%d tokens\n", (int)best[i].length);
 *     qkv_translator_free(translator);
 *     qkv_model_free(model);
 *     qkv_workers_free(workers);
 *     qkv_arena_release(&arena);
 */

/* ---- search in one batch ----
 * Greedy search, beam search and sampling over the decoding of any model or ensemble, for the sentences of one batch on
 * one thread.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_error error;
 *     struct qkv_batch batch = {0};
 *     struct qkv_batch_view view;
 *     struct qkv_translations translations = {0};
 *     const int32_t words[] = {7, 8, 9};
 *     const struct qkv_ids source = {3, words};
 *     const struct qkv_search_options options = {.beam_size = 4, .beam_alpha = 1, .n_best = 1};
 *     struct qkv_model *model = NULL;
 *     if (!qkv_config_default(&config, &arena, "example"))
 *         model = qkv_model_new(&config.model, 100, 120, QKV_FLOAT32, &error);
 *     struct qkv_decoding *decoding = model ? qkv_decoding_new(model) : NULL;
 *     if (decoding && !qkv_batch_make(&batch, 1, &source, NULL, &error)) {
 *         qkv_batch_shard(&batch, 0, 1, &view);
 *         if (!qkv_search(decoding, &view, &options, &translations, &error))
 *             printf("%d tokens\n", (int)translations.best[0].length);
 *     }
 *     qkv_translations_release(&translations);
 *     qkv_batch_release(&batch);
 *     qkv_decoding_free(decoding);
 *     qkv_model_free(model);
 *     qkv_arena_release(&arena);
 */

enum { QKV_BEAM_MAX = 1000, QKV_REPETITION_PENALTY_MAX = 1000 };

/* Sampling: each token is drawn from the probabilities of the model instead of searched for. */
struct qkv_sampling_options {
    bool enabled; /* false: the others are ignored, search is greedy or by beam */
    /* Divisor of the logits: below 1 it sharpens the distribution, above 1 it flattens it. Must be above 0. */
    double temperature;
    int64_t top_k; /* draw from the top_k most probable tokens; 0: from all */
    /* Nucleus sampling (Holtzman et al. 2020): draw from the smallest set of most probable tokens whose probabilities,
     * after temperature and top_k, sum to at least top_p; 1: from all. Above 0, at most 1. */
    double top_p;
    uint64_t seed;
};

/* All fields except beam_size and n_best may be zero. An array of [sentences] has an element for each sentence of the
 * batch, or of qkv_translator_run. */
struct qkv_search_options {
    int64_t beam_size; /* hypotheses kept per sentence, 1 .. QKV_BEAM_MAX; 1: greedy search, samples */
    double beam_alpha; /* alpha of QKV_LENGTH_PENALTY_WU; 0: no penalty */
    int64_t n_best;    /* translations returned per sentence, 1 .. beam_size; samples: 1 .. QKV_BEAM_MAX */
    /* Tokens without </s>; 0: length_limit[0] for each source token (without </s>) plus length_limit[1], plus the tokens
     * of the prefix. Limited to the positions of the model. */
    int64_t max_output_length;
    bool skip_scores; /* greedy search, samples: leave log_probability and score 0, which is faster */

    /* The divisor of a translation's log-probability. The length counts </s>. WU: ((5 + length) / 6)^alpha (Wu et al. 2016,
     * section 7); AVERAGE: the length; NONE: 1. */
    enum qkv_length_penalty length_penalty;
    int64_t min_output_length; /* tokens without </s>; cut to max_output_length; 0: no minimum */
    /* No n-gram of this many tokens occurs twice in a translation; the translation ends when every other token would repeat
     * one. 0: off. */
    int64_t no_repeat_ngram;
    /* Makes tokens that the translation already contains less likely: a logit x > 0 becomes x / repetition_penalty, other
     * logits become x * repetition_penalty (Keskar et al. 2019). At most QKV_REPETITION_PENALTY_MAX; 0 or 1: off. */
    double repetition_penalty;
    bool allow_unknown; /* false: no <unk> in translations, except in the prefix */
    struct qkv_sampling_options sampling;

    const struct qkv_ids *prefixes; /* [sentences]: tokens that the translations begin with; NULL: none */
    /* [sentences]: a number for each sentence, from 0 to 2^44 - 1. Samples are a function of scores, seed, this number, the
     * index of the sample and the position; messages name sentences by it. NULL: 0, 1, 2, ... */
    const int64_t *numbers;
    double length_limit[2]; /* where max_output_length is 0; both 0: 2 and 10 */

    /* For the text of a language model; all zero: off. */
    const int32_t *first; /* [sentences]: the first token fed; NULL: <s> */
    bool
        runs_on; /* </s> ends a line of running text, not the text, and is a token like others, also in a prefix */
    /* Called for each token that is chosen after the prefix; for one sentence, by greedy search or one sample */
    void (*token)(void *context, int32_t id);
    void *context;
};

struct qkv_hypothesis {
    int64_t length;     /* tokens */
    const int32_t *ids; /* [length], without <s> and </s>; NULL: the sentence has fewer translations */
    /* Nats; includes the prefix, and </s> if finished. A repetition penalty changes it; temperature, top_k, top_p and
     * excluded tokens do not: it is the model's own log-probability. */
    double log_probability;
    double score;  /* log_probability divided by the length penalty */
    bool finished; /* false: cut at the maximum length */
};

/* The translations of a batch; caller's storage, all zero at first. Searching again reuses the
 * memory and overwrites the translations. */
struct qkv_translations {
    int64_t count; /* sentences */
    /* [count * n_best]: those of sentence s from s * n_best, best first. Samples are in the order in which they were
     * drawn; the first ones do not depend on n_best. */
    struct qkv_hypothesis *best;
    struct qkv_arena arena;
};

/* Translates the sources of a batch. Deterministic: equal candidates are ordered by their hypothesis (better first), then
 * by token id (lower first). The other sentences of the batch affect the result of a sentence only by rounding. Samples are
 * equal if the sentence number, the seed and the scores are equal. Fails where qkv_decoding_start fails, when an option is
 * out of range, for a prefix that is too long or holds other ids than those of words, and when memory runs out. QKV_FAILED:
 * the scores of the model are not finite. */
QKV_API enum qkv_status qkv_search(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                   const struct qkv_search_options *options,
                                   struct qkv_translations *translations, struct qkv_error *error);

/* The search options of a config: greedy or beam search, with `skip_scores` set. */
QKV_API struct qkv_search_options qkv_search_options_from_config(const struct qkv_testing_config *testing);

QKV_API void qkv_translations_release(struct qkv_translations *translations);

/* ---- many batches on many threads ---- */

struct qkv_translator;

/* Model and workers must outlive the translator; without workers (NULL) the calling thread computes
 * alone. Returns NULL, with a message, when memory runs out. */
QKV_API struct qkv_translator *qkv_translator_new(const struct qkv_model *model, struct qkv_workers *workers,
                                                  struct qkv_error *error);

/* Makes a translator for an ensemble (qkv_decoding_new_ensemble). Also returns NULL where
 * qkv_decoding_new_ensemble does. */
QKV_API struct qkv_translator *qkv_translator_new_ensemble(struct qkv_ensemble ensemble,
                                                           struct qkv_workers *workers,
                                                           struct qkv_error *error);

/* Divides the batches of qkv_translator_run among processes, which must all call it for the same sentences and options,
 * with the same models. Only process 0 gets the translations, which have the same bits as with one process; the other
 * processes get only the status. Processes must outlive the translator. */
QKV_API void qkv_translator_divide(struct qkv_translator *translator, struct qkv_processes *processes);

/* Translates `count` sentences. Sentences are sorted by length, longest first, and divided into batches of `batch_size` >
 * 0; in int8, large batches are divided further, because smaller ones are faster. Each batch is searched by one thread; a
 * single batch uses all threads for its large products. Sets *best to [count * options->n_best] translations, those of
 * sentence s from s * n_best, best first, valid until the next call, whose sources and prefixes must not point into them.
 * options->prefixes and options->numbers, unless NULL, have an element for each source. The results are the same bits for any
 * number of threads; batch_size and the other sentences affect them only by rounding. Fails where qkv_search fails, when
 * memory runs out, and for a negative `count` or a `batch_size` below 1; *best is then NULL. */
QKV_API enum qkv_status qkv_translator_run(struct qkv_translator *translator, int64_t count,
                                           const struct qkv_ids *sources, int64_t batch_size,
                                           const struct qkv_search_options *options,
                                           const struct qkv_hypothesis **best, struct qkv_error *error);

QKV_API void qkv_translator_free(struct qkv_translator *translator); /* NULL: does nothing */

/* ======== completion ======== */

/* How a language model continues a text. */
struct qkv_completion {
    const struct qkv_model *model;
    struct qkv_ensemble ensemble; /* several models together, in place of `model`; count 0: none */
    /* Running text: </s> ends a line, and the text goes on; the model sees at least the last half of `window` tokens, at most
     * all of them. Otherwise </s> ends the text, which begins with <s>, and `window` is not read. */
    bool runs_on;
    int64_t window;
    int64_t max_length; /* tokens to write at most */
    struct qkv_sampling_options sampling;
    /* [1 + prompt + max_length]: tokens of the text, after the one before it, that attention must ignore; NULL: none */
    const bool *masked;
    int64_t *
        begin; /* receives where the last tokens begin that the model saw, 0: at the one before the text; NULL: not wanted */
    int64_t number; /* of the text: each has samples of its own; from 0 to 2^20 - 1 */
    /* Called for each token as it is chosen */
    void (*token)(void *context, int32_t id);
    void *context;
};

/* Continues the prompt, ids without <s>; of running text, with </s> at the end of each line but the last. The tokens depend on
 * the model, the prompt and the options alone. Fails for a prompt that leaves no position, and as qkv_search does. */
QKV_API enum qkv_status qkv_complete(const struct qkv_completion *completion, struct qkv_ids prompt,
                                     struct qkv_error *error);

#endif
