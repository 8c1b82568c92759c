/* Data parallelism within a process: a batch is split into a fixed number of shards. A replica is the graph of one
 * shard; all replicas read the same parameters. The split depends on the batch alone and the gradients are summed
 * in a fixed order (optimizer.h), so that the result is the same bits for any number of threads.
 *
 * Example:
 *     struct qkv_model *model = NULL;     // of qkv_model_new
 *     struct qkv_workers *workers = NULL; // of qkv_workers_new
 *     struct qkv_batch batch = {0};       // of qkv_batches_get
 *     struct qkv_optimizer optimizer = {0};
 *     struct qkv_step_sums sums;
 *     struct qkv_error error = {""};
 *     struct qkv_replicas *replicas = qkv_replicas_new(model, workers, 4, 0, &error);
 *     if (!qkv_replicas_step(replicas, &batch, 0.1, NULL, false, &sums, &error))
 *         qkv_optimizer_step(&optimizer, &model->parameters, workers, qkv_replicas_blocks(replicas),
 *                            qkv_replicas_gradients(replicas), 1.0 / (double)sums.tokens, 1e-3);
 *     qkv_replicas_free(replicas);
 */
#ifndef QKV_REPLICAS_H
#define QKV_REPLICAS_H

#include "qkv/batch.h"
#include "qkv/model.h"
#include "qkv/optimizer.h"
#include "qkv/workers.h"

struct qkv_replicas;

/* Sums over the target tokens of a batch. */
struct qkv_step_sums {
    double loss;                    /* cross-entropy with label smoothing, nats */
    double negative_log_likelihood; /* cross-entropy without smoothing, nats */
    double correct;                 /* target tokens to which the model gives the highest probability */
    int64_t tokens;                 /* target tokens, </s> counted */
};

/* Makes a replica for each of `shards` shards of a batch, for a model whose parameters are allocated. Model and workers must outlive them.
 * `blocks` (1 to `shards`): gradient blocks, each of the size of the model. Neighbouring shards share a block
 * and add to it one after the other (qkv_turns in graph.h): fewer blocks need less memory, more blocks wait
 * less. 0: one per shard for models below 2^20 parameters, else one per 8 shards. The number of blocks changes the
 * rounding of the sum. Returns NULL, with a message, when memory is out, and for numbers out of
 * range: `shards` is 1 .. QKV_SHARDS_MOST, `blocks` 0 .. `shards`. */
QKV_API struct qkv_replicas *qkv_replicas_new(const struct qkv_model *model, struct qkv_workers *workers,
                                              int shards, int blocks, struct qkv_error *error);
QKV_API void qkv_replicas_free(struct qkv_replicas *replicas);

/* Reserves memory for every batch of `batches`, in any epoch: steps then never call malloc, except that the
 * matrix library allocates a buffer per thread in its first product. Reserving does not write to the
 * memory, so that unused pages take no physical memory. Fails when memory is out,
 * and where a step would fail: for a sentence longer than the positions. */
QKV_API enum qkv_status qkv_replicas_reserve(struct qkv_replicas *replicas, const struct qkv_batches *batches,
                                             struct qkv_error *error);

/* Forward and backward over a batch. Gradients are those of the sum over tokens, not of the mean; with
 * `accumulate` they are added to those of the previous call. `random` (seed, step) fixes the dropout masks;
 * NULL: no dropout. Allocates nothing if qkv_replicas_reserve was called or an earlier batch was as large.
 *
 * QKV_FAILED: the loss is not finite; the message names the first tensor that is not. QKV_INVALID: the graph
 * cannot be built, such as for a sentence longer than the positions. */
QKV_API enum qkv_status qkv_replicas_step(struct qkv_replicas *replicas, struct qkv_batch *batch,
                                          double smoothing, const struct qkv_random *random, bool accumulate,
                                          struct qkv_step_sums *sums, struct qkv_error *error);

/* The gradient blocks, for qkv_optimizer_step. */
QKV_API void *const *qkv_replicas_gradients(const struct qkv_replicas *replicas);
QKV_API int qkv_replicas_blocks(const struct qkv_replicas *replicas);
QKV_API int qkv_replicas_shards(const struct qkv_replicas *replicas);

/* Highest memory use of all graphs so far, bytes. */
QKV_API size_t qkv_replicas_peak_bytes(const struct qkv_replicas *replicas);

#endif
