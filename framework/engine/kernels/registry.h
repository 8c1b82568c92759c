/* The optimizer's loops over a range of the flat parameter block: one struct of functions for each
 * precision and instruction set, chosen as the ops are. Unlike ops, they run outside of any graph.
 * A range has `n` numbers, and pointers point to its first, except the `blocks` of sum and reduce. */
#pragma once

#include "graph/graph.h"

enum { QKV_UPDATE_SCALARS = 4 };

/* The arguments of an update other than its arrays. */
struct qkv_update {
    const struct qkv_optimizer_options *options;
    double clip;                        /* factor on the gradient: clipping by norm */
    double scalars[QKV_UPDATE_SCALARS]; /* results of `prepare`, computed once for all ranges */
};

/* One optimizer: what kernels/optimizer.c defines with OPTIMIZER_KERNEL. */
struct qkv_optimizer_kernel {
    /* Fills update->scalars for update number `t`, which counts from 1. NULL: there are no scalars.
     * Only one variant carries it (see RULE in kernel.h), so that all variants use the same
     * scalars. */
    void (*prepare)(struct qkv_update *update, double learning_rate, int64_t t);
    /* Updates the moments, then the values, of `n` parameters. moments: one array of n numbers for
     * each moment that the optimizer's row in qkv/optimizers.def counts. */
    void (*update)(int64_t n, const struct qkv_update *update, const void *gradient, void *const *moments,
                   void *values);
};

/* The optimizer loops of one variant of kernels/: those that all optimizers use, and those of each optimizer. */
struct qkv_optimizer_kernels {
    /* Sums a range of the blocks into the first, in the tree of core/exchange.h. Changes the other blocks, too. Each block is a
     * gradient of all parameters, from the first on; the range begins at its number `offset`. */
    void (*sum)(int64_t n, int count, void *const *blocks, int64_t offset);
    /* Sums as `sum` does, multiplies the sum by the scale, and returns the sum of squares of the result, which all variants
     * add in the same order. */
    double (*reduce)(int64_t n, int count, void *const *blocks, int64_t offset, double scale);
    /* Clips each number to +-limit (NaN stays) and returns the sum of squares of the result. */
    double (*clip)(int64_t n, void *gradient, double limit);
    /* Moves the average of each value towards it: average += weight (value - average). */
    void (*average)(int64_t n, double weight, const void *values, void *average);
    bool (*are_finite)(int64_t n, const void *values);
    const struct qkv_optimizer_kernel *optimizer[QKV_OPTIMIZER_COUNT]; /* by enum qkv_optimizer_kind */
};

/* The loops of the fastest variant that this processor runs, or of the variant that the environment
 * variable QKV_KERNELS names. */
const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype);

/* The interface of each variant of kernels/: it exports one struct, qkv_kernels_<precision>_<variant>. */

struct qkv_kernels {
    const struct qkv_op *op[QKV_OP_COUNT]; /* by enum qkv_op_id; NULL for the leaf */
    const struct qkv_optimizer_kernels *optimizer;
    /* The name of the processor's instruction for such products, or NULL. In float64 both function pointers are NULL. */
    const char *(*bfloat16_instruction)(void), *(*int8_instruction)(void);
};

/* Reports which kernels this machine uses: qkv's own kernels for all ops, and OpenBLAS's for large products in float64 and,
 * on request, in float32.
 *
 * Both libraries choose at run time the fastest kernels that the processor can run. Environment variables choose others:
 * QKV_KERNELS=avx2 for qkv, OPENBLAS_CORETYPE=Haswell for OpenBLAS. All float32 kernels of qkv give the same bits on every
 * processor.
 *
 * QKV_KERNELS=blas uses the fastest variant of qkv's kernels, but OpenBLAS for large products in float32, which may be
 * faster. Results are then no longer reproducible between machines: they depend on the core type and version of OpenBLAS,
 * and the last bits of a row of a product may depend on the size of the batch. The number of threads still changes no bit.
 * The library reads the variable once, when the process makes its first graph or optimizer or first calls
 * qkv_kernels_in_use; the choice then holds for the whole process.
 *
 * OpenBLAS may not recognise a newer processor, and then uses kernels that are several times slower; better_blas_core
 * reports this. OpenBLAS chooses its kernels when it is loaded, so a program that needs the speed sets OPENBLAS_CORETYPE to
 * better_blas_core and executes itself again, as the commands of qkv do with QKV_KERNELS=blas; the library never does. */

/* Static texts. */
struct qkv_kernel_names {
    /* Variants of qkv's kernels: "avx512", "avx2" or "portable" for float32, always "portable" for float64. */
    const char *float32, *float64;
    /* The instructions of this processor with which qkv's kernels multiply bfloat16 ("amx" or "vdpbf16ps") and int8
     * ("vpdpbusd", "amx and vpdpbusd"). NULL: those of float32, because the processor has none or only slower ones, or because
     * QKV_KERNELS or QKV_BFLOAT16 excludes them. */
    const char *bfloat16_instruction, *int8_instruction;
    /* QKV_KERNELS=blas: OpenBLAS computes large products in float32, too. */
    bool is_float32_by_blas;
    /* The processor whose kernels OpenBLAS uses: "SkylakeX". */
    const char *blas_core;
    /* NULL, or, where blas_core does not fit this processor, the value of OPENBLAS_CORETYPE that does: "SkylakeX". Always
     * NULL where OpenBLAS was built for one core only. */
    const char *better_blas_core;
    /* OpenBLAS's version and how it was built: "OpenBLAS 0.3.26 DYNAMIC_ARCH ...". */
    const char *blas_config;
};

/* QKV_INVALID when QKV_KERNELS is set, but neither to the name of a variant nor to blas: then building a graph and making
 * an optimizer also fail. A variant that this processor cannot run, or that does not exist for a precision, is replaced by
 * the fastest one that it can run. `names` may be NULL. */
enum qkv_status qkv_kernels_in_use(struct qkv_kernel_names *names, struct qkv_error *error);
