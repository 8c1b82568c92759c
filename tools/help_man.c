/* Man pages: qkv.1 and qkv-<command>.1. */
#include "commands.h"
#include "help.h"
#include "synopsis.h"

#include "qkv/version.h"

#include <ctype.h>
#include <string.h>

/* Prints text and escapes the characters that are special in troff. `markup`: words in backticks
 * become bold. */
static void print_escaped(FILE *file, const char *text, size_t length, bool markup)
{
    bool bold = false;
    if (length && (*text == '.' || *text == '\'')) fputs("\\&", file);
    for (size_t i = 0; i < length; i++) {
        if (markup && text[i] == '`') {
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", file);
        } else if (text[i] == '-' || text[i] == '\\') {
            fputs(text[i] == '-' ? "\\-" : "\\e", file);
        } else if (text[i] == '\'' || text[i] == '`' || text[i] == '^' || text[i] == '~') {
            const char *const names[] = {"aq", "ga", "ha", "ti"};
            fprintf(file, "\\(%s", names[strchr("'`^~", text[i]) - "'`^~"]);
        } else {
            fputc(text[i], file);
        }
    }
}

static void print_line(FILE *file, const char *text)
{
    print_escaped(file, text, strlen(text), true);
    fputc('\n', file);
}

/* Prints an example block, in which troff does not wrap lines. */
static void print_literal(FILE *file, const char *text)
{
    fputs(".PP\n.nf\n", file);
    for (size_t line; *text && *text != '\n'; text += line + (text[line] == '\n')) {
        line = strcspn(text, "\n");
        print_escaped(file, text, line, false);
        fputc('\n', file);
    }
    fputs(".fi\n", file);
}

static void print_text(FILE *file, const char *text)
{
    while (*text) {
        size_t line = strcspn(text, "\n");
        if (*text == ' ') {
            print_literal(file, text);
            while (*text == ' ') {
                text += strcspn(text, "\n");
                text += *text == '\n';
            }
            continue;
        }
        if (line) {
            print_escaped(file, text, line, true);
            fputc('\n', file);
        } else if (text[1] != ' ') {
            fputs(".PP\n", file);
        }
        text += line + (text[line] == '\n');
    }
}

/* Prints the title line, in capitals: QKV-TRAIN for the prefix "qkv-" and the name "train". */
static void print_title(FILE *file, const char *prefix, const char *name)
{
    fputs(".TH \"", file);
    for (const char *c = prefix; *c; c++) fputc(toupper((unsigned char)*c), file);
    for (const char *c = name; *c; c++) fputc(toupper((unsigned char)*c), file);
    fputs("\" 1 \"\" \"qkv " QKV_VERSION "\" \"User Commands\"\n"
          ".nh\n.ad l\n", /* no hyphens in names of keys, no stretched lines */
          file);
}

static void print_options(const struct command *command, FILE *file)
{
    char help[OPTION_HELP_SIZE];
    fputs(".SH OPTIONS\n", file);
    for (const struct command_option *o = command->options; o->name; o++) {
        fputs(".TP\n", file);
        if (o->letter) fprintf(file, "\\fB\\-%c\\fR, ", o->letter);
        fputs("\\fB\\-\\-", file);
        print_escaped(file, o->name, strlen(o->name), false);
        fputs("\\fR", file);
        if (o->value) fprintf(file, " \\fI%s\\fR", o->value);
        fputc('\n', file);
        print_line(file, write_option_help(o, help));
    }
    fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint the help page\n", file);
}

static void print_exit_codes(FILE *file)
{
    fputs(".SH EXIT STATUS\n", file);
    for (const struct help_exit_code *c = HELP_EXIT_CODES; c->code; c++)
        fprintf(file, ".TP\n%s\n%s\n", c->code, c->meaning);
}

void help_man_page(const struct command *command, FILE *file)
{
    char synopsis[SYNOPSIS_SIZE];
    print_title(file, "qkv-", command->name);
    fprintf(file, ".SH NAME\nqkv\\-%s \\- ", command->name);
    print_line(file, command->summary);
    fputs(".SH SYNOPSIS\n", file);
    fprintf(file, ".B qkv %s\n", command->name);
    const char *rest = write_synopsis(command, synopsis) + strlen("qkv ") + strlen(command->name);
    print_line(file, rest + strspn(rest, " "));
    fputs(".SH DESCRIPTION\n", file);
    print_text(file, command->description);
    if (command->operands && command->operands->name) fputs(".SH OPERANDS\n", file);
    for (const struct command_operand *o = command->operands; o && o->name; o++) {
        fprintf(file, ".TP\n\\fI%s\\fR\n", o->name);
        print_line(file, o->help);
    }
    print_options(command, file);
    print_exit_codes(file);
    if (command->examples) {
        fputs(".SH EXAMPLES\n", file);
        print_literal(file, command->examples);
    }
    fputs(".SH SEE ALSO\n.BR qkv (1)\n", file);
}

void help_man_overview(FILE *file)
{
    print_title(file, "qkv", "");
    fputs(".SH NAME\nqkv \\- trainable mini\\-transformers: train, translate, look at attention\n"
          ".SH SYNOPSIS\n.B qkv\n\\fICOMMAND\\fR [operands] [options]\n.SH DESCRIPTION\n",
          file);
    print_text(file, HELP_ABOUT);
    fputs(".PP\nOptions may precede or follow operands, and their names are not shortened; \\fB\\-\\-\\fR "
          "ends them.\n"
          "Results go to standard output, progress and errors to standard error.\n.SH COMMANDS\n",
          file);
    for (int i = 0; COMMANDS[i]; i++) {
        fprintf(file, ".TP\n.BR qkv\\-%s (1)\n", COMMANDS[i]->name);
        print_line(file, COMMANDS[i]->summary);
    }
    fputs(".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nlist the commands\n"
          ".TP\n\\fB\\-\\-version\\fR\nprint the version, and the kernels in use\n",
          file);
    print_exit_codes(file);
    fputs(".SH ENVIRONMENT\n"
          ".TP\n\\fBQKV_KERNELS\\fR\nthe kernels to compute with, instead of the fastest that the processor "
          "can run: \\fBportable\\fR run on every processor; \\fBblas\\fR are the fastest, but OpenBLAS "
          "computes large products, so that results have other bits on other processors; \\fBqkv "
          "\\-\\-version\\fR prints those in use\n"
          ".TP\n\\fBNO_COLOR\\fR\nwhen it is not empty, text has no colours\n",
          file);
}
