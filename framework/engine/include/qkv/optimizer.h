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
 * An optimizer is one row of qkv/optimizers.def and one block of framework/engine/kernels/optimizer.c. With g the
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

#include "qkv/base.h"
#include "qkv/checkpoint.h"
#include "qkv/graph.h"

/* ---- schedules ----
 * The learning rate of each update: a function of the update number and, for two of the schedules, of the finished epochs
 * or validations.
 *
 * Example:
 *     struct qkv_schedule schedule = {
 *         .kind = QKV_SCHEDULE_INVERSE_SQRT, .learning_rate = 1e-3, .warmup = 4000};
 *     printf("%g\n", qkv_schedule_rate(&schedule, 1, 0));
 *
 * A schedule is one row of qkv/schedules.def and one formula in framework/engine/optimize/schedule.c. With t the number
 * of the update, from 1; w the updates of the warm-up; D the width of the model; and of the struct: lr its
 * learning_rate, min its minimum:
 *
 *     constant      lr
 *     noam          factor D^-0.5 min(t^-0.5, t w^-1.5)   Vaswani et al. 2017, as in Joey NMT; ignores lr
 *     inverse_sqrt  lr sqrt(w / t)                        the same shape with its peak at lr
 *     linear        min + (lr - min) (1 - p)
 *     cosine        min + (lr - min) (1 + cos(pi p)) / 2  Loshchilov and Hutter 2017, without restarts
 *     exponential   max(min, lr decrease_factor^e)        e: finished epochs
 *     plateau       max(min, lr decrease_factor^k)        k: decreases, see qkv_schedule_record_validation
 *
 * p grows from 0 at the end of the warm-up (at update 1 without one) to 1 at the last update, and stays 1.
 *
 * During a warm-up (updates before w), inverse_sqrt, linear and cosine are lr t / w; constant, exponential and plateau are
 * multiplied by t / w; noam has a warm-up of its own. During a warm-up the rate may be below min. noam and inverse_sqrt
 * need a warm-up, linear and cosine the number of updates. A struct that a program fills in is not checked: without a
 * warm-up inverse_sqrt returns 0, and with a hidden size of 0 noam returns
 * infinity. */

/* Caller's storage, which the caller fills in, but for `plateau`, which begins all zero. A field that the formula of the kind
 * does not have is not read. */
struct qkv_schedule {
    enum qkv_schedule_kind kind;
    /* In the formulas: lr, factor, min, decrease_factor */
    double learning_rate, factor, minimum, decrease_factor;
    int64_t warmup, updates; /* in updates: w, and the length of the training */
    int64_t patience;        /* in validations */
    int64_t hidden_size;     /* D */

    /* Validations so far, for schedules that follow them (plateau); a checkpoint keeps this. */
    struct {
        bool has_best;
        double best;       /* best score of a validation so far */
        int64_t waited;    /* validations since the best one, or since the last decrease */
        int64_t decreases; /* k */
    } plateau;
};

/* The learning rate of update number `update` (from 1), when `epochs` epochs are finished (0 during the first). NaN for an
 * unknown kind. */
QKV_API double qkv_schedule_rate(const struct qkv_schedule *schedule, int64_t update, int64_t epochs);

/* Records the score of a validation; has an effect only on schedules that follow validations. After more than
 * patience validations in a row without a new best score (strictly better; NaN never is), the
 * rate decreases and the count starts again, as in PyTorch's ReduceLROnPlateau with threshold 0. Returns true
 * when the rate decreases. */
QKV_API bool qkv_schedule_record_validation(struct qkv_schedule *schedule, double score,
                                            bool higher_is_better);

/* ---- optimizers ---- */

struct qkv_optimizer_kernels;

/* Which optimizer, and the numbers of the formulas above. Each optimizer reads some of them. */
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
 * `learning_rate`: of qkv_schedule_rate. workers NULL: the calling thread alone. Afterwards the first block holds the scaled
 * sum, clipped by value but not by norm; the other blocks hold partial sums.
 *
 * Returns the norm before clipping. If it is not finite, training has diverged: parameters and moments have not changed, so
 * that they can still be saved; but if the learning rate has made a parameter that is not frozen infinite, the result is
 * infinity, and the change stays. Returns NaN, and changes nothing, if the learning rate is not finite, there are no blocks,
 * or the optimizer was made for other parameters. */
