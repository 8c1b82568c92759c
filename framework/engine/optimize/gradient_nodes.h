/* The parts of struct qkv_gradient_tree, for the sums of workers (gradient_tree.c) and of processes (gradient_exchange.c). */
#ifndef QKV_TRAIN_GRADIENT_NODES_H
#define QKV_TRAIN_GRADIENT_NODES_H

#include "optimize/gradient_message.h"
#include "optimize/gradient_tree.h"

#include <pthread.h>

struct block {
    void *gradients;
    struct qkv_gradient_pair *pair;
    /* [parameters->count]: set when the shard, or the pair, adds nothing more to the gradient of a parameter; NULL: there are
     * no other processes */
    atomic_bool *is_complete;
    bool is_taken;
    bool has_been_used;
};

/* The nodes of the sum (core/sum_tree.h) that begin at a shard. */
struct node {
    int width; /* of the widest that is complete; 0: none */
    int block; /* that the shard writes to, or that holds the sum; -1: the shard is not begun, or there is no gradient here */
};

struct qkv_gradient_tree {
    const struct qkv_parameters *parameters;
    struct qkv_processes *processes;
    struct qkv_gradient_message *message; /* NULL: there are no other processes */
    int first_own, end_own;               /* the shards that this process computes */
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

/* Whether the shard adds to the block of its left sibling. */
bool qkv_gradient_is_second(const struct qkv_gradient_tree *tree, int shard);

/* Number of blocks that this process's shards of a node write to. *writer becomes the first shard that writes to a block of its
 * own, if there is one; `writer` may be NULL. */
int qkv_gradient_writers(const struct qkv_gradient_tree *tree, int first, int width, int *writer);

/* The free block with the lowest index, so that blocks that are never needed take no physical memory; -1: none is free. One
 * block is always kept back for the sum over earlier batches. */
int qkv_gradient_free_block(const struct qkv_gradient_tree *tree);

#endif
