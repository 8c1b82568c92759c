/* Declarations that the files of qkv-bench share: workloads, measurements, and the report of their
 * results. */
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

/* ---- options of the command line ---- */

struct bench_options {
    int64_t threads;         /* 0: one per processor */
    int64_t shards;          /* 0: one per thread, or as the config says */
    int64_t steps;           /* timed steps, at most */
    double seconds;          /* time to spend on each number; a few steps are timed in any case */
    const char *run, *qkv;   /* startup: the run folder, and the path of the program */
    const char *precision;   /* of decode, and bfloat16 of train as well; NULL: float32 */
    const char *output;      /* file of the picture of scaling and threads; NULL: none */
    struct option_list axes; /* of scaling; empty: all */
    const char *text;        /* sentence pairs to train on; NULL: random words, or the text of the config */
    const char *batches;     /* file to write the batches of training steps to; NULL: none */
    const char *self;        /* path of this program, which the launcher of processes starts */
    const char *launcher;    /* of processes: a command that starts several of another one */
};

/* ---- a workload: a model and its batches ---- */

struct bench_shape {
    const char *name;
    int64_t width, heads, inner, layers; /* layers of the encoder, and of the decoder */
    int32_t vocabulary;
    int64_t sentences, tokens; /* tokens per sentence, with </s>, on either side */
};

struct bench_work {
    const char *name;         /* "toy", or the path of a config */
    struct bench_shape shape; /* name is NULL if the workload is a config */
    bool has_text;
    struct qkv_config config;
    struct qkv_model *model;
    int32_t source_size, target_size;

    /* With a text, each step has a new batch of it; otherwise all steps use the same random
     * batch. */
    struct qkv_bpe *bpe[2]; /* of source and target; NULL: the level is not bpe */
    struct qkv_vocabulary source, target;
    struct qkv_corpus corpus;
    struct qkv_batches batches;
    struct qkv_batch batch;
    struct qkv_arena arena;
};

/* Makes the workload `name`: a built-in one, or the path of a config. `text` is a file of sentence
 * pairs to train on, or NULL. A built-in workload keeps the size of its vocabulary with a text. */
enum qkv_status bench_work_make(struct bench_work *work, const char *name, const char *text,
                                struct qkv_error *error);
void bench_work_release(struct bench_work *work);

/* Returns the shape of a built-in workload; NULL if there is none of that name. */
const struct bench_shape *bench_shape_find(const char *name);

/* Makes a workload of any shape, with a random batch. */
enum qkv_status bench_work_make_shape(struct bench_work *work, const struct bench_shape *shape,
                                      struct qkv_error *error);

/* Fills work->batch with the batch of step `i`. */
enum qkv_status bench_work_batch(struct bench_work *work, int64_t i, struct qkv_error *error);

/* Returns the number of shards that the config names; 0: one per thread. */
int64_t bench_work_shards(const struct bench_work *work);

/* From now on, steps have the precision of the option, unless only decoding has it, or else of the config. */
enum qkv_status bench_work_narrow(struct bench_work *work, const struct bench_options *options,
                                  struct qkv_error *error);

/* Writes the batches of steps 0 .. count-1 to a file, one line {"source": [[ids], ...], "target":
 * [[ids], ...]} each. Every sentence ends with </s>. */
enum qkv_status bench_work_write(struct bench_work *work, int64_t count, const char *path,
                                 struct qkv_error *error);

/* Fills a batch with `count` sentences of random words, as long as those of the workload. Training
 * needs `with_target`. / */
enum qkv_status bench_random_batch(const struct bench_work *work, int64_t count, bool with_target,
                                   struct qkv_batch *batch, struct qkv_error *error);

/* ---- measuring ---- */

/* The result of one measurement. Plain data: the measuring process sends it through a pipe. */
struct bench_result {
    char name[24]; /* "train", "greedy 64", "layer_norm" */
    int64_t threads, steps;
    double median, low, high; /* ms per step; low and high are the tenth and the ninetieth percentile */
    double mean;              /* ms per step */
    double processor;         /* mean ms of processor time per step, all threads together */
    double tokens;            /* per step; 0: not counted */
    double operations;        /* per step; 0: not counted */
    double mallocs;           /* per step; negative: not counted */
    double peak;              /* MB of memory of the measuring process */
};

/* Returns the time in seconds since an arbitrary moment. */
double bench_seconds(void);

/* Returns the processor time of the calling thread in seconds. Other programs on the machine
 * disturb it less. */
double bench_thread_seconds(void);

/* Sorts the numbers and returns their median. */
double bench_median(double *numbers, int64_t count);

/* Returns the number of untimed steps that bench_time runs before the timed ones. */
int64_t bench_warm_up(const struct bench_options *options);

/* Runs step(context, i) for i = 0, 1, ...: first untimed, then timed. Fills in the times, memory
 * and mallocs of *result. */
enum qkv_status bench_time(const struct bench_options *options, struct bench_result *result,
                           enum qkv_status (*step)(void *context, int64_t i, struct qkv_error *error),
                           void *context, struct qkv_error *error);

/* What training steps need, and the times of the last step. Caller's storage. */
struct bench_trainer {
    struct bench_work *work;
    struct qkv_workers *workers;
    struct qkv_replicas *replicas;
    struct qkv_optimizer optimizer;
    struct qkv_processes *processes; /* which share a step; NULL: none */
    double tokens;                   /* of all steps so far */
    int64_t steps;
    /* Processor time of the calling thread in seconds: making the batch, forward and backward, the
     * optimizer. */
    double filling, computing, updating;
};

