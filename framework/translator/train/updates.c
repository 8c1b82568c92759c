/* The loss of a batch, the model and its optimizer, and one update, also in several processes: process 0 commands, and only it
 * decides, writes files and validates; the others compute the gradients of their shards. */
#include "data/corpus.h"
#include "train/training.h"

#include "data/batch.h"
#include "graph/internal.h"
#include "models/network.h"
#include "optimize/optimize.h"
#include "processes/processes.h"

#include <math.h>

/* ---- the loss of a batch, in shards ---- */

/* The parts that read_sums reads. */
enum { CROSS_ENTROPY, ALIGNMENT, PASSES = 2 };

static int64_t count_items(void *context, int shard, int shards)
{
    struct qkv_batch_loss *loss = context;
    struct qkv_batch_view view;
    loss->shards = shards;
    qkv_batch_shard(loss->batch, shard, shards, &view);
    return view.target_tokens; /* 0: fewer sentences than shards */
}

static struct qkv_tensor *build_loss(void *context, struct qkv_shard *shard)
{
    const struct qkv_batch_loss *loss = context;
    struct qkv_batch_view view;
    struct qkv_trace trace;
    qkv_batch_shard(loss->batch, shard->index, loss->shards, &view);
    struct qkv_tensor *sum = qkv_model_loss(loss->model, shard->graph, &view, &loss->objective, 1.0, &trace);
    shard->part[CROSS_ENTROPY] = trace.cross_entropy;
    for (int pass = 0; pass < PASSES; pass++) shard->part[ALIGNMENT + pass] = trace.alignment[pass];
    return sum;
}

static void read_sums(void *context, const struct qkv_shard *shard, const struct qkv_tensor *loss,
                      double *further)
{
    const struct qkv_tensor *const *alignment = shard->part + ALIGNMENT;
    (void)context, (void)loss;
    qkv_cross_entropy_sums(shard->part[CROSS_ENTROPY], &further[QKV_BATCH_NEGATIVE_LOG_LIKELIHOOD],
                           &further[QKV_BATCH_CORRECT]);
    for (int pass = 0; pass < PASSES && alignment[pass]; pass++) {
        double nats, unused;
        qkv_cross_entropy_sums(alignment[pass], &nats, &unused);
        further[QKV_BATCH_ALIGNMENT] += alignment[1] ? nats / 2 : nats;
    }
}

struct qkv_shard_loss qkv_batch_loss(struct qkv_batch_loss *loss)
{
    return (struct qkv_shard_loss){
        .context = loss, .begin = count_items, .build = build_loss, .done = read_sums};
}

enum qkv_status qkv_batch_loss_reserve(const struct qkv_batch_loss *loss, struct qkv_data_parallel *parallel,
                                       const struct qkv_batches *batches, struct qkv_error *error)
{
    struct qkv_batch batch = {0};
    struct qkv_batch_loss largest = {loss->model, &batch, loss->objective, .shards = 1};
    const struct qkv_shard_loss shards = qkv_batch_loss(&largest);
    enum qkv_status status = qkv_batches_largest(batches, qkv_data_parallel_shards(parallel), &batch, error);
    if (!status) status = qkv_data_parallel_reserve(parallel, &shards, error);
    qkv_batch_release(&batch);
    return status;
}

/* ---- the model and what trains it ---- */

enum qkv_status qkv_training_make_model(struct training *training, struct qkv_error *error)
{
    const struct qkv_config *config = training->config;
    uint64_t seed = (uint64_t)config->training.random_seed;
    training->model =
        qkv_model_new(&config->model, training->source.size, training->target.size, QKV_FLOAT32, error);
    if (!training->model) return QKV_INVALID;
    qkv_parameters_initialize(&training->model->parameters, seed);
    if (*config->model.network && (qkv_network_check_forward(training->model, error) ||
                                   qkv_network_check_decoding(training->model, error)))
        return QKV_INVALID;
    struct qkv_error inner;
    if (!qkv_parameters_set_rates(&training->model->parameters, config->training.parameter_rates, &inner))
        return QKV_OK;
    return qkv_error_set(error, "training.parameter_rates: %s", inner.message);
}

