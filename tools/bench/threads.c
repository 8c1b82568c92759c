/* Training steps on more and more threads, and what they should take by a model whose parts are measured on
 * one thread. With n threads and S shards:
 *
 *     step = serial + computing share + waiting + updating ceil(ranges / n) / ranges
 *
 * - computing: forward and backward of all S shards one after the other, with all that small shards cost more
 * - share: what the busiest of n threads has of it, when shards are taken in order; by their tokens
 * - waiting: shards that add to one gradient block do it in turns. Those that run side by side come to an op
 * at the same time, and the last of them waits for each other one: by the longest backward op of a shard
 * - updating: the optimizer on one thread, with the blocks that it adds up; ranges: the pieces of a block
 * - serial: filling the batch, and waking n - 1 threads three times
 *
 * Memory is taken to be as fast for each of n threads as for one; `megabytes` says what that asks of it. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    FORECAST_THREADS = 64,
    MOST_THREADS = 1024,
    WAKES = 2000,
    RUNS_A_STEP = 3,
    WARM_UP = 2,
    FEWEST_STEPS = 3,
    SHARED_BATCHES = 20,
    LONGEST_PASSES = 5,
};

/* ---- what steps take ---- */

/* ms a step, medians. */
struct costs {
    double filling, computing, updating; /* processor time, of the first thread */
    double all;                          /* passed */
    int ranges, blocks;                  /* of the optimizer; of gradients */
};

/* The part of a batch that the busiest thread has. */
static double busiest_share(struct qkv_batch *batch, int64_t shards, int threads)
{
    double load[MOST_THREADS] = {0}, most = 0, all = 0;
    for (int64_t shard = 0; shard < shards; shard++) {
        struct qkv_batch_view view;
        int idle = 0;
        qkv_batch_shard(batch, shard, shards, &view);
        for (int i = 1; i < threads; i++)
            if (load[i] < load[idle]) idle = i;
        double tokens = (double)(view.source_tokens + view.target_tokens);
        load[idle] += tokens;
        all += tokens;
        if (load[idle] > most) most = load[idle];
    }
    return most / all;
}

/* On average. */
static enum qkv_status measure_share(struct bench_work *work, int64_t shards, int threads, double *share,
                                     struct qkv_error *error)
{
    double sum = 0;
    for (int64_t i = 0; i < SHARED_BATCHES; i++) {
        if (bench_work_batch(work, i, error)) return QKV_INVALID;
        sum += busiest_share(&work->batch, shards, threads);
    }
    *share = sum / SHARED_BATCHES;
    return QKV_OK;
}

/* Numbers of all steps, a row each. */
enum { FILLING, COMPUTING, UPDATING, ALL, KINDS };

static enum qkv_status take_steps(struct bench_trainer *trainer, const struct bench_options *options,
                                  double *times[KINDS], int64_t *count, struct qkv_error *error)
{
    for (int64_t i = 0; i < WARM_UP; i++)
        if (bench_train_step(trainer, i, error)) return QKV_INVALID;
    double ends = bench_now() + options->seconds / 4;
    while (*count < options->steps && (*count < FEWEST_STEPS || bench_now() < ends)) {
        double began = bench_now();
        if (bench_train_step(trainer, WARM_UP + *count, error)) return QKV_INVALID;
        times[ALL][*count] = bench_now() - began;
        times[FILLING][*count] = trainer->filling;
        times[COMPUTING][*count] = trainer->computing;
        times[UPDATING][(*count)++] = trainer->updating;
    }
    return QKV_OK;
}

static enum qkv_status measure_costs(struct bench_work *work, int64_t threads, int64_t shards,
                                     const struct bench_options *options, struct costs *costs,
                                     struct qkv_error *error)
{
    struct bench_trainer trainer;
    double *times[KINDS];
    int64_t count = 0;
    times[0] = malloc(KINDS * (size_t)options->steps * sizeof *times[0]);
    if (!times[0]) return qkv_error_set(error, "out of memory for the times of steps");
    for (int kind = 1; kind < KINDS; kind++) times[kind] = times[kind - 1] + options->steps;
    enum qkv_status status = bench_trainer_make(&trainer, work, threads, shards, error);
    if (!status) status = take_steps(&trainer, options, times, &count, error);
    if (!status)
        *costs = (struct costs){.filling = 1e3 * bench_median(times[FILLING], count),
                                .computing = 1e3 * bench_median(times[COMPUTING], count),
                                .updating = 1e3 * bench_median(times[UPDATING], count),
                                .all = 1e3 * bench_median(times[ALL], count),
                                .ranges = trainer.optimizer.ranges,
                                .blocks = qkv_replicas_blocks(trainer.replicas)};
    free(times[0]);
    bench_trainer_release(&trainer);
    return status;
}

/* ---- the longest turn ---- */

struct longest {
    double last, most; /* s */
};

static void note_op(void *context, const struct qkv_tensor *tensor, bool backward)
{
    struct longest *longest = context;
    double now = bench_thread_now();
    (void)tensor;
    if (backward) longest->most = fmax(longest->most, now - longest->last);
    longest->last = now;
}

static enum qkv_status pass_once(struct bench_work *work, struct qkv_graph *graph,
                                 const struct qkv_batch_view *view, struct longest *longest,
                                 struct qkv_error *error)
{
    struct qkv_tensor *loss;
    qkv_graph_reset(graph);
    loss = qkv_model_loss(work->model, graph, view, work->config.training.label_smoothing, 1, NULL);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    *longest = (struct longest){.last = bench_thread_now()};
    qkv_backward(graph, loss, NULL);
    return QKV_OK;
}

