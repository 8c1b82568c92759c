/* Every command, killed (SIGKILL) in one of its system calls, also in the middle of a write. */
#include "fault_runs.h"

#include <criterion/criterion.h>

static const struct fault KILL = {.kind = "kill"};

Test(kills, a_killed_training_goes_on_as_if_it_had_not_been)
{
    fault_runs(FAULT_TRAINING, 1, &KILL, 50);
}

Test(kills, other_killed_commands_leave_files_as_before_or_complete)
{
    fault_runs(FAULT_OTHERS, 1, &KILL, 3);
}
