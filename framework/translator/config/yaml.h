/* Reads a YAML file into a tree of nodes with line and column.
 *
 * A file must be one document of scalars, sequences and mappings whose keys are scalars. Duplicate keys, anchors, aliases
 * and tags are errors, because people who read the file can overlook their effect; so are NUL bytes, invalid UTF-8, empty
 * files, more than QKV_YAML_DEEPEST levels and more than QKV_YAML_LARGEST bytes. A scalar has no type
 * here: its key decides, so that the language code `no` is a text and not a boolean. */
#ifndef QKV_CONFIG_YAML_H
#define QKV_CONFIG_YAML_H

#include "config/collector.h"

#include <stdbool.h>
#include <string.h>

enum { QKV_YAML_DEEPEST = 64, QKV_YAML_MAX_KEYS = 10000, QKV_YAML_LARGEST = 16 << 20 };

enum qkv_yaml_kind {
    QKV_YAML_SCALAR,
    QKV_YAML_SEQUENCE,
    QKV_YAML_MAPPING,
    QKV_YAML_REFUSED, /* a node whose error is already collected; report no second one */
};

struct qkv_yaml_node {
    enum qkv_yaml_kind kind;
    int line, column;               /* of its first character, from 1; column in characters */
    int count;                      /* sequence: items; mapping: values */
    bool plain;                     /* scalar: written without quotes; only then can it be null or a number */
    const char *text;               /* scalar: UTF-8 without NUL */
    struct qkv_yaml_node *key;      /* value of a mapping: its key, a scalar */
    struct qkv_yaml_node *first;    /* sequence: items; mapping: values, in the order of the file */
    struct qkv_yaml_node *next;     /* the next item or value of the same parent */
    struct qkv_yaml_node *previous; /* the previous item or value */
    struct qkv_yaml_node *last;     /* sequence, mapping: the last item or value */
    struct qkv_yaml_node *parent;   /* the sequence or mapping that contains the node; root: NULL */
};

/* Reads a file into `arena`; returns its root, or NULL when nothing could be read. All errors are collected. Some, such as
 * syntax errors, end reading: the tree then has only the part before the error, and *complete is false. text: the contents of
 * the file, if they are in memory; NULL: the file is read. */
struct qkv_yaml_node *qkv_yaml_read(const char *path, const char *text, struct qkv_arena *arena,
                                    struct qkv_collector *collector, bool *complete);

/* Whether a node is a scalar without a value: `key:`, `key: ~` or `key: null`. */
static inline bool qkv_yaml_is_null(const struct qkv_yaml_node *node)
{
    return node->kind == QKV_YAML_SCALAR && node->plain &&
           (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}

#endif
