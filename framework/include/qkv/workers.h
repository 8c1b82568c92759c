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

struct qkv_workers;

/* Starts a team of `threads`, of which the caller is one; 0: as many as the machine has processors. NULL, with the
 * error set, when threads cannot be started. */
QKV_API struct qkv_workers *qkv_workers_new(int threads, struct qkv_error *error);

/* Number of threads, including the caller. */
QKV_API int qkv_workers_count(const struct qkv_workers *workers);

/* Calls function(context, part) once for every part 0 .. parts-1 and returns when all are done. Any thread may run any
 * part, in any order; results must not depend on it. A part must not call qkv_workers_run on the same team. With NULL
 * for `workers` the caller runs all parts. */
QKV_API void qkv_workers_run(struct qkv_workers *workers, int parts,
                             void (*function)(void *context, int part), void *context);

/* Stops and joins the threads. NULL is allowed. */
QKV_API void qkv_workers_free(struct qkv_workers *workers);

/* Ends the threads of OpenBLAS; call it at the start of a program that uses OpenBLAS only through qkv. OpenBLAS starts
 * its threads when it is loaded, and they spin for about 0.1 s before they sleep, on processors that a team needs. */
QKV_API void qkv_end_matrix_threads(void);

#endif
