/* Messages between processes, and the thread that exchanges them. */
#include "core/exchange.h"

#include <time.h>

int qkv_processes_rank(const struct qkv_processes *processes)
{
    return processes ? processes->rank : 0;
}

int qkv_processes_count(const struct qkv_processes *processes)
{
    return processes ? processes->count : 1;
}

enum qkv_status qkv_exchange_send(struct qkv_processes *processes, int to, const void *data, size_t size,
                                  struct qkv_error *error)
{
    return processes ? processes->transport->send(processes, to, data, size, error) : QKV_OK;
}

enum qkv_status qkv_exchange_receive(struct qkv_processes *processes, int from, void *data, size_t size,
                                     struct qkv_error *error)
{
    return processes ? processes->transport->receive(processes, from, data, size, error) : QKV_OK;
}

enum qkv_status qkv_exchange_broadcast(struct qkv_processes *processes, void *data, size_t size,
                                       struct qkv_error *error)
{
    return processes ? processes->transport->broadcast(processes, data, size, error) : QKV_OK;
}

enum qkv_status qkv_exchange_collect(struct qkv_processes *processes, void *items, size_t size, int count,
                                     struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (int rank = 1; !status && rank < qkv_processes_count(processes); rank++) {
        int first = qkv_exchange_first(processes, rank, count),
            end = qkv_exchange_first(processes, rank + 1, count);
        char *slice = (char *)items + (size_t)first * size;
        size_t bytes = (size_t)(end - first) * size;
        if (processes->rank == 0) status = qkv_exchange_receive(processes, rank, slice, bytes, error);
        if (processes->rank == rank) status = qkv_exchange_send(processes, 0, slice, bytes, error);
    }
    return status;
}

bool qkv_exchange_start(struct qkv_processes *processes, void *(*function)(void *context), void *context)
{
    return processes && processes->any_thread && !pthread_create(&processes->thread, NULL, function, context);
}

void qkv_exchange_finish(struct qkv_processes *processes)
{
    pthread_join(processes->thread, NULL);
}

void qkv_exchange_nap(void)
{
    const struct timespec nap = {.tv_nsec = 200000};
    nanosleep(&nap, NULL);
}
