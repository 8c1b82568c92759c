/* Several runs and their records, for `qkv plot` and `qkv compare`. Runs that differ only in their seed form a group. */
#pragma once

#include "command.h"
#include "run/training_log.h"

enum { RUN_SET_MAX = 64 };

enum { SNAPSHOT_QUANTITIES = 3 };

/* What `qkv plot` measures in a snapshot of a language model. */
struct measured_snapshot {
    struct qkv_log_place place;
    double value[SNAPSHOT_QUANTITIES];
};

struct recorded_run {
    const char *path; /* of the folder */
    struct qkv_config config;
    struct qkv_training_log log;
    struct measured_snapshot *snapshot; /* [snapshots], in the arena of the set; NULL: not measured */
    int64_t snapshots;
    int group;
};

struct run_group {
    const char *name; /* the shortest unique name: that of the folder, or a longer end of its path */
    int runs;
    int run[RUN_SET_MAX]; /* indices of its runs */
};

/* Caller's storage, all zero at first. */
struct run_set {
    struct recorded_run run[RUN_SET_MAX];
    struct run_group group[RUN_SET_MAX];
    int runs, groups;
    struct qkv_arena arena;
};

/* Reads the config, whose texts live in the arena, and the log of a run folder. The caller releases the log, unless
 * reading fails. */
enum qkv_status recorded_run_read(struct recorded_run *run, const char *path, struct qkv_arena *arena,
                                  struct qkv_error *error);

/* Adds a run folder and returns the run. Returns NULL, and leaves the set unchanged, when the folder is not a run, is named a
 * second time, or when there are too many runs. */
struct recorded_run *run_set_add(struct run_set *set, const char *path, struct qkv_error *error);

/* Makes the groups and names them; call it after the last run. */
void run_set_group(struct run_set *set);

/* Calls `each` for every key that has an effect and whose value differs between groups, unless the values follow from other
 * keys. values: the text of the value of each group. */
void run_set_differences(struct run_set *set,
                         void (*each)(void *context, const char *key, const char *const *values),
                         void *context);

void run_set_release(struct run_set *set);

/* The last `parts` parts of a path or key, in the arena, without separators at its end. */
const char *end_of_name(struct qkv_arena *arena, const char *name, char separator, int parts);

/* True when training with a config gives a run that has the config `trained`: all keys are equal, except the names of the run and
 * of its folder, and what training fits to the text: testing.length_limit, which it may raise, and testing.bleu_tokenizer. */
bool configs_train_alike(const struct qkv_config *trained, const struct qkv_config *wanted);
