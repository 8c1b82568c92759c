/* Parses the arguments of a command by its tables. */
#ifndef QKV_TOOLS_ARGUMENTS_H
#define QKV_TOOLS_ARGUMENTS_H

#include "command.h"

#include "qkv/error.h"

/* Parses argv[1..], stores the options where their rows say, runs the command on the operands and
 * returns its exit code. Options may precede or follow operands; a shortened name is refused; `--`
 * ends them. -h and --help print the help page to stdout instead. Invalid arguments are reported on
 * stderr, with exit code 2. */
int parse_and_run(const struct command *command, int argc, char **argv);

/* For a command that was given --no-translation: reports the first given option that needs translations. `command` is the one
 * that parse_and_run runs. QKV_OK if there is no such option. */
int print_translation_options_error(const struct command *command);

/* Prints `qkv: <message> (usage: qkv train CONFIG [options])` and returns the exit code 2. */
int print_usage_error(const struct command *command, const char *format, ...) QKV_PRINTF(2, 3);

#endif
