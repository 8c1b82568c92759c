/* The table of subcommands; commands.def has the rows. */
#ifndef QKV_TOOLS_COMMANDS_H
#define QKV_TOOLS_COMMANDS_H

#include "command.h"

#define COMMAND(name) extern const struct command command_##name;
#include "commands.def"
#undef COMMAND

/* The subcommands in the order of the help page; ends with NULL. */
extern const struct command *const COMMANDS[];

/* Finds a subcommand by name. Prints an error message and returns NULL when there is none. */
const struct command *command_find(const char *name);

/* The names of the subcommands; the context is not used. */
const char *command_name(const void *context, int64_t index);

#endif
