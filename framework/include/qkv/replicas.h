/* Data parallelism within a process: a batch is split into a fixed number of shards, each with a graph of its
 * own, on whatever threads there are. The split depends on the batch alone and the gradients are added in a
 * fixed order (optimizer.h), so that the result is the same bit for bit with any number of threads. */
#ifndef QKV_REPLICAS_H
#define QKV_REPLICAS_H

#include "qkv/batch.h"
#include "qkv/model.h"
#include "qkv/workers.h"

struct qkv_replicas;

/* What a batch gave. */
struct qkv_step_sums {
    double loss;                    /* sum over target tokens of the smoothed cross entropy, nats */
    double negative_log_likelihood; /* the same without smoothing */
    double correct;                 /* target tokens whose most probable class is right */
    int64_t tokens;                 /* target tokens, </s> counted */
};

/* Makes `shards` replicas of a model whose parameters are allocated. Model and workers must outlive them.
 * They add up their gradients in `blocks` blocks of as many numbers as the model has, 1 .. shards, neighbours
 * in one (graph.h, turns): fewer blocks take less memory, more let shards run apart. 0: one a shard for
 * models of less than a million numbers, one for 8 shards above. The number counts for the last bits of a
 * sum. NULL with a sentence when memory is out. */
QKV_API struct qkv_replicas *qkv_replicas_new(const struct qkv_model *model, struct qkv_workers *workers,
                                              int shards, int blocks, struct qkv_error *error);
QKV_API void qkv_replicas_free(struct qkv_replicas *replicas);

/* Reserves what a step needs for any batch of the plan, in any epoch: steps then call malloc zero times (but
 * for the matrix library, which makes itself a buffer a thread in its first product). Memory that is never
 * used is never touched. Fails for lack of memory, and where a step would fail: a sentence longer than the
 * positions. */
QKV_API enum qkv_status qkv_replicas_reserve(struct qkv_replicas *replicas, const struct qkv_batches *batches,
                                             struct qkv_error *error);

/* Forward and backward over a batch. Gradients are of the sum over tokens (not the mean); with `accumulate`
 * they are added to those of the last call. `random` (seed, step) fixes the dropout masks; NULL: no dropout.
 * A call allocates nothing once it has been reserved, or has seen batches as large.
 *
 * A loss that is not finite gives QKV_FAILED and a sentence that names the first tensor that is not finite;
 * what cannot be built (a sentence longer than the positions) gives QKV_INVALID. */
QKV_API enum qkv_status qkv_replicas_step(struct qkv_replicas *replicas, struct qkv_batch *batch,
                                          double smoothing, const struct qkv_random *random, bool accumulate,
                                          struct qkv_step_sums *sums, struct qkv_error *error);

/* The gradient blocks, for qkv_optimizer_step. */
QKV_API void *const *qkv_replicas_gradients(const struct qkv_replicas *replicas);
QKV_API int qkv_replicas_blocks(const struct qkv_replicas *replicas);
QKV_API int qkv_replicas_shards(const struct qkv_replicas *replicas);

/* Bytes that the arenas of all graphs have held at most. */
QKV_API size_t qkv_replicas_peak_bytes(const struct qkv_replicas *replicas);

#endif
