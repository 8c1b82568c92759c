/* Messages between processes that compute parts of one step. The engine does not know how they travel: a transport, such as
 * that of MPI, sends and receives. Each function fails with a message when a process has died; then all later calls fail, too.
 * NULL stands for a process that works alone: all functions then do nothing. */
#pragma once

#include "qkv/base.h"

#include <pthread.h>

struct qkv_processes;

/* Functions of a transport; each gets processes with a count above 1. They add the bytes that they send to `sent`, and set
 * is_broken before they fail. */
struct qkv_transport {
    enum qkv_status (*send)(struct qkv_processes *processes, int to, const void *data, size_t size,
                            struct qkv_error *error);
    enum qkv_status (*receive)(struct qkv_processes *processes, int from, void *data, size_t size,
                               struct qkv_error *error);
    enum qkv_status (*broadcast)(struct qkv_processes *processes, void *data, size_t size,
                                 struct qkv_error *error);
    void (*leave)(struct qkv_processes *processes); /* also frees them */
};

/* What all transports have. A transport puts it at the start of a struct of its own. */
struct qkv_processes {
    const struct qkv_transport *transport;
    int rank, count;
    int near;          /* processes on this machine, this one counted */
    char (*name)[160]; /* [count]: "process 1 on host", for messages */
    int64_t sent;      /* bytes */
    bool is_broken;    /* a process has died or given up: messages no longer arrive */
    bool any_thread;   /* any thread may send and receive, one at a time */
    pthread_t thread;  /* of qkv_exchange_start */
};

/* Number of this process, from 0, and of all processes (qkv/trainer.h declares them for programs). */
QKV_API int qkv_processes_rank(const struct qkv_processes *processes);
QKV_API int qkv_processes_count(const struct qkv_processes *processes);

/* Sends `size` bytes to process `to`, which must receive the same number of bytes. Sending and receiving return when the
 * transfer is complete. */
enum qkv_status qkv_exchange_send(struct qkv_processes *processes, int to, const void *data, size_t size,
                                  struct qkv_error *error);
enum qkv_status qkv_exchange_receive(struct qkv_processes *processes, int from, void *data, size_t size,
                                     struct qkv_error *error);

/* Copies `size` bytes of process 0 to all others. */
enum qkv_status qkv_exchange_broadcast(struct qkv_processes *processes, void *data, size_t size,
                                       struct qkv_error *error);

/* The first item of process `rank`; `count` for the rank after the last. Items, such as shards, are divided into
 * consecutive parts, one for each process. */
static inline int qkv_exchange_first(const struct qkv_processes *processes, int rank, int count)
{
    return (int)((int64_t)rank * count / qkv_processes_count(processes));
}

/* The process that item `item` of `count` belongs to. */
static inline int qkv_exchange_owner(const struct qkv_processes *processes, int item, int count)
{
    return (int)(((int64_t)(item + 1) * qkv_processes_count(processes) - 1) / count);
}

/* Copies the items of each process, of `size` bytes, into the array items[count] of process 0. */
enum qkv_status qkv_exchange_collect(struct qkv_processes *processes, void *items, size_t size, int count,
                                     struct qkv_error *error);

/* Starts a thread that calls `function`, which may send and receive; until qkv_exchange_finish no other thread may. False:
 * the thread cannot be started. */
bool qkv_exchange_start(struct qkv_processes *processes, void *(*function)(void *context), void *context);

/* Waits until that function has returned. */
void qkv_exchange_finish(struct qkv_processes *processes);

/* Sleeps for a fifth of a millisecond: for the thread of qkv_exchange_start while it waits for other threads of this
 * process. */
void qkv_exchange_nap(void);

/* ---- sums of parts ----
 * The order in which parts of a sum are added, where its bits must not depend on threads, processes or memory: the gradients and
 * losses of shards. It is a binary tree: part 1 is added to part 0, 3 to 2, 5 to 4 and so on; then the sum at 2 to that at 0, 6 to
 * 4; then 4 to 0. A sum without a neighbour moves up unchanged.
 *
 * A node of the tree is known by its first part and its width, a power of two: it is the sum of the parts from `first` to below
 * `first` + `width`, as far as there are so many. Its children have half the width. */

/* An addition: of the node that begins at part `from` to the node of the same width that begins at part `to`. */
struct qkv_addition {
    int to, from;
};

/* Goes to the next addition of `count` parts, from {0}, which is before the first one. False: the sum is at part 0. */
static inline bool qkv_sum_tree_next(struct qkv_addition *addition, int count)
{
    int width = addition->from - addition->to;
    addition->to += 2 * width;
    addition->from += 2 * width;
    if (!width || addition->from >= count) *addition = (struct qkv_addition){0, width ? 2 * width : 1};
    return addition->from < count;
}

/* The first part of the sibling of a node, which has the same parent: the node may be its left or its right child. */
static inline int qkv_sum_tree_sibling(int first, int width)
{
    return first ^ width;
}

/* The first part of the parent of a node. */
static inline int qkv_sum_tree_parent(int first, int width)
{
    return first & ~width;
}
