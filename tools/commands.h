/* The table of subcommands; commands.def has the rows. */
#ifndef QKV_TOOLS_COMMANDS_H
#define QKV_TOOLS_COMMANDS_H

#define COMMAND(name, summary) int command_##name(int argc, char **argv);
#include "commands.def"
#undef COMMAND

#endif
