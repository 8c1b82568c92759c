/* Reports errors about keys at the place where a file or an override gives them, for the rules between keys. */
#ifndef QKV_CONFIG_KEY_CHECK_H
#define QKV_CONFIG_KEY_CHECK_H

#include "config/reader.h"

struct qkv_key_check {
    const struct qkv_schema *schema;
    const struct qkv_key_source *sources; /* [schema->count], of qkv_schema_read */
    struct qkv_collector *collector;
};

/* The row of a key that exists, and where its value came from. */
const struct qkv_key *qkv_key_at(const struct qkv_schema *schema, const char *path);
const struct qkv_key_source *qkv_key_source_of(const struct qkv_key_check *check, const char *path);

/* Collects an error about the key `path`, unless the value of `path` or of the key `other` has been refused already, or the
 * same error has been collected. Its place is that of `path`; or that of `other` if `path` was not given, or was given only in
 * a file that the file of `other` extends. */
void qkv_key_report(const struct qkv_key_check *check, const char *path, const char *other,
                    const char *format, ...) QKV_PRINTF(4, 5);

#endif
