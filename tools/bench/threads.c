/* Training steps on more and more threads, and what they should take by a model whose parts are measured on
 * one thread. With n threads and S shards:
 *
 *     step = serial + computing share + updating ceil(ranges / n) / ranges
 *
 * computing: forward and backward of all S shards one after the other, with all that small shards cost more.
 * share: what the busiest of n threads has of it, when shards are taken in order; by their tokens.
 * updating: the optimizer on one thread, with the S gradients that it adds up; ranges: the pieces of its
 * block. serial: filling the batch, and waking n - 1 threads three times. Memory is taken to be as fast for
 * each of n threads as for one; `megabytes` says what that asks of it. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_THREADS = 64, WAKES = 2000, RUNS_A_STEP = 3, WARM_UP = 2, FEWEST_STEPS = 3 };

/* ---- what steps take ---- */

/* ms a step, medians. */
struct costs {
    double filling, computing, updating, all;
    double share; /* of the batches on average, for as many threads as were asked for */
    int ranges;   /* of the optimizer */
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

/* Steps with that many shards on `running` threads; the share is told for `threads`. */
static enum qkv_status measure_costs(struct bench_work *work, int64_t running, int64_t shards, int threads,
                                     const struct bench_options *options, struct costs *costs,
                                     struct qkv_error *error)
{
    struct bench_trainer trainer;
    double *seconds = malloc(4 * (size_t)options->steps * sizeof *seconds);
    double *filling = seconds, *computing = seconds, *updating = seconds, *all = seconds;
    int64_t count = 0;
    enum qkv_status status = bench_trainer_make(&trainer, work, running, shards, error);
    if (!status && !seconds) status = qkv_error_set(error, "out of memory for the times of steps");
    *costs = (struct costs){0};
    if (!status) {
        computing += options->steps;
        updating += 2 * options->steps;
        all += 3 * options->steps;
    }
    for (int64_t i = 0; i < WARM_UP && !status; i++) status = bench_train_step(&trainer, i, error);
    double ends = bench_now() + options->seconds / 3;
    while (!status && count < options->steps && (count < FEWEST_STEPS || bench_now() < ends)) {
        status = bench_train_step(&trainer, WARM_UP + count, error);
        filling[count] = trainer.filling;
        computing[count] = trainer.computing;
        updating[count] = trainer.updating;
        all[count] = trainer.filling + trainer.computing + trainer.updating;
        costs->share += busiest_share(&work->batch, shards, threads);
        count++;
    }
    if (!status) {
        costs->filling = 1e3 * bench_median(filling, count);
        costs->computing = 1e3 * bench_median(computing, count);
        costs->updating = 1e3 * bench_median(updating, count);
        costs->all = 1e3 * bench_median(all, count);
        costs->share /= (double)count;
        costs->ranges = trainer.optimizer.ranges;
    }
    free(seconds);
    bench_trainer_release(&trainer);
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
    int count = qkv_workers_count(workers);
    double began = bench_now();
    for (int i = 0; i < WAKES; i++) qkv_workers_run(workers, count, do_nothing, NULL);
    *waking = 1e3 * (bench_now() - began) / WAKES / (count - 1);
    qkv_workers_free(workers);
    return QKV_OK;
}

/* ---- the forecast ---- */

/* Rows are left out whose gradients would take more than half of the memory. */
static bool fits(const struct bench_work *work, int64_t shards)
{
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return (double)shards * (double)work->model->parameters.elements * sizeof(float) < memory / 2;
}

/* ceil(a / b) / a: what the busiest of b threads has of a equal parts. */
static double even_share(int a, int b)
{
    return (double)((a + b - 1) / b) / a;
}

/* All that is the same for every number of threads. */
struct machine {
    int cores;
    double waking;     /* ms */
    struct costs bare; /* one thread, one shard: no gradients to add up */
};

static enum qkv_status forecast(const struct machine *machine, struct bench_work *work, int threads,
                                int64_t shards, const struct bench_options *options, struct bench_forecast *f,
                                struct qkv_error *error)
{
    struct costs single = machine->bare, together = {.all = threads > 1 ? 0 : machine->bare.all};
    if (shards > 1 && measure_costs(work, 1, shards, threads, options, &single, error)) return QKV_INVALID;
    if (threads > 1 && threads <= machine->cores &&
        measure_costs(work, threads, shards, threads, options, &together, error))
        return QKV_INVALID;
    double bytes = (double)(shards - 1) * (double)work->model->parameters.elements * sizeof(float);
    *f = (struct bench_forecast){
        .threads = threads,
        .shards = shards,
        .serial = single.filling + RUNS_A_STEP * machine->waking * (threads - 1),
        .computing = single.computing,
        .share = single.share,
        .updating = single.updating,
        .sum = fmax(0, single.updating - machine->bare.updating),
        .megabytes = bytes / (1 << 20),
        .measured = together.all,
    };
    snprintf(f->work, sizeof f->work, "%s", work->name);
    f->forecast = f->serial + f->computing * f->share + f->updating * even_share(single.ranges, threads);
    return QKV_OK;
}

enum qkv_status bench_threads(struct bench_work *work, const struct bench_options *options,
                              const struct bench_sink *sink, struct qkv_error *error)
{
    int64_t fixed = options->shards ? options->shards : bench_work_shards(work);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    struct machine machine = {.cores = online > 0 ? (int)online : 1};
    if (measure_waking(machine.cores, &machine.waking, error) ||
        measure_costs(work, 1, 1, 1, options, &machine.bare, error))
        return QKV_INVALID;
    for (int threads = 1; threads <= MOST_THREADS; threads *= 2) {
        struct bench_forecast f;
        int64_t shards = fixed ? fixed : threads;
        if (shards > 1 && !fits(work, shards)) break;
        if (forecast(&machine, work, threads, shards, options, &f, error)) return QKV_INVALID;
        sink->forecast(sink->context, &f);
    }
    return QKV_OK;
}
