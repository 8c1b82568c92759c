#include "core/choices.h"
#include "layers/layer.h"

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
    qkv_dense_init_part(&layer->inner, parameters, &inner, name, "inner");
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
    bool dropout_first = layer->activation == QKV_ACTIVATION_RELU;
    if (dropout_first) hidden = qkv_dropout_apply(graph, hidden, layer->dropout);
    hidden = qkv_activation_apply(graph, hidden, layer->activation);
    if (!dropout_first) hidden = qkv_dropout_apply(graph, hidden, layer->dropout);
    qkv_graph_scope(graph, scope_before);
    return qkv_dense_apply(&layer->outer, graph, hidden);
}
