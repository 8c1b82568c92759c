/* The measurement of training steps. */
#include "bench.h"

#include "qkv/optimizer.h"
#include "qkv/replicas.h"

struct trainer {
    struct bench_work *work;
    struct qkv_workers *workers;
    struct qkv_replicas *replicas;
    struct qkv_optimizer optimizer;
    double tokens; /* of all steps so far */
    int64_t steps;
};

static enum qkv_status train_step(void *context, int64_t i, struct qkv_error *error)
{
    struct trainer *trainer = context;
    struct bench_work *work = trainer->work;
    const struct qkv_random random = {.seed = 1, .step = (uint32_t)i};
    struct qkv_step_sums sums;
    if (bench_work_batch(work, i, error)) return QKV_INVALID;
    enum qkv_status status = qkv_replicas_step(trainer->replicas, &work->batch, &random, false, &sums, error);
    if (status) return status;
    qkv_optimizer_step(&trainer->optimizer, &work->model->parameters, trainer->workers,
                       qkv_replicas_blocks(trainer->replicas), qkv_replicas_gradients(trainer->replicas),
                       1.0 / (double)sums.tokens, work->config.training.learning_rate);
    trainer->tokens += (double)(work->batch.source_tokens + work->batch.target_tokens);
    trainer->steps++;
    return QKV_OK;
}

static enum qkv_status trainer_make(struct trainer *trainer, struct bench_work *work,
                                    const struct bench_options *options, struct qkv_error *error)
{
    const struct qkv_training_config *training = &work->config.training;
    *trainer = (struct trainer){.work = work, .workers = qkv_workers_new((int)options->threads, error)};
    if (!trainer->workers) return QKV_INVALID;
    int64_t shards = options->shards;
    if (!shards) shards = work->shape ? qkv_workers_count(trainer->workers) : training->shards;
    const struct qkv_objective objective = qkv_objective_from_config(training);
    trainer->replicas = qkv_replicas_new(work->model, trainer->workers, (int)shards, QKV_GRADIENTS_BY_SIZE,
                                         &objective, error);
    if (!trainer->replicas) return QKV_INVALID;
    if (work->has_text && qkv_replicas_reserve(trainer->replicas, &work->batches, error)) return QKV_INVALID;
    const struct qkv_optimizer_options options = qkv_optimizer_options_from_config(&work->config.training);
    return qkv_optimizer_init(&trainer->optimizer, &options, &work->model->parameters, error);
}

enum qkv_status bench_train(struct bench_work *work, const struct bench_options *options,
                            struct bench_report *report, struct qkv_error *error)
{
    struct trainer trainer;
    struct bench_result result = {.name = "train"};
    int64_t steps = bench_warm_up(options) + options->steps;
    if (options->batches && bench_work_write(work, steps, options->batches, error)) return QKV_INVALID;
    enum qkv_status status = trainer_make(&trainer, work, options, error);
    if (!status) status = bench_work_narrow(work, options, error);
    if (!status) status = bench_time(options, &result, train_step, &trainer, error);
    if (!status) {
        result.threads = qkv_workers_count(trainer.workers);
        result.tokens = trainer.tokens / (double)trainer.steps;
        result.operations = bench_step_operations(work);
        bench_report_result(report, work, &result);
    }
    if (trainer.optimizer.state.elements) qkv_optimizer_release(&trainer.optimizer);
    qkv_replicas_free(trainer.replicas);
    qkv_workers_free(trainer.workers);
    return status;
}
