/* Small training runs, and what they leave. */
#ifndef QKV_TESTS_TRAINING_H
#define QKV_TESTS_TRAINING_H

#include "qkv/trainer.h"

#include <stdbool.h>

/* Writes train.tsv, dev.tsv and config.yaml into a folder and returns the path of the config: 60 pairs in
 * batches of 8, so 8 updates an epoch, a validation after every 5th update, dropout, three shards. */
const char *training_config(const char *folder);

/* What a run is to do. */
struct training {
    const char *config, *run; /* path of the YAML; the run folder */
    const char *settings;     /* "updates=3 data.dev=": of the section training where no other is named */
    int threads;              /* 0 stands for 1 */
    bool resume;
    int64_t stop_after; /* number of the update after which the listener says stop; 0: never */
};

struct qkv_train_result training_run(struct training training);

/* Both runs hold the same files with the same bytes; of metrics.jsonl and config.yaml all but the measured
 * speed and the name of the folder. */
void training_expect_same(const char *run, const char *other);

/* Both runs hold a file of that name with the same bytes. */
void training_expect_same_file(const char *run, const char *other, const char *name);

/* One line of metrics.jsonl: `key` of the line of that kind and update, NaN where there is none. */
double training_metric(const char *run, const char *kind, int64_t update, const char *key);

/* Lines of that kind in metrics.jsonl. */
int training_lines(const char *run, const char *kind);

/* Whether the run holds a file. */
bool training_has(const char *run, const char *name);

#endif
