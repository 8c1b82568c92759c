/* One training step over the flat block of parameters: add up the gradients of all shards, clip, update.
 *
 * With g the gradient as it comes out of step 3 below, theta the parameter, lr the learning rate, d the
 * weight decay and t the number of the update, from 1:
 *
 *     adam    g' = g + d theta                                    Kingma and Ba 2015; decay is L2
 *             m  = beta1 m + (1 - beta1) g'
 *             v  = beta2 v + (1 - beta2) g'^2
 *             theta -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
 *     adamw   the same with g' = g, after theta -= lr d theta     Loshchilov and Hutter 2019
 *     sgd     m  = momentum m + g + d theta;  theta -= lr m       Polyak 1964, as PyTorch has it
 *
 * These are PyTorch's formulas, and tests hold the trajectories against its numbers. As there, every
 * parameter decays, gains and biases as well. Moments below the smallest normal number become 0: the rows of
 * words that a corpus no longer has would otherwise decay into subnormal numbers, which are many times slower
 * to compute with.
 *
 * A step
 *  1. adds the gradients of the shards, in the order of the list, and multiplies the sum by `scale`;
 *  2. takes the norm of that: the square root of the sum of all squares, in double;
 *  3. clips each number to +-clip_grad_val, then the whole to a norm of clip_grad_norm (0: no clipping);
 *  4. updates moments and parameters.
 *
 * The work is cut into fixed ranges of the block, which the workers share; sums over ranges are added in
 * their order. Results are the same bit for bit whatever the number of threads. A step allocates nothing. */
#ifndef QKV_OPTIMIZER_H
#define QKV_OPTIMIZER_H

#include "qkv/arena.h"
#include "qkv/checkpoint.h"
#include "qkv/config.h"
#include "qkv/parameters.h"
#include "qkv/workers.h"

struct qkv_optimizer_kernels;

/* Caller's storage, all zero at first. The moments are laid out as the values of the parameters. */
struct qkv_optimizer {
    struct qkv_training_config settings; /* a copy; its texts are not read */
    enum qkv_dtype dtype;
    int64_t elements;                 /* of the parameters' block */
    struct qkv_optimizer_state state; /* updates done (t of the formulas) and moments (m, v) */

    int ranges;      /* that the block is cut into; at most as many threads work on a step */
    double *squares; /* [ranges]: sum of squares of each range */
    const struct qkv_optimizer_kernels *kernels;
    struct qkv_arena arena;
};

/* Takes the settings from the config and makes moments, all zero, for parameters that are allocated already.
 * Fails only for lack of memory. */
QKV_API enum qkv_status qkv_optimizer_init(struct qkv_optimizer *optimizer,
                                           const struct qkv_training_config *config,
                                           const struct qkv_parameters *parameters, struct qkv_error *error);

/* Does one update. `gradients` are the blocks of `shards` shards (1 or more), each laid out as the values of
 * the parameters, and 0 where no shard has a gradient and in the gaps between parameters. `scale` is what the
 * sum is multiplied by: 1 / tokens of the batch, or 1 / batches that were accumulated, ... `learning_rate`
 * comes from schedule.h. Afterwards the first block holds the scaled sum, clipped by value but not by norm;
 * the others are as they were.
 *
 * Returns the norm before any clipping. A norm that is not finite means that training has diverged: then
 * neither parameters nor moments have changed, so that they can still be saved; see
 * qkv_parameters_find_not_finite. */
QKV_API double qkv_optimizer_step(struct qkv_optimizer *optimizer, struct qkv_parameters *parameters,
                                  struct qkv_workers *workers, int shards, void *const *gradients,
                                  double scale, double learning_rate);

/* The first parameter whose slice of `block` (values, gradients or moments) holds a number that is not
 * finite, or NULL; for saying where training diverged. */
QKV_API const struct qkv_parameter *qkv_parameters_find_not_finite(const struct qkv_parameters *parameters,
                                                                   const void *block);

QKV_API void qkv_optimizer_release(struct qkv_optimizer *optimizer);

#endif
