/* The gradient check of the model that a config describes, or that a run has trained. */
#include "check/check.h"
#include "core/memory.h"
#include "models/network.h"

#include "data/batch.h"
#include "train/training.h"

/* Reads the training data, and makes a batch of its first pairs, with the vocabularies of training or of the run. */
static enum qkv_status read_data(struct training *data, const struct qkv_run *run, int64_t sentences,
                                 struct qkv_batch_view *view, struct qkv_error *error)
{
    if (run) data->from = (struct warm_start){.has_old_vocabulary = true, .run = *run};
    if (qkv_training_read(data, "", false, error)) return QKV_INVALID;
    int64_t count = sentences < data->train.count ? sentences : data->train.count;
    if (qkv_batch_make_some(&data->batch, &data->train, 0, count, error)) return QKV_INVALID;
    qkv_batch_shard(&data->batch, 0, 1, view);
    return QKV_OK;
}

/* A model in one precision, and its loss on the data. */
struct loss {
    struct qkv_model *model;
    struct qkv_graph *graph;
    void *gradients;
    struct qkv_tensor *node;
};

/* Sets the initial values of training plus a little noise, because a bias of 0 or a gain of 1 could hide a fault.
 * Rounds them to float32, so that both precisions start with the same values. */
static void set_values(struct qkv_parameters *parameters, uint64_t seed)
{
    qkv_parameters_initialize(parameters, seed);
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        struct qkv_random random = {seed, QKV_STREAM_CHECK, 1u << 30 | (uint32_t)p};
        for (int64_t i = 0; i < parameter->count; i++) {
            double value =
                qkv_parameter_get(parameters, parameter, i) + 0.02 * qkv_random_normal(random, (uint64_t)i);
            qkv_parameter_set(parameters, parameter, i, (double)(float)value);
        }
    }
}

/* Copies the trained values, rounded to float32. */
static enum qkv_status copy_values(struct qkv_parameters *parameters, const struct qkv_run *run,
                                   struct qkv_error *error)
{
    const struct qkv_parameters *trained = &run->model->parameters;
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *to = parameters->list[p], *from = qkv_parameters_find(trained, to->name);
        if (!from || from->count != to->count)
            return qkv_error_set(error,
                                 "%s: parameter %s is missing or has another size; the config describes "
                                 "other layers than the run has",
                                 run->path, to->name);
        for (int64_t i = 0; i < to->count; i++)
            qkv_parameter_set(parameters, to, i, (double)(float)qkv_parameter_get(trained, from, i));
    }
    return QKV_OK;
}

/* Builds the loss of a model on a view of the data. */
static enum qkv_status build(struct loss *loss, enum qkv_dtype dtype, const struct qkv_checked_model *model,
                             const struct training *data, const struct qkv_batch_view *view, uint64_t seed,
                             struct qkv_error *error)
{
    const struct qkv_config *config = model->config;
    loss->model = qkv_model_new(&config->model, data->source.size, data->target.size, dtype, error);
    if (!loss->model) return QKV_INVALID;
    struct qkv_parameters *parameters = &loss->model->parameters;
    loss->graph = qkv_graph_new(dtype);
    loss->gradients = calloc((size_t)parameters->elements, sizeof(double));
    if (!loss->graph || !loss->gradients) return qkv_no_memory(error);
    if (!model->run) set_values(parameters, seed);
    if (model->run && copy_values(parameters, model->run, error)) return QKV_INVALID;
    const struct qkv_random random = {.seed = seed};
    qkv_graph_bind(loss->graph, parameters, loss->gradients, false);
    qkv_graph_set_dropout(loss->graph, &random);
    struct qkv_objective objective = qkv_objective_from_config(&config->training);
    objective.guided.links = &data->links;
    loss->node =
        qkv_model_loss(loss->model, loss->graph, view, &objective, 1.0 / (double)view->target_tokens, NULL);
    return qkv_graph_check(loss->graph, error);
}

/* Makes a view with wrong labels, to estimate rounding errors: the loss of a trained model is a small difference of large
 * numbers, which do not cancel when the labels are wrong. Returns the labels, which the caller frees; NULL when memory runs
 * out. */
static int32_t *mislabel(const struct qkv_batch_view *view, int32_t classes, struct qkv_batch_view *wrong)
{
    int32_t *labels = malloc((size_t)view->target_tokens * sizeof *labels);
    for (int64_t i = 0; labels && i < view->target_tokens; i++)
        labels[i] = (view->target_output[i] + 1) % classes;
    *wrong = *view;
    wrong->target_output = labels;
    return labels;
}

/* The same model, built three times. */
enum { FLOAT64, FLOAT32, FLOAT64_WRONG_LABELS, LOSSES };

static enum qkv_status check_losses(struct qkv_check_report *report, const char *subject,
                                    const struct loss loss[static LOSSES],
                                    const struct qkv_check_options *options, struct qkv_error *error)
{
    const struct loss *float64 = &loss[FLOAT64];
    const struct qkv_precision_pair pair = {loss[FLOAT32].node, float64->node,
                                            loss[FLOAT64_WRONG_LABELS].node, QKV_MODEL_FLOAT32_BOUND};
    enum qkv_status status = qkv_check_graph(report, subject, float64->graph, float64->node, options, error);
    return status ? status : qkv_check_precision(report, subject, &pair, options->seed, error);
}

enum qkv_status qkv_check_model(struct qkv_check_report *report, const struct qkv_checked_model *model,
                                const struct qkv_check_options *options, struct qkv_error *error)
{
    if (model->sentences < 1)
        return qkv_error_set(error, "a model is checked on at least 1 sentence, not %lld",
                             (long long)model->sentences);
    const struct qkv_train_options alone = {0};
    struct training data = {.config = model->config, .options = &alone};
    struct loss loss[LOSSES] = {0};
    struct qkv_batch_view view = {0}, mislabelled;
    int32_t *labels = NULL;
    enum qkv_status status = qkv_network_check(&model->config->model, error);
    if (!status) status = read_data(&data, model->run, model->sentences, &view, error);
    if (!status && !(labels = mislabel(&view, data.target.size, &mislabelled))) status = qkv_no_memory(error);
    for (int i = 0; !status && i < LOSSES; i++)
        status = build(&loss[i], i == FLOAT32 ? QKV_FLOAT32 : QKV_FLOAT64, model, &data,
                       i == FLOAT64_WRONG_LABELS ? &mislabelled : &view, options->seed, error);
    const struct qkv_checked_sizes sizes = {status ? 0
                                                   : qkv_parameters_total(&loss[FLOAT64].model->parameters),
                                            view.count, view.source_tokens, view.target_tokens};
    if (!status && model->begin) model->begin(model->context, &sizes);
    if (!status) status = check_losses(report, model->subject, loss, options, error);
    for (int i = 0; i < LOSSES; i++) {
        qkv_graph_free(loss[i].graph);
        free(loss[i].gradients);
        qkv_model_free(loss[i].model);
    }
    free(labels);
    qkv_training_release(&data);
    return status;
}
