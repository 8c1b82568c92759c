/* Several processes that mpirun has started, which train one model together: each computes whole shards of every batch, and
 * process 0 has the sums, in the order of qkv/data_parallel.h, so with the same bits as one process. Or they translate together
 * (qkv/translator.h, qkv/evaluate.h). docs/processes.md says how to start them.
 *
 * Example:
 *     struct qkv_error error;
 *     struct qkv_processes *processes;
 *     if (qkv_processes_join(&processes, &error)) fprintf(stderr, "%s\n", error.message);
 *     if (qkv_processes_rank(processes) == 0) printf("%d processes\n", qkv_processes_count(processes));
 *     qkv_processes_leave(processes);
 *
 * Everywhere, NULL stands for a process that works alone. Processes talk through MPI, which is loaded by
 * qkv_processes_join and by nothing else. One thread calls these functions; a step of training starts another, which sends
 * gradients while backward goes on. */
#ifndef QKV_PROCESSES_H
#define QKV_PROCESSES_H

#include "qkv/error.h"

#include <stdint.h>

struct qkv_processes;

/* Joins the processes that mpirun started together with this one; all of them must call it. *processes becomes NULL where
 * mpirun started one process or none: that costs a look at the environment. Fails where qkv was built without MPI, or
 * the library is missing. */
QKV_API enum qkv_status qkv_processes_join(struct qkv_processes **processes, struct qkv_error *error);

/* Number of this process, from 0, and of all processes. */
QKV_API int qkv_processes_rank(const struct qkv_processes *processes);
QKV_API int qkv_processes_count(const struct qkv_processes *processes);

/* Threads that this process starts by default: its part of the processors of its machine. 0: all of them. */
QKV_API int qkv_processes_threads(const struct qkv_processes *processes);

/* Gives all processes the status of process 0, and returns it. */
QKV_API enum qkv_status qkv_processes_share_status(struct qkv_processes *processes, enum qkv_status status);

/* Says that this process cannot go on, while others wait for it: qkv_processes_leave then ends all processes. */
QKV_API void qkv_processes_give_up(struct qkv_processes *processes);

/* Waits until all processes leave, and frees. Where a process has died or given up: ends all of them at once, this one, too,
 * with exit code 2. Files must be written and messages printed before. */
QKV_API void qkv_processes_leave(struct qkv_processes *processes);

#endif
