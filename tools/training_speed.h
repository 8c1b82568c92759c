/* The speed at which a run was trained. */
#ifndef QKV_TOOLS_TRAINING_SPEED_H
#define QKV_TOOLS_TRAINING_SPEED_H

#include "qkv/run.h"

/* Sets `*speed` to the median of the tokens per second (source plus target) that the run's metrics.jsonl records; 0 when
 * it records none, or is missing. Fails when it cannot be read or memory is out. */
enum qkv_status training_speed(struct qkv_run *run, double *speed, struct qkv_error *error);

#endif
