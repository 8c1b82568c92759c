/* The options of an optimizer. optimizer.h explains them, and has the functions.
 *
 * Example:
 *     const struct qkv_optimizer_options sgd = {.optimizer = QKV_OPTIMIZER_SGD, .momentum = 0.9};
 *     printf("optimizer %d, momentum %g\n", (int)sgd.optimizer, sgd.momentum);
 */
#ifndef QKV_OPTIMIZER_OPTIONS_H
#define QKV_OPTIMIZER_OPTIONS_H

#include "qkv/base.h"

#include <stdbool.h>

/* Which optimizer, and the numbers of the formulas of optimizer.h. Each optimizer reads some of them. */
struct qkv_optimizer_options {
    enum qkv_optimizer_kind optimizer;
    double adam_betas[2]; /* at least 0 and less than 1; 0 switches a moving average off */
    double adam_epsilon;  /* greater than 0 */
    double momentum;      /* of sgd: at least 0 and less than 1 */
    bool nesterov;
    double weight_decay;                  /* at least 0 */
    double clip_grad_norm, clip_grad_val; /* at least 0; 0: no clipping */
    double ema; /* decay of the moving average: at least 0 and less than 1; 0: no average */
};

#endif
