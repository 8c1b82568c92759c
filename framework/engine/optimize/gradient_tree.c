/* The sum of the gradients of all shards, as a binary tree that depends on their number alone, so that it has the same bits
 * for any number of threads and processes.
 *
 * With more shards than MAX_ROOTS, workers compute a node as soon as both its children are complete: they add the block of the
 * right child to that of the left child and free it. They stop at a level with few nodes, the roots. The optimizer adds the
 * roots, because it has to read them anyway.
 *
 * Shards start in order, and only when they have their block. A shard that runs does not wait for a block; the second shard
 * of a pair waits for the first one, which is running already. So some thread always frees a block, and there is no deadlock
 * as long as there are enough blocks for one thread. */
#include "optimize/optimize.h"

#include "core/exchange.h"
#include "core/memory.h"
#include "core/system.h"
#include "kernels/registry.h"

/* ---- messages: gradients go to another process in buckets, so that one bucket is sent while backward computes the next ----
 * An embedding table has gradients only in the rows of the words that occur in the shard, so only these rows are sent: the message
 * for a bucket of a large table begins with a bit mask of them. All other buckets are sent as plain numbers. Only rows of +0 are
 * left out; the receiver adds zeros for them, so that the sum has the same bits as in one process. */

enum {
    BUCKET = 1 << 22, /* bytes at most, unless a row is larger */
    TABLE_FROM =
        1 << 16, /* bytes; for a smaller table, finding rows and further messages cost more than they save */
};

struct bucket {
    size_t start, size; /* bytes */
    int64_t rows;       /* of a large table; 0: everything is sent */
    size_t row_size;    /* bytes */
};

struct message {
    const struct qkv_parameters *parameters;
    /* Number of buckets. They cover the block from its end to its start, because backward computes the gradients of the
     * parameters that were declared last first. */
    int buckets;
    struct bucket *bucket;
    size_t largest;         /* bytes of a bucket */
    unsigned char *is_sent; /* bit mask of the rows of a bucket that are sent */
    char *sent;             /* [largest]: packed rows of a bucket, to send or as received */
    char *received;         /* [largest] */
};

/* Appends the buckets of a part of a block, from its end to its start; only counts them if message->bucket is NULL. row_size:
 * bytes of a unit that is not cut, a row or a number; is_table: the part is a large table. */
static void cut_part(struct message *message, size_t start, size_t size, size_t row_size, bool is_table)
{
    size_t max = row_size < BUCKET ? BUCKET / row_size * row_size : row_size;
    for (size_t left = size; left > 0;) {
        size_t length = left % max ? left % max : max;
        left -= length;
        if (length > message->largest) message->largest = length;
        if (message->bucket)
            message->bucket[message->buckets] =
                (struct bucket){start + left, length, is_table ? (int64_t)(length / row_size) : 0, row_size};
        message->buckets++;
    }
}

/* Cuts a block into buckets: each large table by rows, the parameters between them by numbers. */
static void cut(struct message *message)
{
    const struct qkv_parameters *parameters = message->parameters;
    size_t element = qkv_dtype_size(parameters->dtype), end = (size_t)parameters->elements * element;
    message->buckets = 0;
    for (int64_t i = parameters->count - 1; i >= 0; i--) {
        const struct qkv_parameter *p = parameters->list[i];
        size_t size = (size_t)p->count * element, offset = (size_t)p->offset * element;
        if (!p->is_table || size < TABLE_FROM) continue;
        cut_part(message, offset + size, end - offset - size, element, false);
        cut_part(message, offset, size, size / (size_t)p->shape.size[0], true);
        end = offset;
    }
    cut_part(message, 0, end, element, false);
}

static void message_free(struct message *message)
{
    if (!message) return;
    free(message->bucket);
    free(message->is_sent);
    free(message->sent);
    free(message->received);
    free(message);
}

/* NULL when memory runs out. The parameters, which are allocated, must outlive it. */
static struct message *message_new(const struct qkv_parameters *parameters)
{
    struct message *message = calloc(1, sizeof *message);
    if (!message) return NULL;
    message->parameters = parameters;
    cut(message);
    message->bucket = calloc((size_t)message->buckets + 1, sizeof *message->bucket);
    if (message->bucket) cut(message);
    message->is_sent = malloc(message->largest / 8 + 1);
    message->sent = malloc(message->largest + 1);
    message->received = malloc(message->largest + 1);
    if (message->bucket && message->is_sent && message->sent && message->received) return message;
    message_free(message);
    return NULL;
}

/* The numbers of a block that a bucket covers, [start, start + count), and the parameters that these belong to, wholly or in
 * part: [first, end). */
struct range {
    int64_t start, count;
    int64_t first, end;
};

static struct range range_of(const struct message *message, int bucket)
{
    const struct qkv_parameters *all = message->parameters;
    size_t element = qkv_dtype_size(all->dtype);
    struct range range = {
        .start = (int64_t)(message->bucket[bucket].start / element),
        .count = (int64_t)(message->bucket[bucket].size / element),
    };
    while (range.first < all->count &&
           all->list[range.first]->offset + all->list[range.first]->count <= range.start)
        range.first++;
    range.end = range.first;
    while (range.end < all->count && all->list[range.end]->offset < range.start + range.count) range.end++;
    return range;
}