QKV_API double qkv_optimizer_step(struct qkv_optimizer *optimizer, struct qkv_parameters *parameters,
                                  struct qkv_workers *workers, int blocks, void *const *gradients,
                                  double scale, double learning_rate);

/* Swaps the values of the parameters with their moving average, to compute with the average. A second call swaps them back;
 * it must come before the next step. Does nothing without a moving average. */
QKV_API void qkv_optimizer_swap_average(struct qkv_optimizer *optimizer, struct qkv_parameters *parameters);

QKV_API void qkv_optimizer_release(struct qkv_optimizer *optimizer);

/* ---- data parallelism ----
 * Data parallelism within a process, for any loss: a step computes a loss in a fixed number of shards, each thread computes
 * complete shards, and the gradients of the shards are summed as a binary tree: those of shards 2i and 2i + 1, then pairs
 * of these sums, and so on; a sum without a neighbour moves up unchanged. So the result has the same bits for any number of
 * threads, and a process that has all shards of a subtree can compute that part of the sum. All shards read the same
 * parameters.
 *
 * Example:
 *     struct qkv_parameters parameters = {0}; // allocated and initialized
 *     struct qkv_optimizer optimizer = {0};   // of qkv_optimizer_init
 *     struct qkv_error error = {""};
 *     struct qkv_workers *workers = qkv_workers_new(0, &error); // all processors
 *     // The program's own: how many examples a shard has, and the sum of their losses as a graph.
 *     int64_t examples_of(void *context, int shard, int shards);
 *     struct qkv_tensor *loss_of(void *context, struct qkv_shard *shard);
 *     const struct qkv_shard_loss loss = {.begin = examples_of, .build = loss_of};
 *     struct qkv_data_parallel *parallel =
 *         qkv_data_parallel_new(&parameters, workers, 4, QKV_GRADIENTS_BY_SIZE, &error);
 *     for (uint32_t update = 0; parallel && update < 100; update++) {
 *         const struct qkv_random dropout = {.seed = 42, .step = update};
 *         struct qkv_shard_sums sums;
 *         if (qkv_data_parallel_step(parallel, &loss, &dropout, false, &sums, &error)) break;
 *         int blocks;
 *         void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
 *         qkv_optimizer_step(&optimizer, &parameters, workers, blocks, gradients, 1.0 / (double)sums.items, 1e-3);
 *         printf("mean loss %g\n", sums.loss / (double)sums.items);
 *     }
 *     qkv_data_parallel_free(parallel);
 *     qkv_workers_free(workers);
 */

struct qkv_data_parallel;
struct qkv_processes; /* the translator joins them: qkv/trainer.h */

enum { QKV_SHARDS_MAX = 1 << 20, QKV_LOSS_PARTS = 4, QKV_FURTHER_SUMS = 4 };

/* A shard that is computed. */
struct qkv_shard {
    int index; /* from 0 */
    struct qkv_graph *graph;
    /* Further tensors of the loss that `done` is to read, which `build` may set; else NULL. */
    const struct qkv_tensor *part[QKV_LOSS_PARTS];
};

/* A loss that is computed in shards. */
struct qkv_shard_loss {
    void *context;

    /* Prepares shard `shard` (from 0) of `shards` and returns how many items (tokens, examples) it has; 0: the shard is
     * skipped. The items of a shard must not depend on the number of threads. Called for all shards in order, on the
     * caller's thread, before the first `build`. */
    int64_t (*begin)(void *context, int shard, int shards);

    /* Records the loss of a shard in its graph, which is bound to the parameters, and returns it: a scalar, the sum over
     * the shard's items, not the mean. Called on any thread, concurrently for different shards, and again if the loss is
     * not finite; it must then record the same graph. Errors go to the graph (qkv_graph_fail). Arrays that are passed to
     * ops (ids, segments, labels) may be on the stack, because ops copy them; constants may be written immediately
     * (qkv_tensor_write). */
    struct qkv_tensor *(*build)(void *context, struct qkv_shard *shard);

