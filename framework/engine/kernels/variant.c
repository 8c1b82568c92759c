/* The kernels of one precision and instruction set, as one struct, from which registry.c chooses. */
#include "kernels/narrow.h"
#include "kernels/registry.h"

#undef OP /* of kernel.h: the block of an op */
#define OP(name, parameters, inputs, options) extern const struct qkv_op VARIANT(qkv_op_, name);
#include "qkv/ops.def"
#undef OP

extern const struct qkv_optimizer_kernels VARIANT(qkv_, optimizer);
extern const struct qkv_kernels VARIANT(qkv_, kernels);
const struct qkv_kernels VARIANT(qkv_, kernels) = {
    .op =
        {
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = &VARIANT(qkv_op_, name),
#include "qkv/ops.def"
#undef OP
        },
    .optimizer = &VARIANT(qkv_, optimizer),
#ifdef QKV_KERNEL_IS_float32
    .bfloat16_instruction = VARIANT(qkv_, bfloat16_instruction),
    .int8_instruction = VARIANT(qkv_, int8_instruction),
#endif
};
