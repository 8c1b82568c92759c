/* The measurement of training steps. */
#include "bench.h"

#include "core/exchange.h"

enum qkv_status bench_train_step(void *context, int64_t i, struct qkv_error *error)
{
    struct bench_trainer *trainer = context;
    struct bench_work *work = trainer->work;
    const struct qkv_random random = {.seed = 1, .step = (uint32_t)i};
    const struct qkv_training_config *training = &work->config.training;
    struct qkv_step_sums sums;
    double began = bench_thread_seconds();
    struct qkv_parameters *parameters = &work->model->parameters;
    size_t size = (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
    if (bench_work_batch(work, i, error)) return QKV_INVALID;
    double filled = bench_thread_seconds();
    if (qkv_exchange_broadcast(trainer->processes, parameters->values, size, error)) return QKV_INVALID;
    enum qkv_status status = qkv_replicas_step(trainer->replicas, &work->batch, &random, false, &sums, error);
    if (status) return status;
    double computed = bench_thread_seconds();
    if (qkv_processes_rank(trainer->processes) == 0)
        qkv_optimizer_step(&trainer->optimizer, parameters, trainer->workers,
                           qkv_replicas_blocks(trainer->replicas), qkv_replicas_gradients(trainer->replicas),
                           1.0 / (double)sums.tokens, training->learning_rate);
    trainer->filling = filled - began;
    trainer->computing = computed - filled;
    trainer->updating = bench_thread_seconds() - computed;
    trainer->tokens += (double)(work->batch.source_tokens + work->batch.target_tokens);
    trainer->steps++;
    return QKV_OK;
}

enum qkv_status bench_trainer_make(struct bench_trainer *trainer, struct bench_work *work, int64_t threads,
                                   int64_t shards, struct qkv_error *error)
{
    *trainer = (struct bench_trainer){.work = work, .workers = qkv_workers_new((int)threads, error)};
    if (!trainer->workers) return QKV_INVALID;
    if (!shards) shards = bench_work_shards(work);
    if (!shards) shards = qkv_workers_count(trainer->workers);
    const struct qkv_objective objective = qkv_objective_from_config(&work->config.training);
    trainer->replicas = qkv_replicas_new(work->model, trainer->workers, (int)shards, QKV_GRADIENTS_BY_SIZE,
                                         &objective, error);
    if (!trainer->replicas) return QKV_INVALID;
    if (work->has_text && qkv_replicas_reserve(trainer->replicas, &work->batches, error)) return QKV_INVALID;
    const struct qkv_optimizer_options options = qkv_optimizer_options_from_config(&work->config.training);
    return qkv_optimizer_init(&trainer->optimizer, &options, &work->model->parameters, error);
}

void bench_trainer_release(struct bench_trainer *trainer)
{
    if (trainer->optimizer.state.elements) qkv_optimizer_release(&trainer->optimizer);
    qkv_replicas_free(trainer->replicas);
    qkv_workers_free(trainer->workers);
}

enum qkv_status bench_train(struct bench_work *work, const struct bench_options *options,
                            const struct bench_sink *sink, struct qkv_error *error)
{
    struct bench_trainer trainer;
    struct bench_result result = {.name = "train"};
    int64_t steps = bench_warm_up(options) + options->steps;
    if (options->batches && bench_work_write(work, steps, options->batches, error)) return QKV_INVALID;
    enum qkv_status status = bench_trainer_make(&trainer, work, options->threads, options->shards, error);
    if (!status) status = bench_work_narrow(work, options, error);
    if (!status) status = bench_time(options, &result, bench_train_step, &trainer, error);
    if (!status) {
        result.threads = qkv_workers_count(trainer.workers);
        result.tokens = trainer.tokens / (double)trainer.steps;
        result.operations = bench_step_operations(work, true);
        sink->result(sink->context, &result);
    }
    bench_trainer_release(&trainer);
    return status;
}
