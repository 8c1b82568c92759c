/* One value of a config, or of whatever struct has a schema: from a node of a YAML tree into its field, and
 * from its field into text. */
#ifndef QKV_CONFIG_VALUE_H
#define QKV_CONFIG_VALUE_H

#include "config/schema.h"
#include "config/yaml.h"

/* Reads `node` into the field of `key`. `place` is where the value stands; the items of a pair have places of
 * their own when it has a line. False after collecting what is wrong; the field is then unchanged. */
bool qkv_value_read(const struct qkv_key *key, const struct qkv_yaml_node *node, struct qkv_place place,
                    void *config, struct qkv_arena *arena, struct qkv_collector *collector);

/* Reads the text of an override, or of a default, in the same way. */
bool qkv_value_read_text(const struct qkv_key *key, const char *text, struct qkv_place place, void *config,
                         struct qkv_arena *arena, struct qkv_collector *collector);

/* The value as a config would write it, in the arena; NULL when there is no memory. */
const char *qkv_value_text(const struct qkv_key *key, const void *config, struct qkv_arena *arena);

/* Whether two configs have the same value of a key. */
bool qkv_value_equal(const struct qkv_key *key, const void *a, const void *b);

/* What a number may be, to stand behind "must be": "at least 1", "between 1 and 1024". */
enum { QKV_RANGE_SIZE = 128 };
void qkv_range_text(char text[static QKV_RANGE_SIZE], const struct qkv_range *range);

#endif
