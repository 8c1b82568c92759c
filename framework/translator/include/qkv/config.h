/* The configuration of a run, read from a YAML file: data, model, training and decoding.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_messages messages;
 *     const char *const overrides[] = {"training.learning_rate=5e-4"};
 *     if (qkv_config_read(&config, &arena, "configs/reverse.yaml", overrides, 1, &messages))
 *         for (int i = 0; i < messages.count; i++) fprintf(stderr, "%s\n", messages.text[i]);
 *     else
 *         qkv_config_write(&config, stdout, true);
 *     qkv_arena_release(&arena);
 *
 * Every field of struct qkv_config is one key of the file. Its row in the table of keys holds its unit, range, default
 * and meaning: `qkv config --reference` prints them, docs/config.md shows them. Section and key names are those of Joey
 * NMT where it has the same key. */
#ifndef QKV_CONFIG_H
#define QKV_CONFIG_H

#include "qkv/graph.h"
#include "qkv/optimizer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- values ---- */

/* A list of texts. The code that fills it in owns the memory; a list that was read from a file lives in the arena that was
 * passed to the reader. */
struct qkv_texts {
    int64_t count;
    const char *const *text; /* [count] */
};

/* A matrix, row after row. Memory is owned as for struct qkv_texts. */
struct qkv_matrix {
    int64_t rows, columns; /* 0, 0: not given */
    const double *value;   /* [rows, columns] */
};

/* The kinds of attention in an encoder-decoder. Models record attention by kind, reports show it. */
enum qkv_attention_kind {
    QKV_ATTENTION_ENCODER, /* self-attention: source words attend to source words */
    QKV_ATTENTION_DECODER, /* causal self-attention: target words attend to earlier target words */
    QKV_ATTENTION_CROSS,   /* target words attend to source words */
    QKV_ATTENTION_KINDS,   /* number of kinds */
};

/* Which target word a row of cross attention belongs to; which is better depends on the model and the layer. */
enum qkv_alignment_reading {
    QKV_READING_PREDICTED, /* the word that the decoder step predicts */
    QKV_READING_READ,      /* the word that the decoder step reads */
    QKV_READINGS,          /* number of readings */
};

/* The enums whose values only a config names, such as enum qkv_level; qkv/choices.def lists their values and meanings,
 * qkv/engine_choices.def those of the engine. For each enum of choices.def there is a function qkv_<enum>_name(value), such as
 * qkv_level_name(QKV_LEVEL_CHAR): the name of the value in configs ("char"), or "unknown"; static memory. */
#define CHOICES(type)             enum type {
#define CHOICE(value, name, help) value,
#define INTERNAL(value, name)     value,
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;                                                                                                        \
    QKV_API const char *type##_name(enum type value);
#include "qkv/choices.def"
#undef CHOICES
#undef CHOICE
#undef INTERNAL
#undef CHOICES_END

enum {
    QKV_METRIC_COUNT = 0 /* the number of metrics: every row of the table adds 1 */
#define METRIC(...) +1
#include "qkv/metrics.def"
};

struct qkv_bpe;

/* data.src, data.trg */
struct qkv_text_config {
    const char *lang;
    enum qkv_level level;
    bool lowercase, split_punctuation;
    int64_t num_merges;    /* level bpe: number of merges to learn; 0: bpe_codes has them */
    const char *bpe_codes; /* level bpe: a codes file; "": learn num_merges merges */
    double bpe_dropout;    /* level bpe: probability with which training leaves out a merge */
    int64_t bpe_min_freq;  /* level bpe: pieces that occur less often are cut further; 0: none */
    int64_t max_length;    /* tokens */
    int64_t voc_limit;     /* types, without special tokens; 0: no limit */
    int64_t voc_min_freq;  /* occurrences */
    /* Not a key. Level bpe: the merges that tokenizing needs, set by qkv_run_open and qkv_corpus_merges. Not
     * owned. */
    const struct qkv_bpe *bpe;
    /* Not a key. Tokens do not record where spaces were (qkv/corpus.h): those of runs of format 1, and those that merges are
     * learned from. */
    bool plain_marks;
};

