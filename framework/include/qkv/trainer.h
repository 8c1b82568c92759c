/* Training: from a config to a run folder (run.h). */
#ifndef QKV_TRAINER_H
#define QKV_TRAINER_H

#include "qkv/config.h"
#include "qkv/evaluate.h"

/* How training stands, told after each update. */
struct qkv_train_progress {
    int64_t update, epoch; /* both from 1 */
    int64_t updates;       /* expected in all; 0: not known */
    int64_t tokens;        /* target tokens so far */
    double loss;           /* smoothed cross entropy per target token, mean since the last log line; nats */
    double learning_rate;
    double gradient_norm;     /* before clipping */
    double tokens_per_second; /* source and target, since the last log line */
    double seconds_left;      /* NaN: not known */
    bool logged;              /* this update ends a logging interval */
};

/* A validation. */
struct qkv_train_validation {
    int64_t update;
    struct qkv_scores scores;
    bool best;       /* the best so far, by training.early_stopping_metric */
    int64_t samples; /* translations to show */
    const char *const *source, *const *reference, *const *translation; /* [samples] */
};

/* What is known before the first update. */
struct qkv_train_start {
    const char *folder;
    int64_t parameters;                 /* learned numbers */
    int64_t pairs, read;                /* training pairs kept, and in the file */
    int64_t long_sources, long_targets; /* dropped because a side is longer than max_length */
    int64_t dev_pairs;                  /* 0: no validation */
    int32_t source_types, target_types; /* sizes of the vocabularies */
    int threads, shards;
    int64_t resumed; /* updates done before; 0: a new run */
};

/* Who listens. Any function may be NULL. */
struct qkv_train_listener {
    void *context;
    bool (*stop)(void *context); /* asked after each update: true saves and ends */
    void (*start)(void *context, const struct qkv_train_start *start);
    void (*progress)(void *context, const struct qkv_train_progress *progress);
    void (*validation)(void *context, const struct qkv_train_validation *validation);
};

struct qkv_train_options {
    bool resume;    /* go on from the run's last checkpoint, with its text and the keys it holds on to */
    bool overwrite; /* replace a run that stands there */
    int threads;    /* 0: as many as the machine has */
    const struct qkv_train_listener *listener;
};

/* Why training ended. */
enum qkv_train_end {
    QKV_TRAIN_DONE,     /* all updates or epochs */
    QKV_TRAIN_PATIENCE, /* no progress for training.patience validations */
    QKV_TRAIN_STOPPED,  /* the listener asked for it; --resume goes on */
};

struct qkv_train_result {
    enum qkv_train_end end;
    int64_t updates;
    int64_t tokens; /* target tokens trained on */
    bool validated;
    int64_t best_update; /* of the best validation */
    double best;         /* its metric */
};

/* Trains. All input is read and checked before anything of an old run is replaced. QKV_FAILED with a sentence
 * when the loss is no longer finite (the last checkpoint stands); QKV_INVALID for bad input, a run in the
 * way, failed writes, and a run to be resumed whose text or config has changed in what decides its numbers
 * (QKV_KEYS_FIXED_ON_RESUME): the sentence names the key, its old value and the new one. */
QKV_API enum qkv_status qkv_train(const struct qkv_config *config, const struct qkv_train_options *options,
                                  struct qkv_train_result *result, struct qkv_error *error);

#endif
