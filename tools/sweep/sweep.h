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
    bool is_interrupted; /* the sweep has passed on a signal, so runs that end by a signal have not failed */
    struct qkv_arena arena;
};

/* Marks runs as done that an earlier sweep has finished with the same config. */
enum qkv_status sweep_find_finished(struct sweep *sweep, struct qkv_error *error);

/* Trains the waiting runs, and resumes those that have a checkpoint. Whenever a run ends, the next one starts. The first signal
 * (SIGINT, SIGTERM, SIGHUP) is passed on to all runs, which then save a checkpoint and end; no more runs are started. Sets
 * *interrupted to that signal; 0: none. */
enum qkv_status sweep_train(struct sweep *sweep, int *interrupted, struct qkv_error *error);

#endif
