/* Reads JSON, as the headers of safetensors files have it (RFC 8259). Nesting is limited, so that no text makes the reader run
 * out of stack. */
#ifndef QKV_CHECKPOINT_JSON_H
#define QKV_CHECKPOINT_JSON_H

#include "qkv/arena.h"

#include <stddef.h>
#include <stdint.h>

enum qkv_json_kind {
    QKV_JSON_LITERAL, /* true, false, null */
    QKV_JSON_NUMBER,
    QKV_JSON_TEXT,
    QKV_JSON_ARRAY,
    QKV_JSON_OBJECT
};

/* A value. All of it lives in the arena of the reader. */
struct qkv_json {
    enum qkv_json_kind kind;
    const char *name; /* of an item of an object */
    const char *text; /* of a text */
    double number;
    int64_t count;          /* items of an array or object */
    struct qkv_json *child; /* its first item */
    struct qkv_json *next;  /* the item behind this one */
};

/* Reads the value at the start of `size` bytes of text. *end: the first byte behind the value; of a text that is not JSON, the
 * byte where that shows. Returns NULL for such a text, and when memory runs out, with *end NULL. */
const struct qkv_json *qkv_json_read(struct qkv_arena *arena, const char *text, size_t size,
                                     const char **end);

/* The first item of an object with that name; NULL if there is none, or `object` is none. */
const struct qkv_json *qkv_json_item(const struct qkv_json *object, const char *name);

#endif