    /* Called after the forward pass of a shard, on its thread, to read further results of the loss and its parts, such as
     * qkv_cross_entropy_sums, into further [QKV_FURTHER_SUMS], all 0. Values of other tensors than the loss may have been
     * overwritten (qkv_graph_share_memory). It must not call functions of the same object: other shards may still run.
     * NULL: not called. */
    void (*done)(void *context, const struct qkv_shard *shard, const struct qkv_tensor *loss,
                 double *further);
};

/* Sums over the items of all shards, which are added in the same tree as the gradients. */
struct qkv_shard_sums {
    double loss;
    int64_t items;
    double further[QKV_FURTHER_SUMS]; /* what `done` has read */
};

/* How gradients are stored, which affects memory but no bit of the sums. With S shards and T threads:
 * - separate: each shard that runs has a gradient block, of the size of all parameters. At most min(S, 8 + T + log2(S / 8))
 *   blocks; no shard waits for another while it runs.
 * - paired: shards 2i and 2i + 1 share a block. At most min(S / 2, T / 2 + log2(S))
 *   blocks, rounded up: one for 2 shards, two for 4, three for 8 on two threads.
 * Adding up several steps takes one block more. Graphs are as many as threads, not as shards. */
enum qkv_gradient_memory {
    QKV_GRADIENTS_BY_SIZE, /* paired from QKV_PAIRED_FROM parameters on, else separate */
    QKV_GRADIENTS_SEPARATE,
    QKV_GRADIENTS_PAIRED,
};
enum { QKV_PAIRED_FROM = 1 << 20 };

/* Prepares steps of `shards` shards (1 .. QKV_SHARDS_MAX) over allocated parameters. Parameters and workers must
 * outlive the result; workers NULL: the calling thread alone. Returns NULL, with a message, when memory runs out, and for
 * arguments out of range. */
QKV_API struct qkv_data_parallel *qkv_data_parallel_new(const struct qkv_parameters *parameters,
                                                        struct qkv_workers *workers, int shards,
                                                        enum qkv_gradient_memory memory,
                                                        struct qkv_error *error);
QKV_API void qkv_data_parallel_free(struct qkv_data_parallel *parallel); /* NULL: does nothing */

/* Divides the shards among processes, which must all make the same steps over the same parameters. Only process 0 then gets
 * the sums, the gradients and the failures of a step, with the same bits as with one process; a step of the other processes
 * fails only if no process can go on. Processes must outlive `parallel`. Call it before the first step. Fails where there are
 * more processes than shards. */
QKV_API enum qkv_status qkv_data_parallel_divide(struct qkv_data_parallel *parallel,
                                                 struct qkv_processes *processes, struct qkv_error *error);

/* Forward and backward over all shards. The gradients are those of the sum over the items, not of the mean. With
 * `accumulate` they are added to those of earlier steps, since the last call without it. `random` (seed, step) determines
 * the dropout masks, which differ between shards; NULL: no dropout.
 *
 * QKV_FAILED: the loss is not finite; the message names the first tensor that is not. QKV_INVALID: a graph cannot be
 * built, no shard has items, or their number is negative or above INT64_MAX. After either, there are no gradients, and the
 * sum over earlier steps is lost: a step with `accumulate` after it begins a new sum. */
QKV_API enum qkv_status qkv_data_parallel_step(struct qkv_data_parallel *parallel,
                                               const struct qkv_shard_loss *loss,
                                               const struct qkv_random *random, bool accumulate,
                                               struct qkv_shard_sums *sums, struct qkv_error *error);

/* The gradient blocks whose sum, as qkv_optimizer_step adds them, is the gradient, and their number; none before the
 * first step. They are valid until the next step. Their number depends on nothing but the number of shards, the number of
 * parameters and `accumulate`. */
QKV_API void *const *qkv_data_parallel_gradients(const struct qkv_data_parallel *parallel, int *count);

#endif
