/* Messages between the processes of qkv/processes.h. Each function fails with a message when a process has died; then all
 * later calls fail, too. All functions do nothing if `processes` is NULL. */
#ifndef QKV_CORE_EXCHANGE_H
#define QKV_CORE_EXCHANGE_H

#include "qkv/processes.h"

#include <stdbool.h>
#include <stddef.h>

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

/* "process 1 on host": for messages. Lives as long as the processes. */
const char *qkv_exchange_name(const struct qkv_processes *processes, int rank);

/* Bytes that this process has sent. */
int64_t qkv_exchange_sent(const struct qkv_processes *processes);

/* Starts a thread that calls `function`, which may send and receive; until qkv_exchange_finish no other thread may. False:
 * the thread cannot be started. */
bool qkv_exchange_start(struct qkv_processes *processes, void *(*function)(void *context), void *context);

/* Waits until that function has returned. */
void qkv_exchange_finish(struct qkv_processes *processes);

/* Sleeps for a fifth of a millisecond: for the thread of qkv_exchange_start while it waits for other threads of this
 * process. */
void qkv_exchange_nap(void);

/* True after a process has died or given up: messages no longer arrive. */
bool qkv_exchange_is_broken(const struct qkv_processes *processes);

#endif
