/* Samples of the layer in layers/feed_forward.c. */
#include "check/layer_samples/layer_samples.h"

INIT_SAMPLE(feed_forward)
APPLY_SAMPLE(feed_forward)

static const struct qkv_feed_forward_options RELU = {3, 7, QKV_ACTIVATION_RELU, 0, INITIAL, INITIAL};
static const struct qkv_feed_forward_options GELU = {3, 8, QKV_ACTIVATION_GELU, 0.4, INITIAL, INITIAL};
static const struct qkv_layer_sample SAMPLES[] = {
    {"relu", &RELU, {{2, {4, 3}}}},
    {"gelu with dropout", &GELU, {{2, {4, 3}}}},
    {0},
};
LAYER_SAMPLES(feed_forward, qkv_feed_forward);
