/* Reads a YAML file into the struct of a schema. All errors are collected, with line, column and the nearest key. */
#ifndef QKV_CONFIG_READER_H
#define QKV_CONFIG_READER_H

#include "config/collector.h"
#include "config/schema.h"

/* Where the value of a key came from; one for each row of the schema. */
struct qkv_key_source {
    struct qkv_place place; /* of the key; the file without a line when the key was not given */
    bool given;
    bool bad; /* the value was refused or is missing; its error is collected */
};

/* Fills the struct of `size` bytes with the defaults of its schema. False when there is no memory. */
bool qkv_schema_defaults(const struct qkv_schema *schema, void *config, size_t size, struct qkv_arena *arena);

/* Reads the YAML file at `path`, then the overrides, into a struct that holds the defaults. Returns the source of each
 * value, in the arena; NULL when there is no memory. *complete is true when the whole file was read, so that rules
 * between keys can be checked. */
struct qkv_key_source *qkv_schema_read(const struct qkv_schema *schema, void *config, struct qkv_arena *arena,
                                       const char *path, const char *const *overrides, int override_count,
                                       struct qkv_collector *collector, bool *complete);

#endif
