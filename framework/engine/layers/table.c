#include "layers/layer.h"

static const struct qkv_layer_interface *const LAYERS[QKV_LAYER_COUNT] = {
#define LAYER(name) [QKV_LAYER_##name] = &qkv_##name##_layer,
#include "qkv/layers.def"
#undef LAYER
};

const struct qkv_layer_interface *qkv_layer_interface(enum qkv_layer_id layer)
{
    return (int)layer >= 0 && (int)layer < QKV_LAYER_COUNT ? LAYERS[layer] : NULL;
}
