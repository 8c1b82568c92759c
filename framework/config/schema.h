/* Reading a file by a schema, whatever the struct: every error is collected, with line, column and the
 * nearest key. */
#ifndef QKV_CONFIG_SCHEMA_H
#define QKV_CONFIG_SCHEMA_H

#include "config/collector.h"
#include "config/keys.h"

/* Where the value of a key came from; one for each row of the schema. */
struct qkv_origin {
    struct qkv_place place; /* of the key; the file alone when it was not given */
    bool given;
    bool bad; /* its value was refused or is missing: say nothing more about it */
};

/* Fills the struct of `size` bytes with the defaults of its schema. False when there is no memory. */
bool qkv_schema_defaults(const struct qkv_schema *schema, void *config, size_t size, struct qkv_arena *arena);

/* Reads the YAML file at `path` and over it the overrides into a struct that holds the defaults. Gives where
 * the values came from, NULL when there is no memory. `*whole`: all of the file was read, so that it makes
 * sense to ask what does not fit together. */
struct qkv_origin *qkv_schema_read(const struct qkv_schema *schema, void *config, struct qkv_arena *arena,
                                   const char *path, const char *const *overrides, int override_count,
                                   struct qkv_collector *collector, bool *whole);

#endif
