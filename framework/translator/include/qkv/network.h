/* The interface for a program's own network: a program that implements it can use training, search, checkpoints, evaluation
 * and attention maps with its network. The two networks of qkv (models/transformer.c, models/recurrent.c) use this header,
 * too.
 *
 * A network needs a name, declare and forward. A config chooses it with `model.network: NAME`, once the program has
 * registered it; the network then decides what the keys of model.encoder and model.decoder mean, but they are checked as
 * those of the network that model.encoder.type names. The checks for the default, transformer, are: num_heads divides
 * hidden_size, hidden_size is the same in both stacks, and no sentence with </s> is longer than positions.max_length (no
 * limit with positions.type none). Everything after the hidden states of the decoder (output layer, loss, search) is the
 * model's. examples/own_network.c is a complete program, examples/own_decoding.c one that also has its own decoding. The
 * command qkv cannot open runs of such a network; the program uses trainer.h, attention_collect.h, heads.h, trainer.h
 * and others instead.
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
#ifndef QKV_NETWORK_H
#define QKV_NETWORK_H

#include "qkv/layers.h"
#include "qkv/model.h"

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

/* Decoding token by token: the network's part of qkv_decoding_start, _step and _reorder (model.h), which check their
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
     * can be silenced and explained. NULL: the network has no such layers. */
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

/* Fails when the network's decoding gives other log-probabilities than forward (qkv_decoding_new_plain), up to rounding, for
 * two short sentences: in rows that stay where they are, and in rows that are reordered between steps, some of them continued
 * twice, others dropped. Such a network trains well and then translates badly. The parameters must be initialized. Checks
 * nothing when the network has no decoding of its own, the model has positions for less than two tokens, or its products are
 * narrow (qkv_parameters_set_precision). qkv_train calls it for networks that a program has registered. */
QKV_API enum qkv_status qkv_network_check_decoding(const struct qkv_model *model, struct qkv_error *error);

/* The value of one of the network's settings for this model; NaN, which must not be cast to an integer, when the network
 * has no setting of that name. */
QKV_API double qkv_model_setting(const struct qkv_model *model, const char *name);

/* Makes a decoding that works as that of a network without `decoding`: simple and slow, to test a faster decoding against.
 * Otherwise as qkv_decoding_new. */
QKV_API struct qkv_decoding *qkv_decoding_new_plain(const struct qkv_model *model);

/* ---- the parts of a pass ---- */

/* Appends `node` to the trace as a part with this role; copies the other fields (stack, attention, layer, heads) from
 * `owner`. Does nothing when trace or node is NULL. The graph fails, also without a trace, for roles of attention in a layer
 * below 1 or of a kind that does not exist, and for QKV_PART_WEIGHTS when the node is no attention op with owner->heads
 * heads.
 *
 * Which parts each feature needs, in the shapes of model.h; a feature that lacks a part is refused with a message that
 * names the part:
 *
 * - attention maps (attention_collect.h): WEIGHTS, with a row for each token of the queries' side of a sentence
 *   and a column for each token of the keys' side.
 * - measures of heads (heads.h): WEIGHTS of exactly the layers and heads that the function attention gives, in the order of
 *   qkv_model_head; and norms.
 * - norms (qkv_heads_options.norms): VALUE of each layer with a map, whose layers
 *   attention gives, with attentional in those of a single head.
 * - explanations (`qkv explain`): INPUT and MEMORY of the layer, which attention gives; RESIDUAL, too, if the layer is
 *   pre-norm; of a single head OUTPUT, too, if model.decoder.input_feeding is on, and attentional. EMBEDDING of the stack of
 *   the queries, of cross attention and of a single head of both stacks, whose embeddings the function inputs gives; its
 *   positions where POSITIONS are recorded. */
QKV_API void qkv_trace_record(struct qkv_trace *trace, struct qkv_graph *graph, const struct qkv_part *owner,
                              enum qkv_part_role role, struct qkv_tensor *node);

#endif
