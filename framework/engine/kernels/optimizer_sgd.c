/* Gradient descent with momentum (Polyak 1964) or Nesterov's momentum (Sutskever et al. 2013), as in PyTorch's SGD. */
#include "kernels/optimizer_loop.h"

enum { RATE };

static void sgd_prepare(struct qkv_update *update, double learning_rate, int64_t t)
{
    (void)t;
    update->scalars[RATE] = learning_rate;
}

/* g = clip * gradient + decay * theta; m = momentum * m + g; theta -= rate * m, with the learning rate; Nesterov:
 * theta -= rate * (g + momentum * m) */
static void sgd_update(int64_t n, const struct qkv_update *update, const void *gradient, void *const *moments,
                       void *values)
{
    const real *restrict dtheta = gradient;
    real *restrict m = moments[0], *restrict theta = values;
    const real clip = (real)update->clip, decay = (real)update->options->weight_decay;
    const real momentum = (real)update->options->momentum, rate = (real)update->scalars[RATE];
    const bool is_nesterov = update->options->nesterov;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real g = dtheta[i] * clip + decay * theta[i];
        m[i] = without_subnormal(momentum * m[i] + g);
        theta[i] -= rate * (is_nesterov ? g + momentum * m[i] : m[i]);
    }
}

OPTIMIZER_KERNEL(sgd, .prepare = RULE(sgd_prepare), .update = sgd_update);
