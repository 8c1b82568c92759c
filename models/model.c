#include "qkv/model.h"

#include "config/finish.h"
#include "data/batch.h"
#include "graph/graph.h"
#include "models/network.h"

#include <math.h>
#include <stdlib.h>

/* The projection onto the target vocabulary. */
static enum qkv_status declare_output(struct qkv_model *model, struct qkv_error *error)
{
    const struct qkv_model_config *config = &model->config;
    struct qkv_initial weight = {config->initializer, config->init_gain};
    /* As dense layers do: normal and uniform are divided by sqrt(inputs). */
    if (weight.kind == QKV_INITIALIZER_NORMAL || weight.kind == QKV_INITIALIZER_UNIFORM)
        weight.gain /= sqrt((double)config->decoder.hidden_size);
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 0};
    const struct qkv_embedding *embedding = qkv_model_inputs(model, QKV_STACK_DECODER).embedding;
    if (config->tied_softmax && (!embedding || !embedding->table))
        return qkv_error_set(
            error,
            "model.tied_softmax shares the embedding table of the decoder, but the network %s "
            "has none",
            model->interface->name);
    model->output_tied = config->tied_softmax;
    model->output_weight =
        config->tied_softmax ? embedding->table
                             : qkv_parameters_add(&model->parameters,
                                                  QKV_SHAPE(config->decoder.hidden_size, model->target_size),
                                                  weight, "output.weight");
    model->output_bias =
        qkv_parameters_add(&model->parameters, QKV_SHAPE(model->target_size), zeros, "output.bias");
    return QKV_OK;
}

/* Declares all parameters, of the network and of the output layer, and allocates them. */
static enum qkv_status declare(struct qkv_model *model, enum qkv_dtype dtype, struct qkv_error *error)
{
    struct qkv_error refusal = {""};
    model->interface = qkv_network_of(&model->config, error);
    if (!model->interface || qkv_network_read_settings(model, error)) return QKV_INVALID;
    model->network = model->interface->declare(model, &refusal);
    if (!model->network) {
        const char *reason = *refusal.message
                                 ? refusal.message
                                 : "declare returned NULL without a message, as where memory runs out";
        return qkv_error_set(error, "network %s: %s", model->interface->name, reason);
    }
    if (declare_output(model, error)) return QKV_INVALID;
    return qkv_parameters_allocate(&model->parameters, dtype, error);
}

