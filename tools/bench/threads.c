/* Training steps on 1, 2, 4, ... threads: the measured time, and a forecast from times that are
 * measured on one thread. With n threads and S shards:
 *
 *     step = serial + computing share + waiting + updating ceil(ranges / n) / ranges
 *
 * - computing: forward and backward of all S shards one after the other; small shards cost more per
 *   token
 * - share: the part of the tokens that the busiest of n threads computes, if idle threads take
 *   shards in order
 * - waiting: of large models, two shards share a gradient block. If both run at the same time, the
 *   second waits for the first at each parameter, in all as long as the longest backward op takes
 * - updating: the optimizer on one thread, with the sum over gradient blocks; ranges: the parts of
 *   a block
 * - serial: filling the batch, and waking n - 1 threads three times
 *
 * The forecast assumes that memory is as fast for each of n threads as for one; gradient_megabytes
 * tells how much is read. */
#include "bench.h"

#include "core/processors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FORECAST_THREADS = 64,
    MAX_THREADS = 1024,
    WAKE_ROUNDS = 2000,
    RUNS_A_STEP = 3,
    WARM_UP = 2,
    MIN_STEPS = 3,
    SHARED_BATCHES = 20,
    LONGEST_PASSES = 5,
};

/* ---- the times of steps ---- */

/* Returns the part of the tokens of a batch that the busiest thread computes. */
static double busiest_share(struct qkv_batch *batch, int64_t shards, int threads)
{
    double load[MAX_THREADS] = {0}, largest = 0, all = 0;
    for (int64_t shard = 0; shard < shards; shard++) {
        struct qkv_batch_view view;
        int idle = 0;
        qkv_batch_shard(batch, shard, shards, &view);
        for (int i = 1; i < threads; i++)
            if (load[i] < load[idle]) idle = i;
        double tokens = (double)(view.source_tokens + view.target_tokens);
        load[idle] += tokens;
        all += tokens;
        if (load[idle] > largest) largest = load[idle];
    }
    return largest / all;
}

/* The mean of busiest_share over some batches. */
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

/* Rows of the array of times, one column per step. */
enum { FILLING, COMPUTING, UPDATING, ELAPSED, TIMES };

static enum qkv_status time_steps(struct bench_trainer *trainer, const struct bench_options *options,
                                  double *times[TIMES], int64_t *count, struct qkv_error *error)
{
    for (int64_t i = 0; i < WARM_UP; i++)
        if (bench_train_step(trainer, i, error)) return QKV_INVALID;
    double ends = bench_seconds() + options->seconds / 4;
    while (*count < options->steps && (*count < MIN_STEPS || bench_seconds() < ends)) {
        double began = bench_seconds();
        if (bench_train_step(trainer, WARM_UP + *count, error)) return QKV_INVALID;
        times[ELAPSED][*count] = bench_seconds() - began;
        times[FILLING][*count] = trainer->filling;
        times[COMPUTING][*count] = trainer->computing;
        times[UPDATING][(*count)++] = trainer->updating;
    }
    return QKV_OK;
}

enum qkv_status bench_measure_costs(struct bench_work *work, int64_t threads, int64_t shards,
                                    const struct bench_options *options, struct bench_costs *costs,
                                    struct qkv_error *error)
{
    struct bench_trainer trainer;
    double *times[TIMES];
    int64_t count = 0;
    times[0] = malloc(TIMES * (size_t)options->steps * sizeof *times[0]);
    if (!times[0]) return qkv_error_set(error, "out of memory for the times of steps");
    for (int kind = 1; kind < TIMES; kind++) times[kind] = times[kind - 1] + options->steps;
    enum qkv_status status = bench_trainer_make(&trainer, work, threads, shards, error);
    if (!status) status = time_steps(&trainer, options, times, &count, error);
    if (!status)
        *costs = (struct bench_costs){.filling = 1e3 * bench_median(times[FILLING], count),
                                      .computing = 1e3 * bench_median(times[COMPUTING], count),
                                      .updating = 1e3 * bench_median(times[UPDATING], count),
                                      .elapsed = 1e3 * bench_median(times[ELAPSED], count),
                                      .ranges = trainer.optimizer.ranges,
                                      .blocks = qkv_replicas_blocks(trainer.replicas)};
    free(times[0]);
    bench_trainer_release(&trainer);
    return status;
}

/* ---- the longest backward op ---- */

struct longest_op {
    double previous; /* when the op before ended */
    double seconds;
};

static void record_op(void *context, const struct qkv_tensor *tensor, bool backward)
{
    struct longest_op *longest = context;
    double now = bench_thread_seconds();
    (void)tensor;
    if (backward) longest->seconds = fmax(longest->seconds, now - longest->previous);
    longest->previous = now;
}

static enum qkv_status run_once(struct bench_work *work, struct qkv_graph *graph,
                                const struct qkv_batch_view *view, struct longest_op *longest,
                                struct qkv_error *error)
{
    const struct qkv_objective objective = qkv_objective_from_config(&work->config.training);
    qkv_graph_reset(graph);
    struct qkv_tensor *loss = qkv_model_loss(work->model, graph, view, &objective, 1, NULL);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    *longest = (struct longest_op){.previous = bench_thread_seconds()};
    qkv_backward(graph, loss, NULL);
    return QKV_OK;
}

