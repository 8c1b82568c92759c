/* Writes the usage of a command as text. */
#ifndef QKV_TOOLS_SYNOPSIS_H
#define QKV_TOOLS_SYNOPSIS_H

#include "command.h"

#include <stdio.h>

enum { SYNOPSIS_SIZE = 256, TITLE_SIZE = 64, OPTION_HELP_SIZE = 1024 };

/* "qkv train", or the name of a standalone program. Returns `text`. */
const char *write_title(const struct command *command, char text[TITLE_SIZE]);

/* "qkv train CONFIG [options]". Returns `text`. */
const char *write_synopsis(const struct command *command, char text[SYNOPSIS_SIZE]);

/* The help of an option with "{choices}" replaced by its choices. Returns `text`. */
const char *write_option_help(const struct command_option *option, char text[OPTION_HELP_SIZE]);

/* Prints the completions of KEY=VALUE: every key of a config followed by `=`, separated by spaces. */
void print_settings(FILE *file);

#endif
