/* With more shards than MAX_ROOTS, workers compute a node as soon as both its children are complete: they add the block of the
 * right child to that of the left child and free it. They stop at a level with few nodes, the roots. The optimizer adds the
 * roots, because it has to read them anyway.
 *
 * Shards start in order, and only when they have their block. A shard that runs does not wait for a block; the second shard
 * of a pair waits for the first one, which is running already. So some thread always frees a block, and there is no deadlock
 * as long as there are enough blocks for one thread. */
#include "optimize/gradient_nodes.h"

#include "core/sum_tree.h"
#include "kernels/optimizer.h"
#include "qkv/arena.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Roots at most. More roots let shards begin without waiting for sums, but need a block each. */
    MAX_ROOTS = 8,
    MAX_PAIRED_ROOTS = 2,
    RANGE = 16384 /* numbers that a worker adds at a time */
};

/* Plans the levels and the number of blocks. With one thread, most blocks are in use while it computes the last root: each
 * other root has one, each level below may have one for a left child, and one is being written. Each further thread needs one
 * more block, or each further two threads if shards are paired.
 *
 * Several processes add all levels up to one root, so that each sends as little as possible. Then a pair may be split between
 * two processes, each level may also have a block for a right child whose left sibling belongs to another process, and one
 * block may hold what others send if this process has nothing to add it to. If all shards of a process run at the same time,
 * each has its own block anyway: then the exchange, which starts before the shards are complete, does all additions. */
static void plan(struct qkv_gradient_tree *tree)
{
    bool is_divided = qkv_exchange_count(tree->processes) > 1;
    int max = is_divided ? 1 : tree->is_paired ? MAX_PAIRED_ROOTS : MAX_ROOTS, levels = 0;
    int width = tree->is_paired ? 2 : 1, users = (tree->shards + width - 1) / width;
    tree->roots = users;
    for (; tree->roots > max; width *= 2, levels++) tree->roots = (tree->roots + 1) / 2;
    tree->root_width = width;
    int further = tree->is_paired ? (tree->threads - 1) / 2 : tree->threads - 1;
    tree->blocks = tree->roots + levels + further;
    if (tree->blocks > users) tree->blocks = users;
    if (is_divided) tree->blocks = 2 + 2 * (levels + tree->is_paired) + tree->threads - 1;
    tree->blocks++; /* for the sum over earlier batches */
    tree->exchange_adds_blocks = is_divided && tree->end_own - tree->first_own <= tree->threads;
}

static bool make_blocks(struct qkv_gradient_tree *tree)
{
    tree->block = calloc((size_t)tree->blocks, sizeof *tree->block);
    for (int i = 0; tree->block && i < tree->blocks; i++) {
        struct block *block = &tree->block[i];
        block->gradients = qkv_block_new(tree->bytes, tree->bytes);
        if (!block->gradients) return false;
        if (tree->is_paired && !(block->pair = qkv_gradient_pair_new(tree->parameters))) return false;
        if (!tree->processes) continue;
        block->is_complete = calloc((size_t)tree->parameters->count + 1, sizeof *block->is_complete);
        if (!block->is_complete) return false;
    }
    return tree->block;
}

