/* What every file of layers/ includes. */
#ifndef QKV_LAYERS_LAYER_H
#define QKV_LAYERS_LAYER_H

#include "qkv/layers.h"

#define LAYER(name) extern const struct qkv_layer_interface qkv_##name##_layer;
#include "qkv/layers.def"
#undef LAYER

/* Normal and uniform are scaled by 1 / sqrt(inputs), so that a gain means the same for every width. */
struct qkv_initial qkv_initial_scaled(struct qkv_initial initial, int64_t inputs);

/* How the samples start their weights. */
#define SAMPLE_INITIAL                                                                                       \
    {                                                                                                        \
        QKV_INITIALIZER_XAVIER_UNIFORM, 1.0                                                                  \
    }

#endif
