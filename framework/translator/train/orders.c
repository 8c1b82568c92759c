/* Orders from process 0 to the other processes of a training. Only process 0 decides, writes files and validates; the others
 * compute the gradients of their shards. */
#include "train/training.h"

#include "core/exchange.h"

static struct qkv_processes *processes_of(const struct training *training)
{
    return training->options->processes;
}

/* Broadcasts the values of the parameters from process 0, which has changed them. */
static enum qkv_status share_values(struct training *training, struct qkv_error *error)
{
    struct qkv_parameters *parameters = &training->model->parameters;
    size_t size = (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
    parameters->changes += qkv_processes_rank(processes_of(training)) > 0;
    return qkv_exchange_broadcast(processes_of(training), parameters->values, size, error);
}

enum qkv_status qkv_order_step(struct training *training, int64_t part, struct qkv_error *error)
{
    const struct progress *progress = &training->progress;
    uint64_t changes = (uint64_t)training->model->parameters.changes;
    if (!processes_of(training)) return QKV_OK;
    struct order order = {
        .update = progress->update,
        .epoch = progress->epoch,
        .batch = progress->batch - 1,
        .part = part,
        .has_values = !training->has_shared || training->shared_changes != changes,
    };
    training->has_shared = true;
    training->shared_changes = changes;
    if (qkv_exchange_broadcast(processes_of(training), &order, sizeof order, error)) return QKV_INVALID;
    return order.has_values ? share_values(training, error) : QKV_OK;
}

/* Collects how many bytes each process has sent. */
static void count_sent(const struct training *training, struct qkv_train_result *result)
{
    struct qkv_processes *processes = processes_of(training);
    int count = qkv_processes_count(processes);
    int64_t *sent = training->sent;
    sent[qkv_processes_rank(processes)] = processes->sent;
    if (qkv_exchange_collect(processes, sent, sizeof *sent, count, NULL)) return;
    result->sent = sent[0];
    for (int i = 1; i < count; i++)
        if (sent[i] > result->sent_by_others) result->sent_by_others = sent[i];
}

void qkv_order_end(struct training *training, enum qkv_status status, struct qkv_train_result *result)
{
    struct order order = {.is_last = true, .status = status, .end = result->end};
    if (!training->has_followers) return;
    if (!qkv_exchange_broadcast(processes_of(training), &order, sizeof order, NULL))
        count_sent(training, result);
}

enum qkv_status qkv_order_receive(struct training *training, struct order *order, struct qkv_error *error)
{
    struct qkv_train_result unused = {0};
    if (qkv_exchange_broadcast(processes_of(training), order, sizeof *order, error)) return QKV_INVALID;
    if (order->is_last) count_sent(training, &unused);
    return order->has_values ? share_values(training, error) : QKV_OK;
}

enum qkv_status qkv_order_report(struct training *training, struct qkv_error *error)
{
    struct qkv_processes *processes = processes_of(training);
    const struct qkv_train_listener *listener = training->options->listener;
    bool *stops = training->wants_stop;
    int rank = qkv_processes_rank(processes);
    if (!processes) return QKV_OK;
    if (rank > 0) stops[rank] = listener && listener->stop && listener->stop(listener->context);
    return qkv_exchange_collect(processes, stops, sizeof *stops, qkv_processes_count(processes), error);
}