/* ms of the longest backward op of the first of so many shards, the least of some passes. */
static enum qkv_status measure_longest(struct bench_work *work, int64_t shards, double *least,
                                       struct qkv_error *error)
{
    struct longest longest = {0};
    const struct qkv_observer observer = {note_op, &longest};
    const struct qkv_parameters *parameters = &work->model->parameters;
    struct qkv_batch_view view;
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    void *gradients = malloc((size_t)parameters->elements * sizeof(float));
    enum qkv_status status = bench_work_batch(work, 0, error);
    if (!status && (!graph || !gradients)) status = qkv_error_set(error, "out of memory for gradients");
    if (!status) {
        qkv_graph_bind(graph, parameters, gradients, false);
        qkv_graph_observe(graph, &observer);
        qkv_batch_shard(&work->batch, 0, shards, &view);
    }
    *least = INFINITY;
    for (int pass = 0; pass < LONGEST_PASSES && !status; pass++) {
        status = pass_once(work, graph, &view, &longest, error);
        *least = fmin(*least, 1e3 * longest.most);
    }
    qkv_graph_free(graph);
    free(gradients);
    return status;
}

/* ---- what waking takes ---- */

static void do_nothing(void *context, int part)
{
    (void)context, (void)part;
}

/* ms to wake one more thread and see it done, from a run of all that the machine has. */
static enum qkv_status measure_waking(int cores, double *waking, struct qkv_error *error)
{
    struct qkv_workers *workers = qkv_workers_new(cores < 2 ? 2 : cores, error);
    if (!workers) return QKV_INVALID;
    static double seconds[WAKES];
    int count = qkv_workers_count(workers);
    for (int i = 0; i < WAKES; i++) {
        double began = bench_now();
        qkv_workers_run(workers, count, do_nothing, NULL);
        seconds[i] = bench_now() - began;
    }
    *waking = 1e3 * bench_median(seconds, WAKES) / (count - 1);
    qkv_workers_free(workers);
    return QKV_OK;
}

/* ---- the forecast ---- */

/* ceil(a / b) / a: what the busiest of b threads has of a equal parts. */
static double even_share(int a, int b)
{
    return (double)((a + b - 1) / b) / a;
}

/* What is measured once. */
struct machine {
    int cores;
    double waking;       /* ms */
    struct costs bare;   /* one thread, one shard: no gradients to add up */
    struct costs single; /* one thread, as many shards as below */
    int64_t shards;
};

static enum qkv_status forecast(struct machine *machine, struct bench_work *work, int threads, int64_t shards,
                                const struct bench_options *options, struct bench_forecast *f,
                                struct qkv_error *error)
{
    struct costs together = {0};
    double share;
    if (measure_share(work, shards, threads, &share, error)) return QKV_INVALID;
    if (shards != machine->shards && measure_costs(work, 1, shards, options, &machine->single, error))
        return QKV_INVALID;
    machine->shards = shards;
    const struct costs single = machine->single;
    if (threads == 1)
        together = single;
    else if (threads <= machine->cores && measure_costs(work, threads, shards, options, &together, error))
        return QKV_INVALID;
    int64_t chain = (shards + single.blocks - 1) / single.blocks, at_once = chain < threads ? chain : threads;
    double turn = 0;
    if (at_once > 1 && measure_longest(work, shards, &turn, error)) return QKV_INVALID;
    double bytes = (double)(single.blocks - 1) * (double)work->model->parameters.elements * sizeof(float);
    *f = (struct bench_forecast){
        .threads = threads,
        .shards = shards,
        .serial = single.filling + RUNS_A_STEP * machine->waking * (threads - 1),
        .computing = single.computing,
        .share = share,
        .waiting = turn * (double)(at_once - 1),
        .updating = single.updating,
        .sum = fmax(0, single.updating - machine->bare.updating),
        .megabytes = bytes / (1 << 20),
        .measured = together.all,
    };
    snprintf(f->work, sizeof f->work, "%s", work->name);
    f->forecast =
        f->serial + f->computing * f->share + f->waiting + f->updating * even_share(single.ranges, threads);
    return QKV_OK;
}

/* Powers of two, and between them as many as the machine has. */
static int next_threads(int threads, int cores)
{
    int power = 1;
    while (power <= threads) power *= 2;
    return threads < cores && cores < power ? cores : power;
}

enum qkv_status bench_threads(struct bench_work *work, const struct bench_options *options,
                              const struct bench_sink *sink, struct qkv_error *error)
{
    int64_t fixed = options->shards ? options->shards : bench_work_shards(work);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    struct machine machine = {.cores = online > 0 ? (int)online : 1};
    if (measure_waking(machine.cores, &machine.waking, error) ||
        measure_costs(work, 1, 1, options, &machine.bare, error))
        return QKV_INVALID;
    machine.single = machine.bare;
    machine.shards = 1;
    if (machine.cores > MOST_THREADS) machine.cores = MOST_THREADS;
    int last = machine.cores > FORECAST_THREADS ? machine.cores : FORECAST_THREADS;
    for (int threads = 1; threads <= last; threads = next_threads(threads, machine.cores)) {
        struct bench_forecast f;
        int64_t shards = fixed ? fixed : threads;
        if (forecast(&machine, work, threads, shards, options, &f, error)) return QKV_INVALID;
        sink->forecast(sink->context, &f);
    }
    return QKV_OK;
}
