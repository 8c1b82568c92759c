/* The pages of commands: for the terminal, 80 columns wide; in Markdown, for docs/commands.md; and man pages, qkv.1 and
 * qkv-<command>.1. */
#include "help.h"

#include <ctype.h>

/* ---- usage ---- */

const char *write_title(const struct command *command, char text[TITLE_SIZE])
{
    snprintf(text, TITLE_SIZE, "%s%s", command->standalone ? "" : "qkv ", command->name);
    return text;
}

const char *write_synopsis(const struct command *command, char text[SYNOPSIS_SIZE])
{
    char title[TITLE_SIZE];
    if (command->synopsis) {
        snprintf(text, SYNOPSIS_SIZE, "%s%s", command->standalone ? "" : "qkv ", command->synopsis);
        return text;
    }
    size_t used = (size_t)snprintf(text, SYNOPSIS_SIZE, "%s", write_title(command, title));
    for (const struct command_operand *o = command->operands; o && o->name && used < SYNOPSIS_SIZE; o++)
        used += (size_t)snprintf(text + used, SYNOPSIS_SIZE - used, " %s%s%s%s", o->optional ? "[" : "",
                                 o->name, o->repeated ? "..." : "", o->optional ? "]" : "");
    if (used < SYNOPSIS_SIZE) snprintf(text + used, SYNOPSIS_SIZE - used, " [options]");
    return text;
}

const char *write_option_help(const struct command_option *option, char text[OPTION_HELP_SIZE])
{
    static const char placeholder[] = "{choices}";
    char choices[OPTION_HELP_SIZE / 2];
    const char *at = strstr(option->help, placeholder);
    if (!at || !option->choices) {
        snprintf(text, OPTION_HELP_SIZE, "%s", option->help);
        return text;
    }
    snprintf(text, OPTION_HELP_SIZE, "%.*s%s%s", (int)(at - option->help), option->help,
             list_names(choices, sizeof choices, option->choices, NULL), at + sizeof placeholder - 1);
    return text;
}

/* ---- in the terminal ---- */

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
    for (const struct command_option *o = options_of(command); o->name; o++) {
        int length = o->letter ? snprintf(left, sizeof left, "-%c, --%s", o->letter, o->name)
                               : snprintf(left, sizeof left, "    --%s", o->name);
        if (o->value) snprintf(left + length, sizeof left - (size_t)length, " %s", o->value);
        print_row(file, left, write_option_help(o, help));
    }
    print_row(file, "-h, --help", "print this page");
    if (command->examples) fprintf(file, "\nExamples:\n%s", command->examples);
}

/* ---- text in Markdown and in man pages ---- */

enum page_format { MARKDOWN, MARKDOWN_TABLE, MAN, MAN_LITERAL };

/* Prints a character of a man page. */
static void man_character(FILE *file, char c)
{
    static const char special[] = "'`^~-\\", *const names[] = {"\\(aq", "\\(ga", "\\(ha",
                                                               "\\(ti", "\\-",   "\\e"};
    const char *at = strchr(special, c);
    if (at && *at)
        fputs(names[at - special], file);
    else
        fputc(c, file);
}

/* Prints text and escapes characters that are special in Markdown, outside of backticks, or in troff, where words in backticks
 * become bold. */
static void escaped(FILE *file, const char *text, size_t length, enum page_format format)
{
    bool code = false, is_man = format >= MAN;
    if (is_man && length && (*text == '.' || *text == '\'')) fputs("\\&", file);
    for (size_t i = 0; i < length; i++) {
        bool is_mark = text[i] == '`' && format != MAN_LITERAL;
        code ^= is_mark;
        if (is_man && is_mark)
            fputs(code ? "\\fB" : "\\fR", file);
        else if (is_man)
            man_character(file, text[i]);
        else
            fprintf(file,
                    (!code && strchr("<*", text[i])) || (format == MARKDOWN_TABLE && text[i] == '|') ? "\\%c"
                                                                                                     : "%c",
                    text[i]);
    }
}

