/* Runs small trainings and compares the files that they write. */
#pragma once

#include "support.h"

/* Writes train.tsv, dev.tsv and config.yaml into a folder and returns the path of the config: 60
 * pairs in batches of 8, so 8 updates per epoch; a validation after every fifth update; dropout;
 * three shards. */
const char *training_config(const char *folder);

/* The arguments of training_run. */
struct training {
    const char *config, *run; /* path of the YAML; the run folder */
    const char *settings;     /* "updates=3 data.dev=": keys without a section belong to training */
    int threads;              /* 0: 1 */
    bool resume;
    bool new_rate;      /* with resume: the learning rate of the settings replaces that of the run */
    int64_t stop_after; /* update after which the training is stopped; 0: never */
    const struct qkv_train_listener *listener; /* NULL: none; instead of stop_after */
};

/* The training of training_config in <folder>/run. */
struct training training_in(const char *folder, const char *settings);

/* The same in <folder>/<run>. */
struct training training_as(const char *folder, const char *run, const char *settings);

struct qkv_train_result training_run(struct training training);

/* Tries to train, and returns the status. */
enum qkv_status training_try(struct training training, struct qkv_train_result *result,
                             struct qkv_error *error);

/* Trains with these settings in a new scratch folder, and returns the run folder. `result` may be NULL. */
const char *training_of(const char *name, const char *settings, struct qkv_train_result *result);

/* Opens a run in float32 with one of its checkpoints; the default one for NULL. */
struct qkv_run training_open(const char *run, const char *checkpoint);

/* Fails unless these are the updates of all files <kind>-UPDATE.safetensors of a run: "5 10". */
void training_expect_kept(const char *run, const char *kind, const char *updates);

/* Fails unless both runs have the same files with the same bytes. Ignores the measured speed in
 * metrics.jsonl and the folder in config.yaml. */
void training_expect_same(const char *run, const char *other);

/* Fails unless both runs have this file with the same bytes. */
void training_expect_same_file(const char *run, const char *other, const char *name);

/* Returns the value of `key` in the line of metrics.jsonl with this kind and update; NaN if there
 * is none. */
double training_metric(const char *run, const char *kind, int64_t update, const char *key);

/* Returns the number of lines of this kind in metrics.jsonl. */
int training_lines(const char *run, const char *kind);

/* Returns whether the run folder has this file. */
bool training_has(const char *run, const char *name);
