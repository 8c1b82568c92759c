/* How fast a run was trained. */
#ifndef QKV_TOOLS_TRAINING_SPEED_H
#define QKV_TOOLS_TRAINING_SPEED_H

#include "qkv/run.h"

/* The median of the tokens per second (source and target) that the run's metrics.jsonl tells; 0 where it
 * tells none. */
double training_speed(struct qkv_run *run);

#endif
