/* A team of threads for work that consists of independent parts.
 *
 * Example:
 *     struct qkv_error error;
 *     struct qkv_workers *workers = qkv_workers_new(0, &error); // all processors
 *     if (!workers) fprintf(stderr, "%s\n", error.message);
 *     // qkv_workers_run(workers, parts, function, context) calls function(context, part) for each part
 *     qkv_workers_free(workers);
 */
#ifndef QKV_WORKERS_H
#define QKV_WORKERS_H

#include "qkv/error.h"

#include <stdbool.h>

struct qkv_workers;

/* Starts a team of `threads` (0 to 1024), of which the caller is one; 0: as many as the machine has processors. NULL,
 * with the error set, when the number is out of range or threads cannot be started. */
QKV_API struct qkv_workers *qkv_workers_new(int threads, struct qkv_error *error);

/* Number of threads, including the caller. 1 for NULL: the caller alone. */
QKV_API int qkv_workers_count(const struct qkv_workers *workers);

/* Calls function(context, part) once for every part 0 .. parts-1 and returns when all are done. Any thread may run any
 * part, in any order; results must not depend on it. The caller runs all parts alone if `workers` is NULL, or if the
 * team is busy with the run of another thread or with the part that makes this call. */
QKV_API void qkv_workers_run(struct qkv_workers *workers, int parts,
                             void (*function)(void *context, int part), void *context);

/* Stops and joins the threads. No run may be in progress. NULL is allowed. */
QKV_API void qkv_workers_free(struct qkv_workers *workers);

/* ---- threads of OpenBLAS, which belong to the whole process ---- */

/* Sets whether qkv_graph_new limits OpenBLAS to one thread in the whole process (openblas_set_num_threads); true at first.
 * qkv runs sentences and parts of products in parallel itself, so threads of OpenBLAS would only compete with its own. Call
 * it with false before the first graph if the program uses OpenBLAS itself with several threads: qkv then leaves the number
 * of threads as it is; products in float64 may be slower, and the bits of their results may depend on that number. */
QKV_API void qkv_set_openblas_single_threaded(bool to_one);

/* Ends the threads of OpenBLAS; call it at the start of a program that uses OpenBLAS only through qkv. OpenBLAS starts its
 * threads when it is loaded, and they spin for about 0.1 s before they sleep, on processors that the workers need. */
QKV_API void qkv_end_openblas_threads(void);

#endif
