/* Dense layers, feed-forward layers, norms and residual connections, and what all layers share. */
#include "core/memory.h"
#include "graph/graph.h"
#include "layers/layer.h"

#include <math.h>

struct qkv_tensor *qkv_dropout_apply(struct qkv_graph *graph, struct qkv_tensor *x, double rate)
{
    return rate > 0 && qkv_graph_has_dropout(graph) ? qkv_dropout(graph, x, rate) : x;
}

struct qkv_tensor *qkv_dropout_rows_apply(struct qkv_graph *graph, struct qkv_tensor *x, double rate)
{
    return rate > 0 && qkv_graph_has_dropout(graph) ? qkv_dropout_rows(graph, x, rate) : x;
}

struct qkv_tensor *qkv_activation_apply(struct qkv_graph *graph, struct qkv_tensor *x,
                                        enum qkv_activation activation)
{
    switch (activation) {
    case QKV_ACTIVATION_RELU:
        return qkv_relu(graph, x);
    case QKV_ACTIVATION_GELU:
        return qkv_gelu(graph, x);
    case QKV_ACTIVATION_GELU_TANH:
        return qkv_gelu_tanh(graph, x);
    case QKV_ACTIVATION_SILU:
        return qkv_silu(graph, x);
    case QKV_ACTIVATION_TANH:
        return qkv_tanh(graph, x);
    case QKV_ACTIVATION_SIGMOID:
        return qkv_sigmoid(graph, x);
    case QKV_ACTIVATION_NONE:
        return x;
    }
    return qkv_graph_fail(graph, "there is no activation %d", (int)activation);
}

void qkv_require_choice(struct qkv_parameters *parameters, const char *name, const char *option,
                        const struct qkv_value_names *names, int value)
{
    if (qkv_value_exists(names, value)) return;
    qkv_parameters_refuse(parameters, "%s: there is no %s %d", name, option, value);
}

struct qkv_initial qkv_initial_scaled(struct qkv_initial initial, int64_t inputs)
{
    if (initial.kind == QKV_INITIALIZER_NORMAL || initial.kind == QKV_INITIALIZER_UNIFORM)
        initial.gain /= sqrt((double)inputs);
    return initial;
}

void qkv_dense_init(struct qkv_dense *layer, struct qkv_parameters *parameters,
                    const struct qkv_dense_options *options, const char *name)
{
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 0};
    qkv_require_choice(parameters, name, "activation", &qkv_activation_names, (int)options->activation);
    *layer = (struct qkv_dense){
        .name = qkv_arena_string(&parameters->arena, name),
        .activation = options->activation,
        .weight =
            qkv_parameters_add(parameters, QKV_SHAPE(options->inputs, options->outputs),
                               qkv_initial_scaled(options->initial, options->inputs), "%s.weight", name),
    };
    if (options->bias)
        layer->bias = qkv_parameters_add(parameters, QKV_SHAPE(options->outputs), zeros, "%s.bias", name);
}

void qkv_dense_init_part(struct qkv_dense *dense, struct qkv_parameters *parameters,
                         const struct qkv_dense_options *options, const char *name, const char *part)
{
    qkv_dense_init(dense, parameters, options, QKV_ARENA_NAME(&parameters->arena, "%s.%s", name, part));
}

struct qkv_tensor *qkv_dense_apply(const struct qkv_dense *layer, struct qkv_graph *graph,
                                   struct qkv_tensor *x)
{
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *y = qkv_linear(graph, x, qkv_graph_parameter(graph, layer->weight),
                                      qkv_graph_parameter(graph, layer->bias), false);
    y = qkv_activation_apply(graph, y, layer->activation);
    qkv_graph_scope(graph, outer_scope);
    return y;
}

void qkv_feed_forward_init(struct qkv_feed_forward *layer, struct qkv_parameters *parameters,
                           const struct qkv_feed_forward_options *options, const char *name)
{
    const struct qkv_dense_options inner = {options->width, options->inner_width, true, QKV_ACTIVATION_NONE,
                                            options->initial};
    const struct qkv_dense_options outer = {options->inner_width, options->width, true, QKV_ACTIVATION_NONE,
                                            options->output_initial};
    qkv_require_choice(parameters, name, "activation", &qkv_activation_names, (int)options->activation);
    layer->activation = options->activation;
    layer->dropout = options->dropout;
    layer->gate = (struct qkv_dense){0};
    qkv_dense_init_part(&layer->inner, parameters, &inner, name, "inner");
    if (options->gated) qkv_dense_init_part(&layer->gate, parameters, &inner, name, "gate");
    qkv_dense_init_part(&layer->outer, parameters, &outer, name, "outer");
}

