/* The effective configuration of a run, typed. Every field is one row of the table in
 * framework/config/keys.def, which holds its path, unit, range, default and help; `qkv config --reference`
 * prints that table. Section and key names follow Joey NMT's YAML wherever it has the notion. */
#ifndef QKV_CONFIG_H
#define QKV_CONFIG_H

#include "qkv/arena.h"
#include "qkv/attention_kernel.h"
#include "qkv/error.h"
#include "qkv/messages.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum qkv_level { QKV_LEVEL_WORD, QKV_LEVEL_CHAR };
enum qkv_network { QKV_NETWORK_TRANSFORMER, QKV_NETWORK_RECURRENT };
enum qkv_norm_place { QKV_NORM_PRE, QKV_NORM_POST };
enum qkv_norm_kind { QKV_NORM_LAYER, QKV_NORM_RMS };
enum qkv_position_kind {
    QKV_POSITION_SINUSOIDAL, /* added to the embeddings: Vaswani et al. 2017 */
    QKV_POSITION_LEARNED,    /* likewise: Gehring et al. 2017 */
    QKV_POSITION_ROTARY,     /* in self attention: queries and keys turned by it (Su et al. 2021) */
    QKV_POSITION_ALIBI,      /* likewise: scores fall with the distance (Press et al. 2022) */
    QKV_POSITION_RELATIVE,   /* likewise: a learned number for each distance and head (Raffel et al. 2020) */
    QKV_POSITION_NONE,
};
enum qkv_activation {
    QKV_ACTIVATION_NONE,
    QKV_ACTIVATION_RELU,
    QKV_ACTIVATION_GELU,
    QKV_ACTIVATION_GELU_TANH,
    QKV_ACTIVATION_SILU,
    QKV_ACTIVATION_TANH,
    QKV_ACTIVATION_SIGMOID,
};
enum qkv_cell { QKV_CELL_TANH, QKV_CELL_GRU, QKV_CELL_LSTM };
/* What the states of a recurrent decoder start from. */
enum qkv_init_hidden { QKV_INIT_HIDDEN_BRIDGE, QKV_INIT_HIDDEN_LAST, QKV_INIT_HIDDEN_ZERO };
/* How attention scores a query h against a source position s. */
enum qkv_attention_score {
    QKV_ATTENTION_SCORE_SCALED_DOT, /* (W_Q h) . (W_K s) / sqrt(key_width) (Vaswani et al. 2017) */
    QKV_ATTENTION_SCORE_NONE,       /* no attention */
    QKV_ATTENTION_SCORE_ADDITIVE,   /* v . tanh(W_Q h + W_K s) (Bahdanau et al. 2015) */
    QKV_ATTENTION_SCORE_DOT,        /* h . s (Luong et al. 2015, as the next three) */
    QKV_ATTENTION_SCORE_GENERAL,    /* h . W s */
    QKV_ATTENTION_SCORE_CONCAT,     /* v . tanh(W [h; s]) */
    QKV_ATTENTION_SCORE_LOCAL_P,    /* general, around a place that h predicts */
};
enum qkv_initializer {
    QKV_INITIALIZER_XAVIER_UNIFORM,
    QKV_INITIALIZER_XAVIER_NORMAL,
    QKV_INITIALIZER_UNIFORM,
    QKV_INITIALIZER_NORMAL,
    QKV_INITIALIZER_ZEROS,
    /* No choices in configs: */
    QKV_INITIALIZER_ONES,       /* gains of norms */
    QKV_INITIALIZER_ORTHOGONAL, /* recurrent weights */
    QKV_INITIALIZER_FORGET,     /* biases of an LSTM */
};
enum qkv_optimizer_kind { QKV_OPTIMIZER_ADAM, QKV_OPTIMIZER_ADAMW, QKV_OPTIMIZER_SGD };
enum qkv_schedule_kind {
    QKV_SCHEDULE_CONSTANT,
    QKV_SCHEDULE_NOAM,
    QKV_SCHEDULE_INVERSE_SQRT,
    QKV_SCHEDULE_LINEAR,
    QKV_SCHEDULE_COSINE,
    QKV_SCHEDULE_EXPONENTIAL,
    QKV_SCHEDULE_PLATEAU,
};
enum qkv_batch_type { QKV_BATCH_SENTENCE, QKV_BATCH_TOKEN };
enum qkv_metric {
    QKV_METRIC_LOSS,
    QKV_METRIC_PERPLEXITY,
    QKV_METRIC_TOKEN_ACCURACY,
    QKV_METRIC_SEQUENCE_ACCURACY,
    QKV_METRIC_BLEU,
    QKV_METRIC_CHRF,
};

