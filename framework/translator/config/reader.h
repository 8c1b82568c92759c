/* Reads a YAML file, and the files that it extends, into the struct of a schema. Collects all errors with line and column. The
 * error about an unknown key names the most similar key. */
#ifndef QKV_CONFIG_READER_H
#define QKV_CONFIG_READER_H

#include "config/collector.h"
#include "config/schema.h"

/* The origin of the value of a key; there is one for each row of the schema. */
struct qkv_key_source {
    struct qkv_place place; /* the key, or its override `-s key=value`; the file if the key was not given */
    int extended; /* 0: from the caller's file, or an override; 1: from the file that it extends; ... */
    bool given;
    bool bad; /* the value was refused or is missing; its error is collected */
};

struct qkv_reading {
    const struct qkv_schema *schema;
    void *config;                 /* the struct of the schema, to be filled */
    const char *path;             /* of the YAML file, not of a key */
    const char *text;             /* contents of the file, if they are in memory; NULL: the file is read */
    const char *const *overrides; /* "training.learning_rate=1e-3"; read after the file */
    int override_count;
    bool extends; /* the key `extends` may name another file, whose values are read first */
    struct qkv_arena *arena;
    struct qkv_collector *collector;
    /* Results; zero them before the call: */
    struct qkv_key_source *sources; /* [schema->count], in the arena; NULL when there was no memory */
    bool complete; /* all files were read to their end; only then can rules between keys be checked */
    const struct qkv_open_file *file; /* private: the file that is being read */
};

/* Fills a struct with the defaults of its schema. False when there is no memory. */
bool qkv_schema_defaults(const struct qkv_schema *schema, void *config, struct qkv_arena *arena);

/* Fills the struct with the defaults, then with the values of the file that the given file extends, if any, then with those of
 * the given file, and then with the overrides. */
void qkv_schema_read(struct qkv_reading *reading);

#endif
