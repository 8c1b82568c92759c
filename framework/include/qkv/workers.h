/* A fixed team of threads for work that is split into independent parts. */
#ifndef QKV_WORKERS_H
#define QKV_WORKERS_H

#include "qkv/error.h"

struct qkv_workers;

/* Starts a team of `threads` (the caller is one of them; 1 starts none). 0 means as many as the machine has.
 * NULL with a message when threads cannot be started. */
QKV_API struct qkv_workers *qkv_workers_new(int threads, struct qkv_error *error);

/* How many threads work, the caller included. */
QKV_API int qkv_workers_count(const struct qkv_workers *workers);

/* Calls function(context, part) for every part 0 .. parts-1, each once, on some thread, and returns when all
 * are done. Which thread runs a part is not defined; results must not depend on it. A part must not run the
 * same team. Without a team, workers NULL, the caller does it all. */
QKV_API void qkv_workers_run(struct qkv_workers *workers, int parts,
                             void (*function)(void *context, int part), void *context);

/* Stops and joins the threads. NULL is fine. */
QKV_API void qkv_workers_free(struct qkv_workers *workers);

/* Ends the threads of the matrix library: for the start of a program that calls it through qkv alone. They
 * are there as soon as the library is loaded, and look for work for about a tenth of a second before they
 * sleep, on cores that a team wants; a short program is over by then. */
QKV_API void qkv_end_matrix_threads(void);

#endif
