/* Adam (Kingma and Ba 2015), with weight decay in the gradient (L2). */
#include "kernels/optimizer_adam.h"

static void adam_prepare(struct qkv_update *update, double learning_rate, int64_t t)
{
    adam_prepare_bias(update, learning_rate, t);
    update->scalars[ADAM_DECAY] = update->options->weight_decay;
    update->scalars[ADAM_KEEP] = 1;
}

OPTIMIZER_KERNEL(adam, .prepare = RULE(adam_prepare), .update = adam_update);
