/* How the cost of a training step grows: a built-in workload with one axis varied. Measures
 * processor time on one thread, which other programs disturb less. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 8, LENGTH_TOKENS = 2000, MIN_ROUNDS = 2, STEPS_PER_ROUND = 3 };

enum axis { AXIS_BATCH, AXIS_WIDTH, AXIS_LAYERS, AXIS_VOCABULARY, AXIS_LENGTH };

static const struct sweep {
    enum axis axis;
    const char *name, *unit, *base;
    int64_t value[MAX_POINTS + 1]; /* ends with 0 */
} SWEEPS[] = {
    {AXIS_BATCH, "batch", "sentences", "toy", {8, 16, 32, 64, 128, 256}},
    {AXIS_WIDTH, "width", "numbers", "toy", {32, 64, 128, 192, 256, 384}},
    {AXIS_LAYERS, "layers", "in each stack", "toy", {1, 2, 4, 6, 8, 12}},
    {AXIS_VOCABULARY, "vocabulary", "words", "toy", {200, 1000, 2000, 4000, 6000, 10000}},
    {AXIS_LENGTH, "length", "tokens", "toy", {10, 50, 100, 200, 400, 1000, 2000}},
};

enum { SWEEP_COUNT = sizeof SWEEPS / sizeof SWEEPS[0] };

/* The feed-forward width grows with the width. With the length, the number of sentences shrinks, so
 * that a step keeps its number of tokens. */
static struct bench_shape vary(const struct sweep *sweep, int64_t value)
{
    struct bench_shape shape = *bench_shape_find(sweep->base);
    switch (sweep->axis) {
    case AXIS_BATCH:
        shape.sentences = value;
        break;
    case AXIS_WIDTH:
        shape.inner = shape.inner / shape.width * value;
        shape.width = value;
        break;
    case AXIS_LAYERS:
        shape.layers = value;
        break;
    case AXIS_VOCABULARY:
        shape.vocabulary = (int32_t)value;
        break;
    case AXIS_LENGTH:
        shape.tokens = value;
        shape.sentences = LENGTH_TOKENS / value;
        break;
    }
    return shape;
}

/* ---- training steps at every point ---- */

struct setup {
    struct bench_work work;
    struct bench_trainer trainer;
    double *seconds; /* [options->steps] */
    int64_t steps;
};

static enum qkv_status setup_make(struct setup *setup, const struct sweep *sweep, int64_t value,
                                  const struct bench_options *options, struct qkv_error *error)
{
    const struct bench_shape shape = vary(sweep, value);
    setup->seconds = malloc((size_t)options->steps * sizeof *setup->seconds);
    if (!setup->seconds) return qkv_error_set(error, "out of memory for the times of steps");
    if (bench_work_make_shape(&setup->work, &shape, error)) return QKV_INVALID;
    return bench_trainer_make(&setup->trainer, &setup->work, 1, 1, error);
}

static void setup_release(struct setup *setup)
{
    bench_trainer_release(&setup->trainer);
    bench_work_release(&setup->work);
    free(setup->seconds);
}

static enum qkv_status run_step(struct setup *setup, const struct bench_options *options, bool timed,
                                struct qkv_error *error)
{
    if (setup->steps == options->steps) return QKV_OK;
    double began = bench_thread_seconds();
    if (bench_train_step(&setup->trainer, setup->trainer.steps, error)) return QKV_INVALID;
    if (timed) setup->seconds[setup->steps++] = bench_thread_seconds() - began;
    return QKV_OK;
}

/* Runs a few steps of every setup in round, round after round, so that a disturbance of the machine
 * affects all. */
static enum qkv_status run_rounds(struct setup *setups, int count, const struct bench_options *options,
                                  struct qkv_error *error)
{
    int steps = options->steps < STEPS_PER_ROUND ? (int)options->steps : STEPS_PER_ROUND;
    double ends = INFINITY;
    for (int round = 0; round <= MIN_ROUNDS || bench_seconds() < ends; round++) {
        if (round == 1) ends = bench_seconds() + count * options->seconds / 4;
        for (int i = 0; i < count * steps; i++)
            if (run_step(&setups[i / steps], options, round > 0, error)) return QKV_INVALID;
        if (round > 0 && setups[0].steps == options->steps) break;
    }
    return QKV_OK;
}

