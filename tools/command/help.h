/* The formats of `qkv help`: functions that write the tables of all commands as text. */
#pragma once

#include "command.h"

/* A description of qkv that begins every overview. */
extern const char HELP_ABOUT[];

/* The meanings of the exit codes of all commands. In the last entry, `code` is NULL. */
struct help_exit_code {
    const char *code, *meaning;
};
extern const struct help_exit_code HELP_EXIT_CODES[];

/* The option -h of every command. */
extern const struct command_option HELP_OPTION;

/* The option with this letter, or, where it is 0, with the name that is the first `length` bytes of `name`, which is not
 * shortened; NULL: none. */
const struct command_option *find_option(const struct command *command, char letter, const char *name,
                                         size_t length);

/* Overviews: `qkv help`, docs/commands.md, qkv.1. */
void help_text_overview(FILE *file);
void help_markdown_overview(FILE *file);
void help_man_overview(FILE *file);

/* Pages of one command: usage, description, operands, options, examples. */
void help_text_page(const struct command *command, FILE *file);
void help_markdown_page(const struct command *command, FILE *file);
void help_man_page(const struct command *command, FILE *file);

/* Prints what may stand at the cursor of a command line, for the completion scripts. word: the words after `qkv`, the last of
 * which ends at the cursor. The first line is what the shell completes itself: a file, a folder, a config (a YAML file), or
 * nothing but the words that follow, one a line, with their help after a tab (words; setting: keys of a config, after which no
 * space is wanted). Prints nothing when nothing fits. */
void help_complete(int count, char **word);

/* The completion scripts. */
void help_bash(FILE *file);
void help_zsh(FILE *file);
void help_fish(FILE *file);

/* Prints a text of paragraphs and literal lines (command.h), each line indented by `indent` spaces.
 * The first line begins at the cursor, which is in `column`. */
void print_wrapped(FILE *file, const char *text, int column, int indent);

enum { SYNOPSIS_SIZE = 256, TITLE_SIZE = 64, OPTION_HELP_SIZE = 1024 };

/* "qkv train", or the name of a standalone program. Returns `text`. */
const char *write_title(const struct command *command, char text[TITLE_SIZE]);

/* "qkv train CONFIG [options]". Returns `text`. */
const char *write_synopsis(const struct command *command, char text[SYNOPSIS_SIZE]);

/* The help of an option with "{choices}" replaced by its choices. Returns `text`. */
const char *write_option_help(const struct command_option *option, char text[OPTION_HELP_SIZE]);
