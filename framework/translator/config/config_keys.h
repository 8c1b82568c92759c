/* The table of the keys of a config, as a schema whose struct is struct qkv_config. */
#ifndef QKV_CONFIG_KEYS_H
#define QKV_CONFIG_KEYS_H

#include "config/choices.h"

extern const struct qkv_schema qkv_config_schema;

struct qkv_config;

/* True when a config without the key would have the same value: the default, or the value that normalisation derives. */
bool qkv_key_is_derivable(const struct qkv_key *key, const struct qkv_config *config,
                          struct qkv_arena *arena);

#endif
