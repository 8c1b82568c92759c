/* A training step in several processes that a launcher has started, each with a batch of the workload, and the messages of the
 * step without its computing. Processes of one machine share its processors: their processor time says more than the time that
 * passes. */
#include "bench.h"

#include "core/exchange.h"
#include "optimize/gradient_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL = 64,      /* bytes */
    LARGE = 1 << 22, /* bytes: as large as messages become */
    SMALL_ROUNDS = 200,
    LARGE_ROUNDS = 50,
    MIN_STEPS = 3,
};

struct group {
    struct qkv_processes *processes;
    int rank, count;
    struct bench_work *work;
    const struct bench_options *options;
    struct bench_trainer trainer;
    struct qkv_gradient_tree *tree;
    bool *is_empty; /* [count] */
};

/* ---- messages between two ---- */

/* Seconds for one way of a message that process 1 returns. Of the rounds, the fastest: other programs only delay. */
static enum qkv_status time_message(struct group *group, char *data, size_t size, int rounds, double *seconds,
                                    struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    *seconds = INFINITY;
    for (int i = 0; !status && i < rounds && group->rank < 2; i++) {
        double began = bench_seconds();
        if (group->rank == 0) status = qkv_exchange_send(group->processes, 1, data, size, error);
        if (!status) status = qkv_exchange_receive(group->processes, 1 - group->rank, data, size, error);
        if (!status && group->rank == 1) status = qkv_exchange_send(group->processes, 0, data, size, error);
        *seconds = fmin(*seconds, (bench_seconds() - began) / 2);
    }
    return status;
}

static enum qkv_status measure_messages(struct group *group, struct bench_exchange *result,
                                        struct qkv_error *error)
{
    double small = 0, large = 0;
    char *data = calloc(1, LARGE);
    if (!data) return qkv_error_set(error, "out of memory for messages");
    enum qkv_status status = time_message(group, data, SMALL, SMALL_ROUNDS, &small, error);
    if (!status) status = time_message(group, data, LARGE, LARGE_ROUNDS, &large, error);
    free(data);
    result->latency = 1e3 * small;
    result->rate = LARGE / (large - fmin(small, large / 2)) * 1e-9;
    return status;
}

/* ---- rounds ---- */

/* Repeats `round` in all processes, as long as process 0 has time. Each round ends when all have ended it. The seconds of process
 * 0 for the fastest. */
static enum qkv_status repeat(struct group *group,
                              enum qkv_status (*round)(struct group *group, int64_t i, double *began,
                                                       struct qkv_error *error),
                              double *seconds, struct qkv_error *error)
{
    const struct bench_options *options = group->options;
    double ends = INFINITY;
    int64_t count = -1; /* the first round is not timed */
    bool more = true;
    enum qkv_status status = QKV_OK;
    *seconds = INFINITY;
    while (!status && more) {
        double began = 0;
        status = round(group, count + 1, &began, error);
        if (!status)
            status =
                qkv_exchange_collect(group->processes, group->is_empty, sizeof(bool), group->count, error);
        double now = bench_seconds();
        if (count >= 0) *seconds = fmin(*seconds, now - began);
        if (++count == 0) ends = now + options->seconds / 4;
        more = count < options->steps && (count < MIN_STEPS || now < ends);
        if (!status) status = qkv_exchange_broadcast(group->processes, &more, sizeof more, error);
    }
    return status;
}

static enum qkv_status train(struct group *group, int64_t i, double *began, struct qkv_error *error)
{
    *began = bench_seconds();
    return bench_train_step(&group->trainer, i, error);
}

