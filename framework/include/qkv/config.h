/* The effective configuration of a run, typed. Every field is one row of the table in
 * framework/config/config_keys.def, which holds its path, unit, range, default and help; `qkv config --reference`
 * prints that table. Section and key names follow Joey NMT's YAML wherever it has the notion. */
#ifndef QKV_CONFIG_H
#define QKV_CONFIG_H

#include "qkv/arena.h"
#include "qkv/attention_kind.h"
#include "qkv/attention_rule.h"
#include "qkv/error.h"
#include "qkv/messages.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The enums whose values a config names, and for each enum `qkv_<enum>_name(value)`: the name of a value as
 * configs write it, "unknown" for what is not a value of the enum; static memory. Values, names and meanings:
 * qkv/choices.def. */
#define CHOICES(type)              enum type {
#define CHOICE(value, name, help)  value,
#define CHOICE_OF_KEYS(value, ...) value,
#define INTERNAL(value, name)      value,
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;                                                                                                        \
    QKV_API const char *type##_name(enum type value);
#include "qkv/choices.def"
#undef CHOICES
#undef CHOICE
#undef CHOICE_OF_KEYS
#undef INTERNAL
#undef CHOICES_END

enum {
    QKV_OPTIMIZER_COUNT = 0
#define OPTIMIZER(...) +1
#include "qkv/optimizers.def"
    ,
    QKV_SCHEDULE_COUNT = 0
#define SCHEDULE(...) +1
#include "qkv/schedules.def"
    ,
    QKV_METRIC_COUNT = 0
#define METRIC(...) +1
#include "qkv/metrics.def"
};

QKV_API const char *qkv_attention_kernel_name(enum qkv_attention_kernel value);

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
    int64_t buckets, max_distance; /* relative: as in struct qkv_attention_rule */
};

enum { QKV_WINDOW_NONE = 1000000 }; /* attention.window in YAML: all keys; 0 in a finished rule */

struct qkv_attention_config {
    int64_t key_width, value_width; /* per head; 0: hidden_size / num_heads */
    bool bias;
    /* The keys of the section that are fields of the rule. Models use the finished rule, which also has what
     * follows from other keys: qkv_attention_rule_of. */
    struct qkv_attention_rule rule;
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

/* The finished rule of one kind of a transformer's attention. The encoder's is that of model.encoder, the others
 * are those of model.decoder. Window, global tokens, ALiBi and buckets belong to self attention. */
QKV_API struct qkv_attention_rule qkv_attention_rule_of(const struct qkv_model_config *model,
                                                        enum qkv_attention_kind kind);

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

/* Some of the keys of a config; each row of the table of keys says to which of these the key belongs. */
enum qkv_config_selection {
    QKV_KEYS_FIXED_BY_MODEL,  /* the meaning of a trained model's parameters depends on them */
    QKV_KEYS_FIXED_ON_RESUME, /* all on which the result of training depends, those of the model included */
    QKV_KEYS_WITH_EFFECT,     /* keys that this config uses: num_heads only of a transformer, for example */
};

/* Calls `each` with the path and the value of every selected key, in the order of the table; the value is
 * written as in a config and lives until `each` returns. Ends early when `each` returns false. QKV_INVALID when
 * `each` returned false or there is no memory. */
QKV_API enum qkv_status qkv_config_each(const struct qkv_config *config, enum qkv_config_selection selection,
                                        bool (*each)(void *context, const char *path, const char *value),
                                        void *context);

/* Writes every key with type, values, default and meaning as a Markdown table. QKV_INVALID when the file
 * cannot be written. */
QKV_API enum qkv_status qkv_config_write_reference(FILE *file);

#endif
