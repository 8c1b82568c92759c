#include "command.h"

#include "print.h"

#include <string.h>

const struct command *const COMMANDS[] = {
#define COMMAND(name) &command_##name,
#include "commands.def"
#undef COMMAND
    NULL,
};

const char *command_name(const void *context, int64_t index)
{
    (void)context;
    return COMMANDS[index] ? COMMANDS[index]->name : NULL;
}

const struct command *command_find(const char *name)
{
    char near[128];
    for (int i = 0; COMMANDS[i]; i++)
        if (!strcmp(name, COMMANDS[i]->name)) return COMMANDS[i];
    if (!strcmp(name, "version"))
        strcpy(near, "--version");
    else
        qkv_suggest_names(near, sizeof near, name, "", command_name, NULL);
    print_error("unknown command '%s'%s%s (see `qkv --help`)", name, *near ? "; did you mean " : "", near);
    return NULL;
}
