/* Several processes, started by mpirun, that train one model together: each computes complete shards of every batch, and
 * process 0 gets the sums, added in the order of qkv/optimizer.h and so with the same bits as in one process. They can
 * also translate together (qkv/translator.h, qkv/trainer.h). docs/processes.md explains how to start them.
 *
 * Example:
 *     struct qkv_error error;
 *     struct qkv_processes *processes;
 *     if (qkv_processes_join(&processes, &error)) fprintf(stderr, "%s\n", error.message);
 *     if (qkv_processes_rank(processes) == 0) printf("%d processes\n", qkv_processes_count(processes));
 *     qkv_processes_leave(processes);
 *
 * Everywhere, NULL stands for a process that works alone. Processes communicate through MPI; only qkv_processes_join loads
 * the MPI library. One thread calls these functions; a training step starts another thread, which sends gradients while
 * backward goes on. */
#ifndef QKV_PROCESSES_H
#define QKV_PROCESSES_H

#include "qkv/base.h"

#include <stdint.h>

struct qkv_processes;

/* Joins the processes that mpirun started together with this one; all of them must call it. *processes becomes NULL if
 * mpirun started only this process, or did not start it; this case only reads environment variables. Fails if qkv was built
 * without MPI, or the MPI library is missing. */
QKV_API enum qkv_status qkv_processes_join(struct qkv_processes **processes, struct qkv_error *error);

/* Number of this process, from 0, and of all processes. */
QKV_API int qkv_processes_rank(const struct qkv_processes *processes);
QKV_API int qkv_processes_count(const struct qkv_processes *processes);

/* Waits until all processes leave, and frees `processes`. If a process has died or given up, ends all processes
 * immediately, including this one, with exit code 2: write files and print messages before the call. */
QKV_API void qkv_processes_leave(struct qkv_processes *processes);

#endif
