/* The loss of a batch, and one update of the parameters; in the processes other than 0, the steps that process 0 commands. */
#include "data/corpus.h"
#include "train/training.h"

#include "data/batch.h"
#include "graph/internal.h"
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
static enum qkv_status compute_gradients(struct training *training, int64_t part, struct qkv_shard_sums *sums,
                                         struct qkv_error *error)
{
    const struct qkv_training_config *settings = &training->config->training;
    /* Each batch of an update has its own dropout masks. */
    struct qkv_random random = {
        .seed = (uint64_t)settings->random_seed,
        .step = (uint32_t)(training->progress.update * settings->batch_multiplier + part),
    };
    enum qkv_status status = step_in_precision(training, &random, part > 0, sums, error);
    enum qkv_status reported = qkv_training_collect_stops(training, status ? NULL : error);
    return status ? status : reported;
}

void qkv_training_plan_epoch(struct training *training)
{
    int64_t epoch = training->progress.epoch;
    qkv_corpus_resample(&training->train, (uint64_t)training->config->training.random_seed, epoch);
    qkv_batches_epoch(&training->batches, epoch);
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
        if (qkv_training_command(training, i, error)) return QKV_INVALID;
        status = compute_gradients(training, i, &part, &inner);
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
    struct training_command command;
    for (int64_t planned = -1;; planned = progress->epoch) {
        if (qkv_training_receive(training, &command, error)) return QKV_INVALID;
        if (command.is_last) break;
        training->with_merges.training.precision = command.precision;
        progress->update = command.update;
        progress->epoch = command.epoch;
        if (command.epoch != planned) qkv_training_plan_epoch(training);
        if (qkv_batches_get(&training->batches, command.batch, &training->batch, error)) {
            qkv_processes_abort(training->options->processes);
            return QKV_INVALID;
        }
        struct qkv_shard_sums sums;
        enum qkv_status status = compute_gradients(training, command.part, &sums, error);
        if (training->options->processes->is_broken) return status;
    }
    *error = (struct qkv_error){""};
    *end = command.end;
    return command.status;
}
