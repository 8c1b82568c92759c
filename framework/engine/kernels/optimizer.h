/* The optimizer's loops over a range of the flat parameter block: one struct of functions for each
 * precision and instruction set, chosen as the ops are. Unlike ops, they run outside of any graph.
 * A range has `n` numbers, and pointers point to its first, except the `blocks` of sum and reduce. */
#ifndef QKV_KERNELS_OPTIMIZER_H
#define QKV_KERNELS_OPTIMIZER_H

#include "qkv/graph.h"
#include "qkv/optimizer_options.h"

enum { QKV_UPDATE_SCALARS = 4 };

/* The arguments of an update other than its arrays. */
struct qkv_update {
    const struct qkv_optimizer_options *options;
    double clip;                        /* factor on the gradient: clipping by norm */
    double scalars[QKV_UPDATE_SCALARS]; /* results of `prepare`, computed once for all ranges */
};

/* One optimizer: what kernels/optimizer_<name>.c defines, with OPTIMIZER_KERNEL of
 * optimizer_loop.h. */
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
    const struct qkv_optimizer_kernel *optimizer[QKV_OPTIMIZER_COUNT]; /* by enum qkv_optimizer_kind */
};

/* The loops of the fastest variant that this processor runs, or of the variant that the environment
 * variable QKV_KERNELS names. */
const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype);

#endif
