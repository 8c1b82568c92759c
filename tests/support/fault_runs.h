/* Runs commands of qkv in which allocations or system calls fail, or which a signal ends, and checks what they leave.
 * The library that injects the faults is tests/faults/inject. */
#pragma once

#include "support.h"

/* What to inject; see tests/faults/inject/inject.c. */
struct fault {
    const char *kind; /* "memory", "call", "short", "kill", "signal" */
    int code;         /* call: the errno; signal: its number */
    bool lasting;     /* all from the n-th on fail, not only the n-th */
};

/* FAULT_READING: short commands that read files larger than a buffer of stdio, so that a read may fail after another one. */
enum fault_commands { FAULT_TRAINING, FAULT_READING, FAULT_OTHERS };

/* Injects each fault into each of these commands, one run for each n: `samples` values of n, evenly over the run. In the
 * environment, QKV_FAULTS is a number: one in so many n, 1: all (of lasting faults of memory an eighth); and
 * QKV_FAULTS_COMMAND a text that the command holds. Fails the test for each run
 * - that a signal ends (other than one of the fault) or that hangs;
 * - that succeeds, and prints or writes anything else than without the fault, or has not synced a file;
 * - that fails with another exit code than 2, or without one sentence that names the reason;
 * - that leaves a file that is neither as before nor as without the fault, or a temporary file;
 * - of training, after which what its messages advise does not lead to the same files, bit by bit, as without
 *   the fault.
 * Prints the number of runs. Skips the test, with a sentence, where nothing can be injected. */
void fault_runs(enum fault_commands which, int fault_count, const struct fault *faults, int samples);