/* Measures the longest backward op of the first shard in ms: the smallest value of several
 * passes. */
static enum qkv_status measure_longest(struct bench_work *work, int64_t shards, double *ms,
                                       struct qkv_error *error)
{
    struct longest_op longest = {0};
    const struct qkv_observer observer = {record_op, &longest};
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
    *ms = INFINITY;
    for (int pass = 0; pass < LONGEST_PASSES && !status; pass++) {
        status = run_once(work, graph, &view, &longest, error);
        *ms = fmin(*ms, 1e3 * longest.seconds);
    }
    qkv_graph_free(graph);
    free(gradients);
    return status;
}

/* ---- the time to wake threads ---- */

static void do_nothing(void *context, int part)
{
    (void)context, (void)part;
}

/* Measures the ms to wake one more thread and to wait for it, on as many threads as the machine
 * has. */
static enum qkv_status measure_waking(int cores, double *waking, struct qkv_error *error)
{
    struct qkv_workers *workers = qkv_workers_new(cores < 2 ? 2 : cores, error);
    if (!workers) return QKV_INVALID;
    static double seconds[WAKE_ROUNDS];
    int count = qkv_workers_count(workers);
    for (int i = 0; i < WAKE_ROUNDS; i++) {
        double began = bench_seconds();
        qkv_workers_run(workers, count, do_nothing, NULL);
        seconds[i] = bench_seconds() - began;
    }
    *waking = 1e3 * bench_median(seconds, WAKE_ROUNDS) / (count - 1);
    qkv_workers_free(workers);
    return QKV_OK;
}

/* ---- the forecast ---- */

/* ceil(a / b) / a: the part of the work of the busiest of b threads if there are a equal parts. */
static double even_share(int a, int b)
{
    return (double)((a + b - 1) / b) / a;
}

/* Measured once for all numbers of threads. */
struct machine {
    int cores;
    double waking;                 /* ms */
    struct bench_costs one_shard;  /* on one thread: no gradient blocks to sum */
    struct bench_costs one_thread; /* with `shards` shards */
    int64_t shards;
};

static enum qkv_status forecast(struct machine *machine, struct bench_work *work, int threads, int64_t shards,
                                const struct bench_options *options, struct bench_forecast *f,
                                struct qkv_error *error)
{
    struct bench_costs measured = {0};
    double share;
    if (measure_share(work, shards, threads, &share, error)) return QKV_INVALID;
    if (shards != machine->shards &&
        bench_measure_costs(work, 1, shards, options, &machine->one_thread, error))
        return QKV_INVALID;
    machine->shards = shards;
    const struct bench_costs one_thread = machine->one_thread;
    if (threads == 1)
        measured = one_thread;
    else if (threads <= machine->cores &&
             bench_measure_costs(work, threads, shards, options, &measured, error))
        return QKV_INVALID;
    bool is_paired = work->model->parameters.elements >= QKV_PAIRED_FROM && shards > 1 && threads > 1;
    double waiting = 0;
    if (is_paired && measure_longest(work, shards, &waiting, error)) return QKV_INVALID;
    double bytes = (double)(one_thread.blocks - 1) * (double)work->model->parameters.elements * sizeof(float);
    *f = (struct bench_forecast){
        .threads = threads,
        .shards = shards,
        .serial = one_thread.filling + RUNS_A_STEP * machine->waking * (threads - 1),
        .computing = one_thread.computing,
        .share = share,
        .waiting = waiting,
        .updating = one_thread.updating,
        .gradient_sum = fmax(0, one_thread.updating - machine->one_shard.updating),
        .gradient_megabytes = bytes / (1 << 20),
        .measured = measured.elapsed,
    };
    snprintf(f->work, sizeof f->work, "%s", work->name);
    f->forecast = f->serial + f->computing * f->share + f->waiting +
                  f->updating * even_share(one_thread.ranges, threads);
    return QKV_OK;
}

/* The next number of threads: the next power of two, or the number of processors if that comes
 * first. */
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
    struct machine machine = {.cores = qkv_processors_available()};
    if (measure_waking(machine.cores, &machine.waking, error) ||
        bench_measure_costs(work, 1, 1, options, &machine.one_shard, error))
        return QKV_INVALID;
    machine.one_thread = machine.one_shard;
    machine.shards = 1;
    if (machine.cores > MAX_THREADS) machine.cores = MAX_THREADS;
    int last = machine.cores > FORECAST_THREADS ? machine.cores : FORECAST_THREADS;
    for (int threads = 1; threads <= last; threads = next_threads(threads, machine.cores)) {
        struct bench_forecast f;
        int64_t shards = fixed ? fixed : threads;
        if (forecast(&machine, work, threads, shards, options, &f, error)) return QKV_INVALID;
        sink->forecast(sink->context, &f);
    }
    return QKV_OK;
}
