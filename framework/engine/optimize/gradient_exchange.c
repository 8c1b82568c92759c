/* Sums gradients over processes, bucket by bucket. If the children of a node belong to two processes, the owner of the right
 * child sends its bucket to the owner of the left child. One bucket is sent while backward computes the next. */
#include "optimize/gradient_nodes.h"

#include "kernels/optimizer.h"

#include <stdlib.h>
#include <string.h>

/* Whether a node has no gradient, because all shards below it are empty. */
static bool is_empty_node(const struct qkv_gradient_tree *tree, int level, int i)
{
    for (int shard = i << level; shard < (i + 1) << level && shard < tree->shards; shard++)
        if (!tree->is_empty[shard]) return false;
    return true;
}

/* The sum of one bucket of the gradients over the tree. */
struct exchange {
    struct qkv_gradient_tree *tree;
    int bucket, rank;
    struct qkv_gradient_range range;
    enum qkv_status status;
    struct qkv_error *error;
};

static int owner_of(const struct qkv_gradient_tree *tree, int level, int i)
{
    return qkv_exchange_owner(tree->processes, i << level, tree->shards);
}

/* Whether this process computes a shard of the node, which may be empty. */
static bool has_own(const struct qkv_gradient_tree *tree, int level, int i)
{
    return i << level < tree->end_own && (i + 1) << level > tree->first_own;
}

/* Whether this process computes all shards of the node that have a gradient. */
static bool is_local(const struct qkv_gradient_tree *tree, int level, int i)
{
    if (i << level < tree->first_own) return false;
    for (int shard = tree->end_own; shard < (i + 1) << level && shard < tree->shards; shard++)
        if (!tree->is_empty[shard]) return false;
    return true;
}

/* The block to which all shards of a local node write; -1: none yet, or they write to several. */
static int only_block(const struct qkv_gradient_tree *tree, int level, int i)
{
    int first;
    return qkv_gradient_writers(tree, level, i, &first) == 1 ? tree->node[first].block : -1;
}

/* Whether the exchange need not add anything for a node: the workers of this process add all of it, or only one block is
 * written. */
static bool needs_no_exchange(const struct qkv_gradient_tree *tree, int level, int i)
{
    return is_local(tree, level, i) &&
           (!tree->exchange_adds_blocks || qkv_gradient_writers(tree, level, i, NULL) == 1);
}

/* The block that holds the complete bucket of a node that workers add; -1: it is not complete yet. */
static int complete_block(const struct exchange *exchange, int level, int i)
{
    struct qkv_gradient_tree *tree = exchange->tree;
    pthread_mutex_lock(&tree->mutex);
    const struct node *node = node_at(tree, level, i);
    int block = node->is_complete ? node->block : only_block(tree, level, i);
    bool is_complete = block >= 0;
    for (int64_t p = exchange->range.first; is_complete && !node->is_complete && p < exchange->range.end; p++)
        is_complete = atomic_load_explicit(&tree->block[block].is_complete[p], memory_order_acquire);
    pthread_mutex_unlock(&tree->mutex);
    return is_complete ? block : -1;
}

static int wait_for_block(const struct exchange *exchange, int level, int i)
{
    int block;
    while ((block = complete_block(exchange, level, i)) < 0) qkv_exchange_nap();
    return block;
}

/* Takes a block for a node whose left child is empty here. This process has at most one such node, because the node contains
 * both the last shard of this process and shards of the next one. */
static int take_receive_block(struct qkv_gradient_tree *tree, int level, int i)
{
    struct node *node = node_at(tree, level, i);
    pthread_mutex_lock(&tree->mutex);
    while (node->block < 0 && (node->block = qkv_gradient_free_block(tree)) < 0)
        pthread_cond_wait(&tree->block_is_free, &tree->mutex);
    tree->block[node->block].is_taken = true;
    pthread_mutex_unlock(&tree->mutex);
    return node->block;
}

/* Receives the bucket of a right child, and adds it to the block of its left sibling. Returns the block of their sum. */
static int receive_right(struct exchange *exchange, int level, int i, int left)
{
    struct qkv_gradient_tree *tree = exchange->tree;
    int64_t start = exchange->range.start, count = exchange->range.count;
    size_t size = qkv_dtype_size(tree->parameters->dtype);
    void *numbers;
    exchange->status =
        qkv_gradient_message_receive(tree->message, exchange->bucket, tree->processes,
                                     owner_of(tree, level - 1, 2 * i + 1), &numbers, exchange->error);
    if (exchange->status) return -1;
    int block = left < 0 ? take_receive_block(tree, level, i) : left;
    char *bucket = (char *)tree->block[block].gradients + (size_t)start * size;
    if (left < 0)
        memcpy(bucket, numbers, (size_t)count * size);
    else
        tree->kernels->sum(count, 2, (void *[]){bucket, numbers}, 0);
    return block;
}

/* Sums the bucket over node i of a level: the part of the work that belongs to this process. Returns the block that has the
 * sum; -1: another process has it, or the node is empty, or an exchange has failed. */
static int sum_bucket(struct exchange *exchange, int level, int i)
{
    struct qkv_gradient_tree *tree = exchange->tree;
    if (exchange->status || !has_own(tree, level, i) || is_empty_node(tree, level, i)) return -1;
    if (needs_no_exchange(tree, level, i)) return wait_for_block(exchange, level, i);
    int left = sum_bucket(exchange, level - 1, 2 * i);
    if (2 * i + 1 == nodes_of(tree, level - 1) || is_empty_node(tree, level - 1, 2 * i + 1)) return left;
    int right = sum_bucket(exchange, level - 1, 2 * i + 1), rank = exchange->rank;
    int to = owner_of(tree, level - 1, 2 * i), from = owner_of(tree, level - 1, 2 * i + 1);
    if (exchange->status || (rank != to && rank != from)) return -1;
    if (rank != from) return receive_right(exchange, level, i, left);
    if (rank != to) {
        exchange->status = qkv_gradient_message_send(tree->message, exchange->bucket, tree->processes, to,
                                                     tree->block[right].gradients, exchange->error);
        return -1;
    }
    if (left < 0) return right;
    void *const blocks[] = {tree->block[left].gradients, tree->block[right].gradients};
    tree->kernels->sum(exchange->range.count, 2, blocks, exchange->range.start);
    return left;
}

/* There is no deadlock: all processes go through the buckets, and for each bucket through the tree, in the same order, so that
 * there is always a message that both its sender and its receiver have reached; and the workers of a process wait for no
 * message. */
enum qkv_status qkv_gradient_tree_exchange(struct qkv_gradient_tree *tree, struct qkv_error *error)
{
    struct exchange exchange = {.tree = tree, .rank = qkv_exchange_rank(tree->processes), .error = error};
    int buckets = qkv_exchange_count(tree->processes) > 1 ? qkv_gradient_message_buckets(tree->message) : 0;
    for (int block; exchange.bucket < buckets && !exchange.status; exchange.bucket++) {
        exchange.range = qkv_gradient_message_range(tree->message, exchange.bucket);
        block = sum_bucket(&exchange, tree->root_level, 0);
        if (block < 0 || exchange.bucket + 1 < buckets) continue;
        pthread_mutex_lock(&tree->mutex);
        *node_at(tree, tree->root_level, 0) = (struct node){true, block};
        pthread_mutex_unlock(&tree->mutex);
    }
    return exchange.status;
}

bool qkv_gradient_tree_has_buckets(const struct qkv_gradient_tree *tree)
{
    return tree->message && qkv_gradient_message_buckets(tree->message) > 1;
}
