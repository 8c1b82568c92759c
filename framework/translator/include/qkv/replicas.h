/* Data parallelism (qkv/data_parallel.h) for a translation model: a batch of sentence pairs is split into a fixed number
 * of shards. A replica is the model's loss on one shard. The split depends on the batch alone, so that the result is the
 * same bits for any number of threads and any size of the model.
 *
 * Example:
 *     struct qkv_model *model = NULL;     // of qkv_model_new
 *     struct qkv_workers *workers = NULL; // of qkv_workers_new
 *     struct qkv_batch batch = {0};       // of qkv_batches_get
 *     struct qkv_optimizer optimizer = {0};
 *     struct qkv_step_sums sums;
 *     struct qkv_error error = {""};
 *     struct qkv_objective objective = {.smoothing = 0.1};
 *     struct qkv_replicas *replicas =
 *         qkv_replicas_new(model, workers, 4, QKV_GRADIENTS_BY_SIZE, &objective, &error);
 *     if (!qkv_replicas_step(replicas, &batch, NULL, false, &sums, &error))
 *         qkv_optimizer_step(&optimizer, &model->parameters, workers, qkv_replicas_blocks(replicas),
 *                            qkv_replicas_gradients(replicas), 1.0 / (double)sums.tokens, 1e-3);
 *     qkv_replicas_free(replicas);
 */
#ifndef QKV_REPLICAS_H
#define QKV_REPLICAS_H

#include "qkv/batch.h"
#include "qkv/data_parallel.h"
#include "qkv/model.h"
#include "qkv/optimizer.h"
#include "qkv/workers.h"

struct qkv_replicas;

/* Sums over the target tokens of a batch. */
struct qkv_step_sums {
    double loss;                    /* the objective, nats */
    double negative_log_likelihood; /* cross-entropy without smoothing, nats */
    double correct;                 /* target tokens to which the model gives the highest probability */
    double alignment;               /* cross entropy of guided alignment, without its weight, nats; 0: off */
    int64_t tokens;                 /* target tokens, </s> counted */
};

/* Makes replicas for batches that are split into `shards` (1 .. QKV_SHARDS_MAX), for a model whose parameters are
 * allocated. objective: what steps minimise, copied; NULL: the cross entropy. Model and workers must outlive the replicas;
 * workers NULL: the calling thread alone. Returns NULL, with a message, when memory runs out, and for arguments out of
 * range. */
QKV_API struct qkv_replicas *qkv_replicas_new(const struct qkv_model *model, struct qkv_workers *workers,
                                              int shards, enum qkv_gradient_memory memory,
                                              const struct qkv_objective *objective, struct qkv_error *error);
QKV_API void qkv_replicas_free(struct qkv_replicas *replicas);

/* Divides the shards among processes, as qkv_data_parallel_divide. The sums of a step are those of process 0. */
QKV_API enum qkv_status qkv_replicas_divide(struct qkv_replicas *replicas, struct qkv_processes *processes,
                                            enum qkv_gradient_memory memory, struct qkv_error *error);

/* Reserves memory for every batch of `batches`, in any epoch: steps then never call malloc, except that the
 * matrix library allocates a buffer per thread in its first product. Reserving does not write to the
 * memory, so that unused pages take no physical memory. Fails when memory runs out,
 * and where a step would fail: for a sentence longer than the positions. */
QKV_API enum qkv_status qkv_replicas_reserve(struct qkv_replicas *replicas, const struct qkv_batches *batches,
                                             struct qkv_error *error);

/* Forward and backward over a batch. Gradients are those of the sum over tokens, not of the mean. With `accumulate` the sum
 * over this batch is added to the sum over the earlier ones, since the last call without it. `random` (seed, step) fixes
 * the dropout masks; NULL: no dropout. Allocates nothing if qkv_replicas_reserve was called or an earlier batch was at
 * least as large.
 *
 * QKV_FAILED: the loss is not finite; the message names the first tensor that is not. QKV_INVALID: the graph
 * cannot be built, such as for a sentence longer than the positions. After either, there are no gradients, and the sum over
 * earlier batches is lost: a step with `accumulate` after it begins a new sum. */
QKV_API enum qkv_status qkv_replicas_step(struct qkv_replicas *replicas, struct qkv_batch *batch,
                                          const struct qkv_random *random, bool accumulate,
                                          struct qkv_step_sums *sums, struct qkv_error *error);

/* The gradient blocks whose sum, as qkv_optimizer_step adds them, is the gradient; none before the first step. They are
 * valid until the next step. Their number depends on nothing but the number of shards, the size of the model and
 * `accumulate`. */
QKV_API void *const *qkv_replicas_gradients(const struct qkv_replicas *replicas);
QKV_API int qkv_replicas_blocks(const struct qkv_replicas *replicas);
QKV_API int qkv_replicas_shards(const struct qkv_replicas *replicas);

#endif
