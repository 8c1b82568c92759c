/* The functions qkv_<op>, one per row of ops.def. */
#include "graph/graph.h"
#include "graph/internal.h"

#define OP(name, parameters, inputs, ...)                                                                    \
    struct qkv_tensor *qkv_##name(struct qkv_graph *graph, QKV_UNWRAP parameters)                            \
    {                                                                                                        \
        return qkv_node(graph, QKV_OP_##name, (struct qkv_tensor *[QKV_MAX_INPUTS]){QKV_UNWRAP inputs},      \
                        &(struct qkv_options){QKV_UNWRAP __VA_ARGS__});                                      \
    }
#include "qkv/ops.def"
#undef OP