/* ---- the share of attention ---- */

struct shares {
    double attention, all; /* seconds */
};

static void add_row(void *context, const struct bench_profile_row *row)
{
    struct shares *shares = context;
    double seconds = row->seconds[0] + row->seconds[1];
    shares->all += seconds;
    if (!strcmp(row->name, "attention")) shares->attention += seconds;
}

static enum qkv_status measure_share(struct setup *setup, const struct bench_options *options, double *share,
                                     struct qkv_error *error)
{
    const struct bench_options profile = {
        .shards = 1, .steps = options->steps, .seconds = options->seconds / 10};
    struct shares shares = {0};
    const struct bench_sink sink = {.profile = add_row, .context = &shares};
    enum qkv_status status = bench_profile(&setup->work, &profile, &sink, error);
    *share = status ? 0 : shares.attention / shares.all;
    return status;
}

/* ---- the straight line ---- */

/* Fits ms = a + b operations with a >= 0 by least squares of the relative errors. Operations are
 * linear in batch, layers and vocabulary; the width enters them squared, and so does the length,
 * through attention. */
static void fit(struct bench_point *points, int count)
{
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (int i = 0; i < count; i++) {
        double x = points[i].operations, y = points[i].ms, weight = 1 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    double b = (w * wxy - wx * wy) / (w * wxx - wx * wx), a = (wy - b * wx) / w;
    if (a < 0) {
        a = 0;
        b = wxy / wxx;
    }
    for (int i = 0; i < count; i++) points[i].line = a + b * points[i].operations;
}

static enum qkv_status report_sweep(const struct sweep *sweep, struct setup *setups, int count,
                                    const struct bench_options *options, const struct bench_sink *sink,
                                    struct qkv_error *error)
{
    struct bench_point points[MAX_POINTS];
    for (int i = 0; i < count; i++) {
        struct bench_point *point = &points[i];
        double share = 0;
        if (measure_share(&setups[i], options, &share, error)) return QKV_INVALID;
        *point = (struct bench_point){
            .value = sweep->value[i],
            .ms = 1e3 * bench_median(setups[i].seconds, setups[i].steps),
            .tokens = setups[i].trainer.tokens / (double)setups[i].trainer.steps,
            .operations = bench_step_operations(&setups[i].work, true),
        };
        point->attention = point->ms * share;
        snprintf(point->axis, sizeof point->axis, "%s", sweep->name);
        snprintf(point->unit, sizeof point->unit, "%s", sweep->unit);
    }
    fit(points, count);
    for (int i = 0; i < count; i++) sink->point(sink->context, &points[i]);
    return QKV_OK;
}

static enum qkv_status run_sweep(const struct sweep *sweep, const struct bench_options *options,
                                 const struct bench_sink *sink, struct qkv_error *error)
{
    struct setup setups[MAX_POINTS] = {0};
    int count = 0;
    enum qkv_status status = QKV_OK;
    for (; sweep->value[count] && !status; count++)
        status = setup_make(&setups[count], sweep, sweep->value[count], options, error);
    if (!status) status = run_rounds(setups, count, options, error);
    if (!status) status = report_sweep(sweep, setups, count, options, sink, error);
    for (int i = 0; i < count; i++) setup_release(&setups[i]);
    return status;
}

const char *bench_axis_name(const void *context, int64_t i)
{
    (void)context;
    return i < SWEEP_COUNT ? SWEEPS[i].name : i == SWEEP_COUNT ? "threads" : NULL;
}

static bool is_wanted(const struct bench_options *options, const char *axis)
{
    for (int i = 0; i < options->axes.count; i++)
        if (!strcmp(options->axes.value[i], axis)) return true;
    return options->axes.count == 0;
}

enum qkv_status bench_scaling(struct bench_work *work, const struct bench_options *options,
                              const struct bench_sink *sink, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < SWEEP_COUNT && !status; i++)
        if (is_wanted(options, SWEEPS[i].name)) status = run_sweep(&SWEEPS[i], options, sink, error);
    if (status || !is_wanted(options, "threads")) return status;
    status = bench_work_make_shape(work, bench_shape_find("small"), error);
    return status ? status : bench_threads(work, options, sink, error);
}
