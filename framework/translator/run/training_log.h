/* Reads what a run has recorded in metrics.jsonl. */
#pragma once

#include "qkv/trainer.h"

struct cJSON;

/* A number of an object of JSON; NaN if it has none with this key. */
double qkv_json_number(const struct cJSON *object, const char *key);

/* A point in training. Counts are double, as in JSON; NaN: not recorded. */
struct qkv_log_place {
    double update, tokens, seconds;
};

/* A logging interval, at its last update. NaN: not recorded, as by an older qkv. */
struct qkv_log_interval {
    struct qkv_log_place place;
    /* Mean over the interval, nats per target token: the objective, and without smoothing */
    double loss, cross_entropy;
    double learning_rate;
    double gradient_norm;     /* before clipping */
    double tokens_per_second; /* source and target */
};

struct qkv_log_validation {
    struct qkv_log_place place;
    double score[QKV_METRIC_COUNT]; /* NaN: not recorded */
    double bits_per_character;      /* of a language model, likewise */
};

/* All zero: empty. */
struct qkv_training_log {
    struct qkv_log_interval *interval;
    struct qkv_log_validation *validation;
    int64_t intervals, validations, interval_capacity, validation_capacity;
    struct qkv_log_validation average; /* scores of the average that testing.average made last */
    bool has_average;
};

/* Reads the log of a run, which may still be training: skips lines that are not JSON objects, as the last line may be while it
 * is being written. A missing file gives an empty log. Release the log even after a failure. */
enum qkv_status qkv_training_log_read(struct qkv_training_log *log, const char *folder,
                                      struct qkv_error *error);
void qkv_training_log_release(struct qkv_training_log *log);

/* The scores of the checkpoint that a run uses by default: of the average if testing.average has made one, otherwise of the
 * best validation by training.early_stopping_metric. NULL: none. */
const struct qkv_log_validation *qkv_training_log_default(const struct qkv_training_log *log,
                                                          const struct qkv_config *config);

/* The median of tokens_per_second; 0 when none is recorded. QKV_INVALID: no memory. */
enum qkv_status qkv_training_log_speed(const struct qkv_training_log *log, double *speed,
                                       struct qkv_error *error);
