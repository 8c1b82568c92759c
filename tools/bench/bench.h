/* qkv-bench: what its files share. */
#ifndef QKV_BENCH_BENCH_H
#define QKV_BENCH_BENCH_H

#include "command.h"

#include "qkv/batch.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/graph.h"
#include "qkv/model.h"
#include "qkv/optimizer.h"
#include "qkv/replicas.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- what was asked for ---- */

struct bench_options {
    int64_t threads;         /* 0: as many as there are */
    int64_t shards;          /* 0: as many as threads; a config file has its own */
    int64_t steps;           /* to time at most */
    double seconds;          /* to time for, but at least a few steps */
    const char *run, *qkv;   /* for start-up: the run folder, and the program */
    const char *output;      /* where the picture of scaling goes; NULL: none is drawn */
    struct option_list axes; /* of scaling; none: all */
    const char *text;        /* pairs to train on; NULL: random words, or the config's */
    const char *batches;     /* file for the batches of training steps; NULL: none */
};

/* ---- a workload: a model and its batches ---- */

struct bench_shape {
    const char *name;
    int64_t width, heads, inner, layers; /* as many layers in either stack */
    int32_t vocabulary;
    int64_t sentences, tokens; /* </s> counted; the same on both sides */
};

struct bench_work {
    const char *name;         /* "toy", or the path of a config */
    struct bench_shape shape; /* its name is NULL where it is from a config file */
    bool has_text;
    struct qkv_config config;
    struct qkv_model *model;
    int32_t source_size, target_size;

    /* With a text: that, and a new batch a step. Else the one batch below. */
    struct qkv_vocabulary source, target;
    struct qkv_corpus corpus;
    struct qkv_batches batches;
    struct qkv_batch batch;
    struct qkv_arena arena;
};

/* Makes the workload of that name, in this process's memory. `text`, if any, is what is trained on, with the
 * vocabulary of a built-in workload at most as large as without. */
enum qkv_status bench_work_make(struct bench_work *work, const char *name, const char *text,
                                struct qkv_error *error);
void bench_work_release(struct bench_work *work);

/* The shape of a built-in workload, or NULL; and a workload of any shape. */
const struct bench_shape *bench_shape_find(const char *name);
enum qkv_status bench_work_make_shape(struct bench_work *work, const struct bench_shape *shape,
                                      struct qkv_error *error);

/* The batch of step `i`. */
enum qkv_status bench_work_batch(struct bench_work *work, int64_t i, struct qkv_error *error);

/* Shards that training has where none are asked for; 0: as many as threads. */
int64_t bench_work_shards(const struct bench_work *work);

/* Writes the batches of steps 0 .. count-1, each a line {"source": [[ids], ...], "target": [[ids], ...]},
 * every sentence with its </s>. */
enum qkv_status bench_work_write(struct bench_work *work, int64_t count, const char *path,
                                 struct qkv_error *error);

/* A batch of random words, every sentence as long as the workload's own; `with_target` for training. */
enum qkv_status bench_random_batch(const struct bench_work *work, int64_t count, bool with_target,
                                   struct qkv_batch *batch, struct qkv_error *error);

/* ---- measuring ---- */

/* What one measurement found; sent from the process that made it. */
struct bench_result {
    char name[24]; /* "train", "greedy 64", "layer_norm" */
    int64_t threads, steps;
    double median, low, high; /* ms a step; low and high are the tenth and the ninetieth percentile */
    double mean;              /* ms a step */
    double processor;         /* ms of processor time a step, of all threads together, on average */
    double tokens;            /* a step; 0: none are counted */
    double operations, bytes; /* a step; 0: not counted */
    double mallocs;           /* a step; negative: cannot be counted */
    double peak;              /* MB of the process that ran it */
};

/* Seconds since some moment; and of processor time that the calling thread has used, which other programs on
 * the same machine disturb less. */
double bench_now(void);
double bench_thread_now(void);

/* Sorts the numbers; the middle one, or between the middle two. */
double bench_median(double *numbers, int64_t count);

