/* The measurement of training steps. */
#include "bench.h"
#include "core/system.h"
#include "train/training.h"

#include "models/network.h"
#include "qkv/optimizer.h"
#include "qkv/trainer.h"

struct trainer {
    struct bench_work *work;
    struct qkv_workers *workers;
    struct qkv_data_parallel *parallel;
    struct qkv_batch_loss loss; /* of the batch of `work` */
    struct qkv_optimizer optimizer;
    double tokens; /* of all steps so far */
    int64_t steps;
};

static enum qkv_status train_step(void *context, int64_t i, struct qkv_error *error)
{
    struct trainer *trainer = context;
    struct bench_work *work = trainer->work;
    const struct qkv_random random = {.seed = 1, .step = (uint32_t)i};
    const struct qkv_shard_loss loss = qkv_batch_loss(&trainer->loss);
    struct qkv_shard_sums sums;
    int blocks;
    if (bench_work_batch(work, i, error)) return QKV_INVALID;
    enum qkv_status status = qkv_data_parallel_step(trainer->parallel, &loss, &random, false, &sums, error);
    if (status) return status;
    void *const *gradients = qkv_data_parallel_gradients(trainer->parallel, &blocks);
    qkv_optimizer_step(&trainer->optimizer, &work->model->parameters, trainer->workers, blocks, gradients,
                       1.0 / (double)sums.items, work->config.training.learning_rate);
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
    trainer->loss =
        (struct qkv_batch_loss){work->model, &work->batch, qkv_objective_from_config(training), 0};
    trainer->parallel = qkv_data_parallel_new(&work->model->parameters, trainer->workers, (int)shards,
                                              QKV_GRADIENTS_BY_SIZE, error);
    if (!trainer->parallel) return QKV_INVALID;
    if (work->has_text && qkv_batch_loss_reserve(&trainer->loss, trainer->parallel, &work->batches, error))
        return QKV_INVALID;
    const struct qkv_optimizer_options adam = qkv_optimizer_options_from_config(training);
    return qkv_optimizer_init(&trainer->optimizer, &adam, &work->model->parameters, error);
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
    qkv_data_parallel_free(trainer.parallel);
    qkv_workers_free(trainer.workers);
    return status;
}
