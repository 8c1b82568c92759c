/* Private: reads and writes safetensors files: named tensors and texts, without their meaning for a model.
 * qkv/checkpoint.h describes the layout of a file. */
#pragma once

#include "qkv/checkpoint.h"

/* How a file stores the numbers of a tensor. */
enum qkv_stored_type {
    QKV_STORED_F32,
    QKV_STORED_F64,
    QKV_STORED_F16,  /* half precision (core/numbers.h) */
    QKV_STORED_BF16, /* the upper 16 bits of a float32 */
    QKV_STORED_I8,   /* 8-bit integers; checkpoint.h describes their scales */
};

/* The type that stores numbers of this precision exactly. */
static inline enum qkv_stored_type qkv_stored_type_of(enum qkv_dtype dtype)
{
    return dtype == QKV_FLOAT32 ? QKV_STORED_F32 : QKV_STORED_F64;
}

/* The name of a type in a header, such as "BF16". */
const char *qkv_stored_type_name(enum qkv_stored_type type);

/* Finds the type of a name; false when there is none. */
bool qkv_stored_type_find(const char *name, enum qkv_stored_type *type);

/* Bytes of a number. */
size_t qkv_stored_type_size(enum qkv_stored_type type);

struct qkv_safetensor {
    const char *name;
    enum qkv_stored_type type;
    struct qkv_shape shape;
    const void *data; /* not owned; in a file that was read, it may start at any byte: copy it with memcpy */
};

/* Size of the data in bytes. */
size_t qkv_safetensor_size(const struct qkv_safetensor *tensor);

/* Copies all numbers of a tensor to an array of this precision. Exact, except that F64 is rounded to float32. */
void qkv_safetensor_copy(const struct qkv_safetensor *tensor, enum qkv_dtype dtype, void *to);

/* Writes a file of `count` tensors and `metadata_count` texts, to which it adds the checksum. Atomic (core/file.h). */
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

/* Reads a whole file. Fails, with nothing to release, unless the file is well formed and its checksum is right. Files of
 * other programs have no checksum; with `is_foreign` that is allowed. */
enum qkv_status qkv_safetensors_read(struct qkv_safetensors *file, const char *path, bool is_foreign,
                                     struct qkv_error *error);

/* The text of a key of __metadata__, or NULL. */
const char *qkv_safetensors_metadata(const struct qkv_safetensors *file, const char *key);

void qkv_safetensors_release(struct qkv_safetensors *file);

/* ---- checkpoint.c: matches tensors with the parameters of the same names ---- */

/* Finds the tensor of every parameter: source[parameter->index], or NULL if no tensor has its name and shape. Shapes are not
 * compared for parameters with may_differ[index]; may_differ NULL: all shapes are compared. Fills the report.
 * False when memory runs out. */
bool qkv_weights_match(int64_t count, const struct qkv_safetensor *tensors,
                       const struct qkv_parameters *parameters, const bool *may_differ,
                       const struct qkv_safetensor **source, struct qkv_load_report *report);

/* Fails, with a message about the differences, unless tensors and parameters match. path: the file of the tensors. */
enum qkv_status qkv_weights_check(const char *path, int64_t count, const struct qkv_safetensor *tensors,
                                  const struct qkv_parameters *parameters,
                                  const struct qkv_load_report *report, struct qkv_error *error);

/* ---- further functions of checkpoint.h ---- */

/* A number of updates, epochs or tokens, from 0 to QKV_COUNT_MAX; the limit leaves room for training to go on counting. */
#define QKV_COUNT_MAX INT64_C(1000000000000000)
enum qkv_status qkv_state_get_count(const struct qkv_state *state, const char *key, int64_t *value,
                                    struct qkv_error *error);

/* The number of a key that may be missing: `value` then does not change. */
enum qkv_status qkv_state_find_number(const struct qkv_state *state, const char *key, double *value,
                                      struct qkv_error *error);

/* Writes only the values, in half precision (11 significant bits). A tensor with a number that would round to more than
 * 65504, the largest half, keeps the parameters' dtype. */
enum qkv_status qkv_checkpoint_save_half(const char *path, const struct qkv_parameters *parameters,
                                         const struct qkv_state *state, struct qkv_error *error);

/* Writes only the values: matrices in int8 with a float32 scale for each output (a quarter of the size), all else in
 * float32. Values that qkv_parameters_set_precision has rounded to int8 are kept exactly. Fails for float64, and if
 * a parameter is called as the scales of a matrix will be, `<name>.scale`. */
enum qkv_status qkv_checkpoint_save_int8(const char *path, const struct qkv_parameters *parameters,
                                         const struct qkv_state *state, struct qkv_error *error);
