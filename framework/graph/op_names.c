/* Names of the ops, from ops.def. */
#include "qkv/ops.h"

static const char *const NAMES[QKV_OP_COUNT] = {
    [QKV_OP_leaf] = "leaf",
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = #name,
#include "qkv/ops.def"
#undef OP
};

const char *qkv_op_name(enum qkv_op_id op)
{
    return (int)op >= 0 && (int)op < QKV_OP_COUNT ? NAMES[op] : "unknown op";
}
