/* Derives the values of a config that are given as 0, -1 or "", which mean: derive this from other keys. */
#ifndef QKV_CONFIG_NORMALISE_H
#define QKV_CONFIG_NORMALISE_H

#include "qkv/config.h"

/* Sets key_width, value_width, key_value_heads and embedding_dim where they are 0, activation_dropout where it is -1,
 * and model_dir where it is "". Recurrent stacks have no value_width, key_value_heads and activation_dropout, which stay
 * 0, 0 and -1. False when there is no memory. */
bool qkv_config_normalise(struct qkv_config *config, struct qkv_arena *arena);

/* The same for the config of a model alone, which needs no memory. */
void qkv_model_config_normalise(struct qkv_model_config *model);

#endif
