/* The optimizer's loops over a range of the flat parameter block: one struct of functions for each
 * precision and instruction set, chosen as the ops are. They are no ops: they run outside of any graph.
 * All pointers are to the first number of the range. */
#ifndef QKV_KERNELS_OPTIMIZER_H
#define QKV_KERNELS_OPTIMIZER_H

#include "qkv/config.h"
#include "qkv/graph.h"

enum { QKV_UPDATE_SCALARS = 4 };

/* What the loop of an update needs beside its arrays. */
struct qkv_update {
    const struct qkv_training_config *settings;
    double clip;                        /* factor on the gradient: clipping by norm */
    double scalars[QKV_UPDATE_SCALARS]; /* what `prepare` computed, once for all ranges */
};

/* One optimizer: what kernels/optimizer_<name>.c defines, with OPTIMIZER_KERNEL of optimizer_loop.h. */
struct qkv_optimizer_kernel {
    /* Fills update->scalars for update number `t`, from 1. NULL: there is nothing to compute. As a shape
     * rule of an op, it is compiled for one variant only (RULE), so that all variants get the same
     * scalars. */
    void (*prepare)(struct qkv_update *update, double learning_rate, int64_t t);
    /* Updates the moments, then the values, of `n` parameters. `moments`: as many arrays as the row of
     * qkv/optimizers.def says. */
    void (*update)(int64_t n, const struct qkv_update *update, const void *gradient, void *const *moments,
                   void *values);
};

struct qkv_optimizer_kernels {
    /* sum = (sum + the `count` blocks from their number `offset` on) * scale. Returns the sum of squares of
     * the result. */
    double (*reduce)(int64_t n, void *sum, int count, void *const *blocks, int64_t offset, double scale);
    /* Clips each number to +-limit (NaN stays) and returns the sum of squares of the result. */
    double (*clip)(int64_t n, void *gradient, double limit);
    const struct qkv_optimizer_kernel *optimizer[QKV_OPTIMIZER_COUNT]; /* by enum qkv_optimizer_kind */
};

/* Of the fastest variant that this processor runs, or of the one that QKV_KERNELS names (registry.c). */
const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype);

#endif