struct qkv_gradient_tree *qkv_gradient_tree_new(const struct qkv_parameters *parameters, int threads,
                                                int shards, enum qkv_gradient_memory memory,
                                                struct qkv_processes *processes)
{
    struct qkv_gradient_tree *tree = calloc(1, sizeof *tree);
    if (!tree) return NULL;
    pthread_mutex_init(&tree->mutex, NULL);
    pthread_cond_init(&tree->block_is_free, NULL);
    int rank = qkv_exchange_rank(processes);
    tree->parameters = parameters;
    tree->processes = processes;
    tree->first_own = qkv_exchange_first(processes, rank, shards);
    tree->end_own = qkv_exchange_first(processes, rank + 1, shards);
    tree->kernels = qkv_optimizer_registry(parameters->dtype);
    tree->bytes = (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
    tree->shards = shards;
    tree->threads = threads;
    tree->earlier = -1;
    tree->is_paired = memory == QKV_GRADIENTS_BY_SIZE ? parameters->elements >= QKV_PAIRED_FROM
                                                      : memory == QKV_GRADIENTS_PAIRED;
    plan(tree);
    tree->node = calloc((size_t)shards, sizeof *tree->node);
    tree->is_busy = calloc((size_t)threads, sizeof *tree->is_busy);
    tree->result = calloc((size_t)tree->roots + 1, sizeof *tree->result);
    if (processes) tree->message = qkv_gradient_message_new(parameters);
    if (make_blocks(tree) && (tree->message || !processes) && tree->node && tree->is_busy && tree->result)
        return tree;
    qkv_gradient_tree_free(tree);
    return NULL;
}

void qkv_gradient_tree_free(struct qkv_gradient_tree *tree)
{
    if (!tree) return;
    for (int i = 0; tree->block && i < tree->blocks; i++) {
        qkv_block_free(tree->block[i].gradients, tree->bytes);
        qkv_gradient_pair_free(tree->block[i].pair);
        free(tree->block[i].is_complete);
    }
    pthread_cond_destroy(&tree->block_is_free);
    pthread_mutex_destroy(&tree->mutex);
    qkv_gradient_message_free(tree->message);
    free(tree->block);
    free(tree->node);
    free(tree->is_busy);
    free(tree->result);
    free(tree);
}

/* ---- blocks; the caller holds the mutex, or no shard runs ---- */

int qkv_gradient_free_block(const struct qkv_gradient_tree *tree)
{
    int usable = tree->blocks, lowest = -1;
    for (int i = tree->blocks - 1; i >= 0; i--) {
        usable -= tree->block[i].is_taken && i != tree->earlier;
        if (!tree->block[i].is_taken) lowest = i;
    }
    return usable > 1 ? lowest : -1;
}

/* ---- nodes ---- */

/* Adds block `right` to block `left` and frees `right`. Releases the mutex during the addition. */
static void merge(struct qkv_gradient_tree *tree, int left, int right)
{
    void *const blocks[] = {tree->block[left].gradients, tree->block[right].gradients};
    pthread_mutex_unlock(&tree->mutex);
    tree->kernels->sum(tree->parameters->elements, 2, blocks, 0);
    pthread_mutex_lock(&tree->mutex);
    tree->block[right].is_taken = false;
    pthread_cond_broadcast(&tree->block_is_free);
}

int qkv_gradient_writers(const struct qkv_gradient_tree *tree, int first, int width, int *writer)
{
    int count = 0;
    for (int shard = first; shard < first + width && shard < tree->end_own; shard++) {
        if (shard < tree->first_own || tree->is_empty[shard] || qkv_gradient_is_second(tree, shard)) continue;
        if (count++ == 0 && writer) *writer = shard;
    }
    return count;
}

/* Completes the node of one shard, and then each node above it whose children are both complete. Stops at a node that belongs
 * to another process, the one that computes its first shard; and, if the exchange does the additions, at a node whose shards
 * are in several blocks. The caller holds the mutex. */
static void complete_shard(struct qkv_gradient_tree *tree, int shard, int block)
{
    struct node *node = tree->node;
    int first = shard;
    for (int width = 1;; width *= 2) {
        int left = qkv_sum_tree_parent(first, width), right = left + width;
        node[first] = (struct node){width, block};
        if (width == tree->root_width || left < tree->first_own) return;
        if (right >= tree->shards) continue; /* no sibling */
        if (node[qkv_sum_tree_sibling(first, width)].width < width) return;
        if (tree->exchange_adds_blocks && qkv_gradient_writers(tree, left, 2 * width, NULL) > 1) return;
        if (node[left].block >= 0 && node[right].block >= 0) merge(tree, node[left].block, node[right].block);
        block = node[left].block >= 0 ? node[left].block : node[right].block;
        first = left;
    }
}

/* ---- a step ---- */

static void sum_range(void *context, int range)
{
    const struct qkv_gradient_tree *tree = context;
    int64_t start = (int64_t)range * RANGE, rest = tree->parameters->elements - start;
    tree->kernels->sum(rest < RANGE ? rest : RANGE, tree->results, tree->result, start);
}

/* Adds all results to the first one. */
static void join_results(struct qkv_gradient_tree *tree, struct qkv_workers *workers)
{
    if (tree->results < 2) return;
    qkv_workers_run(workers, (int)((tree->parameters->elements + RANGE - 1) / RANGE), sum_range, tree);
    tree->results = 1;
}

void qkv_gradient_tree_begin(struct qkv_gradient_tree *tree, const bool *is_empty, bool accumulate,
                             struct qkv_workers *workers)
{
    if (accumulate) join_results(tree, workers);
    tree->earlier = accumulate && tree->results ? tree->first_result : -1;
    for (int i = 0; i < tree->blocks; i++) tree->block[i].is_taken = i == tree->earlier;
    tree->exchanged = -1;
    tree->results = 0;
    tree->next = tree->first_own;
    tree->is_empty = is_empty;
    memset(tree->is_busy, 0, (size_t)tree->threads * sizeof *tree->is_busy);
    for (int i = 0; i < tree->shards; i++) tree->node[i] = (struct node){0, -1};
    pthread_mutex_lock(&tree->mutex);
    for (int i = 0; i < tree->shards; i++)
        if (is_empty[i]) complete_shard(tree, i, -1);
    pthread_mutex_unlock(&tree->mutex);
}

void qkv_gradient_tree_clear(struct qkv_gradient_tree *tree)
{
    tree->results = 0;
}

bool qkv_gradient_is_second(const struct qkv_gradient_tree *tree, int shard)
{
    return tree->is_paired && shard % 2 == 1 && shard > tree->first_own && !tree->is_empty[shard - 1];
}

/* Prepares a free block for a shard, the first that writes to it. A block is set to 0 when it is used for the first time, because
 * nothing writes to the gaps between parameters; not earlier: a block that is never used should take no physical memory. */
static void begin_block(struct qkv_gradient_tree *tree, int shard, int index)
{
    struct block *block = &tree->block[index];
    if (!block->has_been_used) memset(block->gradients, 0, tree->bytes);
    block->has_been_used = block->is_taken = true;
    tree->node[shard].block = index;
    if (block->pair) qkv_gradient_pair_reset(block->pair);
    for (int64_t i = 0; tree->processes && i < tree->parameters->count; i++)
        atomic_store(&block->is_complete[i], false);
}

/* Whether the right sibling of the shard will add to its block. */
static bool is_first(const struct qkv_gradient_tree *tree, int shard)
{
    return shard + 1 < tree->end_own && !tree->is_empty[shard + 1] && qkv_gradient_is_second(tree, shard + 1);
}

bool qkv_gradient_tree_take(struct qkv_gradient_tree *tree, struct qkv_gradient_leaf *leaf)
{
    int index = -1;
    pthread_mutex_lock(&tree->mutex);
    for (;; pthread_cond_wait(&tree->block_is_free, &tree->mutex)) {
        while (tree->next < tree->end_own && tree->is_empty[tree->next]) tree->next++;
        if (tree->next == tree->end_own || qkv_gradient_is_second(tree, tree->next)) break;
        if ((index = qkv_gradient_free_block(tree)) >= 0) break;
    }
    int shard = tree->next;
    bool is_taken = shard < tree->end_own, is_second = is_taken && qkv_gradient_is_second(tree, shard);
    if (is_taken) {
        tree->next++;
        if (is_second)
            index = tree->node[shard - 1].block;
        else
            begin_block(tree, shard, index);
        const struct block *block = &tree->block[index];
        *leaf = (struct qkv_gradient_leaf){
            .shard = shard,
            .gradients = block->gradients,
            .pair = is_second || is_first(tree, shard) ? block->pair : NULL,
            .is_second = is_second,
            .is_complete = is_first(tree, shard) ? NULL : block->is_complete,
        };
        while (tree->is_busy[leaf->worker]) leaf->worker++;
        tree->is_busy[leaf->worker] = true;
    }
    pthread_mutex_unlock(&tree->mutex);
    return is_taken;
}

void qkv_gradient_tree_complete(struct qkv_gradient_tree *tree, const struct qkv_gradient_leaf *leaf)
{
    pthread_mutex_lock(&tree->mutex);
    tree->is_busy[leaf->worker] = false;
    complete_shard(tree, leaf->shard, leaf->is_second ? -1 : tree->node[leaf->shard].block);
    pthread_mutex_unlock(&tree->mutex);
}

void qkv_gradient_tree_end(struct qkv_gradient_tree *tree, struct qkv_workers *workers)
{
    if (qkv_exchange_rank(tree->processes) > 0) return; /* the sum is with process 0 */
    for (int i = 0; i < tree->roots; i++) {
        int block = tree->exchanged >= 0 ? tree->exchanged : tree->node[i * tree->root_width].block;
        if (block < 0) {
            block = qkv_gradient_free_block(tree);
            tree->block[block].is_taken = true;
            memset(tree->block[block].gradients, 0, tree->bytes);
        }
        if (i == 0) tree->first_result = block;
        tree->result[i] = tree->block[block].gradients;
    }
    tree->results = tree->roots;
    if (tree->earlier < 0) return;
    join_results(tree, workers);
    tree->result[1] = tree->result[0];
    tree->result[0] = tree->block[tree->earlier].gradients;
    tree->results = 2;
    join_results(tree, workers);
    tree->first_result = tree->earlier;
    tree->earlier = -1;
}

void *const *qkv_gradient_tree_blocks(const struct qkv_gradient_tree *tree, int *count)
{
    *count = tree->results;
    return tree->result;
}

void *qkv_gradient_tree_any_block(const struct qkv_gradient_tree *tree)
{
    return tree->block[0].gradients;
}
