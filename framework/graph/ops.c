/* The constructors and the names of the ops: one of each per row of ops.def. */
#include "graph/graph.h"

#define OP(name, parameters, inputs, ...)                                                                    \
    struct qkv_tensor *qkv_##name(struct qkv_graph *graph, QKV_UNWRAP parameters)                            \
    {                                                                                                        \
        return qkv_node(graph, QKV_OP_##name, (struct qkv_tensor *[QKV_MAX_INPUTS]){QKV_UNWRAP inputs},      \
                        &(struct qkv_options){QKV_UNWRAP __VA_ARGS__});                                      \
    }
#include "qkv/ops.def"
#undef OP

static const char *const NAMES[QKV_OP_COUNT] = {
    [QKV_OP_leaf] = "leaf",
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = #name,
#include "qkv/ops.def"
#undef OP
};

const char *qkv_op_name(enum qkv_op_id op)
{
    return NAMES[op];
}
