/* Data parallelism within a process, for any loss: a step computes a loss in a fixed number of shards, each thread computes
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
#ifndef QKV_DATA_PARALLEL_H
#define QKV_DATA_PARALLEL_H

#include "qkv/graph.h"
#include "qkv/optimizer.h"

struct qkv_data_parallel;
struct qkv_processes; /* the translator joins them: qkv/processes.h */

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
 * - paired: shards 2i and 2i + 1 share a block (struct qkv_gradient_pair in graph.h). At most min(S / 2, T / 2 + log2(S))
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
QKV_API int qkv_data_parallel_shards(const struct qkv_data_parallel *parallel);

/* Divides the shards among processes, which must all make the same steps over the same parameters. Only process 0 then gets
 * the sums, the gradients and the failures of a step, with the same bits as with one process; a step of the other processes
 * fails only if no process can go on. Processes must outlive `parallel`. Call it before the first step. Fails where there are
 * more processes than shards. */
QKV_API enum qkv_status qkv_data_parallel_divide(struct qkv_data_parallel *parallel,
                                                 struct qkv_processes *processes, struct qkv_error *error);

/* Reserves memory for shards up to the size of shard 0 of `largest`, of which only context and build are used: steps then
 * never call malloc. Reserving does not write to the memory, so that unused pages take no physical memory.
 * Fails when memory runs out, and where the graph cannot be built. */
QKV_API enum qkv_status qkv_data_parallel_reserve(struct qkv_data_parallel *parallel,
                                                  const struct qkv_shard_loss *largest,
                                                  struct qkv_error *error);

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
