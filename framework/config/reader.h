/* Reads a YAML file, and those that it extends, into the struct of a schema. Collects all errors with line and column. The
 * error of an unknown key names the most similar key. */
#ifndef QKV_CONFIG_READER_H
#define QKV_CONFIG_READER_H

#include "config/collector.h"
#include "config/schema.h"

/* Where the value of a key came from; one for each row of the schema. */
struct qkv_key_source {
    struct qkv_place place; /* of the key; its override `-s key=value`; the file when the key was not given */
    int extended; /* 0: the file that was asked for, or an override; 1: the file that it extends; and so on */
    bool given;
    bool bad; /* the value was refused or is missing; its error is collected */
};

struct qkv_reading {
    const struct qkv_schema *schema;
    void *config;                 /* the struct of the schema, to be filled */
    const char *path;             /* of the YAML file, not of a key */
    const char *text;             /* what the file holds, if it is in memory; NULL: it is read */
    const char *const *overrides; /* "training.learning_rate=1e-3"; read after the file */
    int override_count;
    bool
        extends; /* the file may name another one by the key `extends`, whose values it adds to and replaces */
    struct qkv_arena *arena;
    struct qkv_collector *collector;
    /* Results; zero them before the call: */
    struct qkv_key_source *sources; /* [schema->count], in the arena; NULL when there was no memory */
    bool complete; /* all files were read to their end, so that rules between keys can be checked */
    const struct qkv_open_file *file; /* private: the file that is being read */
};

/* Fills a struct with the defaults of its schema. False when there is no memory. */
bool qkv_schema_defaults(const struct qkv_schema *schema, void *config, struct qkv_arena *arena);

/* Fills the struct with the defaults, then with the values of the file that the file extends, if any, then with those of
 * the file, then with the overrides. */
void qkv_schema_read(struct qkv_reading *reading);

#endif
