/* Private: the checkpoints of a run: their names, what their models were trained with, and snapshots. */
#pragma once

#include "config/config_keys.h"
#include "qkv/run.h"

#include <limits.h>

/* ---- names with the number of their update, such as update-500.safetensors ---- */

/* The prefixes of such names: of the best and the last checkpoints, and of those of training.snapshots. */
#define NUMBERED_UPDATE   "update-"
#define NUMBERED_SNAPSHOT "snapshot-"

enum { NUMBERED_NAME_SIZE = 48 };

/* Writes the name of the checkpoint of an update to `name`, which it returns. */
const char *qkv_numbered_name(char name[NUMBERED_NAME_SIZE], const char *prefix, int64_t update);

/* The update of the checkpoint with this name, if it is the prefix and a number; -1 for other names. */
int64_t qkv_numbered_update(const char *name, const char *prefix);

/* Compares two updates (int64_t), for qsort. */
int qkv_by_update(const void *a, const void *b);

/* True for names that begin with one of the prefixes, whatever follows: nothing else may write such a file. */
bool qkv_numbered_is_reserved(const char *name);

/* ---- provenance: a checkpoint records what its model was trained with ----
 * The config keys that must not change, the vocabularies, the merges of byte-pair encoding and the training text are checked on
 * loading. Comparing shapes would not suffice: another number of heads, or other words, can give tensors of the same shapes. */

/* Adds the values of the config keys QKV_KEYS_FIXED_ON_RESUME and the checksums of the vocabularies and of the
 * merges of the config to the state. Out of memory, it sets state->failed. */
void qkv_provenance_save(struct qkv_state *state, const struct qkv_config *config,
                         const struct qkv_vocabulary *source, const struct qkv_vocabulary *target);

/* The key of a short source sentence of the training text. Checkpoints of earlier versions have none. */
#define QKV_STATE_EXAMPLE "example.source"

/* A text, or the links of guided alignment, that a model was trained with. */
struct qkv_trained_text {
    const char *key, *file; /* of the config, such as data.train, and its value */
    int64_t pairs;
    uint32_t checksum;
};

/* Adds file name, number of pairs and checksum to the state. */
void qkv_provenance_save_text(struct qkv_state *state, const struct qkv_trained_text *text);

/* Compares the state of the checkpoint `path` with the config keys `when` and the vocabularies, or with a text. Fails
 * at the first difference, with a message that begins with `path`. Anything that the state does not record is
 * accepted, and so is an equal text of another file name. */
enum qkv_status qkv_provenance_check(const struct qkv_state *state, const struct qkv_config *config,
                                     enum qkv_config_selection when, const struct qkv_vocabulary *source,
                                     const struct qkv_vocabulary *target, const char *path,
                                     struct qkv_error *error);
enum qkv_status qkv_provenance_check_text(const struct qkv_state *state, const struct qkv_trained_text *text,
                                          const char *path, struct qkv_error *error);

/* ---- the snapshots that a run kept with training.snapshots ---- */

/* Finds the updates that have a snapshot, ascending: *updates lies in the arena of the run. */
enum qkv_status qkv_snapshots_find(struct qkv_run *run, int64_t **updates, int64_t *count,
                                   struct qkv_error *error);

/* Loads the checkpoint file `path` into the model of the run, and its state into `state`; run->checkpoint and run->state do not
 * change. */
enum qkv_status qkv_run_load(struct qkv_run *run, const char *path, struct qkv_state *state,
                             struct qkv_error *error);

/* The same with a snapshot. *loss: the
 * qkv_checkpoint_loss of the snapshot, which is NaN before the first update. */
enum qkv_status qkv_snapshot_load(struct qkv_run *run, int64_t update, double *loss, struct qkv_error *error);

/* The mean training loss of the updates between the last log line and the saving of a checkpoint, in nats per target token,
 * with label smoothing; NaN if there were no updates. */
double qkv_checkpoint_loss(const struct qkv_state *state);

/* ---- the folder ---- */

/* Sets plain_marks of both sides by the format of a run. Refuses a run whose format is newer than QKV_RUN_FORMAT, with a
 * message that says what to do. A folder without the file QKV_RUN_FORMAT_FILE has format 1. */
enum qkv_status qkv_run_format_read(const char *folder, struct qkv_data_config *data,
                                    struct qkv_error *error);

/* Reads the merges of the sides whose level is bpe from the folder of a run, and sets `bpe` of both sides of `data`. The
 * caller frees the merges in `bpe`, also after a failure. */
enum qkv_status qkv_run_merges(const char *folder, struct qkv_data_config *data, struct qkv_bpe *bpe[2],
                               struct qkv_error *error);

/* A path. One that is too long is cut, but is still too long for the system, which refuses it. */
struct qkv_path {
    char text[PATH_MAX + 1];
};

/* "<folder>/<name>", which is valid until the end of the block in which the macro stands. */
#define QKV_RUN_FILE(folder, name) qkv_run_file(&(struct qkv_path){""}, folder, name)
const char *qkv_run_file(struct qkv_path *path, const char *folder, const char *name);

/* The names of the files that a run has besides numbered checkpoints. The first ones, up to the config, are copied to a run
 * that is quantised; there, the config comes last, because its presence makes the folder a run. */
enum { RUN_FILES = 12, RUN_FILES_COPIED = 9 };
extern const char *const qkv_run_files[RUN_FILES];

/* Reads the config of a run, without its model; works also for a run that is still training. The strings of the config live
 * in the arena. Fails when the folder is missing, is not a run or has a newer format. */
enum qkv_status qkv_run_read_config(const char *folder, struct qkv_config *config, struct qkv_arena *arena,
                                    struct qkv_error *error);

/* Removes the folder `output` if it is a quantised run and not the run `path`. QKV_OK also where it does not exist. */
enum qkv_status qkv_run_remove_quantized(const char *path, const char *output, struct qkv_error *error);
