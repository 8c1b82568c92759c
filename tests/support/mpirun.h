/* Runs qkv in several processes. */
#pragma once

#include "support.h"
#include "training.h"

/* "mpirun OPTIONS", for root, too, and for machines with fewer processors, without the banners of Open MPI. Skips the test,
 * with a sentence, where the build or the machine has no MPI. */
const char *mpirun(void);

/* "train CONFIG -s ... -j N": the arguments of qkv for a training. */
const char *train_arguments(const struct training *training);

/* "process 1 on HOST" */
const char *process(int rank);

/* Runs qkv with these arguments in so many processes. */
struct outcome run_several(int processes, const char *arguments);

/* Runs qkv in two processes with arguments of their own; run_differing also with options of mpirun, or a command that starts
 * qkv, of their own. */
struct outcome run_two(const char *first, const char *second);
struct outcome run_differing(const char *first_options, const char *first, const char *second_options,
                             const char *second);

/* Whether qkv has refused processes 0 and 1 because their values of something differ. `*` in a value stands for any text.
 * Otherwise prints what it did. */
bool differ(struct outcome outcome, const char *what, const char *value, const char *other);

/* Runs a training in so many processes; the test fails unless it succeeds. */
void mpirun_training(int processes, const struct training *training);
