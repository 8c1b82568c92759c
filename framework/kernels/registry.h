/* What each variant of kernels/ exports: one struct, named qkv_kernels_<precision>_<variant>. */
#ifndef QKV_KERNELS_REGISTRY_H
#define QKV_KERNELS_REGISTRY_H

#include "graph/graph.h"
#include "kernels/optimizer.h"

struct qkv_kernels {
    const struct qkv_op *op[QKV_OP_COUNT]; /* by enum qkv_op_id; NULL for the leaf */
    const struct qkv_optimizer_kernels *optimizer;
    /* The instruction of this processor that multiplies these numbers, or NULL; both functions NULL in float64. */
    const char *(*bfloat16_instruction)(void), *(*int8_instruction)(void);
};

#endif
