/* Checkpoints: parameters, the optimizer's moments and the state of training in one safetensors file
 * (https://github.com/huggingface/safetensors), which NumPy, PyTorch and others read:
 *
 *     8 bytes  length of the header, little-endian
 *     header   JSON, {"__metadata__": {key: text, ...}, name: {"dtype", "shape", "data_offsets"}, ...}, padded
 *              with spaces so that the data starts at a multiple of 64 bytes
 *     data     the tensors without gaps, row-major, little-endian, F32 or F64; F16, BF16 and I8 are read, too
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_parameters parameters = {0};
 *     struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 1};
 *     qkv_parameters_add(&parameters, QKV_SHAPE(2, 3), zeros, "weights");
 *     if (qkv_parameters_allocate(&parameters, QKV_FLOAT32, &error) ||
 *         qkv_checkpoint_save("weights.safetensors", &parameters, NULL, NULL, &error) ||
 *         qkv_checkpoint_load("weights.safetensors", &parameters, NULL, NULL, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     qkv_parameters_release(&parameters);
 *
 * Values have the names of their parameters; moments are `optimizer.first.<name>`, `optimizer.second.<name>`. With a moving
 * average of the parameters (qkv_optimizer_options.ema), the values in the file are the average, because it is the better
 * model, and the parameters with which training continues are `optimizer.parameters.<name>`. A quantised checkpoint has
 * matrices of type I8, and for each of them a tensor `<name>.scale` in F32, by which the I8 numbers are multiplied: one
 * scale for each row of an embedding table (graph.h), for each column of other matrices. __metadata__ holds the state of
 * training and four keys of the format, the last two only with moments:
 *
 *     qkv.format             version of the format: QKV_CHECKPOINT_FORMAT
 *     qkv.crc32              CRC-32 of the whole file, 8 hexadecimal digits, computed with zeros in their place
 *     qkv.optimizer          name of the optimizer, such as adam
 *     qkv.optimizer.updates  updates done, for the bias correction
 *
 * Writing is atomic: a full disk or a kill leaves the previous file. */
#ifndef QKV_CHECKPOINT_H
#define QKV_CHECKPOINT_H

#include "qkv/graph.h"

/* ---- the state of training: a list of keys with texts ---- */

struct qkv_state_entry {
    const char *key, *text;
};

/* Caller's storage, all zero at first. */
struct qkv_state {
    int64_t count, capacity;      /* of `list`, in entries */
    struct qkv_state_entry *list; /* [count], in the order of the first qkv_state_set; texts in `arena` */
    bool failed;                  /* qkv_state_set ran out of memory; qkv_checkpoint_save refuses the state */
    struct qkv_types keys;        /* private: index of the keys */
    struct qkv_arena arena;
};

/* Adds a key, or replaces its text. Key and text are copied. Keys must be UTF-8; an invalid byte of a text becomes `?`.
 * qkv_checkpoint_save refuses keys that begin with `qkv.`. Numbers read back exactly; infinities and NaN are written as
 * inf, -inf and nan. */
QKV_API void qkv_state_set(struct qkv_state *state, const char *key, const char *text);
QKV_API void qkv_state_set_integer(struct qkv_state *state, const char *key, int64_t value);
QKV_API void qkv_state_set_number(struct qkv_state *state, const char *key, double value);

/* The text of a key, or NULL. */
QKV_API const char *qkv_state_get(const struct qkv_state *state, const char *key);

/* The number of a key. Fails, and does not change `value`, when the key is missing or its text is not a number of this
 * type. The message is `epoch is missing` or `epoch is "x", but must be a whole number`; the caller puts the file name
 * before it. */
QKV_API enum qkv_status qkv_state_get_integer(const struct qkv_state *state, const char *key, int64_t *value,
                                              struct qkv_error *error);
QKV_API enum qkv_status qkv_state_get_number(const struct qkv_state *state, const char *key, double *value,
                                             struct qkv_error *error);

QKV_API void qkv_state_release(struct qkv_state *state);

/* ---- files ---- */

/* Version of the format of checkpoints that this library writes. It reads this version and all older ones. */
enum { QKV_CHECKPOINT_FORMAT = 1 };

/* Greatest number of moments of an optimizer. A moment is a block with one number for each parameter. */
enum { QKV_MOMENTS_MAX = 3 };