/* The cost of a step, median ms. */
struct bench_costs {
    double filling, computing, updating; /* processor time of the first thread */
    double elapsed;                      /* wall time */
    int ranges, blocks;                  /* of the optimizer; of gradients */
};

/* Times training steps on so many threads and shards. */
enum qkv_status bench_measure_costs(struct bench_work *work, int64_t threads, int64_t shards,
                                    const struct bench_options *options, struct bench_costs *costs,
                                    struct qkv_error *error);

/* `shards` 0: as many as the config says, or one per thread. Call bench_trainer_release after a
 * failure, too. */
enum qkv_status bench_trainer_make(struct bench_trainer *trainer, struct bench_work *work, int64_t threads,
                                   int64_t shards, struct qkv_error *error);
enum qkv_status bench_train_step(void *trainer, int64_t i, struct qkv_error *error);
void bench_trainer_release(struct bench_trainer *trainer);

/* Returns the multiplications and additions in the matrix products of a step with work->batch. */
double bench_step_operations(struct bench_work *work, bool training);

/* The cost of one op in a step. */
struct bench_profile_row {
    char name[24];
    int64_t calls;                              /* forward calls per step */
    double seconds[2], operations[2], bytes[2]; /* per step; forward, backward */
};

/* The cost of a training step on one thread at one point of an axis. */
struct bench_point {
    char axis[16], unit[16]; /* "width", "numbers" */
    int64_t value;
    double ms, tokens, operations; /* per step */
    double attention;              /* ms per step spent in attention */
    double line; /* ms per step on the straight line, in operations, that fits all points of the axis */
};

/* The time of a training step on several threads: forecast from the times on one thread, and
 * measured. */
struct bench_forecast {
    char work[64];
    int64_t threads, shards;
    double serial;    /* ms per step on one thread only: making the batch, waking the other threads */
    double computing; /* ms of forward and backward on one thread, all shards one after the other */
    double share;     /* of computing, done by the busiest thread */
    double waiting;   /* ms per step that shards wait for the other one of their pair */
    double updating;  /* ms on one thread: gradient sum, norm and Adam */
    double gradient_sum, gradient_megabytes; /* ms of updating that sum gradient blocks; MB read for that */
    double forecast;                         /* ms per step */
    double measured;                         /* ms per step; 0: the machine has fewer threads */
};

/* A training step in several processes, each of which has a batch of the workload; and the messages of a step. */
struct bench_exchange {
    char work[64];
    int64_t processes;
    double parameters; /* MB */
    double processor;  /* ms of processor time of a step, in the busiest process */
    double step;       /* ms of a step */
    double messages;   /* ms of the messages of a step with all gradients, while nothing is computed */
    double sent, sent_by_others; /* MB that process 0 sends for a step, and that another one sends at most */
    double latency, rate;        /* ms of a small message; MB per ms of large ones */
    double modelled;             /* ms of the messages as the model says; 0: it is not made yet */
};

/* A step in several processes on a network, as the model says. The batch grows with the processes. */
struct bench_network {
    char work[64];
    int64_t processes;
    double gigabits;            /* per second */
    double computing, updating; /* measured ms: of each process; of process 0 alone */
    double messages;            /* ms */
    double overlap;             /* share of the messages during which processes compute */
    double step;                /* ms */
};

/* Callbacks that receive the results of a measurement. */
struct bench_sink {
    void (*result)(void *context, const struct bench_result *result);
    void (*profile)(void *context, const struct bench_profile_row *row);
    void (*point)(void *context, const struct bench_point *point);
    void (*forecast)(void *context, const struct bench_forecast *forecast);
    void (*exchange)(void *context, const struct bench_exchange *exchange);
    void (*network)(void *context, const struct bench_network *network);
    void *context;
};

/* The measurements. Each runs in a separate process, so that its peak memory can be measured. */
#define MEASURE(name, needs_work, summary)                                                                   \
    enum qkv_status bench_##name(struct bench_work *work, const struct bench_options *options,               \
                                 const struct bench_sink *sink, struct qkv_error *error);
#include "measures.def"
#undef MEASURE

/* Enumerates the names that --axis accepts. */
qkv_name_lister bench_axis_name;

/* ---- the report ---- */

struct bench_report;

struct bench_report *bench_report_new(bool json, const char *picture);
void bench_report_result(struct bench_report *report, const char *work, const struct bench_result *result);
void bench_report_profile(struct bench_report *report, const char *work, const struct bench_profile_row *row);
void bench_report_point(struct bench_report *report, const struct bench_point *point);
void bench_report_forecast(struct bench_report *report, const struct bench_forecast *forecast);
void bench_report_exchange(struct bench_report *report, const struct bench_exchange *exchange);
void bench_report_network(struct bench_report *report, const struct bench_network *network);

/* Prints what the measurement of one workload has collected. Call it after each measurement. */
void bench_report_end(struct bench_report *report, const char *work);

/* Draws the picture, prints the JSON unless a measurement failed, and frees the report. Returns the
 * exit code. */
int bench_report_finish(struct bench_report *report, bool failed);

#endif
