/* The loop that Adam and AdamW share; only their scalars differ. */
#ifndef QKV_KERNELS_OPTIMIZER_ADAM_H
#define QKV_KERNELS_OPTIMIZER_ADAM_H

#include "kernels/optimizer_loop.h"

#include "core/numbers.h"

/* Indices of update->scalars: rate = learning rate / (1 - beta1^t); root = 1 / sqrt(1 - beta2^t);
 * decay * theta is added to the gradient; theta is multiplied by keep. */
enum { ADAM_RATE, ADAM_ROOT, ADAM_DECAY, ADAM_KEEP };

/* Bias correction of both. Called only by functions in RULE(...), so it is unused in most variants. */
__attribute__((unused)) static void adam_prepare_bias(struct qkv_update *update, double learning_rate,
                                                      int64_t t)
{
    const double *betas = update->options->adam_betas;
    update->scalars[ADAM_RATE] = learning_rate / (1 - qkv_scalar_power(betas[0], (double)t));
    update->scalars[ADAM_ROOT] = 1 / sqrt(1 - qkv_scalar_power(betas[1], (double)t));
}

/* g = clip * gradient + decay * theta; m and v: moving averages of g and g^2;
 * theta = keep * theta - rate * m / (sqrt(v) * root + epsilon) */
static void adam_update(int64_t n, const struct qkv_update *update, const void *gradient,
                        void *const *moments, void *values)
{
    const double *betas = update->options->adam_betas, *scalars = update->scalars;
    const real *restrict dtheta = gradient;
    real *restrict m = moments[0], *restrict v = moments[1], *restrict theta = values;
    const real clip = (real)update->clip, decay = (real)scalars[ADAM_DECAY], keep = (real)scalars[ADAM_KEEP];
    const real beta1 = (real)betas[0], rest1 = (real)(1 - betas[0]);
    const real beta2 = (real)betas[1], rest2 = (real)(1 - betas[1]);
    const real rate = (real)scalars[ADAM_RATE], root = (real)scalars[ADAM_ROOT];
    const real epsilon = (real)update->options->adam_epsilon;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        real g = dtheta[i] * clip + decay * theta[i];
        m[i] = without_subnormal(beta1 * m[i] + rest1 * g);
        v[i] = without_subnormal(beta2 * v[i] + rest2 * g * g);
        theta[i] = keep * theta[i] - rate * m[i] / (REAL(sqrt)(v[i]) * root + epsilon);
    }
}

#endif