enum qkv_status qkv_training_make_optimizer(struct training *training, struct qkv_error *error)
{
    const struct qkv_config *config = training->config;
    const struct qkv_training_config *settings = &config->training;
    training->loss = (struct qkv_batch_loss){
        .model = training->model,
        .batch = &training->batch,
        .objective = qkv_objective_from_config(settings),
    };
    if (training->links.pairs) training->loss.objective.guided.links = &training->links;
    training->parallel = qkv_data_parallel_new(&training->model->parameters, training->workers,
                                               (int)settings->shards, QKV_GRADIENTS_BY_SIZE, error);
    if (!training->parallel) return QKV_INVALID;
    struct qkv_processes *processes = training->options->processes;
    if (processes && qkv_data_parallel_divide(training->parallel, processes, error)) return QKV_INVALID;
    const struct qkv_optimizer_options options = qkv_optimizer_options_from_config(settings);
    if (qkv_processes_rank(processes) == 0 &&
        qkv_optimizer_init(&training->optimizer, &options, &training->model->parameters, error))
        return QKV_INVALID;
    training->schedule = qkv_schedule_from_config(settings, config->model.decoder.hidden_size);
    struct qkv_batches_options batches = {settings->batch_type, settings->batch_size,
                                          QKV_BATCH_ORDER_SHUFFLED, (uint64_t)settings->random_seed};
    if (qkv_batches_init(&training->batches, &training->train, batches, error)) return QKV_INVALID;
    return qkv_batch_loss_reserve(&training->loss, training->parallel, &training->batches, error);
}

void qkv_training_plan_epoch(struct training *training)
{
    int64_t epoch = training->progress.epoch;
    qkv_corpus_resample(&training->train, (uint64_t)training->config->training.random_seed, epoch);
    qkv_batches_epoch(&training->batches, epoch);
}

void qkv_training_release_model(struct training *training)
{
    qkv_optimizer_release(&training->optimizer);
    qkv_data_parallel_free(training->parallel);
    qkv_model_free(training->model);
    qkv_batch_release(&training->batch);
    qkv_batches_release(&training->batches);
}

/* ---- commands from process 0 to the others; all do nothing in one process ---- */

/* Computes a batch, or ends. */
struct command {
    bool is_last, has_values; /* has_values: new values of all parameters follow */
    enum qkv_status status;   /* of the training that ends */
    enum qkv_train_end end;
    int64_t update, epoch, batch; /* updates done; epoch and batch to compute */
    int64_t part;                 /* number of the batch in its update, from 0 */
    enum qkv_precision
        precision; /* that of process 0, which has chosen it where training.precision is auto */
};

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