/* Prints paragraphs, and literal lines, which begin with a space, as blocks in which nothing is wrapped. */
static void write_text(FILE *file, const char *text, enum page_format format)
{
    bool literal = false, is_man = format == MAN;
    for (size_t line; *text; text += line + (text[line] == '\n')) {
        line = strcspn(text, "\n");
        if ((*text == ' ') != literal) {
            literal = !literal;
            fputs(is_man ? (literal ? ".PP\n.nf\n" : ".fi\n") : literal ? "\n```text\n" : "```\n", file);
        }
        if (is_man && !line) {
            if (text[1] != ' ') fputs(".PP\n", file);
            continue;
        }
        if (literal && !is_man)
            fwrite(text, 1, line, file);
        else
            escaped(file, text, line, literal ? MAN_LITERAL : format);
        fputc('\n', file);
    }
    if (literal) fputs(is_man ? ".fi\n" : "```\n", file);
}

/* ---- Markdown ---- */

static void markdown_cell(FILE *file, const char *text)
{
    escaped(file, text, strlen(text), MARKDOWN_TABLE);
    fputs(" |\n", file);
}

static void markdown_options(const struct command *command, FILE *file)
{
    char help[OPTION_HELP_SIZE];
    fputs("\n| Option | Meaning |\n|---|---|\n", file);
    for (const struct command_option *o = options_of(command); o->name; o++) {
        fputs("| ", file);
        if (o->letter) fprintf(file, "`-%c`, ", o->letter);
        fprintf(file, "`--%s%s%s` | ", o->name, o->value ? " " : "", o->value ? o->value : "");
        markdown_cell(file, write_option_help(o, help));
    }
    fputs("| `-h`, `--help` | print the help page |\n", file);
}

void help_markdown_page(const struct command *command, FILE *file)
{
    char title[TITLE_SIZE], synopsis[SYNOPSIS_SIZE];
    fprintf(file, "## %s\n\n", write_title(command, title));
    fprintf(file, "```text\n%s\n```\n\n", write_synopsis(command, synopsis));
    write_text(file, command->description, MARKDOWN);
    if (command->operands && command->operands->name) fputs("\n| Operand | Meaning |\n|---|---|\n", file);
    for (const struct command_operand *o = command->operands; o && o->name; o++) {
        fputs("| `", file);
        for (const char *c = o->name; *c; c++) fprintf(file, *c == '|' ? "\\%c" : "%c", *c);
        fputs("` | ", file);
        markdown_cell(file, o->help);
    }
    markdown_options(command, file);
    if (!command->examples) return;
    fputs("\nExamples:\n\n<!-- not run: tests/tools/help.c runs them -->\n```sh\n", file);
    for (const char *line = command->examples; *line; line += strcspn(line, "\n") + 1) {
        const char *start = line + strspn(line, " ") - (line[2] == ' ' ? 2 : 0);
        fprintf(file, "%.*s\n", (int)strcspn(start, "\n"), start);
    }
    fputs("```\n", file);
}

void help_markdown_overview(FILE *file)
{
    fputs("# Commands\n\n"
          "<!-- Generated by `qkv help --format markdown`: edit the tables in tools/, not this page. -->\n\n",
          file);
    write_text(file, HELP_ABOUT, MARKDOWN);
    fputs(
        "\n`qkv help COMMAND`, `qkv COMMAND --help` and `man qkv-COMMAND` print what follows. Options may "
        "precede or\nfollow operands, and their names are not shortened; `--` ends them. Results go to "
        "standard output, progress and\nerrors to standard error.\n\n| Exit status | Meaning |\n|---|---|\n",
        file);
    for (const struct help_exit_code *c = HELP_EXIT_CODES; c->code; c++)
        fprintf(file, "| %s | %s |\n", c->code, c->meaning);
    fputs("\n| Command | Purpose |\n|---|---|\n", file);
    for (int i = 0; COMMANDS[i]; i++)
        fprintf(file, "| [%s](#qkv-%s) | %s |\n", COMMANDS[i]->name, COMMANDS[i]->name, COMMANDS[i]->summary);
    for (int i = 0; COMMANDS[i]; i++) {
        fputc('\n', file);
        help_markdown_page(COMMANDS[i], file);
    }
}

/* ---- man pages ---- */

static void man_line(FILE *file, const char *text)
{
    escaped(file, text, strlen(text), MAN);
    fputc('\n', file);
}

