#include "qkv/model.h"

#include "config/finish.h"
#include "models/network.h"

#include <math.h>
#include <stdlib.h>

static const struct qkv_network_interface *const NETWORKS[] = {
    [QKV_NETWORK_TRANSFORMER] = &qkv_network_transformer,
    [QKV_NETWORK_RECURRENT] = &qkv_network_recurrent,
};

/* The projection onto the target vocabulary. */
static void declare_output(struct qkv_model *model, const struct qkv_parameter *target_table)
{
    const struct qkv_model_config *config = &model->config;
    struct qkv_initial weight = {config->initializer, config->init_gain};
    /* As dense layers do: normal and uniform are divided by sqrt(inputs). */
    if (weight.kind == QKV_INITIALIZER_NORMAL || weight.kind == QKV_INITIALIZER_UNIFORM)
        weight.gain /= sqrt((double)config->decoder.hidden_size);
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 0};
    model->output_tied = config->tied_softmax;
    model->output_weight =
        config->tied_softmax ? target_table
                             : qkv_parameters_add(&model->parameters,
                                                  QKV_SHAPE(config->decoder.hidden_size, model->target_size),
                                                  weight, "output.weight");
    model->output_bias =
        qkv_parameters_add(&model->parameters, QKV_SHAPE(model->target_size), zeros, "output.bias");
}

struct qkv_model *qkv_model_new(const struct qkv_model_config *config, int32_t source_size,
                                int32_t target_size, enum qkv_dtype dtype, struct qkv_error *error)
{
    if (source_size < 1 || target_size < 1 || (config->tied_embeddings && source_size != target_size)) {
        qkv_error_set(error, "a model cannot have vocabularies of %d and %d entries%s", (int)source_size,
                      (int)target_size, config->tied_embeddings ? " and tied embeddings" : "");
        return NULL;
    }
    struct qkv_model *model = calloc(1, sizeof *model);
    if (!model) {
        qkv_error_set(error, "out of memory for a model");
        return NULL;
    }
    model->config = *config;
    if (qkv_model_config_finish(&model->config, error)) {
        free(model);
        return NULL;
    }
    config = &model->config;
    model->source_size = source_size;
    model->target_size = target_size;
    model->interface = NETWORKS[config->encoder.type];
    model->network = model->interface->declare(model);
    const char *table = config->tied_embeddings ? "encoder.embeddings.table" : "decoder.embeddings.table";
    declare_output(model, qkv_parameters_find(&model->parameters, table));
    if (!model->network) model->parameters.failed = true;
    if (qkv_parameters_allocate(&model->parameters, dtype, error)) {
        qkv_model_free(model);
        return NULL;
    }
    return model;
}

void qkv_model_free(struct qkv_model *model)
{
    if (!model) return;
    qkv_parameters_release(&model->parameters);
    free(model);
}

struct qkv_attention_layers qkv_model_attention(const struct qkv_model *model, enum qkv_attention_kind kind,
                                                int64_t layer)
{
    return model->interface->attention(model, kind, layer);
}

struct qkv_input_layers qkv_model_inputs(const struct qkv_model *model, enum qkv_stack_id stack)
{
    return model->interface->inputs(model, stack);
}

int64_t qkv_model_longest(const struct qkv_model *model)
{
    int64_t source = qkv_stack_longest(&model->config.encoder),
            target = qkv_stack_longest(&model->config.decoder);
    return source < target ? source : target;
}

struct qkv_objective qkv_objective_of(const struct qkv_training_config *training)
{
    return (struct qkv_objective){.smoothing = training->label_smoothing, .r_drop = training->r_drop};
}

struct qkv_tensor *qkv_model_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, const struct qkv_objective *objective,
                                  double factor, struct qkv_trace *trace)
{
    const struct qkv_objective wanted = objective ? *objective : (struct qkv_objective){0};
    bool is_pair = wanted.r_drop > 0 && qkv_graph_has_dropout(graph);
    if (trace) *trace = (struct qkv_trace){0};
    struct qkv_tensor *hidden = model->interface->hidden(model, graph, batch, trace);
    struct qkv_tensor *second = is_pair ? model->interface->hidden(model, graph, batch, NULL) : NULL;
    const char *outer = qkv_graph_scope(graph, "output");
    struct qkv_tensor *weight = qkv_graph_parameter(graph, model->output_weight),
                      *bias = qkv_graph_parameter(graph, model->output_bias), *loss;
    if (is_pair)
        loss = qkv_paired_cross_entropy(graph, hidden, second, weight, bias, model->output_tied,
                                        batch->target_output, wanted.smoothing, wanted.r_drop, factor);
    else
        loss = qkv_linear_cross_entropy(graph, hidden, weight, bias, model->output_tied, batch->target_output,
                                        wanted.smoothing, factor);
    qkv_graph_scope(graph, outer);
    return loss;
}
