/* Makes the model, its optimizer, and the batches of a training. */
#include "models/network.h"
#include "train/training.h"

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

void qkv_training_release_model(struct training *training)
{
    qkv_optimizer_release(&training->optimizer);
    qkv_data_parallel_free(training->parallel);
    qkv_model_free(training->model);
    qkv_batch_release(&training->batch);
    qkv_batches_release(&training->batches);
}