/* data.src, data.trg: how one side of the text becomes tokens. */
struct qkv_text_config {
    const char *lang;       /* also the suffix of line-aligned files: data.train + "." + lang */
    enum qkv_level level;   /* word: split at white space; char: every character is a token */
    bool lowercase;         /* Unicode lower case */
    bool split_punctuation; /* word level: punctuation marks become tokens of their own */
    int64_t max_length;     /* tokens; longer pairs are dropped from training and counted */
    int64_t voc_limit;      /* most word types kept, special tokens not counted; 0: no limit */
    int64_t voc_min_freq;   /* a type seen less often is unknown */
};

struct qkv_data_config {
    const char *train, *dev, *test; /* x.tsv or x.tsv.gz, or the common prefix of two files; "" for none */
    struct qkv_text_config src, trg;
    bool joint_vocabulary;
};

struct qkv_embedding_config {
    int64_t embedding_dim; /* 0: hidden_size; anything else is an error where they differ */
    bool scale;            /* multiply by sqrt(embedding_dim) */
    double dropout;
};

struct qkv_position_config {
    enum qkv_position_kind type;
    double base;                   /* sinusoidal, rotary: 10000 in the papers */
    int64_t max_length;            /* sinusoidal, learned, rotary: tokens of the longest sentence */
    int64_t buckets, max_distance; /* relative: as in qkv_attention.bias and .distance */
};

enum { QKV_WINDOW_NONE = 1000000 }; /* wider than any sentence */

struct qkv_attention_config {
    int64_t key_width, value_width; /* per head; 0: hidden_size / num_heads */
    bool bias;
    double dropout;                /* on the weights */
    int64_t key_value_heads;       /* 0: num_heads */
    int64_t window, global_tokens; /* of self attention; QKV_WINDOW_NONE: all */
    enum qkv_attention_kernel kernel;
    enum qkv_attention_score score; /* of the decoder; a transformer has scaled_dot */
    int64_t local_window;           /* local_p: keys on either side of the predicted place */
};

/* model.encoder, model.decoder */
struct qkv_stack_config {
    enum qkv_network type;
    int64_t num_layers, num_heads, hidden_size, ff_size;
    double dropout;
    enum qkv_norm_place layer_norm;
    enum qkv_norm_kind norm;
    double norm_epsilon;
    enum qkv_activation activation;
    struct qkv_attention_config attention;
    struct qkv_embedding_config embeddings;
    struct qkv_position_config positions;
    /* recurrent networks only */
    enum qkv_cell rnn_type;
    bool bidirectional;               /* encoder: a second cell a layer reads from the end */
    bool reverse;                     /* encoder: the only cell reads from the end */
    enum qkv_init_hidden init_hidden; /* decoder */
    bool input_feeding;    /* decoder: each step is fed what the last one found; without attention, the
                              encoder's final state */
    double hidden_dropout; /* decoder: on [state; context], or on the state without attention */
};

/* What the initializers mean here, for a matrix with n inputs and m outputs; n of an embedding table is
 * embedding_dim, so that with embeddings.scale its rows enter the model with unit variance. xavier_uniform:
 * within +-sqrt(6 / (n + m)); xavier_normal: standard deviation sqrt(2 / (n + m)) (Glorot and Bengio 2010);
 * uniform: within +-1 / sqrt(n); normal: standard deviation 1 / sqrt(n). All of it times the gain. */
struct qkv_model_config {
    enum qkv_initializer initializer;       /* weight matrices */
    double init_gain;                       /* multiplies what the initializer draws */
    bool init_depth_scaling;                /* matrices that end a residual branch: / sqrt(2 * num_layers) */
    enum qkv_initializer embed_initializer; /* embedding tables */
    double embed_init_gain;
    bool tied_embeddings;     /* source and target share one table; needs data.joint_vocabulary */
    bool tied_softmax;        /* the output projection is the target table, transposed */
    bool init_rnn_orthogonal; /* recurrent weights: each gate an orthogonal matrix */
    double lstm_forget_gate;  /* where the biases of forget gates start */
    struct qkv_stack_config encoder, decoder;
};

struct qkv_training_config {
    const char *model_dir; /* the run folder */
    int64_t random_seed;
    enum qkv_optimizer_kind optimizer;
    double learning_rate;
    double adam_betas[2], adam_epsilon, momentum, weight_decay;
    enum qkv_schedule_kind scheduling;
    int64_t learning_rate_warmup;   /* updates */
    double learning_rate_factor;    /* noam */
    double learning_rate_min;       /* floor of linear, cosine, exponential, plateau */
    double decrease_factor;         /* exponential: per epoch; plateau: per lack of progress */
    int64_t learning_rate_patience; /* plateau: validations without progress */
    int64_t batch_size;
    enum qkv_batch_type batch_type;
    int64_t batch_multiplier; /* batches whose gradients are added up for one update */
    int64_t shards;           /* fixed number of parts of a batch; at most as many threads work on it */
    int64_t updates, epochs;  /* whichever ends first; 0: no bound; one must be given */
    int64_t logging_freq, validation_freq; /* updates */
    int64_t validation_samples;            /* translations shown at each validation */
    enum qkv_metric early_stopping_metric;
    int64_t patience; /* validations without progress before training stops; 0: never */
    int64_t keep_best_ckpts;
    double clip_grad_norm, clip_grad_val; /* 0: off */
    double label_smoothing;
};

