/* Checkpoints: parameters, the optimizer's moments and the state of training, in one safetensors file
 * (https://github.com/huggingface/safetensors), which numpy, PyTorch and others read as well:
 *
 *     8 bytes  length of the header, little-endian
 *     header   JSON, {"__metadata__": {key: text, ...}, name: {"dtype", "shape", "data_offsets"}, ...}, then
 *              spaces so that the data starts at a multiple of 64 bytes
 *     data     the tensors without gaps, row-major, little-endian, F32 or F64
 *
 * Tensors: the values under the names of their parameters; the moments as `optimizer.first.<name>` and
 * `optimizer.second.<name>`. The state of training lies in __metadata__, next to four keys that belong to
 * this format, the last two only where there are moments:
 *
 *     qkv.format             1
 *     qkv.crc32              CRC-32 of the whole file, 8 hexadecimal digits, taken with these as zeros: a
 *                            damaged byte is found wherever it is
 *     qkv.optimizer          adam, adamw or sgd
 *     qkv.optimizer.updates  updates done, for the bias correction
 *
 * Writing is atomic (file.h): a full disk or a kill leaves the file that was there before. */
#ifndef QKV_CHECKPOINT_H
#define QKV_CHECKPOINT_H

#include "qkv/arena.h"
#include "qkv/error.h"
#include "qkv/parameters.h"

/* ---- the state of training: texts under keys, in order ---- */

struct qkv_state_entry {
    const char *key, *text;
};

/* Caller's storage, all zero at first. */
struct qkv_state {
    int64_t count, room;
    struct qkv_state_entry *list;
    bool failed; /* out of memory while setting; qkv_checkpoint_save then refuses */
    struct qkv_arena arena;
};

/* Sets a key, anew or in its place. Key and text are copied; both are UTF-8. Keys that begin with `qkv.` are
 * reserved. Numbers are written so that they read back exactly; infinities and NaN as inf, -inf, nan. */
QKV_API void qkv_state_set(struct qkv_state *state, const char *key, const char *text);
QKV_API void qkv_state_set_integer(struct qkv_state *state, const char *key, int64_t value);
QKV_API void qkv_state_set_number(struct qkv_state *state, const char *key, double value);

/* The text of a key, or NULL. */
QKV_API const char *qkv_state_get(const struct qkv_state *state, const char *key);

/* The number of a key. Fails, and leaves `value` alone, when the key is missing or its text is no such
 * number: `epoch is missing` or `epoch is "x", but must be a whole number`; the caller adds the place. */
QKV_API enum qkv_status qkv_state_get_integer(const struct qkv_state *state, const char *key, int64_t *value,
                                              struct qkv_error *error);
QKV_API enum qkv_status qkv_state_get_number(const struct qkv_state *state, const char *key, double *value,
                                             struct qkv_error *error);

QKV_API void qkv_state_release(struct qkv_state *state);

/* ---- files ---- */

/* Version of the format of run folders and checkpoints that this library writes. It reads all up to it. */
enum { QKV_RUN_FORMAT = 1 };

enum { QKV_MOMENTS_MOST = 3 };

/* What a checkpoint keeps of an optimizer. */
struct qkv_optimizer_state {
    const char *name;                /* of the optimizer, as training.optimizer has it */
    int64_t updates;                 /* done so far */
    int moment_count;                /* numbers kept beside each parameter: m, v */
    void *moments[QKV_MOMENTS_MOST]; /* [moment_count], each laid out as the values of the parameters */
};

/* Writes a checkpoint, in the parameters' dtype. `optimizer` NULL: values only. `state` NULL: none. */
QKV_API enum qkv_status qkv_checkpoint_save(const char *path, const struct qkv_parameters *parameters,
                                            const struct qkv_optimizer_state *optimizer,
                                            const struct qkv_state *state, struct qkv_error *error);

/* Reads a checkpoint into parameters (and an optimizer) that are allocated already, converting between
 * float32 and float64 where the file has the other. `optimizer` NULL: values only; the file may have moments
 * or not. `state` (empty, or NULL) gets all keys but the format's own, also where the tensors do not fit: it
 * may tell why. On failure nothing else has changed. What fails:
 * - the file: not there, not a safetensors file, cut short, damaged, not a checkpoint of qkv;
 * - the model: a tensor is missing, is one that the model does not have, or has another shape:
 *   `runs/x/best.safetensors: encoder.1.self.query.weight is [64, 64], but the model has [32, 32]`;
 * - the optimizer: no moments in the file, or those of another kind. */
QKV_API enum qkv_status qkv_checkpoint_load(const char *path, struct qkv_parameters *parameters,
                                            struct qkv_optimizer_state *optimizer, struct qkv_state *state,
                                            struct qkv_error *error);

#endif
