#include "graph/graph.h"
#include "kernels/optimizer.h"

#include <stdlib.h>
#include <string.h>

/* framework/kernels/table.c makes one table a variant. The portable one is compiled everywhere; tests and the
 * curious force it with QKV_KERNELS=portable. */
#define TABLE(precision, variant)                                                                            \
    extern const struct qkv_op *const qkv_table_##precision##_##variant[QKV_OP_COUNT];                       \
    extern const struct qkv_optimizer_kernels qkv_optimizer_##precision##_##variant;

TABLE(float32, portable)
TABLE(float64, portable)
#ifdef QKV_HAVE_X86_VARIANTS
TABLE(float32, avx2)
TABLE(float32, avx512)
#endif

struct variant {
    const char *name;
    const struct qkv_op *const *table[2]; /* by dtype, as below */
    const struct qkv_optimizer_kernels *optimizer[2];
};

/* name, and the variants that serve single and double precision */
#define VARIANT(name, single, whole)                                                                         \
    {                                                                                                        \
        name, {qkv_table_float32_##single, qkv_table_float64_##whole},                                       \
        {                                                                                                    \
            &qkv_optimizer_float32_##single, &qkv_optimizer_float64_##whole                                  \
        }                                                                                                    \
    }

/* Fastest first. */
static const struct variant VARIANTS[] = {
#ifdef QKV_HAVE_X86_VARIANTS
    VARIANT("avx512", avx512, portable), /* in double precision not worth its size */
    VARIANT("avx2", avx2, portable),
#endif
    VARIANT("portable", portable, portable),
};

enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

static bool runs_here(const char *name)
{
#ifdef QKV_HAVE_X86_VARIANTS
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
    if (!strcmp(name, "avx512")) return avx512;
    if (!strcmp(name, "avx2")) return avx2;
#endif
    return !strcmp(name, "portable");
}

static const struct variant *fastest_variant(void)
{
    const char *wanted = getenv("QKV_KERNELS");
    const struct variant *fastest = NULL;
    for (int i = VARIANT_COUNT - 1; i >= 0; i--) {
        if (!runs_here(VARIANTS[i].name)) continue;
        if (!fastest || !wanted || strcmp(fastest->name, wanted) != 0) fastest = &VARIANTS[i];
    }
    return fastest;
}

const struct qkv_op *const *qkv_registry(enum qkv_dtype dtype)
{
    return fastest_variant()->table[dtype];
}

const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype)
{
    return fastest_variant()->optimizer[dtype];
}

const struct qkv_op *qkv_op_rule(enum qkv_op_id op)
{
    return qkv_table_float64_portable[op];
}

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
