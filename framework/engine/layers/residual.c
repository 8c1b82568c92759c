#include "core/choices.h"
#include "layers/layer.h"

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
