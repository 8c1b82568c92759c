/* Private to models/: the networks of qkv, and functions that find a network. */
#ifndef QKV_MODELS_NETWORK_H
#define QKV_MODELS_NETWORK_H

#include "qkv/network.h"

extern const struct qkv_network_interface qkv_network_transformer, qkv_network_recurrent;

/* The network that a config chooses. NULL with a message when it names one that is not registered. */
const struct qkv_network_interface *qkv_network_of(const struct qkv_model_config *config,
                                                   struct qkv_error *error);

/* Reads `model.settings` into model->settings, in the arena of the parameters. */
enum qkv_status qkv_network_read_settings(struct qkv_model *model, struct qkv_error *error);

/* Makes a tensor of the encoder's graph a constant of the decoder's graph, without a copy. */
static inline struct qkv_tensor *qkv_decoding_from_encoder(const struct qkv_decoding *decoding,
                                                           struct qkv_tensor *x)
{
    return x ? qkv_wrap(decoding->decoder, qkv_tensor_shape(x), qkv_tensor_value(x)) : NULL;
}

#endif
