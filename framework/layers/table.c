#include "layers/layer.h"

static const struct qkv_layer_kind *const KINDS[QKV_LAYER_COUNT] = {
#define LAYER(name) [QKV_LAYER_##name] = &qkv_kind_##name,
#include "qkv/layers.def"
#undef LAYER
};

const struct qkv_layer_kind *qkv_layer_kind(enum qkv_layer_id layer)
{
    return KINDS[layer];
}