/* The part of an optimizer that a checkpoint keeps. qkv_optimizer_init (optimizer.h) fills it. */
struct qkv_optimizer_state {
    const char *name;               /* such as adam; not owned */
    int64_t updates;                /* done so far */
    int moment_count;               /* of this optimizer: 2 for adam (m, v), 1 for sgd */
    void *moments[QKV_MOMENTS_MAX]; /* [moment_count], each laid out as the values of the parameters */
    void *average;                  /* moving average of the parameters, laid out as they are; NULL: none */
    enum qkv_dtype dtype;           /* of moments and average: that of the parameters */
    int64_t elements;               /* of each block: as many as the parameters' block has */
};

/* Writes a checkpoint, in the parameters' dtype. `optimizer` NULL: values only. `state` NULL: none. Fails when the file
 * cannot be written, and when the optimizer was not initialised or was made for other parameters. */
QKV_API enum qkv_status qkv_checkpoint_save(const char *path, const struct qkv_parameters *parameters,
                                            const struct qkv_optimizer_state *optimizer,
                                            const struct qkv_state *state, struct qkv_error *error);

/* Reads a checkpoint into allocated parameters and moments, and converts its numbers to their dtype. After a quantised
 * checkpoint the products of float32 parameters are int8, as after qkv_parameters_set_precision; after any other checkpoint
 * they are no longer int8, until qkv_parameters_set_precision rounds the new values. `optimizer` NULL: values only, whether
 * or not the file has moments. All keys of the file except those of the format are added to `state` (which may be NULL) and
 * replace equal keys, even when loading then fails, because they may explain why. On failure nothing else has changed.
 * Errors:
 * - the file: not there, not a regular file, not a safetensors file, cut short, damaged, not a checkpoint of qkv; two
 *   tensors or metadata keys of one name; tensors that overlap or leave bytes between them;
 * - the model: a tensor is missing, unknown, or has another shape: `runs/x/best.safetensors: encoder.1.self.query.weight is
 *   [64, 64], but the model has [32, 32]`;
 * - the optimizer: it was not initialised, or was made for parameters of another size or dtype; the file has no moments,
 *   those of another optimizer, or no moving average where the optimizer has one;
 * - the version: the file has a newer format than QKV_CHECKPOINT_FORMAT. */
QKV_API enum qkv_status qkv_checkpoint_load(const char *path, struct qkv_parameters *parameters,
                                            struct qkv_optimizer_state *optimizer, struct qkv_state *state,
                                            struct qkv_error *error);

/* ---- parameters by name, from files of any program ---- */

/* Names in the arena of the report, which outlive parameters and file. */
struct qkv_names {
    int64_t count;
    const char *const *name; /* [count] */
};

/* What qkv_parameters_load found. Caller's storage, which the function also fills in when it fails because of missing,
 * reshaped or superfluous names. */
struct qkv_load_report {
    int64_t loaded;               /* parameters that the file has */
    struct qkv_names missing;     /* parameters that the file lacks, in the order of the parameters */
    struct qkv_names reshaped;    /* parameters that the file has in another shape */
    struct qkv_names superfluous; /* tensors that are not parameters, in the order of the file */
    struct qkv_arena arena;
};

/* Reads parameters, which must be allocated, by their names from a safetensors file of any program: F32, F64, F16 or BF16,
 * with or without the checksum of qkv. The optimizer's part of a checkpoint of qkv is ignored. Fails, and changes no
 * parameter, when the file is not valid or holds another type, and, unless `is_partial`, when the names and shapes of file
 * and parameters are not the same: `weights.safetensors: 2 parameters are missing (a.weight, a.bias); 1 parameter has
 * another shape (b.weight): b.weight is [4, 2], but the model has [2, 2]`. With `is_partial`, parameters that are missing
 * or reshaped keep their values, and the report lists them. After a parameter has been loaded, products are no longer int8,
 * as after qkv_checkpoint_load. `report` may be NULL; otherwise the caller releases it. */
QKV_API enum qkv_status qkv_parameters_load(const char *path, struct qkv_parameters *parameters,
                                            bool is_partial, struct qkv_load_report *report,
                                            struct qkv_error *error);
QKV_API void qkv_load_report_release(struct qkv_load_report *report);

#endif
