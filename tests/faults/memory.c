/* Every command, while memory runs out: for one allocation, or from one on. */
#include "fault_runs.h"

static const struct fault FAULTS[] = {{.kind = "memory"}, {.kind = "memory", .lasting = true}};

Test(memory, training_survives_that_memory_is_out)
{
    fault_runs(FAULT_TRAINING, 2, FAULTS, 8);
}

Test(memory, other_commands_survive_that_memory_is_out)
{
    fault_runs(FAULT_OTHERS, 2, FAULTS, 2);
}