struct qkv_testing_config {
    int64_t batch_size; /* sentences */
    int64_t beam_size;  /* 1: greedy */
    double beam_alpha;  /* exponent of the length penalty (Wu et al. 2016) */
    int64_t n_best;
    int64_t max_output_length; /* tokens; 0: 2 * source + 10 */
};

struct qkv_config {
    const char *name;
    struct qkv_data_config data;
    struct qkv_model_config model;
    struct qkv_training_config training;
    struct qkv_testing_config testing;
};

/* The longest sentence, in tokens with </s>, that a stack has positions for; INT32_MAX where nothing is
 * bound: in recurrent stacks, and with positions that need no table (none, ALiBi, relative). */
QKV_API int64_t qkv_stack_longest(const struct qkv_stack_config *stack);

/* Reads a config: the defaults, over them the YAML file at `path`, over it the overrides, each of the form
 * `training.learning_rate=1e-3` (those of `-s`; a later one wins). Refuses what is unknown, of the wrong
 * type, out of range, missing or does not fit together, and collects all errors of the file into `messages`
 * (error: QKV_INVALID and at least one message; success: QKV_OK and none).
 *
 * YAML: one document; no duplicate keys, anchors, aliases or tags. A boolean is true or false; yes, no, on
 * and off are texts. A number is plain decimal or scientific, without quotes, leading zeros or underscores.
 * Columns in messages are those of the value when it is bad by itself, else of the key.
 *
 * The config is normalised: key_width, value_width, key_value_heads, embedding_dim and model_dir hold what
 * their 0 or "" stands for. Its texts live in `arena`. On error the config must not be used. */
QKV_API enum qkv_status qkv_config_read(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                                        const char *const *overrides, int override_count,
                                        struct qkv_messages *messages);

/* The config of a file that gives no key but `name`, normalised; its required texts (data.train, ...) are
 * empty. For programs that set fields themselves. `name` is not copied. QKV_INVALID when there is no memory.
 */
QKV_API enum qkv_status qkv_config_default(struct qkv_config *config, struct qkv_arena *arena,
                                           const char *name);

/* Writes a normalised config as YAML, in the order of the table; reading it gives the same config, bit by
 * bit. `full`: every key; otherwise only those that do not follow from the defaults and the other keys.
 * QKV_INVALID when the file cannot be written or there is no memory. */
QKV_API enum qkv_status qkv_config_write(const struct qkv_config *config, FILE *file, bool full);

/* How long a run holds on to what its config says. */
enum qkv_config_fixed {
    QKV_FIXED_FOR_GOOD, /* what the numbers of a trained model mean: its layers, how text becomes tokens */
    QKV_FIXED_RESUMING, /* that, and all on which the numbers depend at which training arrives */
};

/* Calls `each` with every key, as path and value text, that a run with this config holds on to; which they
 * are is a matter of the table of keys and, for some, of training.scheduling. `each` ends it by returning
 * false. QKV_INVALID when it did, or when there is no memory. */
QKV_API enum qkv_status
qkv_config_each_fixed(const struct qkv_config *config, enum qkv_config_fixed when,
                      bool (*each)(void *context, const char *path, const char *value), void *context);

/* Writes every key with type, values, default and meaning as a Markdown table. QKV_INVALID when the file
 * cannot be written. */
QKV_API enum qkv_status qkv_config_write_reference(FILE *file);

/* The name of a value as configs write it; "unknown" for what is not a value of the enum. Static memory. */
QKV_API const char *qkv_level_name(enum qkv_level value);
QKV_API const char *qkv_network_name(enum qkv_network value);
QKV_API const char *qkv_norm_place_name(enum qkv_norm_place value);
QKV_API const char *qkv_norm_kind_name(enum qkv_norm_kind value);
QKV_API const char *qkv_position_kind_name(enum qkv_position_kind value);
QKV_API const char *qkv_attention_kernel_name(enum qkv_attention_kernel value);
QKV_API const char *qkv_activation_name(enum qkv_activation value);
QKV_API const char *qkv_init_hidden_name(enum qkv_init_hidden value);
QKV_API const char *qkv_cell_name(enum qkv_cell value);
QKV_API const char *qkv_attention_score_name(enum qkv_attention_score value);
QKV_API const char *qkv_initializer_name(enum qkv_initializer value);
QKV_API const char *qkv_optimizer_kind_name(enum qkv_optimizer_kind value);
QKV_API const char *qkv_schedule_kind_name(enum qkv_schedule_kind value);
QKV_API const char *qkv_batch_type_name(enum qkv_batch_type value);
QKV_API const char *qkv_metric_name(enum qkv_metric value);

#endif
