#include "help_text.h"

#include "synopsis.h"

#include <string.h>

enum { WIDTH = 80, MARGIN = 2, HELP_COLUMN = 29 };

void print_wrapped(FILE *file, const char *text, int column, int indent)
{
    for (const char *at = text; *at;) {
        if (*at == '\n') { /* an empty line between paragraphs */
            fputc('\n', file);
            column = 0;
            at++;
            continue;
        }
        size_t line = strcspn(at, "\n");
        if (*at == ' ') {
            fprintf(file, "%*s%.*s\n", indent, "", (int)line, at);
        } else {
            for (size_t done = 0; done < line;) {
                size_t word = strcspn(at + done, " \n");
                if (column > indent && column + 1 + (int)word > WIDTH) {
                    fputc('\n', file);
                    column = 0;
                }
                column +=
                    fprintf(file, "%*s%.*s", column > indent ? 1 : indent - column, "", (int)word, at + done);
                done += word;
                done += strspn(at + done, " ");
            }
            fputc('\n', file);
        }
        column = 0;
        at += line;
        if (*at) at++;
    }
}

/* Prints a name in the left column, and its help in the right one. */
static void print_row(FILE *file, const char *left, const char *help)
{
    int column = fprintf(file, "%*s%s", MARGIN, "", left);
    if (column >= HELP_COLUMN) {
        fputc('\n', file);
        column = 0;
    }
    print_wrapped(file, help, column, HELP_COLUMN);
}

void help_text_page(const struct command *command, FILE *file)
{
    char synopsis[SYNOPSIS_SIZE], help[OPTION_HELP_SIZE], left[64];
    fprintf(file, "Usage: %s\n\n", write_synopsis(command, synopsis));
    print_wrapped(file, command->description, 0, 0);
    if (command->operands && command->operands->name) fputs("\nOperands:\n", file);
    for (const struct command_operand *o = command->operands; o && o->name; o++)
        print_row(file, o->name, o->help);
    fputs("\nOptions:\n", file);
    for (const struct command_option *o = command->options; o->name; o++) {
        int length = o->letter ? snprintf(left, sizeof left, "-%c, --%s", o->letter, o->name)
                               : snprintf(left, sizeof left, "    --%s", o->name);
        if (o->value) snprintf(left + length, sizeof left - (size_t)length, " %s", o->value);
        print_row(file, left, write_option_help(o, help));
    }
    print_row(file, "-h, --help", "print this page");
    if (command->examples) fprintf(file, "\nExamples:\n%s", command->examples);
}
