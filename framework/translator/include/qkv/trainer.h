/* Training: from a config to a run folder (run.h).
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_messages messages = {0};
 *     struct qkv_train_options options = {.overwrite = true};
 *     struct qkv_train_result result = {0};
 *     if (qkv_config_read(&config, &arena, "configs/toy_en_es.yaml", NULL, 0, &messages))
 *         fprintf(stderr, "%s\n", messages.text[0]);
 *     else if (qkv_train(&config, &options, &result, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     else
 *         printf("%lld updates\n", (long long)result.updates);
 *     qkv_arena_release(&arena);
 *
 * The run can be opened from the first checkpoint on (run.h, text_translator.h). A checkpoint is written at every
 * validation, every training.validation_freq updates: killing the process loses only the updates since the last checkpoint,
 * and training that continues with `resume` ends with the same bits as training that was never killed. */
#ifndef QKV_TRAINER_H
#define QKV_TRAINER_H

#include "qkv/average.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/evaluate.h"
#include "qkv/processes.h"

/* Reported after each update. */
struct qkv_train_progress {
    int64_t update, epoch; /* both from 1 */
    int64_t updates;       /* expected in total; 0: unknown */
    int64_t tokens;        /* target tokens so far */
    double loss;           /* the objective (model.h) per target token, nats; mean since the last log line */
    double cross_entropy;  /* of the same tokens, without label smoothing; NaN: not known */
    double alignment;      /* the loss of guided alignment per target token, without its weight; NaN: off */
    double learning_rate;
    double gradient_norm;     /* before clipping */
    double tokens_per_second; /* source and target, since the last log line or validation */
    double seconds_left;      /* NaN: unknown */
    bool logged;              /* this update ends a logging interval */
};

/* Reported after each validation. */
struct qkv_train_validation {
    int64_t update;
    struct qkv_scores scores; /* scores.value[QKV_METRIC_BLEU] and so on (metrics.h) */
    bool best;                /* the best so far, by training.early_stopping_metric */
    int64_t samples;          /* translations to show */
    const char *const *source, *const *reference, *const *translation; /* [samples] */
};

/* Reported before the first update. */
struct qkv_train_start {
    const char *folder;
    int64_t parameters, frozen;         /* number of parameters; of those that are frozen */
    int64_t pairs, read;                /* training pairs kept, and in the file */
    int64_t long_sources, long_targets; /* dropped because a side is longer than max_length */
    int64_t dev_pairs;                  /* 0: no validation */
    int32_t source_types, target_types; /* sizes of the vocabularies */
    int threads, shards, processes;
    int64_t resumed;                    /* updates done before; 0: a new run */
    const char *from;                   /* checkpoint of training.from; NULL: random initial values */
    bool has_new_vocabulary;            /* the vocabularies are not those of the run of `from`: */
    int64_t known_source, known_target; /* types that both runs have, without special tokens */
};

/* Reported at the end of training if testing.average is above 0: the average of the best checkpoints. */
struct qkv_train_average {
    struct qkv_average checkpoints; /* what was averaged */
    struct qkv_scores scores;       /* of the average, on the dev set */
};

/* Callbacks. Any may be NULL. */
struct qkv_train_listener {
    void *context;
    bool (*stop)(void *context); /* called after each update; true: save and end */
    void (*start)(void *context, const struct qkv_train_start *start);
    void (*progress)(void *context, const struct qkv_train_progress *progress);
    void (*validation)(void *context, const struct qkv_train_validation *validation);
    void (*average)(void *context, const struct qkv_train_average *average);
    /* Reports a probable problem, such as overfitting, and the config key that helps, in one sentence. */
    void (*notice)(void *context, const char *sentence);
};

/* Messages name resume and overwrite as options of `qkv train`: --resume, --overwrite. */
struct qkv_train_options {
    bool resume; /* continue from the run's last checkpoint; QKV_KEYS_FIXED_ON_RESUME must not have changed */
    bool overwrite; /* replace an existing run */
    int threads;    /* 0: one per processor */
    const struct qkv_train_listener *listener;
    /* NULL: this process alone. Otherwise all processes must call qkv_train with the same config and options. Process 0
     * writes the run and calls the listener; the other processes call only `stop` of their listeners, and their errors are
     * empty unless process 0 cannot know of them. */
    struct qkv_processes *processes;
};

/* Why training ended. */
enum qkv_train_end {
    QKV_TRAIN_DONE,     /* all updates or epochs */
    QKV_TRAIN_PATIENCE, /* no progress for training.patience validations */
    QKV_TRAIN_STOPPED,  /* the listener stopped it; --resume continues */
};

/* Scores are as in struct qkv_scores (metrics.h): accuracies from 0 to 1, BLEU and chrF from 0 to 100. */
struct qkv_train_result {
    enum qkv_train_end end;
    int64_t updates;
    int64_t tokens; /* target tokens trained on */
    bool validated;
    int64_t best_update; /* of the best validation */
    double best;         /* its score, by training.early_stopping_metric */
    int64_t averaged;    /* checkpoints in the average (testing.average); 0: no average */
    double average;      /* its score, by training.early_stopping_metric */
    /* Bytes that process 0 sent to the others, and the most bytes that any other process sent; 0: one process. */
    int64_t sent, sent_by_others;
};

/* Trains a model. Reads and checks all input before it replaces any file of an old run. QKV_FAILED: the loss or the
 * gradient is no longer finite; the last checkpoint is intact. QKV_INVALID: bad input, an existing run without `overwrite`,
 * a failed write, or a resumed run whose text or fixed keys have changed; the message names the key, its old and its new
 * value. */
QKV_API enum qkv_status qkv_train(const struct qkv_config *config, const struct qkv_train_options *options,
                                  struct qkv_train_result *result, struct qkv_error *error);

/* Writes the text data.train of a config to `file`, x.prepared, as qkv_corpus_prepare does, with the vocabularies and
 * merges that qkv_train would use: those of the run that training.from names, or, if training.from_vocabulary is new or
 * there is no such run, those of the text. With data.train set to `file`, qkv_train then gives the same bits as from the
 * text. Fails, and writes no file, as qkv_corpus_prepare does, and where qkv_train refuses training.from. */
QKV_API enum qkv_status qkv_train_prepare(const struct qkv_config *config, const char *file,
                                          struct qkv_prepared_counts *counts, struct qkv_error *error);

/* Time and size of training on this machine. */
struct qkv_train_cost {
    double seconds_per_update;
    double seconds_per_validation; /* of an untrained model, whose translations are long; 0: no data.dev */
    int64_t parameters;            /* number of parameters */
    int64_t batches;               /* of an epoch */
};

/* Measures the training that a config describes: reads all input, does updates for `seconds` seconds, but at least three
 * updates, and one validation, and discards the result. Writes no files and needs no run folder. Fails as qkv_train
 * does. */
QKV_API enum qkv_status qkv_train_measure(const struct qkv_config *config, int threads, double seconds,
                                          struct qkv_train_cost *cost, struct qkv_error *error);

#endif
