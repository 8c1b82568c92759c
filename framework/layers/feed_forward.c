#include "layers/layer.h"

void qkv_feed_forward_init(struct qkv_feed_forward *layer, struct qkv_parameters *parameters,
                           const struct qkv_feed_forward_options *options, const char *name)
{
    const struct qkv_dense_options inner = {options->width, options->inner_width, true, QKV_ACTIVATION_NONE,
                                            options->initial};
    const struct qkv_dense_options outer = {options->inner_width, options->width, true, QKV_ACTIVATION_NONE,
                                            options->output_initial};
    const char *inner_name = qkv_arena_format(&parameters->arena, "%s.inner", name);
    const char *outer_name = qkv_arena_format(&parameters->arena, "%s.outer", name);
    layer->activation = options->activation;
    layer->dropout = options->dropout;
    if (!inner_name || !outer_name) {
        parameters->failed = true;
        return;
    }
    qkv_dense_init(&layer->inner, parameters, &inner, inner_name);
    qkv_dense_init(&layer->outer, parameters, &outer, outer_name);
}

struct qkv_tensor *qkv_feed_forward_apply(const struct qkv_feed_forward *layer, struct qkv_graph *graph,
                                          struct qkv_tensor *x)
{
    struct qkv_tensor *hidden = qkv_dense_apply(&layer->inner, graph, x); /* [N, F] */
    const char *outer = qkv_graph_scope(graph, layer->inner.name);
    /* relu and dropout give the same numbers in either order; in this one all three share memory, because
     * what relu's backward and the next product read is its result. */
    bool first = layer->activation == QKV_ACTIVATION_RELU;
    if (first) hidden = qkv_dropout_apply(graph, hidden, layer->dropout);
    hidden = qkv_activation_apply(graph, hidden, layer->activation);
    if (!first) hidden = qkv_dropout_apply(graph, hidden, layer->dropout);
    qkv_graph_scope(graph, outer);
    return qkv_dense_apply(&layer->outer, graph, hidden);
}

/* ---- samples ---- */

static void init_sample(void *layer, struct qkv_parameters *parameters, const void *options, const char *name)
{
    qkv_feed_forward_init(layer, parameters, options, name);
}

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    (void)sample;
    return qkv_feed_forward_apply(layer, graph, input[0]);
}

static const struct qkv_feed_forward_options PLAIN = {
    3, 7, QKV_ACTIVATION_RELU, 0, SAMPLE_INITIAL, SAMPLE_INITIAL};
static const struct qkv_feed_forward_options DROPPING = {
    3, 8, QKV_ACTIVATION_GELU, 0.4, SAMPLE_INITIAL, SAMPLE_INITIAL};
static const struct qkv_layer_sample SAMPLES[] = {
    {"relu", &PLAIN, {{2, {4, 3}}}},
    {"gelu with dropout", &DROPPING, {{2, {4, 3}}}},
    {0},
};
const struct qkv_layer_interface qkv_feed_forward_layer = {"feed_forward", sizeof(struct qkv_feed_forward),
                                                           init_sample, apply_sample, SAMPLES};
