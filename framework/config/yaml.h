/* YAML files as a small tree that knows the line and column of every node.
 *
 * The subset: one document of scalars, sequences and mappings whose keys are scalars. Duplicate keys,
 * anchors, aliases and tags are refused, because a file should mean what it shows; so are NUL bytes, invalid
 * UTF-8, empty files, more than QKV_YAML_DEEPEST levels and files above QKV_YAML_LARGEST bytes. Nothing is
 * resolved: a scalar is its text, and whoever reads it decides what type it must have (so that the language
 * code `no` stays a text). */
#ifndef QKV_CONFIG_YAML_H
#define QKV_CONFIG_YAML_H

#include "config/collector.h"

#include <stdbool.h>

enum { QKV_YAML_DEEPEST = 64, QKV_YAML_MOST_KEYS = 10000, QKV_YAML_LARGEST = 16 << 20 };

enum qkv_yaml_kind {
    QKV_YAML_SCALAR,
    QKV_YAML_SEQUENCE,
    QKV_YAML_MAPPING,
    QKV_YAML_REFUSED, /* stood for something refused; its error is already collected, so report no other */
};

struct qkv_yaml_node {
    enum qkv_yaml_kind kind;
    int line, column;               /* of its first character, from 1; column in characters */
    int count;                      /* sequence: items; mapping: values */
    bool plain;                     /* scalar: written without quotes */
    const char *text;               /* scalar: UTF-8 without NUL */
    struct qkv_yaml_node *key;      /* value of a mapping: its key, a scalar */
    struct qkv_yaml_node *first;    /* sequence: items; mapping: values, in the order of the file */
    struct qkv_yaml_node *next;     /* the next item or value beside this one */
    struct qkv_yaml_node *previous; /* the one before */
    struct qkv_yaml_node *last, *parent;
};

/* Reads a file into `arena` and gives its root, or NULL when there is nothing to look at. All errors are
 * collected, up to the first that ends reading (a syntax error, say); the tree then holds what stands before
 * it, and `*complete` is false: do not complain about what may be missing. */
struct qkv_yaml_node *qkv_yaml_read(const char *path, struct qkv_arena *arena,
                                    struct qkv_collector *collector, bool *complete);

/* Whether a scalar stands for nothing: `key:`, `key: ~` or `key: null`. */
bool qkv_yaml_is_null(const struct qkv_yaml_node *node);

#endif
