/* In place of processes.c in a build without MPI: each process works alone, and joining fails if mpirun started several
 * processes. */
#include "core/exchange.h"
#include "core/launch.h"

enum qkv_status qkv_processes_join(struct qkv_processes **processes, struct qkv_error *error)
{
    *processes = NULL;
    if (qkv_launched_processes() == 1) return QKV_OK;
    return qkv_error_set(
        error, "this qkv was built without MPI, so that it cannot work in several processes: "
               "install it (on Debian or Ubuntu: apt-get install openmpi-bin libopenmpi-dev) and build "
               "qkv again");
}

int qkv_processes_rank(const struct qkv_processes *processes)
{
    (void)processes;
    return 0;
}

int qkv_processes_count(const struct qkv_processes *processes)
{
    (void)processes;
    return 1;
}

int qkv_processes_threads(const struct qkv_processes *processes)
{
    (void)processes;
    return 0;
}

enum qkv_status qkv_processes_share_status(struct qkv_processes *processes, enum qkv_status status)
{
    (void)processes;
    return status;
}

void qkv_processes_abort(struct qkv_processes *processes)
{
    (void)processes;
}

void qkv_processes_leave(struct qkv_processes *processes)
{
    (void)processes;
}

bool qkv_exchange_start(struct qkv_processes *processes, void *(*function)(void *context), void *context)
{
    (void)processes, (void)function, (void)context;
    return false;
}

void qkv_exchange_finish(struct qkv_processes *processes)
{
    (void)processes;
}

void qkv_exchange_nap(void)
{
}

enum qkv_status qkv_exchange_send(struct qkv_processes *processes, int to, const void *data, size_t size,
                                  struct qkv_error *error)
{
    (void)processes, (void)to, (void)data, (void)size, (void)error;
    return QKV_OK;
}

enum qkv_status qkv_exchange_receive(struct qkv_processes *processes, int from, void *data, size_t size,
                                     struct qkv_error *error)
{
    (void)processes, (void)from, (void)data, (void)size, (void)error;
    return QKV_OK;
}

enum qkv_status qkv_exchange_broadcast(struct qkv_processes *processes, void *data, size_t size,
                                       struct qkv_error *error)
{
    (void)processes, (void)data, (void)size, (void)error;
    return QKV_OK;
}

enum qkv_status qkv_exchange_collect(struct qkv_processes *processes, void *items, size_t size, int count,
                                     struct qkv_error *error)
{
    (void)processes, (void)items, (void)size, (void)count, (void)error;
    return QKV_OK;
}

const char *qkv_exchange_name(const struct qkv_processes *processes, int rank)
{
    (void)processes, (void)rank;
    return "this process";
}

int64_t qkv_exchange_sent(const struct qkv_processes *processes)
{
    (void)processes;
    return 0;
}

bool qkv_exchange_is_broken(const struct qkv_processes *processes)
{
    (void)processes;
    return false;
}
