/* Reads one value of a YAML file from a node of the tree into the field of its key, and converts fields to text. */
#ifndef QKV_CONFIG_VALUE_H
#define QKV_CONFIG_VALUE_H

#include "config/schema.h"
#include "config/yaml.h"

/* Reads `node` into the field of `key`. Errors are reported at `place`; errors in list items are reported at the item, unless
 * place.line is 0, as it is for overrides. False after collecting an error; the field is then unchanged. */
bool qkv_value_read(const struct qkv_key *key, const struct qkv_yaml_node *node, struct qkv_place place,
                    void *config, struct qkv_arena *arena, struct qkv_collector *collector);

/* Reads the text of an override or a default in the same way. */
bool qkv_value_read_text(const struct qkv_key *key, const char *text, struct qkv_place place, void *config,
                         struct qkv_arena *arena, struct qkv_collector *collector);

/* The value as it is written in a file, in the arena; NULL when there is no memory. */
const char *qkv_value_text(const struct qkv_key *key, const void *config, struct qkv_arena *arena);

/* A text as it is written in a file, with quotes if it needs them; NULL when there is no memory. */
const char *qkv_yaml_text(const char *text, struct qkv_arena *arena);

/* True when two structs have the same value of a key. Not for TEXTS and MATRIX. */
bool qkv_value_equal(const struct qkv_key *key, const void *a, const void *b);

/* A range in words: "at least 1", "between 1 and 1024". */
enum { QKV_RANGE_SIZE = 128 };
void qkv_range_text(char text[static QKV_RANGE_SIZE], const struct qkv_range *range);

#endif
