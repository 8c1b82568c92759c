/* Trains several runs, some at the same time, each in a process of its own. */
#ifndef QKV_TOOLS_SWEEP_RUNS_H
#define QKV_TOOLS_SWEEP_RUNS_H

#include "command.h"
#include "qkv/arena.h"
#include "qkv/config.h"

#include <stdbool.h>
#include <sys/types.h>

enum sweep_state { SWEEP_WAITS, SWEEP_TRAINS, SWEEP_DONE, SWEEP_FAILED };

struct sweep_run {
    const char *file;                /* of its config */
    const char *name, *folder, *log; /* log: file of what `qkv train` prints */
    struct option_list settings;     /* of its config */
    struct qkv_config config;
    enum sweep_state state;
    pid_t process; /* while it trains */
    double started;
    long log_start; /* bytes of the log that earlier trainings have printed */
};

struct sweep {
    const char *folder;
    struct sweep_run *run; /* [runs] */
    int runs;
    int at_once, threads; /* runs at the same time, and threads of each */
    bool quiet;
    bool is_interrupted; /* runs that end by a signal have been asked to */
    struct qkv_arena arena;
};

/* Marks as done the runs that an earlier sweep has finished with the same config. */
enum qkv_status sweep_find_finished(struct sweep *sweep, struct qkv_error *error);

/* Trains the runs that wait; resumes those that have a checkpoint. Each starts when another one ends. A signal (SIGINT,
 * SIGTERM, SIGHUP) is passed on to all of them once, upon which they save a checkpoint and end; none starts then. Sets
 * *interrupted to that signal; 0: none. */
enum qkv_status sweep_train(struct sweep *sweep, int *interrupted, struct qkv_error *error);

#endif
