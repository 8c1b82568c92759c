/* Declarations that the files of qkv-bench share: workloads, measurements, and the report of their
 * results. */
#pragma once

#include "command.h"
#include "train/training.h"

/* ---- options of the command line ---- */

struct bench_options {
    int64_t threads;       /* 0: one per processor */
    int64_t shards;        /* 0: one per thread, or as the config says */
    int64_t steps;         /* timed steps, at most */
    double seconds;        /* time to spend on each number; a few steps are timed in any case */
    const char *precision; /* of decode, and bfloat16 of train as well; NULL: float32 */
    const char *text;      /* sentence pairs to train on; NULL: random words, or the text of the config */
    const char *batches;   /* file to write the batches of training steps to; NULL: none */
};

/* ---- a workload: a model and its batches ---- */

struct bench_shape {
    const char *name;
    int64_t width, heads, inner, layers; /* layers of the encoder, and of the decoder */
    int32_t vocabulary;
    int64_t sentences, tokens; /* tokens per sentence, with </s>, on either side */
};

struct bench_work {
    const char *name;                /* "toy", or the path of a config */
    const struct bench_shape *shape; /* NULL: the workload is a config */
    struct qkv_config config;
    int32_t vocabulary[2]; /* sizes, of source and target */
    /* Its text, batches, model, and what trains it. Without a text, it has one batch of random words. */
    struct training training;
    struct qkv_arena arena;
};

/* Makes the text and the model of the workload work->name: a built-in one, or the path of a config. A built-in workload keeps
 * the size of its vocabulary with options->text. Call bench_work_release after a failure, too. */
enum qkv_status bench_work_make(struct bench_work *work, const struct bench_options *options,
                                struct qkv_error *error);
void bench_work_release(struct bench_work *work);

/* Makes what trains the model. shards 0: one per thread, or as the config says. */
enum qkv_status bench_work_train(struct bench_work *work, int threads, int64_t shards,
                                 struct qkv_error *error);

/* Fills the batch of the training with that of step `i`. */
enum qkv_status bench_work_batch(struct bench_work *work, int64_t i, struct qkv_error *error);

/* Writes the batches of steps 0 .. count-1 to a file, one line {"source": [[ids], ...], "target":
 * [[ids], ...]} each. Every sentence ends with </s>. */
enum qkv_status bench_work_write(struct bench_work *work, int64_t count, const char *path,
                                 struct qkv_error *error);

/* The mean number of tokens of the source sentences, without </s>. */
int64_t bench_work_length(const struct bench_work *work);

/* Returns random words of a side (0: source), which the caller frees. */
int32_t *bench_random_words(const struct bench_work *work, int64_t count, int side);

/* ---- measuring ---- */

/* The result of one measurement. */
struct bench_result {
    const char *name; /* "train", "greedy 64" */
    int64_t threads, steps;
    double median, low, high; /* ms per step; low and high are the tenth and the ninetieth percentile */
    double mean;              /* ms per step */
    double processor;         /* mean ms of processor time per step, all threads together */
    double tokens;            /* per step; 0: not counted */
    double operations;        /* per step; 0: not counted */
    double mallocs;           /* per step; negative: not counted */
    double peak;              /* MB of memory of the measuring process */
};

/* Returns the processor time of the calling thread in seconds. Other programs on the machine
 * disturb it less. */
double bench_thread_seconds(void);

/* Returns the number of untimed steps that bench_time runs before the timed ones. */
int64_t bench_warm_up(const struct bench_options *options);

/* Runs step(context, i) for i = 0, 1, ...: first untimed, then timed. Fills in the times, memory
 * and mallocs of *result. */
enum qkv_status bench_time(const struct bench_options *options, struct bench_result *result,
                           enum qkv_status (*step)(void *context, int64_t i, struct qkv_error *error),
                           void *context, struct qkv_error *error);

/* The cost of one op in a step. */
struct bench_profile_row {
    const char *name;
    int64_t calls;                              /* forward calls per step */
    double seconds[2], operations[2], bytes[2]; /* per step; forward, backward */
};

/* ---- the report ---- */

/* Tables, which the processes that measure print themselves; or JSON, which they write into two files, and the parent prints
 * at the end. */
struct bench_report {
    bool has_output;          /* a table was printed, so the next one starts with an empty line */
    FILE *results, *profiles; /* of JSON; NULL: tables are printed */
};

void bench_report_result(struct bench_report *report, const struct bench_work *work,
                         const struct bench_result *result);

/* Sorts the rows, the slowest first. */
void bench_report_profile(struct bench_report *report, const struct bench_work *work,
                          struct bench_profile_row *row, int rows);

/* Prints the JSON of all measurements. */
void bench_report_print_json(struct bench_report *report);

/* The measurements. Each runs in a separate process, so that its peak memory can be measured. */
#define MEASURE(name, summary)                                                                               \
    enum qkv_status bench_##name(struct bench_work *work, const struct bench_options *options,               \
                                 struct bench_report *report, struct qkv_error *error);
#include "measures.def"
#undef MEASURE