/* Process 0: commands the others to compute the batch just fetched (number progress.batch - 1), part `part` of an update. */
static enum qkv_status send_batch(struct training *training, int64_t part, struct qkv_error *error)
{
    const struct progress *progress = &training->progress;
    uint64_t changes = (uint64_t)training->model->parameters.changes;
    if (!processes_of(training)) return QKV_OK;
    struct command command = {
        .update = progress->update,
        .epoch = progress->epoch,
        .batch = progress->batch - 1,
        .part = part,
        .precision = training->config->training.precision,
        .has_values = !training->has_shared || training->shared_changes != changes,
    };
    training->has_shared = true;
    training->shared_changes = changes;
    if (qkv_exchange_broadcast(processes_of(training), &command, sizeof command, error)) return QKV_INVALID;
    return command.has_values ? share_values(training, error) : QKV_OK;
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

void qkv_training_dismiss(struct training *training, enum qkv_status status, struct qkv_train_result *result)
{
    struct command command = {.is_last = true, .status = status, .end = result->end};
    if (!training->has_followers) return;
    if (!qkv_exchange_broadcast(processes_of(training), &command, sizeof command, NULL))
        count_sent(training, result);
}

/* The others: wait for the next command. */
static enum qkv_status receive_command(struct training *training, struct command *command,
                                       struct qkv_error *error)
{
    struct qkv_train_result unused = {0};
    if (qkv_exchange_broadcast(processes_of(training), command, sizeof *command, error)) return QKV_INVALID;
    if (command->is_last) count_sent(training, &unused);
    return command->has_values ? share_values(training, error) : QKV_OK;
}

/* After each step: tells process 0 which processes have been asked to stop, by a signal for example. */
static enum qkv_status collect_stops(struct training *training, struct qkv_error *error)
{
    struct qkv_processes *processes = processes_of(training);
    const struct qkv_train_listener *listener = training->options->listener;
    bool *stops = training->wants_stop;
    int rank = qkv_processes_rank(processes);
    if (!processes) return QKV_OK;
    if (rank > 0) stops[rank] = listener && listener->stop && listener->stop(listener->context);
    return qkv_exchange_collect(processes, stops, sizeof *stops, qkv_processes_count(processes), error);
}

/* ---- one update ---- */

/* Runs a step in training.precision. Everything else that uses the model, such as validation, computes in float32. */
static enum qkv_status step_in_precision(struct training *training, const struct qkv_random *random,
                                         bool accumulate, struct qkv_shard_sums *sums,
                                         struct qkv_error *error)
{
    struct qkv_parameters *parameters = &training->model->parameters;
    enum qkv_status status =
        qkv_parameters_set_precision(parameters, training->config->training.precision, error);
    if (status) {
        qkv_processes_abort(training->options->processes);
        return status;
    }
    const struct qkv_shard_loss loss = qkv_batch_loss(&training->loss);
    status = qkv_data_parallel_step(training->parallel, &loss, random, accumulate, sums, error);
    enum qkv_status widened = qkv_parameters_set_precision(parameters, QKV_PRECISION_FLOAT32, error);
    return status ? status : widened;
}

/* Part `part` of an update: the gradients of training->batch. */
static enum qkv_status step(struct training *training, int64_t part, struct qkv_shard_sums *sums,
                            struct qkv_error *error)
{
    const struct qkv_training_config *settings = &training->config->training;
    /* Each batch of an update has its own dropout masks. */
    struct qkv_random random = {
        .seed = (uint64_t)settings->random_seed,
        .step = (uint32_t)(training->progress.update * settings->batch_multiplier + part),
    };
    enum qkv_status status = step_in_precision(training, &random, part > 0, sums, error);
    enum qkv_status reported = collect_stops(training, status ? NULL : error);
    return status ? status : reported;
}

/* Fills the next batch; false after the last epoch. */
static bool next_batch(struct training *training, enum qkv_status *status, struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    const struct qkv_training_config *settings = &training->config->training;
    if (progress->batch >= training->batches.count) {
        if (settings->epochs && progress->epoch + 1 >= settings->epochs) return false;
        progress->epoch++;
        progress->batch = 0;
        qkv_training_plan_epoch(training);
    }
    *status = qkv_batches_get(&training->batches, progress->batch, &training->batch, error);
    progress->batch++;
    return !*status;
}

enum qkv_status qkv_training_diverged(int64_t update, const struct qkv_error *found, struct qkv_error *error)
{
    qkv_error_set(error, "update %lld: %s; lower training.learning_rate, or set training.clip_grad_norm",
                  (long long)update, found->message);
    return QKV_FAILED;
}

enum qkv_status qkv_training_update(struct training *training, struct update_sums *sums,
                                    struct qkv_error *error)
{
    const struct qkv_training_config *settings = &training->config->training;
    struct progress *progress = &training->progress;
    enum qkv_status status = QKV_OK;
    struct qkv_error inner = {""};
    *sums = (struct update_sums){0};
    for (int64_t i = 0; i < settings->batch_multiplier && next_batch(training, &status, error); i++) {
        struct qkv_shard_sums part;
        if (send_batch(training, i, error)) return QKV_INVALID;
        status = step(training, i, &part, &inner);
        if (status == QKV_FAILED) return qkv_training_diverged(progress->update + 1, &inner, error);
        if (status) return qkv_error_set(error, "%s", inner.message);
        double likelihood = part.further[QKV_BATCH_NEGATIVE_LOG_LIKELIHOOD];
        sums->tokens += part.items;
        sums->loss += part.loss;
        sums->negative_log_likelihood += likelihood;
        sums->all_tokens += training->batch.source_tokens + training->batch.target_tokens;
        progress->log_loss += part.loss;
        progress->log_cross_entropy += likelihood;
        progress->log_alignment += part.further[QKV_BATCH_ALIGNMENT];
    }
    if (status || !sums->tokens) return status;
    double rate = qkv_schedule_rate(&training->schedule, progress->update + 1, progress->epoch);
    int blocks;
    void *const *gradients = qkv_data_parallel_gradients(training->parallel, &blocks);
    sums->norm = qkv_optimizer_step(&training->optimizer, &training->model->parameters, training->workers,
                                    blocks, gradients, 1.0 / (double)sums->tokens, rate);
    if (!isfinite(sums->norm)) {
        const struct qkv_parameters *parameters = &training->model->parameters;
        const struct qkv_parameter *parameter = qkv_parameters_find_not_finite(parameters, gradients[0]),
                                   *grown = qkv_parameters_find_not_finite(parameters, parameters->values);
        if (!parameter && grown)
            qkv_error_set(&inner, "the learning rate %g makes parameters infinite, first in %s", rate,
                          grown->name);
        else
            qkv_error_set(&inner, "the gradient is not finite, first in %s",
                          parameter ? parameter->name : "its norm");
        return qkv_training_diverged(progress->update + 1, &inner, error);
    }
    progress->update++;
    progress->tokens += sums->tokens;
    progress->log_tokens += sums->tokens;
    return QKV_OK;
}

enum qkv_status qkv_training_follow(struct training *training, enum qkv_train_end *end,
                                    struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    struct command command;
    for (int64_t planned = -1;;) {
        if (receive_command(training, &command, error)) return QKV_INVALID;
        if (command.is_last) break;
        training->with_merges.training.precision = command.precision;
        progress->update = command.update;
        progress->epoch = command.epoch;
        if (command.epoch != planned) qkv_training_plan_epoch(training);
        planned = command.epoch;
        if (qkv_batches_get(&training->batches, command.batch, &training->batch, error)) {
            qkv_processes_abort(training->options->processes);
            return QKV_INVALID;
        }
        struct qkv_shard_sums sums;
        enum qkv_status status = step(training, command.part, &sums, error);
        if (training->options->processes->is_broken) return status;
    }
    *error = (struct qkv_error){""};
    *end = command.end;
    return command.status;
}
