#include "qkv/model.h"

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
    struct qkv_model *model = calloc(1, sizeof *model);
    if (!model) {
        qkv_error_set(error, "out of memory for a model");
        return NULL;
    }
    model->config = *config;
    model->source_size = source_size;
    model->target_size = target_size;
    model->kind = NETWORKS[config->encoder.type];
    model->network = model->kind->declare(model);
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
    return model->kind->attention(model, kind, layer);
}

struct qkv_input_layers qkv_model_inputs(const struct qkv_model *model, enum qkv_stack_id stack)
{
    return model->kind->inputs(model, stack);
}

int64_t qkv_model_longest(const struct qkv_model *model)
{
    int64_t source = qkv_stack_longest(&model->config.encoder),
            target = qkv_stack_longest(&model->config.decoder);
    return source < target ? source : target;
}

struct qkv_tensor *qkv_model_logits(const struct qkv_model *model, struct qkv_graph *graph,
                                    struct qkv_tensor *hidden)
{
    const char *outer = qkv_graph_scope(graph, "output");
    struct qkv_tensor *logits =
        qkv_linear(graph, hidden, qkv_graph_parameter(graph, model->output_weight),
                   qkv_graph_parameter(graph, model->output_bias), model->output_tied);
    qkv_graph_scope(graph, outer);
    return logits;
}

struct qkv_tensor *qkv_model_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, double smoothing, double factor,
                                  struct qkv_trace *trace)
{
    if (trace) *trace = (struct qkv_trace){0};
    struct qkv_tensor *hidden = model->kind->hidden(model, graph, batch, trace);
    const char *outer = qkv_graph_scope(graph, "output");
    struct qkv_tensor *loss =
        qkv_linear_cross_entropy(graph, hidden, qkv_graph_parameter(graph, model->output_weight),
                                 qkv_graph_parameter(graph, model->output_bias), model->output_tied,
                                 batch->target_output, smoothing, factor);
    qkv_graph_scope(graph, outer);
    return loss;
}

void qkv_decoding_finish(struct qkv_decoding *decoding, struct qkv_tensor *hidden)
{
    struct qkv_tensor *logits = qkv_model_logits(decoding->model, decoding->decoder, hidden);
    struct qkv_tensor *group_max = qkv_group_max(decoding->decoder, logits);
    struct qkv_tensor *sums = decoding->sums ? qkv_log_sum_exp(decoding->decoder, logits) : NULL;
    if (!group_max || (decoding->sums && !sums)) return; /* the graph has failed */
    qkv_graph_plan(decoding->decoder, logits);
    decoding->next = (struct qkv_next){.dtype = qkv_graph_dtype(decoding->decoder),
                                       .classes = decoding->model->target_size,
                                       .logits = qkv_tensor_value(logits),
                                       .group_max = qkv_tensor_value(group_max),
                                       .sums = sums ? qkv_tensor_value(sums) : NULL};
}

double qkv_next_log_probability(const struct qkv_next *next, int64_t row, int32_t token)
{
    int64_t at = row * next->classes + token;
    QKV_BUG(!next->sums, "log-probabilities of a decoding that has no sums");
    if (next->dtype == QKV_FLOAT32)
        return (double)((const float *)next->logits)[at] - (double)((const float *)next->sums)[row];
    return ((const double *)next->logits)[at] - ((const double *)next->sums)[row];
}

/* A graph to decode with: the model's parameters, no gradients, no dropout. NULL when memory is out. */
static struct qkv_graph *decoding_graph(const struct qkv_model *model)
{
    struct qkv_graph *graph = qkv_graph_new(model->parameters.dtype);
    if (!graph) return NULL;
    qkv_graph_set_gradients(graph, false);
    qkv_graph_bind(graph, &model->parameters, NULL, false);
    return graph;
}

struct qkv_decoding *qkv_decoding_new(const struct qkv_model *model)
{
    struct qkv_decoding *decoding = calloc(1, model->kind->decoding->size);
    if (!decoding) return NULL;
    decoding->model = model;
    decoding->size = model->parameters.dtype == QKV_FLOAT32 ? sizeof(float) : sizeof(double);
    decoding->encoder = decoding_graph(model);
    decoding->decoder = decoding_graph(model);
    if (decoding->encoder && decoding->decoder) return decoding;
    qkv_decoding_free(decoding);
    return NULL;
}

void qkv_decoding_free(struct qkv_decoding *decoding)
{
    if (!decoding) return;
    qkv_graph_free(decoding->encoder);
    qkv_graph_free(decoding->decoder);
    qkv_arena_release(&decoding->arena);
    free(decoding);
}

void qkv_decoding_set_workers(struct qkv_decoding *decoding, struct qkv_workers *workers)
{
    qkv_graph_set_workers(decoding->encoder, workers);
    qkv_graph_set_workers(decoding->decoder, workers);
}

void qkv_decoding_read_panels(struct qkv_decoding *decoding, struct qkv_panels *panels)
{
    qkv_graph_read_panels(decoding->encoder, panels);
    qkv_graph_read_panels(decoding->decoder, panels);
}

enum qkv_status qkv_decoding_start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                   int64_t rows, int64_t length, bool sums, struct qkv_error *error)
{
    decoding->sums = sums;
    return decoding->model->kind->decoding->start(decoding, batch, rows, length, error);
}

const struct qkv_next *qkv_decoding_step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                                         const int64_t *sentences, struct qkv_error *error)
{
    return decoding->model->kind->decoding->step(decoding, rows, ids, sentences, error);
}

void qkv_decoding_reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    decoding->model->kind->decoding->reorder(decoding, rows, parents);
}
