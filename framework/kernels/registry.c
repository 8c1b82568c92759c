/* Picks the kernels that fit the processor. Compiled once, unlike the other files of this folder. */
#include "kernels/registry.h"

#include <stdlib.h>
#include <string.h>

/* VARIANT calls ROW for every row of variants.def whose architecture this is compiled for. */
#define VARIANT(architecture, ...) VARIANT_##architecture(__VA_ARGS__)
#define VARIANT_any(...)           ROW(__VA_ARGS__)
#ifdef __x86_64__
#    define VARIANT_x86_64(...) ROW(__VA_ARGS__)
#    define HAS(feature)        __builtin_cpu_supports(feature)
#else
#    define VARIANT_x86_64(...)
#endif

#define ROW(name, precision, flags, condition)                                                               \
    extern const struct qkv_kernels qkv_kernels_##precision##_##name;                                        \
    static bool runs_##precision##_##name(void)                                                              \
    {                                                                                                        \
        return condition;                                                                                    \
    }
#include "kernels/variants.def"
#undef ROW

enum precision { float32 = QKV_FLOAT32, float64 = QKV_FLOAT64 };

static const struct variant {
    const char *name;
    enum precision precision;
    const struct qkv_kernels *kernels;
    bool (*runs_here)(void);
} VARIANTS[] = {
#define ROW(name, precision, flags, condition)                                                               \
    {#name, precision, &qkv_kernels_##precision##_##name, runs_##precision##_##name},
#include "kernels/variants.def"
#undef ROW
};

/* The variant that QKV_KERNELS names if it runs here, else the fastest that does. */
static const struct qkv_kernels *kernels_of(enum qkv_dtype dtype)
{
    const char *wanted = getenv("QKV_KERNELS");
    const struct variant *chosen = NULL;
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
        const struct variant *variant = &VARIANTS[i];
        if ((int)variant->precision != (int)dtype || !variant->runs_here()) continue;
        if (!chosen || (wanted && !strcmp(variant->name, wanted))) chosen = variant;
    }
    return chosen->kernels;
}

const struct qkv_op *const *qkv_registry(enum qkv_dtype dtype)
{
    return kernels_of(dtype)->op;
}

const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype)
{
    return kernels_of(dtype)->optimizer;
}

const struct qkv_op *qkv_op_rule(enum qkv_op_id op)
{
    return qkv_kernels_float64_portable.op[op];
}
