/* The messages between the processes of one training: process 0, which alone decides, writes files and validates, commands the
 * others, which compute the gradients of their shards. All functions do nothing in one process. */
#include "core/exchange.h"
#include "train/training.h"

/* Broadcasts the values of the parameters from process 0, which has changed them. */
static enum qkv_status share_values(struct training *training, struct qkv_error *error)
{
    struct qkv_processes *processes = training->options->processes;
    struct qkv_parameters *parameters = &training->model->parameters;
    size_t size = (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
    parameters->changes += qkv_processes_rank(processes) > 0;
    return qkv_exchange_broadcast(processes, parameters->values, size, error);
}

enum qkv_status qkv_training_command(struct training *training, int64_t part, struct qkv_error *error)
{
    struct qkv_processes *processes = training->options->processes;
    const struct progress *progress = &training->progress;
    uint64_t changes = (uint64_t)training->model->parameters.changes;
    struct training_command command = {
        .update = progress->update,
        .epoch = progress->epoch,
        .batch = progress->batch - 1,
        .part = part,
        .precision = training->config->training.precision,
        .has_values = training->shared_changes != changes,
    };
    training->shared_changes = changes;
    if (qkv_exchange_broadcast(processes, &command, sizeof command, error)) return QKV_INVALID;
    return processes && command.has_values ? share_values(training, error) : QKV_OK;
}

/* Collects how many bytes each process has sent. */
static void count_sent(const struct training *training, struct qkv_train_result *result)
{
    struct qkv_processes *processes = training->options->processes;
    int count = qkv_processes_count(processes);
    int64_t *sent = training->sent;
    sent[qkv_processes_rank(processes)] = processes->sent;
    if (qkv_exchange_collect(processes, sent, sizeof *sent, count, NULL)) return;
    result->sent = sent[0];
    for (int i = 1; i < count; i++)
        if (sent[i] > result->sent_by_others) result->sent_by_others = sent[i];
}

void qkv_training_dismiss(struct training *training, enum qkv_status status, struct qkv_train_result *result)
{
    struct training_command command = {.is_last = true, .status = status, .end = result->end};
    if (!training->has_followers) return;
    if (!qkv_exchange_broadcast(training->options->processes, &command, sizeof command, NULL))
        count_sent(training, result);
}

enum qkv_status qkv_training_receive(struct training *training, struct training_command *command,
                                     struct qkv_error *error)
{
    struct qkv_train_result unused = {0};
    if (qkv_exchange_broadcast(training->options->processes, command, sizeof *command, error))
        return QKV_INVALID;
    if (command->is_last) count_sent(training, &unused);
    return command->has_values ? share_values(training, error) : QKV_OK;
}

enum qkv_status qkv_training_collect_stops(struct training *training, struct qkv_error *error)
{
    struct qkv_processes *processes = training->options->processes;
    const struct qkv_train_listener *listener = training->options->listener;
    bool *stops = training->wants_stop;
    int rank = qkv_processes_rank(processes);
    if (rank > 0) stops[rank] = listener && listener->stop && listener->stop(listener->context);
    return qkv_exchange_collect(processes, stops, sizeof *stops, qkv_processes_count(processes), error);
}
