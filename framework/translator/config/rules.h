/* The rules between the keys of a config. */
#ifndef QKV_CONFIG_RULES_H
#define QKV_CONFIG_RULES_H

#include "config/reader.h"
#include "qkv/config.h"

/* The set of rules that a config must follow; each set includes the previous one. */
enum qkv_rules {
    QKV_RULES_OF_MODEL,    /* between the keys of the model; the rest of the config need not be set */
    QKV_RULES_OF_CONFIG,   /* between all keys */
    QKV_RULES_OF_TRAINING, /* and training must have an end */
};

/* Collects an error for each rule that the config breaks. `sources` are those of qkv_schema_read. */
void qkv_config_check_rules(const struct qkv_config *config, const struct qkv_key_source *sources,
                            enum qkv_rules rules, struct qkv_collector *collector);

#endif
