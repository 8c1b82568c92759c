/* The rules between the keys of a config. */
#ifndef QKV_CONFIG_RULES_H
#define QKV_CONFIG_RULES_H

#include "config/reader.h"
#include "qkv/config.h"

/* Collects an error for each rule that the config breaks. `config` must not be normalised yet.
 * `sources` are those of qkv_schema_read. */
void qkv_config_check_rules(const struct qkv_config *config, const struct qkv_key_source *sources,
                            struct qkv_collector *collector);

#endif
