/* Samples of the layer in layers/norm.c. */
#include "check/layer_samples/layer_samples.h"

INIT_SAMPLE(norm)
APPLY_SAMPLE(norm)

static const struct qkv_norm_options LAYER_NORM = {QKV_NORM_LAYER, 5, 1e-6},
                                     RMS_NORM = {QKV_NORM_RMS, 5, 1e-6};
static const struct qkv_layer_sample SAMPLES[] = {
    {"layer norm", &LAYER_NORM, {{2, {3, 5}}}},
    {"RMS norm", &RMS_NORM, {{2, {3, 5}}}},
    {0},
};
LAYER_SAMPLES(norm, qkv_norm);
