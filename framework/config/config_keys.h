/* The table of the keys of a config, as a schema whose struct is struct qkv_config. */
#ifndef QKV_CONFIG_KEYS_H
#define QKV_CONFIG_KEYS_H

#include "config/choices.h"

extern const struct qkv_schema qkv_config_schema;

#endif
