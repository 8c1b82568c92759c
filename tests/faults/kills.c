/* Every command, killed (SIGKILL) in one of its system calls, also in the middle of a write, or interrupted there. */
#include "fault_runs.h"

#include <signal.h>

static const struct fault KILL = {.kind = "kill", .code = SIGKILL};
static const struct fault INTERRUPTIONS[] = {{.kind = "signal", .code = SIGINT},
                                             {.kind = "signal", .code = SIGPIPE}};

Test(kills, a_killed_training_goes_on_as_if_it_had_not_been)
{
    fault_runs(FAULT_TRAINING, 1, &KILL, 16);
}

Test(kills, other_killed_commands_leave_files_as_before_or_complete)
{
    fault_runs(FAULT_OTHERS, 1, &KILL, 2);
}

Test(kills, an_interrupted_training_saves_and_goes_on_as_if_it_had_not_been)
{
    fault_runs(FAULT_TRAINING, 1, INTERRUPTIONS, 8);
}

Test(kills, a_training_that_is_interrupted_again_removes_its_temporary_files)
{
    const struct fault again = {.kind = "signal", .code = SIGINT, .lasting = true};
    fault_runs(FAULT_TRAINING, 1, &again, 16);
}

Test(kills, other_interrupted_commands_remove_their_temporary_files)
{
    fault_runs(FAULT_OTHERS, 2, INTERRUPTIONS, 1);
}
