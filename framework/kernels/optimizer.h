/* The loops of the optimizer over a range of the flat parameter block: one table of functions a precision and
 * instruction set, chosen as the ops are. All pointers are to the first number of the range. */
#ifndef QKV_KERNELS_OPTIMIZER_H
#define QKV_KERNELS_OPTIMIZER_H

#include "qkv/graph.h"

/* What an update needs beside its arrays; the formulas are those of qkv/optimizer.h. */
struct qkv_update {
    double clip;  /* multiplies the gradient: norm clipping */
    double rate;  /* lr; for Adam divided by 1 - beta1^t */
    double decay; /* adds decay theta to the gradient */
    double keep;  /* multiplies theta first: 1 - lr d of AdamW, else 1 */
    double betas[2], epsilon;
    double root; /* multiplies sqrt(v): 1 / sqrt(1 - beta2^t) */
    double momentum;
};

struct qkv_optimizer_kernels {
    /* Makes `sum` the sum of itself and the `others` blocks, from their number `offset` on, times scale.
     * Returns the sum of squares. */
    double (*gather)(int64_t n, void *sum, int others, void *const *blocks, int64_t offset, double scale);
    /* Clips to +-limit (NaN stays) and returns the sum of squares. */
    double (*clip)(int64_t n, void *gradient, double limit);
    void (*adam)(int64_t n, const struct qkv_update *update, const void *gradient, void *first, void *second,
                 void *values);
    void (*sgd)(int64_t n, const struct qkv_update *update, const void *gradient, void *first, void *values);
};

/* The table for a precision, the fastest that this machine runs. */
const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype);

#endif