struct qkv_data_config {
    /* Pairs: x.tsv, x.tsv.gz, or the common prefix of two files; else a text file; "": none */
    const char *train, *dev, *test;
    enum qkv_text_form text;              /* all but pairs have only the side `trg` */
    int64_t context;                      /* running text: tokens of a window */
    double dev_share;                     /* of the end of `train` that is `dev`; 0: none */
    const char *train_links;              /* file of word alignments of `train`; "": none */
    enum qkv_links_from train_links_from; /* number of the first word in that file */
    struct qkv_text_config src, trg;
    bool joint_vocabulary;
};

struct qkv_embedding_config {
    int64_t embedding_dim;
    bool scale; /* by sqrt(embedding_dim) */
    double dropout;
    double word_dropout; /* of complete embeddings */
};

struct qkv_position_config {
    enum qkv_position_kind type;
    double base;                   /* sinusoidal, rotary */
    int64_t max_length;            /* tokens, with </s>: sinusoidal, learned, rotary */
    int64_t buckets, max_distance; /* relative: as in struct qkv_attention_rule */
    bool restart;                  /* decoder alone: those of the target begin at 0, not after the source */
};

struct qkv_attention_config {
    /* Transformer: per head; recurrent: key_width is the width of the score's layer */
    int64_t key_width, value_width;
    bool bias, output_gate, qk_norm;
    double dropout; /* of the weights */
    /* Of a transformer, as in struct qkv_attention_rule; window 0: none, for which files have 1000000 */
    int64_t key_value_heads, window, global_tokens;
    double soft_cap;
    enum qkv_attention_sink sink;
    enum qkv_attention_kernel kernel;
    enum qkv_attention_score score; /* of the decoder; a transformer has scaled_dot */
    int64_t local_window;           /* local_p: tokens on either side of the predicted source position */
};

/* The value of activation_dropout that means: use the value of `dropout`. (0 means no dropout.) */
enum { QKV_SAME_AS_DROPOUT = -1 };

enum { QKV_LAYERS_MAX = 1000 }; /* greatest number of layers of a stack */

/* model.encoder, model.decoder */
struct qkv_stack_config {
    enum qkv_network type;
    int64_t num_layers, num_heads, hidden_size, ff_size;
    double dropout;
    double activation_dropout; /* inside feed-forward layers; QKV_SAME_AS_DROPOUT: that of `dropout` */
    bool ff_gated;
    enum qkv_norm_place layer_norm;
    enum qkv_norm_kind norm;
    double norm_epsilon;
    enum qkv_activation activation;
    struct qkv_attention_config attention;
    struct qkv_embedding_config embeddings;
    struct qkv_position_config positions;
    enum qkv_prefix prefix; /* decoder alone */
    /* Recurrent networks only: */
    enum qkv_cell rnn_type;
    bool bidirectional, reverse;      /* encoder */
    enum qkv_init_hidden init_hidden; /* decoder */
    bool input_feeding;               /* decoder */
    double hidden_dropout;            /* decoder */
};

struct qkv_model_config {
    /* A network that the program has registered (model.h); "" or NULL: by encoder.type */
    const char *network;
    const char *settings; /* of that network: "name=number name=number"; "" or NULL: its defaults */
    enum qkv_initializer initializer, embed_initializer;
    double init_gain, embed_init_gain;
    bool init_depth_scaling;
    bool tied_embeddings, tied_softmax;
    bool init_rnn_orthogonal;
    double lstm_forget_gate;
    struct qkv_stack_config encoder, decoder;
};

/* The type that is faster on this machine: a value of training.precision alone, which the config of a run never has. */
#define QKV_PRECISION_AUTO QKV_PRECISION_COUNT

