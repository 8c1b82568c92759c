/* The samples of layers: options and inputs with which the gradient check runs each layer, by struct qkv_layer_interface.
 * <name>.c has those of the layer in layers/<name>.c: an array SAMPLES, the functions init_sample and apply_sample, and
 * LAYER_SAMPLES. */
#ifndef QKV_CHECK_LAYER_SAMPLES_LAYER_SAMPLES_H
#define QKV_CHECK_LAYER_SAMPLES_LAYER_SAMPLES_H

#include "qkv/layers.h"

#define LAYER(name) extern const struct qkv_layer_interface qkv_##name##_layer;
#include "qkv/layers.def"
#undef LAYER

/* Defines the interface of a layer, whose struct is `storage`. */
#define LAYER_SAMPLES(layer, storage)                                                                        \
    const struct qkv_layer_interface qkv_##layer##_layer = {#layer, sizeof(struct storage), init_sample,     \
                                                            apply_sample, SAMPLES}

/* Defines init_sample of a layer whose samples need no other options than the layer. */
#define INIT_SAMPLE(layer_name)                                                                              \
    static void init_sample(void *layer, struct qkv_parameters *parameters, const void *options,             \
                            const char *name)                                                                \
    {                                                                                                        \
        qkv_##layer_name##_init(layer, parameters, options, name);                                           \
    }

/* Defines apply_sample of a layer that is applied to one tensor. */
#define APPLY_SAMPLE(layer_name)                                                                             \
    static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,                       \
                                           struct qkv_tensor *const *input,                                  \
                                           const struct qkv_layer_sample *sample)                            \
    {                                                                                                        \
        (void)sample;                                                                                        \
        return qkv_##layer_name##_apply(layer, graph, input[0]);                                             \
    }

/* The initializer of weights. */
#define INITIAL                                                                                              \
    {                                                                                                        \
        QKV_INITIALIZER_XAVIER_UNIFORM, 1.0                                                                  \
    }

/* Sentences of 3, 1 and 2 rows, and their keys. */
static const int64_t STARTS[] = {0, 3, 4}, LENGTHS[] = {3, 1, 2};
static const int64_t KEY_STARTS[] = {0, 1, 5}, KEY_LENGTHS[] = {1, 4, 3};

#endif
