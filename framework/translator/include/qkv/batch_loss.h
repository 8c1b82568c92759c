/* The loss of a translation model on a batch of sentence pairs, for data parallelism (qkv/data_parallel.h). The split into shards
 * depends on the batch alone, so that sums have the same bits for any number of threads and any size of the model.
 *
 * Example:
 *     struct qkv_model *model = NULL;     // of qkv_model_new
 *     struct qkv_workers *workers = NULL; // of qkv_workers_new
 *     struct qkv_batch batch = {0};       // of qkv_batches_get
 *     struct qkv_optimizer optimizer = {0};
 *     struct qkv_shard_sums sums;
 *     struct qkv_error error = {""};
 *     struct qkv_data_parallel *parallel =
 *         qkv_data_parallel_new(&model->parameters, workers, 4, QKV_GRADIENTS_BY_SIZE, &error);
 *     struct qkv_batch_loss of_batch = {.model = model, .batch = &batch, .objective.smoothing = 0.1};
 *     const struct qkv_shard_loss loss = qkv_batch_loss(&of_batch);
 *     int blocks;
 *     if (!qkv_data_parallel_step(parallel, &loss, NULL, false, &sums, &error)) {
 *         void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
 *         qkv_optimizer_step(&optimizer, &model->parameters, workers, blocks, gradients, 1.0 / (double)sums.items, 1e-3);
 *     }
 *     qkv_data_parallel_free(parallel);
 */
#ifndef QKV_BATCH_LOSS_H
#define QKV_BATCH_LOSS_H

#include "qkv/batch.h"
#include "qkv/data_parallel.h"
#include "qkv/model.h"

/* What the loss is computed from. All of it must outlive the step. */
struct qkv_batch_loss {
    const struct qkv_model *model;
    struct qkv_batch *batch;
    struct qkv_objective objective;
    int shards; /* of the step, which sets it */
};

/* The loss in shards: a step sums the objective, in nats, over the target tokens, `</s>` counted, which are the items. */
QKV_API struct qkv_shard_loss qkv_batch_loss(struct qkv_batch_loss *loss);

/* The further sums of a step (struct qkv_shard_sums). */
enum qkv_batch_sum {
    QKV_BATCH_NEGATIVE_LOG_LIKELIHOOD, /* cross-entropy without smoothing, nats */
    QKV_BATCH_CORRECT,                 /* target tokens to which the model gives the highest probability */
    QKV_BATCH_ALIGNMENT, /* cross entropy of guided alignment, without its weight, nats; 0: off */
};

/* Reserves memory for every batch of `batches`, in any epoch, with the model and objective of `loss`: steps then never call
 * malloc, except that the matrix library allocates a buffer per thread in its first product. Reserving does not write to the
 * memory, so that unused pages take no physical memory. Fails when memory runs out, and where a step would fail: for a
 * sentence longer than the positions. */
QKV_API enum qkv_status qkv_batch_loss_reserve(const struct qkv_batch_loss *loss,
                                               struct qkv_data_parallel *parallel,
                                               const struct qkv_batches *batches, struct qkv_error *error);

#endif
