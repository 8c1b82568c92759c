/* The speed at which a run was trained. */
#ifndef QKV_TOOLS_TRAINING_SPEED_H
#define QKV_TOOLS_TRAINING_SPEED_H

#include "qkv/run.h"

/* The median of the tokens per second (source plus target) that the run's metrics.jsonl records; 0 when it records
 * none. */
double training_speed(struct qkv_run *run);

#endif
