/* Evaluations of several runs on several tests, side by side: what `qkv compare` shows. */
#ifndef QKV_TOOLS_COMPARISON_H
#define QKV_TOOLS_COMPARISON_H

#include "qkv/arena.h"
#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cJSON;

enum { MOST_RUNS = 64, MOST_TESTS = 16 };

struct compared_run {
    const char *name;
    double parameters;
    double tokens_per_second;                   /* of training; 0: not known */
    double max_length;                          /* longest source in training */
    const struct cJSON *evaluation[MOST_TESTS]; /* NULL: there is none on that test */
};

struct compared_test {
    const char *path;
    const char *name; /* as short as tells the tests apart */
    bool links;       /* some run has an alignment error there */
};

/* Caller's storage, all zero at first. Runs and tests stand in the order in which they came. */
struct comparison {
    struct compared_run run[MOST_RUNS];
    struct compared_test test[MOST_TESTS];
    int runs, tests;
    struct cJSON *file[MOST_RUNS * MOST_TESTS]; /* owned */
    int files;
    struct qkv_arena arena;
};

/* Reads one file of `qkv evaluate --json`. Fails with the path and what is wrong with it; release then, too.
 */
enum qkv_status comparison_read(struct comparison *comparison, const char *path, struct qkv_error *error);

/* Names the tests; call it when all are read. */
enum qkv_status comparison_name_tests(struct comparison *comparison, struct qkv_error *error);

void comparison_release(struct comparison *comparison);

/* One number of an evaluation, or NAN: "bleu", "sequence_accuracy"; the alignment error is that of the best
 * map in the best way of drawing links, 0 .. 1. */
double evaluation_number(const struct cJSON *evaluation, const char *key);
double evaluation_alignment_error(const struct cJSON *evaluation);

/* Accuracy by length, of all tests of a run that have it. Returns how many lengths there are; -1 when memory
 * is out. The two arrays (middle of the class in tokens, sequence accuracy in percent) belong to the arena.
 */
int64_t comparison_by_length(struct comparison *comparison, const struct compared_run *run, double **lengths,
                             double **accuracies);

/* The table in a format that comparison_format knows: what is written to the file. */
void comparison_print_text(const struct comparison *comparison, FILE *file);
void comparison_print_markdown(const struct comparison *comparison, FILE *file);
void comparison_print_tsv(const struct comparison *comparison, FILE *file);
void comparison_print_json(const struct comparison *comparison, FILE *file);

#endif
