/* Runs, and evaluations of runs on several tests, for `qkv compare`. */
#pragma once

#include "compare/run_set.h"

struct cJSON;

enum { MAX_RUNS = RUN_SET_MAX, MAX_TESTS = 16 };

struct compared_run {
    const char *name;   /* of the config; of a run folder: its path */
    const char *system; /* what of the run made the translations: "best, beam 5"; "": not known */
    const char *folder; /* of the run; NULL: not known, or no longer there */
    int in_set;         /* its index in `set`; -1: not there */
    bool is_unmeasured; /* a quantised run, whose training measured the run that it was made of */
    const struct cJSON *evaluation[MAX_TESTS]; /* NULL: none on that test */
};

struct compared_test {
    const char *path;
    const char *name; /* of its file; of its folder, if files have equal names; or else its path */
    bool aligned;     /* at least one evaluation has an alignment error */
    bool of_training; /* at least one is a validation of training */
    bool is_text;     /* of language models */
};

/* A row of the table: a checkpoint of a run, or of several runs that differ only in their seed. */
struct compared_row {
    const char *name;
    int runs;
    int run[MAX_RUNS];
};

/* Caller's storage, all zero at first. Runs and tests are in the order of the files. */
struct comparison {
    struct compared_row row[MAX_RUNS];
    int rows;
    struct run_set set; /* of the runs whose folder is known */
    struct compared_run run[MAX_RUNS];
    struct compared_test test[MAX_TESTS];
    int runs, tests;
    struct cJSON *file[MAX_RUNS * MAX_TESTS]; /* owned */
    int files;
    struct qkv_arena arena;
};

/* The alignment error rate of an evaluation (0 .. 1), which is the lowest of all maps and link directions. NAN when it has
 * none. */
double evaluation_alignment_error(const struct cJSON *evaluation);

/* A number above 0 that evaluations have of their run, such as "parameters"; NAN when none has it. */
double run_number(const struct compared_run *run, const char *key);

/* Appends the table in a format of `qkv compare -o`; comparison_json appends the evaluations unchanged, in one array. */
typedef void comparison_writer(struct comparison *comparison, struct bytes *out);
comparison_writer comparison_text, comparison_markdown, comparison_tsv, comparison_json;
