/* The optimizer: updates the flat block of parameters from the sum of several blocks of gradients.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_parameters parameters = {0};
 *     struct qkv_initial ones = {QKV_INITIALIZER_ONES, 1};
 *     struct qkv_optimizer_options options = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAM);
 *     struct qkv_optimizer optimizer = {0};
 *     struct qkv_workers *workers = qkv_workers_new(1, &error);
 *     qkv_parameters_add(&parameters, QKV_SHAPE(3), ones, "weights");
 *     if (!qkv_parameters_allocate(&parameters, QKV_FLOAT32, &error) &&
 *         !qkv_optimizer_init(&optimizer, &options, &parameters, &error)) {
 *         float *gradient = calloc((size_t)parameters.elements, sizeof *gradient);
 *         void *gradients[1] = {gradient};
 *         qkv_optimizer_step(&optimizer, &parameters, workers, 1, gradients, 1.0, 0.01);
 *         free(gradient);
 *     }
 *     qkv_optimizer_release(&optimizer);
 *     qkv_workers_free(workers);
 *     qkv_parameters_release(&parameters);
 *
 * An optimizer is one row of qkv/optimizers.def and one file framework/engine/kernels/optimizer_<name>.c. With g the
 * gradient after step 3 below, theta the parameter, lr the learning rate, d the weight decay and t the number
 * of the update, from 1:
 *
 *     adam    g' = g + d theta                                    Kingma and Ba 2015; the decay is L2
 *             m  = beta1 m + (1 - beta1) g'
 *             v  = beta2 v + (1 - beta2) g'^2
 *             theta -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
 *     adamw   first theta -= lr d theta; then adam with g' = g    Loshchilov and Hutter 2019
 *     sgd     m  = momentum m + g + d theta;  theta -= lr m       Polyak 1964
 *             with nesterov: theta -= lr (g + d theta + momentum m)   Sutskever et al. 2013
 *
 * lr is multiplied by the rate of the parameter (qkv_parameters_set_rates). A frozen parameter (rate 0) keeps its value,
 * and its gradient counts as 0.
 *
 * These are PyTorch's formulas; tests compare trajectories with PyTorch's. As in PyTorch, weight decay applies to every
 * parameter, including gains and biases. Moments below the smallest normal number become 0: arithmetic on subnormal numbers
 * is many times slower, and the moments of words that no longer occur would become subnormal as they decay.
 *
 * A step
 *  1. sums the blocks of gradients as a tree (neighbours 2i and 2i + 1, then pairs of these sums, and so on) and
 *     multiplies the sum by `scale`;
 *  2. computes the norm of the sum: the square root of the sum of squares, added in double precision and in the same order
 *     for any number of threads and any instruction set;
 *  3. clips each number to +-clip_grad_val, then the norm to clip_grad_norm (0: no clipping);
 *  4. updates moments and parameters;
 *  5. where the option ema is above 0: moves the average of the parameters towards them (Polyak and Juditsky 1992, with an
 *     exponential weight). Update t, from 1, has the decay d = min(ema, (1 + t) / (10 + t)):
 *
 *     average += (1 - d) (theta - average)
 *
 * The block is divided into fixed ranges, which the workers share, and sums over ranges are added in order: the result has
 * the same bits for any number of threads. A step allocates nothing. */
#ifndef QKV_OPTIMIZER_H
#define QKV_OPTIMIZER_H

#include "qkv/checkpoint.h"
#include "qkv/graph.h"
#include "qkv/optimizer_options.h"

struct qkv_optimizer_kernels;

/* The options that papers and PyTorch start from: adam_betas 0.9 and 0.999, adam_epsilon 1e-8, all else 0. */
QKV_API struct qkv_optimizer_options qkv_optimizer_defaults(enum qkv_optimizer_kind optimizer);

/* Caller's storage, all zero at first. The moments are laid out as the values of the parameters. */
struct qkv_optimizer {
    struct qkv_optimizer_options options;
    struct qkv_optimizer_state state; /* updates done (t of the formulas), moments (m, v) and the average */

    /* The block divided into stretches of parameters with equal rates (qkv_parameters_set_rates): stretch i ends before
     * element stretch[i].end. */
    struct qkv_rate_stretch {
        int64_t end;
        double rate;
    } * stretch;
    int64_t stretches;

    int ranges;      /* fixed parts of the block; a step uses at most this many threads */
    double *squares; /* [ranges]: sum of squares of each range */
    const struct qkv_optimizer_kernels *kernels;
    struct qkv_arena arena;
};

/* Copies the options and allocates moments, all zero, and the moving average, which starts as the values of the parameters.
 * Fails when memory runs out, when the parameters are not allocated, and when an option that the optimizer reads is out of
 * its range, such as an adam_epsilon of 0, with which the first step would make NaN of every parameter without a gradient. */
QKV_API enum qkv_status qkv_optimizer_init(struct qkv_optimizer *optimizer,
                                           const struct qkv_optimizer_options *options,
                                           const struct qkv_parameters *parameters, struct qkv_error *error);

/* Does one update. `gradients`: `blocks` arrays (1 or more), each laid out as the values of the parameters, with 0 where
 * there is no gradient and in the gaps between parameters. `scale`: factor of the sum, such as 1 / items of the batch.
 * `learning_rate`: from schedule.h. workers NULL: the calling thread alone. Afterwards the first block holds the scaled
 * sum, clipped by value but not by norm; the other blocks hold partial sums.
 *
 * Returns the norm before clipping. If it is not finite, training has diverged: parameters and moments have not changed, so
 * that they can still be saved. Returns NaN, and changes nothing, if the learning rate is not finite, there are no blocks,
 * or the optimizer was made for other parameters. */
QKV_API double qkv_optimizer_step(struct qkv_optimizer *optimizer, struct qkv_parameters *parameters,
                                  struct qkv_workers *workers, int blocks, void *const *gradients,
                                  double scale, double learning_rate);

/* Swaps the values of the parameters with their moving average, to compute with the average. A second call swaps them back;
 * it must come before the next step. Does nothing without a moving average. */
QKV_API void qkv_optimizer_swap_average(struct qkv_optimizer *optimizer, struct qkv_parameters *parameters);

QKV_API void qkv_optimizer_release(struct qkv_optimizer *optimizer);

#endif
