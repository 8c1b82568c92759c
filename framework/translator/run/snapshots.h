/* Private: the snapshots that a run kept with training.snapshots. */
#ifndef QKV_RUN_SNAPSHOTS_H
#define QKV_RUN_SNAPSHOTS_H

#include "qkv/run.h"

/* Finds the updates that have a snapshot, ascending: *updates lies in the arena of the run. */
enum qkv_status qkv_snapshots_find(struct qkv_run *run, int64_t **updates, int64_t *count,
                                   struct qkv_error *error);

/* Loads a snapshot into the model of the run; run->checkpoint and run->state do not change. *loss: the
 * qkv_checkpoint_loss of the snapshot, which is NaN before the first update. */
enum qkv_status qkv_snapshot_load(struct qkv_run *run, int64_t update, double *loss, struct qkv_error *error);

/* The mean training loss of the updates between the last log line and the saving of a checkpoint, in nats per target token,
 * with label smoothing; NaN if there were no updates. */
double qkv_checkpoint_loss(const struct qkv_state *state);

#endif
