/* The safetensors format: what lies in a file, apart from what it means. qkv/checkpoint.h describes the
 * bytes. */
#ifndef QKV_TRAIN_SAFETENSORS_H
#define QKV_TRAIN_SAFETENSORS_H

#include "qkv/arena.h"
#include "qkv/checkpoint.h"
#include "qkv/graph.h"

#include <stddef.h>

/* The key of __metadata__ that holds the checksum, how it looks in the header, and what it is taken with. */
#define QKV_CHECKSUM_KEY   "qkv.crc32"
#define QKV_CHECKSUM_BEGIN "\"" QKV_CHECKSUM_KEY "\":\""
#define QKV_CHECKSUM_NONE  "00000000"

enum { QKV_CHECKSUM_DIGITS = 8, QKV_SAFETENSORS_ALIGNMENT = 64 };

struct qkv_safetensor {
    const char *name;
    enum qkv_dtype dtype;
    struct qkv_shape shape;
    const void *data; /* of a file that was read: aligned to nothing */
};

static inline size_t qkv_safetensor_size(const struct qkv_safetensor *tensor)
{
    return (size_t)qkv_shape_count(tensor->shape) * qkv_dtype_size(tensor->dtype);
}

/* Writes tensors and texts, and adds the checksum. */
enum qkv_status qkv_safetensors_write(const char *path, int64_t count, const struct qkv_safetensor *tensors,
                                      int64_t metadata_count, const struct qkv_state_entry *metadata,
                                      struct qkv_error *error);

/* A file in memory. Caller's storage. */
struct qkv_safetensors {
    int64_t count;
    struct qkv_safetensor *tensors;
    int64_t metadata_count;
    struct qkv_state_entry *metadata;
    struct qkv_arena arena; /* owns all of it */
};

/* Reads a file whole. Fails, with nothing to release, unless the file is well formed and its checksum is
 * right. */
enum qkv_status qkv_safetensors_read(struct qkv_safetensors *file, const char *path, struct qkv_error *error);

/* The text of a key of __metadata__, or NULL. */
const char *qkv_safetensors_metadata(const struct qkv_safetensors *file, const char *key);

void qkv_safetensors_release(struct qkv_safetensors *file);

#endif
