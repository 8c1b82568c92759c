/* The formats of `qkv help`: functions that write the tables of all commands as text. */
#ifndef QKV_TOOLS_HELP_H
#define QKV_TOOLS_HELP_H

#include "command.h"

#include <stdio.h>

/* A description of qkv that begins every overview. */
extern const char HELP_ABOUT[];

/* The meanings of the exit codes of all commands. In the last entry, `code` is NULL. */
struct help_exit_code {
    const char *code, *meaning;
};
extern const struct help_exit_code HELP_EXIT_CODES[];

/* Overviews: `qkv help`, docs/commands.md, qkv.1. */
void help_text_overview(FILE *file);
void help_markdown_overview(FILE *file);
void help_man_overview(FILE *file);

/* Pages of one command; help_text_page is in help_text.h. */
void help_markdown_page(const struct command *command, FILE *file);
void help_man_page(const struct command *command, FILE *file);

/* Completion scripts of all commands. */
void help_bash(FILE *file);
void help_zsh(FILE *file);
void help_fish(FILE *file);

#endif
