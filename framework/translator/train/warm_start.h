/* training.from: the first parameters come from another run, or from a file. */
#ifndef QKV_TRAIN_WARM_START_H
#define QKV_TRAIN_WARM_START_H

#include "train/training.h"

/* Opens the run that training.from names, unless a run is resumed, and sets training->from. Fails when it cannot be opened, and
 * when its vocabulary is to be used although the configs split texts into tokens differently. */
enum qkv_status qkv_warm_start_open(struct training *training, struct qkv_error *error);

/* Replaces the initial values of the model, and closes the run. Fails when names or shapes of parameters differ. */
enum qkv_status qkv_warm_start_apply(struct training *training, struct qkv_error *error);

void qkv_warm_start_release(struct training *training);

#endif
