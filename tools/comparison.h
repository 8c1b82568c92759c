/* Evaluations of several runs on several tests, side by side: what `qkv compare` shows. */
#ifndef QKV_TOOLS_COMPARISON_H
#define QKV_TOOLS_COMPARISON_H

#include "draw/bytes.h"
#include "qkv/arena.h"
#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

struct cJSON;

enum { MOST_RUNS = 64, MOST_TESTS = 16 };

struct compared_run {
    const char *name;
    double parameters;                          /* counts are double, as in JSON */
    double tokens_per_second;                   /* of training; 0: not known */
    double max_length;                          /* tokens of the longest source in training */
    const struct cJSON *evaluation[MOST_TESTS]; /* NULL: none on that test */
};

struct compared_test {
    const char *path;
    const char *name; /* of its file; of its folder where files have equal names; or its path */
    bool aligned;     /* at least one evaluation has an alignment error */
};

/* Caller's storage, all zero at first. Runs and tests are in the order of the files. */
struct comparison {
    struct compared_run run[MOST_RUNS];
    struct compared_test test[MOST_TESTS];
    int runs, tests;
    struct cJSON *file[MOST_RUNS * MOST_TESTS]; /* owned */
    int files;
    struct qkv_arena arena;
};

/* Adds one file of `qkv evaluate --json`. Fails when the file is not one, is a second evaluation of
 * the same run and test, or exceeds MOST_RUNS or MOST_TESTS. */
enum qkv_status comparison_read(struct comparison *comparison, const char *path, struct qkv_error *error);

/* Gives each test its short name; call it after the last file. */
enum qkv_status comparison_name_tests(struct comparison *comparison, struct qkv_error *error);

void comparison_release(struct comparison *comparison);

/* A number of an evaluation by its key ("bleu", "sequence_accuracy"), and its alignment error rate (0 .. 1), which is
 * the lowest of all maps and link directions. NAN when the evaluation has none. */
double evaluation_number(const struct cJSON *evaluation, const char *key);
double evaluation_alignment_error(const struct cJSON *evaluation);

/* Sequence accuracy by source length, over all tests of a run. Returns the number of length classes; -1 when memory is
 * out. The arrays, the middle of each class in tokens and its accuracy in percent, live in the arena. */
int64_t comparison_by_length(struct comparison *comparison, const struct compared_run *run, double **lengths,
                             double **accuracies);

/* Append the table in a format of `qkv compare -o`; json: the evaluations as they came, in one array. */
typedef void comparison_writer(struct comparison *comparison, struct bytes *out);
comparison_writer comparison_text, comparison_markdown, comparison_tsv, comparison_json;

#endif
