/* Several processes that share the work of a command: `mpirun -n N qkv translate RUN`, train or evaluate. */
#ifndef QKV_TOOLS_RUN_PROCESSES_H
#define QKV_TOOLS_RUN_PROCESSES_H

#include "command.h"
#include "framework/train/statement.h"

#include "qkv/run.h"
#include "qkv/search.h"

/* Joins the processes, if mpirun has started several (qkv_processes_join), which must all run this command. Complains and returns
 * QKV_INVALID where that fails. */
enum qkv_status join_processes(const struct command *command, struct qkv_processes **processes);

/* What a process has opened. */
struct opened_run {
    const struct qkv_run *run;
    struct qkv_ensemble models;
    struct qkv_search_options search;
    int64_t batch_size;
    const struct qkv_corpus *text; /* NULL: process 0 alone reads a text */
    bool no_translation;           /* the text has references, and is not translated */
};

/* Compares what all processes have opened, or why they could not (status and error). Returns the same status in all; the
 * message is with process 0, the others have an empty one. Does nothing where there is one process. */
enum qkv_status agree_on_run(struct qkv_processes *processes, const struct opened_run *opened,
                             enum qkv_status status, struct qkv_error *error);

/* Threads to start: those of --threads, or for 0 a part of the processors. */
int threads_of(const struct qkv_processes *processes, int64_t threads);

#endif
