/* Private: the snapshots that a run kept with training.snapshots. */
#ifndef QKV_RUN_SNAPSHOTS_H
#define QKV_RUN_SNAPSHOTS_H

#include "qkv/run.h"

/* Finds the updates that have a snapshot, ascending: *updates lies in the arena of the run. */
enum qkv_status qkv_snapshots_find(struct qkv_run *run, int64_t **updates, int64_t *count,
                                   struct qkv_error *error);

/* Makes the model of the run that of a snapshot; run->checkpoint and run->state stay. *loss: its
 * qkv_checkpoint_loss, which is NaN before the first update. */
enum qkv_status qkv_snapshot_load(struct qkv_run *run, int64_t update, double *loss, struct qkv_error *error);

/* The mean training loss of the updates since the last log line before a checkpoint was saved, nats per target token, with
 * label smoothing; NaN where there were none. */
double qkv_checkpoint_loss(const struct qkv_state *state);

#endif
