/* Joins the processes that mpirun started, if it did, and leaves them. */

#include "processes/processes.h"
#include "core/system.h"

#include <stdlib.h>
#include <unistd.h>

int qkv_launched_processes(void)
{
    const char *count = getenv("OMPI_COMM_WORLD_SIZE");
    if (!count) count = getenv("PMI_SIZE");
    if (count) return atoi(count);
    return getenv("PMIX_RANK") ? 0 : 1;
}

enum qkv_status qkv_processes_join(struct qkv_processes **processes, struct qkv_error *error)
{
    int expected = qkv_launched_processes();
    *processes = NULL;
    if (expected == 1) return QKV_OK;
#ifdef QKV_MPI
    return qkv_mpi_join(processes, expected, error);
#else
    return qkv_error_set(
        error, "this qkv was built without MPI, so that it cannot work in several processes: "
               "install it (on Debian or Ubuntu: apt-get install openmpi-bin libopenmpi-dev) and build "
               "qkv again");
#endif
}

void qkv_processes_leave(struct qkv_processes *processes)
{
    if (processes) processes->transport->leave(processes);
}

int qkv_processes_threads(const struct qkv_processes *processes)
{
    if (!processes) return 0;
    /* mpirun may have bound each process to processors of its own; without, the processes share them. */
    long share = sysconf(_SC_NPROCESSORS_ONLN) / processes->near;
    int available = qkv_processors_available();
    return share < 1 ? 1 : share < available ? (int)share : available;
}

void qkv_processes_abort(struct qkv_processes *processes)
{
    if (processes) processes->is_broken = true;
}

enum qkv_status qkv_processes_share_status(struct qkv_processes *processes, enum qkv_status status)
{
    return qkv_exchange_broadcast(processes, &status, sizeof status, NULL) ? QKV_INVALID : status;
}
