/* Reads and writes safetensors files: named tensors and texts, without their meaning for a model.
 * qkv/checkpoint.h describes the layout of a file. */
#ifndef QKV_RUN_SAFETENSORS_H
#define QKV_RUN_SAFETENSORS_H

#include "qkv/arena.h"
#include "qkv/checkpoint.h"
#include "qkv/graph.h"

#include <stddef.h>

/* The key of the checksum in __metadata__; the text of the header before its digits; and the digits that
 * stand in for it while it is computed. */
#define QKV_CHECKSUM_KEY   "qkv.crc32"
#define QKV_CHECKSUM_BEGIN "\"" QKV_CHECKSUM_KEY "\":\""
#define QKV_CHECKSUM_NONE  "00000000"

enum {
    QKV_CHECKSUM_DIGITS = 8,
    QKV_SAFETENSORS_ALIGNMENT = 64, /* bytes: the data starts at a multiple of it */
};

struct qkv_safetensor {
    const char *name;
    enum qkv_dtype dtype;
    struct qkv_shape shape;
    const void *data; /* not owned; in a file that was read, it may start at any byte: copy it with memcpy */
};

/* Size of the data in bytes. */
static inline size_t qkv_safetensor_size(const struct qkv_safetensor *tensor)
{
    return (size_t)qkv_shape_count(tensor->shape) * qkv_dtype_size(tensor->dtype);
}

/* Writes a file of `count` tensors and `metadata_count` texts, to which it adds the checksum. Atomic (file.h). */
enum qkv_status qkv_safetensors_write(const char *path, int64_t count, const struct qkv_safetensor *tensors,
                                      int64_t metadata_count, const struct qkv_state_entry *metadata,
                                      struct qkv_error *error);

/* A file in memory. Caller's storage. */
struct qkv_safetensors {
    int64_t count;
    struct qkv_safetensor *tensors; /* [count] */
    int64_t metadata_count;
    struct qkv_state_entry *metadata; /* [metadata_count] */
    struct qkv_arena arena;           /* owns all of it */
};

/* Reads a whole file. Fails, with nothing to release, unless the file is well formed and its checksum is
 * right. */
enum qkv_status qkv_safetensors_read(struct qkv_safetensors *file, const char *path, struct qkv_error *error);

/* The text of a key of __metadata__, or NULL. */
const char *qkv_safetensors_metadata(const struct qkv_safetensors *file, const char *key);

void qkv_safetensors_release(struct qkv_safetensors *file);

#endif
