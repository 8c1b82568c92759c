/* Measures how fast this machine trains the model that `qkv init` has planned. */
#ifndef QKV_TOOLS_INIT_MEASURE_H
#define QKV_TOOLS_INIT_MEASURE_H

#include "init_config.h"

/* Trains for a few seconds, in a temporary folder, which it removes. Fails when that folder cannot be written, and when
 * training fails. */
enum qkv_status init_measure(const struct init_plan *plan, const struct init_data *data,
                             const struct init_names *names, int threads, struct qkv_train_cost *cost,
                             struct qkv_error *error);

#endif