struct qkv_training_config {
    const char *model_dir; /* the run folder */
    const char *from;      /* a run or a checkpoint whose parameters training starts from; "": random ones */
    enum qkv_from_vocabulary from_vocabulary;
    int64_t random_seed;
    enum qkv_optimizer_kind optimizer;
    double learning_rate;
    double adam_betas[2], adam_epsilon, momentum, weight_decay;
    bool nesterov;
    const char *parameter_rates; /* for qkv_parameters_set_rates: "PATTERN=FACTOR ..."; "" or NULL: all 1 */
    enum qkv_schedule_kind scheduling;
    int64_t learning_rate_warmup; /* updates */
    double learning_rate_factor, learning_rate_min, decrease_factor;
    int64_t learning_rate_patience; /* validations */
    int64_t batch_size;
    enum qkv_batch_type batch_type;
    int64_t batch_multiplier;              /* batches per update */
    int64_t shards;                        /* parts of a batch, each computed by one thread */
    double ema;                            /* decay of the moving average of the parameters; 0: off */
    int64_t updates, epochs;               /* training ends at whichever comes first; 0: no limit */
    int64_t logging_freq, validation_freq; /* updates */
    int64_t validation_samples;            /* sentences */
    enum qkv_metric early_stopping_metric;
    int64_t patience; /* validations; 0: no limit */
    int64_t keep_best_ckpts, keep_last_ckpts;
    int64_t snapshots;                    /* checkpoints in half precision, over all of training; 0: none */
    double clip_grad_norm, clip_grad_val; /* 0: off */
    double label_smoothing;
    enum qkv_precision precision;   /* of the products of linear layers in an update; or QKV_PRECISION_AUTO */
    double r_drop;                  /* weight of the divergence of two passes; 0: one pass */
    double simcut;                  /* weight of the divergence of a pass with tokens cut off; 0: one pass */
    double simcut_rate;             /* share of these tokens */
    double guided_alignment;        /* weight of the loss of data.train_links; 0: off */
    int64_t guided_alignment_layer; /* decoder layer, from 1; 0: the last but one, or the only one */
    int64_t guided_alignment_head;  /* from 1 */
    enum qkv_alignment_reading guided_alignment_reading; /* the step that learns a token's links */
};

struct qkv_testing_config {
    int64_t batch_size; /* sentences */
    int64_t beam_size;  /* hypotheses; 1: greedy search */
    enum qkv_length_penalty length_penalty;
    double beam_alpha;
    int64_t n_best;
    int64_t max_output_length, min_output_length; /* tokens; max 0: length_limit */
    double length_limit[2];  /* target tokens for each source token, and more of them; training raises both */
    int64_t no_repeat_ngram; /* tokens; 0: off */
    double repetition_penalty; /* 1: off */
    enum qkv_bleu_tokenizer bleu_tokenizer;
    int64_t average; /* best checkpoints to average at the end of training; 0: none */
};

struct qkv_config {
    const char *name;
    struct qkv_data_config data;
    struct qkv_model_config model;
    struct qkv_training_config training;
    struct qkv_testing_config testing;
};

/* What the texts and the model of a config have. Everything but the reader of the texts asks this, not data.text or the kind
 * of network. */
struct qkv_sides {
    bool has_source;  /* sentence pairs; false: a text, for a language model */
    bool runs_on;     /* that text is one: </s> ends its lines, not the text */
    bool has_encoder; /* false: the decoder is the complete model */
    unsigned
        attention; /* the kinds that the model has, 1u << enum qkv_attention_kind; of a network of the program: all */
};

/* model NULL: describes the texts alone. */
QKV_API struct qkv_sides qkv_sides_of(const struct qkv_data_config *data,
                                      const struct qkv_model_config *model);

/* The options of the engine's optimizer that a config chooses. */
QKV_API struct qkv_optimizer_options
qkv_optimizer_options_from_config(const struct qkv_training_config *training);

/* ---- reading, checking and writing ---- */