/* What a step sends, with gradients in all rows of tables. */
static enum qkv_status send_all(struct group *group, int64_t i, double *began, struct qkv_error *error)
{
    struct qkv_parameters *parameters = &group->work->model->parameters;
    size_t size = (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
    struct qkv_gradient_leaf leaf;
    bool barrier = true;
    (void)i;
    qkv_gradient_tree_begin(group->tree, group->is_empty, false, group->trainer.workers);
    while (qkv_gradient_tree_take(group->tree, &leaf)) {
        memset(leaf.gradients, 1, size);
        qkv_gradient_tree_complete(group->tree, &leaf);
    }
    if (qkv_exchange_collect(group->processes, group->is_empty, sizeof(bool), group->count, error) ||
        qkv_exchange_broadcast(group->processes, &barrier, sizeof barrier, error))
        return QKV_INVALID;
    *began = bench_seconds();
    if (qkv_exchange_broadcast(group->processes, parameters->values, size, error) ||
        qkv_gradient_tree_exchange(group->tree, error))
        return QKV_INVALID;
    qkv_gradient_tree_end(group->tree, group->trainer.workers);
    return QKV_OK;
}

/* ---- the measurement ---- */

/* What each process says of its steps. */
struct share {
    double processor; /* ms of a step */
    double sent;      /* bytes of a step */
};

/* Times the steps, and finds the busiest process. */
static enum qkv_status measure_steps(struct group *group, struct bench_exchange *result,
                                     struct qkv_error *error)
{
    double seconds = 0, used = bench_thread_seconds();
    int64_t sent = group->processes->sent;
    struct share *share = calloc((size_t)group->count, sizeof *share);
    if (!share) return qkv_error_set(error, "out of memory for %d processes", group->count);
    enum qkv_status status = repeat(group, train, &seconds, error);
    double steps = (double)group->trainer.steps;
    share[group->rank] = (struct share){1e3 * (bench_thread_seconds() - used) / steps,
                                        (double)(group->processes->sent - sent) / steps};
    if (!status) status = qkv_exchange_collect(group->processes, share, sizeof *share, group->count, error);
    result->step = 1e3 * seconds;
    result->sent = share[0].sent * 1e-6;
    for (int i = 0; i < group->count; i++) {
        result->processor = fmax(result->processor, share[i].processor);
        if (i) result->sent_by_others = fmax(result->sent_by_others, share[i].sent * 1e-6);
    }
    free(share);
    return status;
}

/* Makes a batch for all processes, and what trains on it. */
static enum qkv_status group_open(struct group *group, struct qkv_error *error)
{
    struct bench_work *work = group->work;
    group->rank = qkv_processes_rank(group->processes);
    group->count = qkv_processes_count(group->processes);
    group->is_empty = calloc((size_t)group->count, sizeof *group->is_empty);
    if (!group->is_empty) return qkv_error_set(error, "out of memory for steps");
    if (bench_random_batch(work, work->shape.sentences * group->count, true, &work->batch, error) ||
        bench_trainer_make(&group->trainer, work, 1, group->count, error) ||
        qkv_replicas_divide(group->trainer.replicas, group->processes, QKV_GRADIENTS_BY_SIZE, error))
        return QKV_INVALID;
    group->trainer.processes = group->processes;
    group->tree = qkv_gradient_tree_new(&work->model->parameters, 1, group->count, QKV_GRADIENTS_BY_SIZE,
                                        group->processes);
    return group->tree ? QKV_OK : qkv_error_set(error, "out of memory for gradients");
}

static void group_close(struct group *group)
{
    qkv_gradient_tree_free(group->tree);
    bench_trainer_release(&group->trainer);
    free(group->is_empty);
}

enum qkv_status bench_exchange(struct bench_work *work, const struct bench_options *options,
                               const struct bench_sink *sink, struct qkv_error *error)
{
    struct group group = {.work = work, .options = options};
    struct bench_exchange result = {.processes = 0};
    if (!work->shape.name)
        return qkv_error_set(error, "%s: exchange and processes measure built-in workloads", work->name);
    if (qkv_processes_join(&group.processes, error)) return QKV_INVALID;
    if (!group.processes)
        return qkv_error_set(error,
                             "exchange is measured in several processes: mpirun -n 2 qkv-bench %s -m "
                             "exchange",
                             work->name);
    enum qkv_status status = group_open(&group, error);
    if (!status) status = measure_messages(&group, &result, error);
    if (!status) status = measure_steps(&group, &result, error);
    double seconds = 0;
    if (!status) status = repeat(&group, send_all, &seconds, error);
    if (!status && group.rank == 0) {
        snprintf(result.work, sizeof result.work, "%s", work->name);
        result.processes = group.count;
        result.messages = 1e3 * seconds;
        result.parameters = (double)work->model->parameters.elements * sizeof(float) * 1e-6;
        sink->exchange(sink->context, &result);
    }
    group_close(&group);
    if (status) qkv_processes_abort(group.processes);
    qkv_processes_leave(group.processes);
    return status;
}