/* How often malloc and its sisters were called so far; -1 where that is not known. */
long bench_allocations(void);

/* Steps that bench_time does not time, before the others. */
int64_t bench_warm_up(const struct bench_options *options);

/* Runs step(context, i) some times untimed, then timed. */
enum qkv_status bench_time(const struct bench_options *options, struct bench_result *result,
                           enum qkv_status (*step)(void *context, int64_t i, struct qkv_error *error),
                           void *context, struct qkv_error *error);

/* The pieces of a training step, and what the last step took. Caller's storage. */
struct bench_trainer {
    struct bench_work *work;
    struct qkv_workers *workers;
    struct qkv_replicas *replicas;
    struct qkv_optimizer optimizer;
    double tokens; /* of all steps so far */
    int64_t steps;
    /* s of processor time of the calling thread: the batch, forward and backward, the optimizer */
    double filling, computing, updating;
};

/* `shards` 0: those of the config, or one a thread. Releases are due after failures, too. */
enum qkv_status bench_trainer_make(struct bench_trainer *trainer, struct bench_work *work, int64_t threads,
                                   int64_t shards, struct qkv_error *error);
enum qkv_status bench_train_step(void *trainer, int64_t i, struct qkv_error *error);
void bench_trainer_release(struct bench_trainer *trainer);

/* Multiplications and additions of the matrix products of a step with the batch at hand. */
double bench_step_operations(struct bench_work *work, bool training);

/* One row of an op's profile. */
struct bench_profile_row {
    char name[24];
    int64_t calls;                              /* a step, forward */
    double seconds[2], operations[2], bytes[2]; /* a step; forward, backward */
};

/* How a training step on one thread grows along an axis. */
struct bench_point {
    char axis[16], unit[16]; /* "width", "numbers" */
    int64_t value;
    double ms, tokens, operations; /* a step */
    double attention;              /* ms a step of that */
    double line; /* ms a step on the straight line in the operations of the step, through all points */
};

/* A training step on some threads, as it follows from steps on one thread, and as it is. */
struct bench_forecast {
    char work[64];
    int64_t threads, shards;
    double serial;         /* ms a step in which one thread works: making the batch, waking the others */
    double computing;      /* ms on one thread, all shards one after the other */
    double share;          /* of it, that the busiest thread has */
    double waiting;        /* ms a step for one's turn to add to a gradient that is shared */
    double updating;       /* ms on one thread: the gradient sum, the norm and Adam */
    double sum, megabytes; /* ms of that for adding up blocks, and the gradients that are read for it */
    double forecast;       /* ms a step */
    double measured;       /* ms a step; 0: the machine has fewer threads */
};

/* What a measurement hands its results to. */
struct bench_sink {
    void (*result)(void *context, const struct bench_result *result);
    void (*profile)(void *context, const struct bench_profile_row *row);
    void (*point)(void *context, const struct bench_point *point);
    void (*forecast)(void *context, const struct bench_forecast *forecast);
    void *context;
};

/* The measurements; each runs in a process of its own, so that peak memory is its own too. */
#define MEASURE(name, needs_work, summary)                                                                   \
    enum qkv_status bench_##name(struct bench_work *work, const struct bench_options *options,               \
                                 const struct bench_sink *sink, struct qkv_error *error);
#include "measures.def"
#undef MEASURE

/* What `axes` can name. */
qkv_naming bench_axis_name;

/* ---- showing ---- */

struct bench_report;

struct bench_report *bench_report_new(bool json, const char *picture);
void bench_report_result(struct bench_report *report, const char *work, const struct bench_result *result);
void bench_report_profile(struct bench_report *report, const char *work, const struct bench_profile_row *row);
void bench_report_point(struct bench_report *report, const struct bench_point *point);
void bench_report_forecast(struct bench_report *report, const struct bench_forecast *forecast);

/* Ends what one measurement of one workload has shown. */
void bench_report_end(struct bench_report *report, const char *work);

/* Prints what is still to be printed, but no JSON where a measurement failed, and frees. Exit code. */
int bench_report_finish(struct bench_report *report, bool failed);

#endif
