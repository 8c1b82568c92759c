/* The table of all ops of this precision and instruction set. */
#include "graph/graph.h"

#define QKV_PASTE_(a, b, c, d) a##b##_##c##_##d
#define QKV_PASTE(a, b, c, d)  QKV_PASTE_(a, b, c, d)
#define VARIANT(prefix, name)  QKV_PASTE(prefix, name, QKV_KERNEL_PRECISION, QKV_KERNEL_VARIANT)
#define TABLE_(a, b)           qkv_table_##a##_##b
#define TABLE(a, b)            TABLE_(a, b)

#define OP(name, parameters, inputs, options) extern const struct qkv_op VARIANT(qkv_op_, name);
#include "qkv/ops.def"
#undef OP

extern const struct qkv_op *const TABLE(QKV_KERNEL_PRECISION, QKV_KERNEL_VARIANT)[QKV_OP_COUNT];
const struct qkv_op *const TABLE(QKV_KERNEL_PRECISION, QKV_KERNEL_VARIANT)[QKV_OP_COUNT] = {
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = &VARIANT(qkv_op_, name),
#include "qkv/ops.def"
#undef OP
};
