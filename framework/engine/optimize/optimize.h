/* Private: the sum of gradients, and what trainers need beside optimizer.h.
 *
 * The gradients of all shards of a batch are summed as a binary tree: the leaves are the shards, a node is the sum of
 * its two children (2i and 2i + 1), and the last node of a level that has no sibling moves up unchanged. The
 * order of summation depends on nothing but the number of shards. */
#pragma once

#include "qkv/optimizer.h"

#include <stdatomic.h>

/* A *block* is a buffer for the gradients of all parameters; two shards of a large model are a *pair* that shares one
 * (see qkv/optimizer.h). Workers add the lower levels of the tree. Up to 8 blocks remain (2 if shards are paired), the
 * *roots*; the optimizer adds them in the order of the same tree. */
struct qkv_gradient_tree;

/* A shard, with the block that its gradients go to. */
struct qkv_gradient_leaf {
    int shard;
    int worker;                     /* below the number of threads; no other shard that runs now has it */
    void *gradients;                /* the block */
    struct qkv_gradient_pair *pair; /* NULL: the shard has the block for itself */
    bool is_second;                 /* of the pair */
    /* The graph sets element p when the gradient of parameter p is complete (qkv_graph_set_progress); NULL: no other process
     * waits for it, or the second shard of the pair still adds to the block. */
    atomic_bool *is_complete;
};

/* threads: maximal number of shards that run at the same time. processes: the processes that share the shards; NULL: this one
 * computes all of them. Returns NULL when memory runs out. */
struct qkv_gradient_tree *qkv_gradient_tree_new(const struct qkv_parameters *parameters, int threads,
                                                int shards, enum qkv_gradient_memory memory,
                                                struct qkv_processes *processes);
void qkv_gradient_tree_free(struct qkv_gradient_tree *tree);

/* Begins the sum over a batch. is_empty [shards]: shards that have no gradient. `accumulate`: qkv_gradient_tree_end adds
 * the sum to the one before. */
void qkv_gradient_tree_begin(struct qkv_gradient_tree *tree, const bool *is_empty, bool accumulate,
                             struct qkv_workers *workers);

/* Discards the sum: qkv_gradient_tree_blocks is then empty, and the next sum starts from 0. For a step that fails before it
 * begins. */
void qkv_gradient_tree_clear(struct qkv_gradient_tree *tree);

/* Takes the next shard, in their order, and a block. Waits while other shards use all blocks. Returns false
 * when there are no more shards. */
bool qkv_gradient_tree_take(struct qkv_gradient_tree *tree, struct qkv_gradient_leaf *leaf);

/* Marks the gradient of a shard as complete, and adds the nodes that can be added now. */
void qkv_gradient_tree_complete(struct qkv_gradient_tree *tree, const struct qkv_gradient_leaf *leaf);

/* Adds the sums of all processes; process 0 gets the result. May run on another thread while shards are computed: it then
 * sends buckets of the gradients as backward completes them. Fails when a process has died. */
enum qkv_status qkv_gradient_tree_exchange(struct qkv_gradient_tree *tree, struct qkv_error *error);

/* Whether it pays to run the exchange on another thread: there are several buckets, so that the first can be sent while others
 * are computed. */
bool qkv_gradient_tree_has_buckets(const struct qkv_gradient_tree *tree);

/* Ends the sum after all shards are complete and have been exchanged. Only process 0 has blocks afterwards. */
void qkv_gradient_tree_end(struct qkv_gradient_tree *tree, struct qkv_workers *workers);

/* Blocks whose sum, as the optimizer adds them, is the sum over all shards. */
void *const *qkv_gradient_tree_blocks(const struct qkv_gradient_tree *tree, int *count);

/* Any block, for building graphs that are not run. */
void *qkv_gradient_tree_any_block(const struct qkv_gradient_tree *tree);

/* ---- schedules in checkpoints ---- */

/* Saves the record of validations in the state of a checkpoint, under `schedule.*`, and restores it. Schedules
 * that do not follow validations save nothing. Restoring fails, and changes nothing, when a value is missing
 * or is not a number. */
void qkv_schedule_save(const struct qkv_schedule *schedule, struct qkv_state *state);
enum qkv_status qkv_schedule_restore(struct qkv_schedule *schedule, const struct qkv_state *state,
                                     struct qkv_error *error);

/* ---- data parallelism ---- */

int qkv_data_parallel_shards(const struct qkv_data_parallel *parallel);

/* Reserves memory for shards up to the size of shard 0 of `largest`, of which only context and build are used: steps then
 * never call malloc. Reserving does not write to the memory, so that unused pages take no physical memory.
 * Fails when memory runs out, and where the graph cannot be built. */
enum qkv_status qkv_data_parallel_reserve(struct qkv_data_parallel *parallel,
                                          const struct qkv_shard_loss *largest, struct qkv_error *error);
