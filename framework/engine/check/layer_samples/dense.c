/* Samples of the layer in layers/dense.c. */
#include "check/layer_samples/layer_samples.h"

INIT_SAMPLE(dense)
APPLY_SAMPLE(dense)

static const struct qkv_dense_options PLAIN = {3, 5, true, QKV_ACTIVATION_NONE, INITIAL};
static const struct qkv_dense_options NO_BIAS = {4, 2, false, QKV_ACTIVATION_TANH, INITIAL};
static const struct qkv_dense_options RELU = {3, 7, true, QKV_ACTIVATION_RELU, INITIAL};
static const struct qkv_dense_options GELU = {3, 4, true, QKV_ACTIVATION_GELU, INITIAL};
static const struct qkv_dense_options GELU_TANH = {3, 4, true, QKV_ACTIVATION_GELU_TANH, INITIAL};
static const struct qkv_dense_options SILU = {3, 4, true, QKV_ACTIVATION_SILU, INITIAL};
static const struct qkv_dense_options SIGMOID = {3, 4, true, QKV_ACTIVATION_SIGMOID, INITIAL};

static const struct qkv_layer_sample SAMPLES[] = {
    {"plain", &PLAIN, {{2, {4, 3}}}},         {"no bias, tanh", &NO_BIAS, {{2, {3, 4}}}},
    {"relu", &RELU, {{2, {4, 3}}}},           {"gelu", &GELU, {{3, {2, 2, 3}}}},
    {"gelu_tanh", &GELU_TANH, {{2, {1, 3}}}}, {"silu", &SILU, {{2, {2, 3}}}},
    {"sigmoid", &SIGMOID, {{2, {2, 3}}}},     {0},
};
LAYER_SAMPLES(dense, qkv_dense);
