/* What holds between the keys of a config, and what its zeros and empty texts stand for. */
#ifndef QKV_CONFIG_CHECK_H
#define QKV_CONFIG_CHECK_H

#include "config/schema.h"

/* Collects what does not fit together. `config` is as read, not yet normalised. */
void qkv_config_check(const struct qkv_config *config, const struct qkv_origin *origins,
                      struct qkv_collector *collector);

/* Replaces the values that stand for others: widths of 0, the empty run folder. False when there is no
 * memory. */
bool qkv_config_normalise(struct qkv_config *config, struct qkv_arena *arena);

#endif
