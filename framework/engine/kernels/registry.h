/* The interface of each variant of kernels/: it exports one struct, qkv_kernels_<precision>_<variant>. */
#ifndef QKV_KERNELS_REGISTRY_H
#define QKV_KERNELS_REGISTRY_H

#include "graph/graph.h"
#include "kernels/optimizer.h"

struct qkv_kernels {
    const struct qkv_op *op[QKV_OP_COUNT]; /* by enum qkv_op_id; NULL for the leaf */
    const struct qkv_optimizer_kernels *optimizer;
    /* The name of the processor's instruction for such products, or NULL. In float64 both function pointers are NULL. */
    const char *(*bfloat16_instruction)(void), *(*int8_instruction)(void);
};

#endif