struct qkv_model *qkv_model_new(const struct qkv_model_config *config, int32_t source_size,
                                int32_t target_size, enum qkv_dtype dtype, struct qkv_error *error)
{
    if (source_size < QKV_SPECIALS || target_size < QKV_SPECIALS ||
        (config->tied_embeddings && source_size != target_size)) {
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
    model->source_size = source_size;
    model->target_size = target_size;
    if (declare(model, dtype, error)) {
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
    if (!model->interface->attention || kind < 0 || kind >= QKV_ATTENTION_KINDS || layer < 1 ||
        layer > QKV_LAYERS_MAX)
        return (struct qkv_attention_layers){0};
    return model->interface->attention(model, kind, layer);
}

struct qkv_input_layers qkv_model_inputs(const struct qkv_model *model, enum qkv_stack_id stack)
{
    if (!model->interface->inputs || (stack != QKV_STACK_ENCODER && stack != QKV_STACK_DECODER))
        return (struct qkv_input_layers){0};
    return model->interface->inputs(model, stack);
}

int64_t qkv_model_max_length(const struct qkv_model *model)
{
    int64_t source = qkv_stack_max_length(&model->config.encoder),
            target = qkv_stack_max_length(&model->config.decoder);
    return source < target ? source : target;
}

struct qkv_objective qkv_objective_from_config(const struct qkv_training_config *training)
{
    return (struct qkv_objective){
        .smoothing = training->label_smoothing,
        .r_drop = training->r_drop,
        .simcut = training->simcut,
        .simcut_rate = training->simcut_rate,
        .guided = {.weight = training->guided_alignment,
                   .layer = training->guided_alignment_layer,
                   .head = training->guided_alignment_head,
                   .reading = training->guided_alignment_reading},
    };
}

struct qkv_tensor *qkv_model_forward(const struct qkv_model *model, struct qkv_graph *graph,
                                     const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    struct qkv_error error;
    if (trace) *trace = (struct qkv_trace){0};
    if (qkv_batch_view_check(batch, true, &error)) return qkv_graph_fail(graph, "%s", error.message);
    struct qkv_tensor *hidden = model->interface->forward(model, graph, batch, trace);
    const struct qkv_shape wanted = QKV_SHAPE(batch->target_tokens, model->config.decoder.hidden_size),
                           shape = qkv_tensor_shape(hidden);
    /* The loss reads one label per row, and search one row per token. */
    if (hidden && shape.rank == 2 && shape.size[0] == wanted.size[0] && shape.size[1] == wanted.size[1])
        return hidden;
    return qkv_graph_fail(graph,
                          "network %s: forward returned %s, but must return a row of "
                          "model.decoder.hidden_size for each target token: %s",
                          model->interface->name, hidden ? qkv_shape_text(shape) : "NULL",
                          qkv_shape_text(wanted));
}

/* The hidden states of the second pass; with SimCut, tokens are cut off in it. */
static struct qkv_tensor *second_hidden(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct qkv_batch_view *batch,
                                        const struct qkv_objective *objective, struct qkv_trace *trace)
{
    qkv_graph_set_token_cutoff(graph, objective->simcut > 0 ? objective->simcut_rate : 0);
    struct qkv_tensor *hidden = qkv_model_forward(model, graph, batch, trace);
    qkv_graph_set_token_cutoff(graph, 0);
    return hidden;
}

struct qkv_tensor *qkv_source_mask(struct qkv_graph *graph, const struct qkv_batch_view *batch)
{
    if (!batch->source_masked) return NULL;
    double *numbers = qkv_graph_memory(graph, (size_t)batch->source_tokens * sizeof *numbers);
    struct qkv_tensor *mask = qkv_constant(graph, QKV_SHAPE(batch->source_tokens));
    if (!numbers || !mask) return NULL;
    for (int64_t i = 0; i < batch->source_tokens; i++) numbers[i] = batch->source_masked[i] ? 0 : 1;
    qkv_tensor_write(mask, numbers);
    return mask;
}

/* The cross entropy of one pass, or the loss of two: hidden states [Nt, D], second NULL for one pass. */
static struct qkv_tensor *cross_entropy(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct qkv_batch_view *batch,
                                        const struct qkv_objective *objective, double factor,
                                        struct qkv_tensor *hidden, struct qkv_tensor *second)
{
    const char *outer = qkv_graph_scope(graph, "output");
    struct qkv_tensor *weight = qkv_graph_parameter(graph, model->output_weight),
                      *bias = qkv_graph_parameter(graph, model->output_bias), *loss;
    bool one_sided = objective->simcut > 0;
    if (second)
        loss = qkv_paired_cross_entropy(graph, hidden, second, weight, bias, model->output_tied,
                                        batch->target_output, objective->smoothing,
                                        one_sided ? objective->simcut : objective->r_drop, one_sided, factor);
    else if (model->parameters.products == QKV_PRECISION_INT8)
        loss = qkv_cross_entropy(graph, qkv_model_logits(model, graph, hidden), batch->target_output,
                                 objective->smoothing, factor);
    else
        loss = qkv_linear_cross_entropy(graph, hidden, weight, bias, model->output_tied, batch->target_output,
                                        objective->smoothing, factor);
    qkv_graph_scope(graph, outer);
    return loss;
}

struct qkv_tensor *qkv_model_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, const struct qkv_objective *objective,
                                  double factor, struct qkv_trace *trace)
{
    const struct qkv_objective wanted = objective ? *objective : (struct qkv_objective){0};
    bool has_second = (wanted.r_drop > 0 || wanted.simcut > 0) && qkv_graph_has_dropout(graph);
    bool is_mutual = has_second && wanted.r_drop > 0;
    bool is_guided = wanted.guided.weight > 0 && wanted.guided.links;
    struct qkv_trace pass[2] = {{0}};
    struct qkv_tensor *hidden = qkv_model_forward(model, graph, batch, trace || is_guided ? &pass[0] : NULL);
    struct qkv_tensor *second =
        has_second ? second_hidden(model, graph, batch, &wanted, is_guided && is_mutual ? &pass[1] : NULL)
                   : NULL;
    struct qkv_tensor *loss = cross_entropy(model, graph, batch, &wanted, factor, hidden, second);
    pass[0].cross_entropy = loss;
    for (int i = 0; is_guided && i < (is_mutual ? 2 : 1); i++) {
        struct qkv_tensor *alignment = qkv_guided_alignment_loss(model, graph, batch, &wanted.guided,
                                                                 is_mutual ? factor / 2 : factor, &pass[i]);
        pass[0].alignment[i] = alignment;
        loss = qkv_add(graph, loss, alignment);
    }
    if (trace) *trace = pass[0];
    return loss;
}