enum { QKV_MESSAGES_MAX = 100 };

/* All errors of one YAML file, a config or a scene. Each text is one line, `configs/x.yaml:14:7: sentence`, without a
 * newline or full stop. Lines and columns count from 1, columns in characters. Texts are in the order of their lines;
 * errors about the whole file and about overrides come last. They live in the arena that was passed to the reader. When a
 * file has more errors than `text` can hold, the last text gives the number of omitted errors. */
struct qkv_messages {
    int count;
    const char *text[QKV_MESSAGES_MAX];
};

/* Reads a config: the defaults, then the YAML file at `path`, then the overrides, each of the form
 * `training.learning_rate=1e-3`; a later value replaces an earlier one. Unknown and missing keys, values of the wrong
 * type or out of range, and values that contradict each other are errors. All errors are collected in `messages`. Returns
 * QKV_OK and no message, or QKV_INVALID and at least one; the config must then not be used.
 *
 * A file with the key `extends: other.yaml` extends that file, which may extend another one: the values of the extended
 * file are read first, and those of the extending file add to or replace them, key by key. The path is relative to the
 * folder of the file that names it.
 *
 * The file is one YAML document without duplicate keys, anchors, aliases and tags. A boolean is `true` or `false`. A
 * number is decimal or scientific, without quotes, leading zeros and underscores.
 *
 * A path in the file is relative to the folder of the file, a path in an override to the current folder. A list of paths
 * means the first path that exists. The fields of the config hold paths relative to the current folder.
 *
 * The config is normalised: key_width, value_width, key_value_heads or embedding_dim 0, activation_dropout -1 and model_dir
 * "" mean that the value follows from other keys, and are replaced by that value. The strings of the config live in
 * `arena`. */
QKV_API enum qkv_status qkv_config_read(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                                        const char *const *overrides, int override_count,
                                        struct qkv_messages *messages);

/* The default config, for programs that set fields themselves and then call qkv_config_finish. It holds the defaults of the
 * table of keys; some of them are 0, -1 or "" for values that follow from other keys. The required strings (data.train, the
 * languages) are empty. `name` is not copied. QKV_INVALID when memory runs out.
 *
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_messages messages = {0};
 *     if (!qkv_config_default(&config, &arena, "mine")) {
 *         config.model.encoder.hidden_size = config.model.decoder.hidden_size = 128;
 *         if (qkv_config_finish(&config, &arena, &messages)) fprintf(stderr, "%s\n", messages.text[0]);
 *     }
 *     qkv_arena_release(&arena);
 */
QKV_API enum qkv_status qkv_config_default(struct qkv_config *config, struct qkv_arena *arena,
                                           const char *name);

/* Checks a config that a program has filled in, by the ranges of its keys and the rules between them, and normalises it as
 * qkv_config_read does: sets key_width, value_width, key_value_heads, embedding_dim, activation_dropout and model_dir where
 * they are 0, -1 or "". Other values stay as they are: after changing hidden_size of a normalised config, set key_width,
 * value_width and embedding_dim to 0, and after changing dropout, set activation_dropout to -1; otherwise they keep their
 * old values. The required strings and the end of training may be missing; qkv_train refuses that. Errors are as in
 * qkv_config_read, with `config` as the place. qkv_model_new and qkv_train finish their own copies of a config. */
QKV_API enum qkv_status qkv_config_finish(struct qkv_config *config, struct qkv_arena *arena,
                                          struct qkv_messages *messages);

/* Writes a normalised config (qkv_config_read, qkv_config_finish) as YAML, in the order of the table of keys, for a file
 * in the current folder: reading it there gives the same config, bit by bit.
 * `full`: every key; otherwise only keys whose value does not follow from the defaults and the other keys. QKV_INVALID
 * when the file cannot be written or there is no memory. */
QKV_API enum qkv_status qkv_config_write(const struct qkv_config *config, FILE *file, bool full);

#endif
