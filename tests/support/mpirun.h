/* Runs `qkv train` in several processes, for tests of what they have in common. */
#ifndef QKV_TESTS_MPIRUN_H
#define QKV_TESTS_MPIRUN_H

#include "training.h"

/* "mpirun OPTIONS", for root, too, and for machines with fewer processors, without the banners of Open MPI. Skips the test, with
 * a sentence, where the build or the machine has no MPI. */
const char *mpirun(void);

/* "train CONFIG -s ... -j N": the arguments of qkv for a training. */
const char *train_arguments(const struct training *training);

/* Runs a training in so many processes; the test fails unless it succeeds. */
void mpirun_training(int processes, const struct training *training);

#endif
