/* The completion function of zsh: the specifications of _arguments for each command. */
#include "commands.h"
#include "help.h"
#include "synopsis.h"

#include <string.h>

/* Prints text inside '...' of the shell, with a backslash before each of the characters `special`. */
static void print_escaped(FILE *file, const char *text, const char *special)
{
    for (; *text; text++) {
        if (strchr(special, *text)) fputc('\\', file);
        fputs(*text == '\'' ? "'\\'" : "", file);
        fputc(*text, file);
    }
}

/* ":NAME:action" */
static void print_value(FILE *file, const char *name, enum value_kind kind, qkv_name_lister *choices)
{
    static const char *const actions[] = {[VALUE_OTHER] = " ",
                                          [VALUE_FILE] = "_files",
                                          [VALUE_FOLDER] = "_files -/",
                                          [VALUE_RUN] = "_files -/",
                                          [VALUE_CONFIG] = "_files -g \"*.(yaml|yml)\"",
                                          [VALUE_CONFIG_OR_RUN] = "_files -g \"*.(yaml|yml)\"",
                                          [VALUE_SETTING] = "_qkv_settings"};
    const char *choice;
    fputc(':', file);
    print_escaped(file, name, ":\\");
    fputs(choices ? ":(" : ":", file);
    for (int64_t i = 0; choices && (choice = choices(NULL, i)); i++)
        fprintf(file, "%s%s", i ? " " : "", choice);
    fputs(choices ? ")" : actions[kind], file);
}

static void print_option(FILE *file, const struct command_option *o)
{
    char help[OPTION_HELP_SIZE];
    bool flag = o->type == OPTION_FLAG;
    fputs("            ", file);
    if (o->type == OPTION_LIST)
        fputs("'*'", file);
    else if (o->letter)
        fprintf(file, "'(-%c --%s)'", o->letter, o->name);
    if (o->letter)
        fprintf(file, "{-%c%s,--%s%s}", o->letter, flag ? "" : "+", o->name, flag ? "" : "=");
    else
        fprintf(file, "--%s%s", o->name, flag ? "" : "=");
    fputs("'[", file);
    print_escaped(file, write_option_help(o, help), "[]\\");
    fputc(']', file);
    if (!flag) print_value(file, o->value, o->completes, o->choices);
    fputs("' \\\n", file);
}

static void print_command(FILE *file, const struct command *command)
{
    int number = 0;
    fprintf(file, "        %s)\n        _arguments -s \\\n", command->name);
    for (const struct command_option *o = command->options; o->name; o++) print_option(file, o);
    fputs("            '(- *)'{-h,--help}'[print the help page]'", file);
    for (const struct command_operand *o = command->operands; o->name; o++) {
        fputs(" \\\n            '", file);
        if (o->repeated)
            fputc('*', file);
        else
            fprintf(file, "%d%s", ++number, o->optional ? ":" : "");
        print_value(file, o->name, o->completes, o->choices);
        fputc('\'', file);
    }
    fputs("\n        ;;\n", file);
}

void help_zsh(FILE *file)
{
    fputs("#compdef qkv\n"
          "# Completion of qkv for zsh, made by `qkv help --format zsh`.\n"
          "\n"
          "# Offers the keys of a config; behind `=` nothing.\n"
          "_qkv_settings()\n"
          "{\n"
          "    [[ $PREFIX == *=* ]] || compadd -S '' -- ",
          file);
    print_settings(file);
    fputs("\n"
          "}\n"
          "\n"
          "_qkv()\n"
          "{\n"
          "    local curcontext=$curcontext state line\n"
          "    typeset -A opt_args\n"
          "    local -a commands=(\n",
          file);
    for (int i = 0; COMMANDS[i]; i++) {
        fprintf(file, "        '%s:", COMMANDS[i]->name);
        print_escaped(file, COMMANDS[i]->summary, ":\\");
        fputs("'\n", file);
    }
    fputs("    )\n"
          "    _arguments -C \\\n"
          "        '(- *)'{-h,--help}'[list the commands]' \\\n"
          "        '(- *)--version[print the version and the kernels in use]' \\\n"
          "        '1:command:->command' \\\n"
          "        '*::argument:->argument' && return\n"
          "    case $state in\n"
          "    command) _describe -t commands command commands ;;\n"
          "    argument)\n"
          "        case $words[1] in\n",
          file);
    for (int i = 0; COMMANDS[i]; i++) print_command(file, COMMANDS[i]);
    fputs("        esac\n"
          "        ;;\n"
          "    esac\n"
          "}\n"
          "\n"
          "# Loaded from $fpath this file is the function; sourced, it has to be made known.\n"
          "if [[ $funcstack[1] == _qkv ]]; then\n"
          "    _qkv \"$@\"\n"
          "else\n"
          "    compdef _qkv qkv\n"
          "fi\n",
          file);
}
