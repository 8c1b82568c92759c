#include "core/choices.h"
#include "core/memory.h"
#include "layers/layer.h"

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
