/* Matches the tensors of a file with the parameters of the same names. */
#ifndef QKV_RUN_WEIGHTS_H
#define QKV_RUN_WEIGHTS_H

#include "checkpoint/safetensors.h"
#include "qkv/checkpoint.h"

static inline bool qkv_shapes_equal(struct qkv_shape a, struct qkv_shape b)
{
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; i++)
        if (a.size[i] != b.size[i]) return false;
    return true;
}

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

#endif
