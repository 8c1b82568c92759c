/* Names of the ops and of their inputs, from ops.def. */
#include "graph/graph.h"

#include <string.h>

static const char *const NAMES[QKV_OP_COUNT] = {
    [QKV_OP_leaf] = "leaf",
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = #name,
#include "qkv/ops.def"
#undef OP
};

/* "(x, weight, bias)" */
static const char *const INPUTS[QKV_OP_COUNT] = {
    [QKV_OP_leaf] = "()",
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = #inputs,
#include "qkv/ops.def"
#undef OP
};

const char *qkv_op_name(enum qkv_op_id op)
{
    return (int)op >= 0 && (int)op < QKV_OP_COUNT ? NAMES[op] : "unknown op";
}

const char *qkv_op_input_name(enum qkv_op_id op, int i, int *length)
{
    const char *name = INPUTS[op] + 1;
    for (; i > 0 && strchr(name, ','); i--) name = strchr(name, ',') + 2;
    *length = (int)strcspn(name, ",)");
    return name;
}
