/* Several processes that share the work of a command: `mpirun -n N qkv translate RUN`, train or evaluate. */
#pragma once

#include "command.h"
#include "framework/translator/processes/processes.h"

/* Joins the processes (qkv_processes_join), if mpirun has started several; all must run this command. Prints an error message
 * and returns QKV_INVALID when that fails. */
enum qkv_status join_processes(const struct command *command, struct qkv_processes **processes);

/* The run and the data that a process has opened. */
struct opened_run {
    const struct qkv_run *run;
    struct qkv_ensemble models;
    struct qkv_search_options search;
    int64_t batch_size;
    const struct qkv_corpus *text; /* NULL: only process 0 reads a text */
    bool no_translation;           /* --no-translation: the text is scored, but not translated */
};

/* Checks that all processes have opened the same. status, error: the failure of this process to open it, if any. Returns the
 * same status in all processes; process 0 gets the message, in the others it is empty. Does nothing in a single process. */
enum qkv_status agree_on_run(struct qkv_processes *processes, const struct opened_run *opened,
                             enum qkv_status status, struct qkv_error *error);

/* The number of threads to start: that of --threads or, for 0, the share of this process in the processors. */
int threads_of(const struct qkv_processes *processes, int64_t threads);