static bool is_sent(const struct message *message, int64_t row)
{
    return message->is_sent[row / 8] >> row % 8 & 1;
}

static bool is_zero(const char *row, size_t size)
{
    return row[0] == 0 && !memcmp(row, row + 1, size - 1);
}

static size_t size_of_bits(const struct bucket *bucket)
{
    return (size_t)(bucket->rows + 7) / 8;
}

/* Chooses the rows to send: those that are not zero, or all rows if more than half of them are not zero. */
static void choose_rows(struct message *message, const struct bucket *bucket, const char *row)
{
    int64_t count = 0;
    memset(message->is_sent, 0, size_of_bits(bucket));
    for (int64_t i = 0; i < bucket->rows; i++, row += bucket->row_size) {
        if (is_zero(row, bucket->row_size)) continue;
        message->is_sent[i / 8] |= (unsigned char)(1 << i % 8);
        count++;
    }
    if (count > bucket->rows / 2) memset(message->is_sent, 0xFF, size_of_bits(bucket));
}

/* Bytes of the rows that are sent. */
static size_t size_of_rows(const struct message *message, const struct bucket *bucket)
{
    size_t count = 0;
    for (int64_t i = 0; i < bucket->rows; i++) count += is_sent(message, i);
    return count * bucket->row_size;
}

/* Sends a bucket of a block of gradients to a process that receives it, with the same bits. */
static enum qkv_status message_send(struct message *message, int bucket, struct qkv_processes *processes,
                                    int to, const void *gradients, struct qkv_error *error)
{
    const struct bucket *sent = &message->bucket[bucket];
    const char *numbers = (const char *)gradients + sent->start, *row = numbers;
    if (!sent->rows) return qkv_exchange_send(processes, to, numbers, sent->size, error);
    choose_rows(message, sent, numbers);
    if (qkv_exchange_send(processes, to, message->is_sent, size_of_bits(sent), error)) return QKV_INVALID;
    size_t size = size_of_rows(message, sent);
    if (size == sent->size) return qkv_exchange_send(processes, to, numbers, size, error);
    char *copy = message->sent;
    for (int64_t i = 0; i < sent->rows; i++, row += sent->row_size) {
        if (!is_sent(message, i)) continue;
        memcpy(copy, row, sent->row_size);
        copy += sent->row_size;
    }
    return qkv_exchange_send(processes, to, message->sent, size, error);
}

/* Receives a bucket. *numbers points into the message and is valid until the next bucket is sent or received. */
static enum qkv_status message_receive(struct message *message, int bucket, struct qkv_processes *processes,
                                       int from, void **numbers, struct qkv_error *error)
{
    const struct bucket *received = &message->bucket[bucket];
    *numbers = message->received;
    if (!received->rows)
        return qkv_exchange_receive(processes, from, message->received, received->size, error);
    if (qkv_exchange_receive(processes, from, message->is_sent, size_of_bits(received), error))
        return QKV_INVALID;
    size_t size = size_of_rows(message, received);
    if (size == received->size) return qkv_exchange_receive(processes, from, message->received, size, error);
    if (qkv_exchange_receive(processes, from, message->sent, size, error)) return QKV_INVALID;
    char *row = message->received;
    const char *copy = message->sent;
    for (int64_t i = 0; i < received->rows; i++, row += received->row_size) {
        bool has_gradient = is_sent(message, i);
        if (has_gradient)
            memcpy(row, copy, received->row_size);
        else
            memset(row, 0, received->row_size);
        copy += has_gradient ? received->row_size : 0;
    }
    return QKV_OK;
}

/* ---- the tree ---- */

struct block {
    void *gradients;
    struct qkv_gradient_pair *pair;
    /* [parameters->count]: set when the shard, or the pair, adds nothing more to the gradient of a parameter; NULL: there are
     * no other processes */
    atomic_bool *is_complete;
    bool is_taken;
    bool has_been_used;
};

/* The nodes of the sum (core/exchange.h) that begin at a shard. */
struct node {
    int width; /* of the widest that is complete; 0: none */
    int block; /* that the shard writes to, or that holds the sum; -1: the shard is not begun, or there is no gradient here */
};

