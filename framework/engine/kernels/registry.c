/* Picks the kernels that fit the processor. Compiled once, unlike the other files of this folder. */
#include "kernels/registry.h"

#include "core/system.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

/* The rows of variants.def are calls VARIANT(architecture, ...), unrelated to VARIANT of kernel.h. Those for the
 * architecture that this is compiled for become ROW(...). */
#define VARIANT(architecture, ...) VARIANT_##architecture(__VA_ARGS__)
#define VARIANT_any(...)           ROW(__VA_ARGS__)
#if defined __x86_64__ && !defined QKV_PORTABLE
#    define VARIANT_x86_64(...) ROW(__VA_ARGS__)
#    define HAS(feature)        __builtin_cpu_supports(feature)
#else
#    define VARIANT_x86_64(...)
#endif

#define ROW(name, precision, flags, condition, core, other_cores)                                            \
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
    const char *core, *other_cores; /* of OpenBLAS */
} VARIANTS[] = {
#define ROW(name, precision, flags, condition, core, other_cores)                                            \
    {#name, precision, &qkv_kernels_##precision##_##name, runs_##precision##_##name, core, other_cores},
#include "kernels/variants.def"
#undef ROW
};

/* The variant `wanted` if it runs here, else the fastest that does. */
static const struct variant *find_variant(enum qkv_dtype dtype, const char *wanted)
{
    const struct variant *chosen = NULL;
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
        const struct variant *variant = &VARIANTS[i];
        if ((int)variant->precision != (int)dtype || !variant->runs_here()) continue;
        if (!chosen || (wanted && !strcmp(variant->name, wanted))) chosen = variant;
    }
    return chosen;
}

/* The variant that QKV_KERNELS names, or the fastest one; QKV_KERNELS=blas also uses the fastest one. */
static const struct variant *variant_of(enum qkv_dtype dtype)
{
    return find_variant(dtype, qkv_blas_is_wanted() ? NULL : qkv_wanted_kernels());
}

/* The values of QKV_KERNELS: all variants, also those for other architectures, so that a script that sets it runs
 * everywhere; and BLAS. */
static const char *const KNOWN[] = {
#undef VARIANT
#define VARIANT(architecture, name, ...) #name,
#include "kernels/variants.def"
    QKV_KERNELS_BLAS,
};

enum { KNOWN_COUNT = sizeof KNOWN / sizeof *KNOWN };

static bool is_known(const char *name, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(KNOWN[i], name)) return true;
    return false;
}

enum qkv_status qkv_kernels_check(struct qkv_error *error)
{
    char names[256] = "";
    const char *wanted = qkv_wanted_kernels();
    if (!wanted || is_known(wanted, KNOWN_COUNT)) return qkv_bfloat16_check(error);
    for (size_t i = 0, used = 0; i < KNOWN_COUNT && used < sizeof names; i++)
        if (!is_known(KNOWN[i], i)) /* list each name once: it has a row for each precision */
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", KNOWN[i]);
    return qkv_error_set(error, "the environment variable QKV_KERNELS is '%s', but must be one of %s", wanted,
                         names);
}

/* See registry.h. Only OpenBLAS that is built with DYNAMIC_ARCH chooses when it is loaded. */
static const char *better_blas_core(void)
{
    const struct variant *fastest = find_variant(QKV_FLOAT32, NULL);
    const char *core = openblas_get_corename();
    bool fits = !fastest->core || !strcmp(core, fastest->core) || strstr(fastest->other_cores, core);
    return fits || !strstr(openblas_get_config(), "DYNAMIC_ARCH") ? NULL : fastest->core;
}

enum qkv_status qkv_kernels_in_use(struct qkv_kernel_names *names, struct qkv_error *error)
{
    const struct variant *single = variant_of(QKV_FLOAT32);
    if (names)
        *names = (struct qkv_kernel_names){.float32 = single->name,
                                           .bfloat16_instruction = single->kernels->bfloat16_instruction(),
                                           .int8_instruction = single->kernels->int8_instruction(),
                                           .float64 = variant_of(QKV_FLOAT64)->name,
                                           .is_float32_by_blas = qkv_blas_is_wanted(),
                                           .blas_core = openblas_get_corename(),
                                           .better_blas_core = better_blas_core(),
                                           .blas_config = openblas_get_config()};
    return qkv_kernels_check(error);
}

const struct qkv_op *const *qkv_registry(enum qkv_dtype dtype)
{
    return variant_of(dtype)->kernels->op;
}

const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype)
{
    return variant_of(dtype)->kernels->optimizer;
}

const struct qkv_op *qkv_op_rule(enum qkv_op_id op)
{
    return qkv_kernels_float64_portable.op[op];
}
