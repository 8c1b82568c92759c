/* Every command, while system calls fail or transfer less than is asked. */
#include "fault_runs.h"

#include <errno.h>

/* A full disk stays full; a damaged one, too many open files and an interrupted call are passing. */
static const struct fault FAULTS[] = {
    {.kind = "call", .code = ENOSPC, .lasting = true},
    {.kind = "call", .code = EIO},
    {.kind = "call", .code = EMFILE},
    {.kind = "call", .code = EINTR},
    {.kind = "short"},
    {.kind = "short", .lasting = true},
};
enum { FAULT_COUNT = sizeof FAULTS / sizeof *FAULTS };

Test(calls, training_survives_calls_that_fail)
{
    fault_runs(FAULT_TRAINING, FAULT_COUNT, FAULTS, 3);
}

/* In each of their calls. */
Test(calls, each_read_that_fails_is_reported)
{
    static const struct fault failing = {.kind = "call", .code = EIO};
    fault_runs(FAULT_READING, 1, &failing, 1000);
}

Test(calls, other_commands_survive_calls_that_fail)
{
    fault_runs(FAULT_OTHERS, FAULT_COUNT, FAULTS, 1);
}
