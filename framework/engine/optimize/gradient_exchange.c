/* Sums gradients over processes, bucket by bucket. If the children of a node belong to two processes, the owner of the right
 * child sends its bucket to the owner of the left child. One bucket is sent while backward computes the next. */
#include "optimize/gradient_nodes.h"

#include "kernels/optimizer.h"

#include <stdlib.h>
#include <string.h>

/* Whether a node has no gradient, because all shards below it are empty. */
static bool is_empty_node(const struct qkv_gradient_tree *tree, int first, int width)
{
    for (int shard = first; shard < first + width && shard < tree->shards; shard++)
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

/* The process that computes the first shard of a node: it gets the sum. */
static int owner_of(const struct qkv_gradient_tree *tree, int first)
{
    return qkv_exchange_owner(tree->processes, first, tree->shards);
}

/* Whether this process computes a shard of the node, which may be empty. */
static bool has_own(const struct qkv_gradient_tree *tree, int first, int width)
{
    return first < tree->end_own && first + width > tree->first_own;
}

/* Whether the exchange need not add anything for a node, of which this process computes all shards that have a gradient: its
 * workers add all of it, or only one block is written. */
static bool needs_no_exchange(const struct qkv_gradient_tree *tree, int first, int width)
{
    int rest = first + width - tree->end_own;
    return first >= tree->first_own && (rest <= 0 || is_empty_node(tree, tree->end_own, rest)) &&
           (!tree->exchange_adds_blocks || qkv_gradient_writers(tree, first, width, NULL) == 1);
}

/* The block that holds the complete bucket of a node that workers add; -1: it is not complete yet. */
static int complete_block(const struct exchange *exchange, int first, int width)
{
    struct qkv_gradient_tree *tree = exchange->tree;
    pthread_mutex_lock(&tree->mutex);
    bool is_added = tree->node[first].width >= width;
    int writer = first, writers = is_added ? 1 : qkv_gradient_writers(tree, first, width, &writer);
    int block = writers == 1 ? tree->node[writer].block : -1;
    bool is_complete = block >= 0;
    for (int64_t p = exchange->range.first; is_complete && !is_added && p < exchange->range.end; p++)
        is_complete = atomic_load_explicit(&tree->block[block].is_complete[p], memory_order_acquire);
    pthread_mutex_unlock(&tree->mutex);
    return is_complete ? block : -1;
}

static int wait_for_block(const struct exchange *exchange, int first, int width)
{
    int block;
    while ((block = complete_block(exchange, first, width)) < 0) qkv_exchange_nap();
    return block;
}

/* Takes a block for a node whose left child is empty here. This process has at most one such node, because the node contains
 * both the last shard of this process and shards of the next one. */
static int take_receive_block(struct qkv_gradient_tree *tree, int first)
{
    struct node *node = &tree->node[first];
    pthread_mutex_lock(&tree->mutex);
    while (node->block < 0 && (node->block = qkv_gradient_free_block(tree)) < 0)
        pthread_cond_wait(&tree->block_is_free, &tree->mutex);
    tree->block[node->block].is_taken = true;
    pthread_mutex_unlock(&tree->mutex);
    return node->block;
}

/* Receives the bucket of a right child, and adds it to block `left` of the left child, which begins at `first`; -1: that is
 * empty. Returns the block of their sum. */
static int receive_right(struct exchange *exchange, int first, int right, int left)
{
    struct qkv_gradient_tree *tree = exchange->tree;
    int64_t start = exchange->range.start, count = exchange->range.count;
    size_t size = qkv_dtype_size(tree->parameters->dtype);
    void *numbers;
    exchange->status = qkv_gradient_message_receive(tree->message, exchange->bucket, tree->processes,
                                                    owner_of(tree, right), &numbers, exchange->error);
    if (exchange->status) return -1;
    int block = left < 0 ? take_receive_block(tree, first) : left;
    char *bucket = (char *)tree->block[block].gradients + (size_t)start * size;
    if (left < 0)
        memcpy(bucket, numbers, (size_t)count * size);
    else
        tree->kernels->sum(count, 2, (void *[]){bucket, numbers}, 0);
    return block;
}

/* Sums the bucket over a node: the part of the work that belongs to this process. Returns the block that has the sum; -1:
 * another process has it, or the node is empty, or an exchange has failed. */
static int sum_bucket(struct exchange *exchange, int first, int width)
{
    struct qkv_gradient_tree *tree = exchange->tree;
    if (exchange->status || !has_own(tree, first, width) || is_empty_node(tree, first, width)) return -1;
    if (needs_no_exchange(tree, first, width)) return wait_for_block(exchange, first, width);
    int half = width / 2, middle = first + half, left = sum_bucket(exchange, first, half);
    if (is_empty_node(tree, middle, half)) return left;
    int right = sum_bucket(exchange, middle, half), rank = exchange->rank;
    int to = owner_of(tree, first), from = owner_of(tree, middle);
    if (exchange->status || (rank != to && rank != from)) return -1;
    if (rank != from) return receive_right(exchange, first, middle, left);
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
    for (; exchange.bucket < buckets && !exchange.status; exchange.bucket++) {
        exchange.range = qkv_gradient_message_range(tree->message, exchange.bucket);
        tree->exchanged = sum_bucket(&exchange, 0, tree->root_width);
    }
    return exchange.status;
}

bool qkv_gradient_tree_has_buckets(const struct qkv_gradient_tree *tree)
{
    return tree->message && qkv_gradient_message_buckets(tree->message) > 1;
}