/* Prints the title line, in capitals: QKV-TRAIN for the prefix "qkv-" and the name "train". */
static void man_title(FILE *file, const char *prefix, const char *name)
{
    fputs(".TH \"", file);
    for (const char *c = prefix; *c; c++) fputc(toupper((unsigned char)*c), file);
    for (const char *c = name; *c; c++) fputc(toupper((unsigned char)*c), file);
    fputs("\" 1 \"\" \"qkv " QKV_VERSION "\" \"User Commands\"\n"
          ".nh\n.ad l\n", /* no hyphens in names of keys, no stretched lines */
          file);
}

static void man_options(const struct command *command, FILE *file)
{
    char help[OPTION_HELP_SIZE];
    fputs(".SH OPTIONS\n", file);
    for (const struct command_option *o = options_of(command); o->name; o++) {
        fputs(".TP\n", file);
        if (o->letter) fprintf(file, "\\fB\\-%c\\fR, ", o->letter);
        fputs("\\fB\\-\\-", file);
        escaped(file, o->name, strlen(o->name), MAN_LITERAL);
        fputs("\\fR", file);
        if (o->value) fprintf(file, " \\fI%s\\fR", o->value);
        fputc('\n', file);
        man_line(file, write_option_help(o, help));
    }
    fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint the help page\n", file);
}

static void man_exit_codes(FILE *file)
{
    fputs(".SH EXIT STATUS\n", file);
    for (const struct help_exit_code *c = HELP_EXIT_CODES; c->code; c++)
        fprintf(file, ".TP\n%s\n%s\n", c->code, c->meaning);
}

void help_man_page(const struct command *command, FILE *file)
{
    char synopsis[SYNOPSIS_SIZE];
    man_title(file, "qkv-", command->name);
    fprintf(file, ".SH NAME\nqkv\\-%s \\- ", command->name);
    man_line(file, command->summary);
    fputs(".SH SYNOPSIS\n", file);
    fprintf(file, ".B qkv %s\n", command->name);
    const char *rest = write_synopsis(command, synopsis) + strlen("qkv ") + strlen(command->name);
    man_line(file, rest + strspn(rest, " "));
    fputs(".SH DESCRIPTION\n", file);
    write_text(file, command->description, MAN);
    if (command->operands && command->operands->name) fputs(".SH OPERANDS\n", file);
    for (const struct command_operand *o = command->operands; o && o->name; o++) {
        fprintf(file, ".TP\n\\fI%s\\fR\n", o->name);
        man_line(file, o->help);
    }
    man_options(command, file);
    man_exit_codes(file);
    if (command->examples) {
        fputs(".SH EXAMPLES\n", file);
        write_text(file, command->examples, MAN);
    }
    fputs(".SH SEE ALSO\n.BR qkv (1)\n", file);
}

void help_man_overview(FILE *file)
{
    man_title(file, "qkv", "");
    fputs(".SH NAME\nqkv \\- trainable mini\\-transformers: train, translate, look at attention\n"
          ".SH SYNOPSIS\n.B qkv\n\\fICOMMAND\\fR [operands] [options]\n.SH DESCRIPTION\n",
          file);
    write_text(file, HELP_ABOUT, MAN);
    fputs(".PP\nOptions may precede or follow operands, and their names are not shortened; \\fB\\-\\-\\fR "
          "ends them.\n"
          "Results go to standard output, progress and errors to standard error.\n.SH COMMANDS\n",
          file);
    for (int i = 0; COMMANDS[i]; i++) {
        fprintf(file, ".TP\n.BR qkv\\-%s (1)\n", COMMANDS[i]->name);
        man_line(file, COMMANDS[i]->summary);
    }
    fputs(".SH OPTIONS\n.TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nlist the commands\n"
          ".TP\n\\fB\\-\\-version\\fR\nprint the version, and the kernels in use\n",
          file);
    man_exit_codes(file);
    fputs(".SH ENVIRONMENT\n"
          ".TP\n\\fBQKV_KERNELS\\fR\nthe kernels to compute with, instead of the fastest that the processor "
          "can run: \\fBportable\\fR run on every processor; \\fBblas\\fR are the fastest, but OpenBLAS "
          "computes large products, so that results have other bits on other processors; \\fBqkv "
          "\\-\\-version\\fR prints those in use\n"
          ".TP\n\\fBNO_COLOR\\fR\nwhen it is not empty, text has no colours\n",
          file);
}
