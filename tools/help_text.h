/* Help pages for the terminal, 80 columns wide. */
#ifndef QKV_TOOLS_HELP_TEXT_H
#define QKV_TOOLS_HELP_TEXT_H

#include "command.h"

#include <stdio.h>

/* The page of one command: usage, description, operands, options, examples. */
void help_text_page(const struct command *command, FILE *file);

/* Prints a text of paragraphs and literal lines (command.h), each line indented by `indent` spaces.
 * The first line begins at the cursor, which is in `column`. */
void print_wrapped(FILE *file, const char *text, int column, int indent);

#endif