struct qkv_gradient_tree {
    const struct qkv_parameters *parameters;
    struct qkv_processes *processes;
    struct message *message; /* NULL: there are no other processes */
    int first_own, end_own;  /* the shards that this process computes */
    const struct qkv_optimizer_kernels *kernels;
    size_t bytes; /* of a block */
    int shards, threads, roots, root_width;
    bool is_paired;
    /* Workers do not add blocks: every shard, or pair, keeps its block, and the exchange between processes adds them. */
    bool exchange_adds_blocks;
    struct node *node;   /* [shards] */
    struct block *block; /* [blocks] */
    int blocks;
    bool *is_busy;    /* [threads] */
    void **result;    /* [roots + 1] */
    int results;      /* 0: no step has been completed */
    int first_result; /* block of result[0] */
    int exchanged;    /* block that holds the sum over all processes; -1: the workers' root holds the sum */
    int earlier;      /* block that holds the sum over earlier batches; -1: none */
    const bool *is_empty;  /* of the step that is being run */
    int next;              /* shard */
    pthread_mutex_t mutex; /* guards nodes, blocks, is_busy and next during a step */
    pthread_cond_t block_is_free;
};

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
    bool is_divided = qkv_processes_count(tree->processes) > 1;
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
    int rank = qkv_processes_rank(processes);
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
    if (processes) tree->message = message_new(parameters);
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
    message_free(tree->message);
    free(tree->block);
    free(tree->node);
    free(tree->is_busy);
    free(tree->result);
    free(tree);
}

/* ---- blocks; the caller holds the mutex, or no shard runs ---- */

/* The free block with the lowest index, so that blocks that are never needed take no physical memory; -1: none is free. One
 * block is always kept back for the sum over earlier batches. */
static int find_free_block(const struct qkv_gradient_tree *tree)
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

/* Whether the shard adds to the block of its left sibling. */
static bool is_second_of_pair(const struct qkv_gradient_tree *tree, int shard)
{
    return tree->is_paired && shard % 2 == 1 && shard > tree->first_own && !tree->is_empty[shard - 1];
}

/* Number of blocks that this process's shards of a node write to. *writer becomes the first shard that writes to a block of its
 * own, if there is one; `writer` may be NULL. */
static int count_writers(const struct qkv_gradient_tree *tree, int first, int width, int *writer)
{
    int count = 0;
    for (int shard = first; shard < first + width && shard < tree->end_own; shard++) {
        if (shard < tree->first_own || tree->is_empty[shard] || is_second_of_pair(tree, shard)) continue;
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
        if (tree->exchange_adds_blocks && count_writers(tree, left, 2 * width, NULL) > 1) return;
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

/* Prepares a free block for a shard, the first that writes to it. A block is set to 0 when it is used for the first time,
 * because nothing writes to the gaps between parameters; not earlier: a block that is never used should take no physical
 * memory. */
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
    return shard + 1 < tree->end_own && !tree->is_empty[shard + 1] && is_second_of_pair(tree, shard + 1);
}

bool qkv_gradient_tree_take(struct qkv_gradient_tree *tree, struct qkv_gradient_leaf *leaf)
{
    int index = -1;
    pthread_mutex_lock(&tree->mutex);
    for (;; pthread_cond_wait(&tree->block_is_free, &tree->mutex)) {
        while (tree->next < tree->end_own && tree->is_empty[tree->next]) tree->next++;
        if (tree->next == tree->end_own || is_second_of_pair(tree, tree->next)) break;
        if ((index = find_free_block(tree)) >= 0) break;
    }
    int shard = tree->next;
    bool is_taken = shard < tree->end_own, is_second = is_taken && is_second_of_pair(tree, shard);
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
    if (qkv_processes_rank(tree->processes) > 0) return; /* the sum is with process 0 */
    for (int i = 0; i < tree->roots; i++) {
        int block = tree->exchanged >= 0 ? tree->exchanged : tree->node[i * tree->root_width].block;
        if (block < 0) {
            block = find_free_block(tree);
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

/* ---- the sum over processes, bucket by bucket ----
 * If the children of a node belong to two processes, the owner of the right
 * child sends its bucket to the owner of the left child. One bucket is sent while backward computes the next. */

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
    struct range range;
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
           (!tree->exchange_adds_blocks || count_writers(tree, first, width, NULL) == 1);
}

/* The block that holds the complete bucket of a node that workers add; -1: it is not complete yet. */
static int complete_block(const struct exchange *exchange, int first, int width)
{
    struct qkv_gradient_tree *tree = exchange->tree;
    pthread_mutex_lock(&tree->mutex);
    bool is_added = tree->node[first].width >= width;
    int writer = first, writers = is_added ? 1 : count_writers(tree, first, width, &writer);
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
    while (node->block < 0 && (node->block = find_free_block(tree)) < 0)
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
    exchange->status = message_receive(tree->message, exchange->bucket, tree->processes,
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
        exchange->status = message_send(tree->message, exchange->bucket, tree->processes, to,
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
    struct exchange exchange = {.tree = tree, .rank = qkv_processes_rank(tree->processes), .error = error};
    int buckets = qkv_processes_count(tree->processes) > 1 ? tree->message->buckets : 0;
    for (; exchange.bucket < buckets && !exchange.status; exchange.bucket++) {
        exchange.range = range_of(tree->message, exchange.bucket);
        tree->exchanged = sum_bucket(&exchange, 0, tree->root_width);
    }
    return exchange.status;
}

bool qkv_gradient_tree_has_buckets(const struct qkv_gradient_tree *tree)
{
    return tree->message && tree->message->buckets > 1;
}
