/* AdamW (Loshchilov and Hutter 2019): Adam with weight decay of the parameters, not of the
 * gradient. */
#include "kernels/optimizer_adam.h"

static void adamw_prepare(struct qkv_update *update, double learning_rate, int64_t t)
{
    adam_prepare_bias(update, learning_rate, t);
    update->scalars[ADAM_DECAY] = 0;
    update->scalars[ADAM_KEEP] = 1 - learning_rate * update->options->weight_decay;
}

OPTIMIZER_KERNEL(adamw, .prepare = RULE(adamw_prepare), .update = adam_update);
