/* What the zeros and empty texts of a config stand for. */
#ifndef QKV_CONFIG_NORMALISE_H
#define QKV_CONFIG_NORMALISE_H

#include "qkv/config.h"

/* Replaces widths and counts of 0 and the empty run folder by the values that they stand for. False when there is no
 * memory. */
bool qkv_config_normalise(struct qkv_config *config, struct qkv_arena *arena);

#endif
