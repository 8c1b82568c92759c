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

/* ---- samples: the sublayer is tanh ---- */

struct options {
    struct qkv_norm_options norm;
    enum qkv_norm_place place;
    double dropout;
};

static void init_sample(void *layer, struct qkv_parameters *parameters, const void *given, const char *name)
{
    const struct options *options = given;
    qkv_residual_init(layer, parameters, &options->norm, options->place, options->dropout, name);
}

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    (void)sample;
    struct qkv_tensor *inside = qkv_residual_input(layer, graph, input[0]);
    return qkv_residual_output(layer, graph, input[0], qkv_tanh(graph, inside));
}

static const struct options PRE = {{QKV_NORM_LAYER, 5, 1e-6}, QKV_NORM_PRE, 0};
static const struct options POST = {{QKV_NORM_LAYER, 5, 1e-6}, QKV_NORM_POST, 0.2};
static const struct options PRE_RMS = {{QKV_NORM_RMS, 5, 1e-6}, QKV_NORM_PRE, 0.2};
static const struct qkv_layer_sample SAMPLES[] = {
    {"pre-norm", &PRE, {{2, {3, 5}}}},
    {"post-norm with dropout", &POST, {{2, {3, 5}}}},
    {"pre-norm RMS with dropout", &PRE_RMS, {{2, {3, 5}}}},
    {0},
};
const struct qkv_layer_interface qkv_residual_layer = {"residual", sizeof(struct qkv_residual), init_sample,
                                                       apply_sample, SAMPLES};
