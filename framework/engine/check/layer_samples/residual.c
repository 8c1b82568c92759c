/* Samples of the layer in layers/residual.c. The sublayer is tanh. */
#include "check/layer_samples/layer_samples.h"

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
LAYER_SAMPLES(residual, qkv_residual);