struct qkv_tensor *qkv_feed_forward_apply(const struct qkv_feed_forward *layer, struct qkv_graph *graph,
                                          struct qkv_tensor *x)
{
    struct qkv_tensor *hidden = qkv_dense_apply(&layer->inner, graph, x); /* [N, F] */
    const char *scope_before = qkv_graph_scope(graph, layer->inner.name);
    /* Dropout and ReLU give the same numbers in either order. Dropout first saves memory: both ops can then
     * overwrite `forward`, because the backward passes of ReLU and of layer->outer read only the result of
     * ReLU. */
    bool is_gated = layer->gate.weight, dropout_first = !is_gated && layer->activation == QKV_ACTIVATION_RELU;
    if (dropout_first) hidden = qkv_dropout_apply(graph, hidden, layer->dropout);
    struct qkv_tensor *activated = qkv_activation_apply(
        graph, is_gated ? qkv_dense_apply(&layer->gate, graph, x) : hidden, layer->activation);
    hidden = is_gated ? qkv_multiply(graph, activated, hidden) : activated;
    if (!dropout_first) hidden = qkv_dropout_apply(graph, hidden, layer->dropout);
    qkv_graph_scope(graph, scope_before);
    return qkv_dense_apply(&layer->outer, graph, hidden);
}

void qkv_norm_init(struct qkv_norm *layer, struct qkv_parameters *parameters,
                   const struct qkv_norm_options *options, const char *name)
{
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 0}, ones = {QKV_INITIALIZER_ONES, 1};
    qkv_require_choice(parameters, name, "norm", &qkv_norm_kind_names, (int)options->kind);
    *layer = (struct qkv_norm){
        .name = qkv_arena_string(&parameters->arena, name),
        .kind = options->kind,
        .epsilon = options->epsilon,
        .gain = qkv_parameters_add(parameters, QKV_SHAPE(options->width), ones, "%s.gain", name),
    };
    if (options->kind == QKV_NORM_LAYER)
        layer->bias = qkv_parameters_add(parameters, QKV_SHAPE(options->width), zeros, "%s.bias", name);
}

struct qkv_tensor *qkv_norm_apply(const struct qkv_norm *layer, struct qkv_graph *graph, struct qkv_tensor *x)
{
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *gain = qkv_graph_parameter(graph, layer->gain);
    struct qkv_tensor *y =
        layer->kind == QKV_NORM_RMS
            ? qkv_rms_norm(graph, x, gain, layer->epsilon)
            : qkv_layer_norm(graph, x, gain, qkv_graph_parameter(graph, layer->bias), layer->epsilon);
    qkv_graph_scope(graph, outer_scope);
    return y;
}

void qkv_residual_init(struct qkv_residual *layer, struct qkv_parameters *parameters,
                       const struct qkv_norm_options *norm, enum qkv_norm_place place, double dropout,
                       const char *name)
{
    qkv_require_choice(parameters, name, "place of a norm", &qkv_norm_place_names, (int)place);
    *layer = (struct qkv_residual){.place = place, .dropout = dropout};
    qkv_norm_init(&layer->norm, parameters, norm, name);
}

struct qkv_tensor *qkv_residual_input(const struct qkv_residual *layer, struct qkv_graph *graph,
                                      struct qkv_tensor *x)
{
    return layer->place == QKV_NORM_PRE ? qkv_norm_apply(&layer->norm, graph, x) : x;
}

struct qkv_tensor *qkv_residual_output(const struct qkv_residual *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *x, struct qkv_tensor *result)
{
    const char *outer_scope = qkv_graph_scope(graph, layer->norm.name);
    struct qkv_tensor *y = qkv_add(graph, x, qkv_dropout_apply(graph, result, layer->dropout));
    qkv_graph_scope(graph, outer_scope);
    return layer->place == QKV_NORM_POST ? qkv_norm_apply(&layer->norm, graph, y) : y;
}
