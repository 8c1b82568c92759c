#include "layers/layer.h"

#include "graph/graph.h"

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
    const char *part_name = qkv_arena_format(&parameters->arena, "%s.%s", name, part);
    if (part_name)
        qkv_dense_init(dense, parameters, options, part_name);
    else
        parameters->failed = true;
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

/* ---- samples ---- */

static void init_sample(void *layer, struct qkv_parameters *parameters, const void *options, const char *name)
{
    qkv_dense_init(layer, parameters, options, name);
}

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    (void)sample;
    return qkv_dense_apply(layer, graph, input[0]);
}

static const struct qkv_dense_options PLAIN = {3, 5, true, QKV_ACTIVATION_NONE, SAMPLE_INITIAL};
static const struct qkv_dense_options NO_BIAS = {4, 2, false, QKV_ACTIVATION_TANH, SAMPLE_INITIAL};
static const struct qkv_dense_options RELU = {3, 7, true, QKV_ACTIVATION_RELU, SAMPLE_INITIAL};
static const struct qkv_dense_options GELU = {3, 4, true, QKV_ACTIVATION_GELU, SAMPLE_INITIAL};
static const struct qkv_dense_options GELU_TANH = {3, 4, true, QKV_ACTIVATION_GELU_TANH, SAMPLE_INITIAL};
static const struct qkv_dense_options SILU = {3, 4, true, QKV_ACTIVATION_SILU, SAMPLE_INITIAL};
static const struct qkv_dense_options SIGMOID = {3, 4, true, QKV_ACTIVATION_SIGMOID, SAMPLE_INITIAL};

static const struct qkv_layer_sample SAMPLES[] = {
    {"plain", &PLAIN, {{2, {4, 3}}}},         {"no bias, tanh", &NO_BIAS, {{2, {3, 4}}}},
    {"relu", &RELU, {{2, {4, 3}}}},           {"gelu", &GELU, {{3, {2, 2, 3}}}},
    {"gelu_tanh", &GELU_TANH, {{2, {1, 3}}}}, {"silu", &SILU, {{2, {2, 3}}}},
    {"sigmoid", &SIGMOID, {{2, {2, 3}}}},     {0},
};
const struct qkv_layer_interface qkv_dense_layer = {"dense", sizeof(struct qkv_dense), init_sample,
                                                    apply_sample, SAMPLES};
