/* The completion script of fish: a line for each option and operand. */
#include "commands.h"
#include "help.h"
#include "synopsis.h"

/* Prints text between single quotes. */
static void print_quoted(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') fputc('\\', file);
        fputc(*text, file);
    }
    fputc('\'', file);
}

/* Prints the flags of `complete` that offer the values of an option or operand. -x: needs a value,
 * which is not a file. */
static void print_value(FILE *file, enum value_kind kind, qkv_name_lister *choices)
{
    static const char *const values[] = {[VALUE_OTHER] = " -x",
                                         [VALUE_FILE] = " -r -F",
                                         [VALUE_FOLDER] = " -x -a '(__fish_complete_directories)'",
                                         [VALUE_RUN] = " -x -a '(__fish_complete_directories)'",
                                         [VALUE_CONFIG] = " -x -k -a '(__fish_complete_suffix .yaml)'",
                                         [VALUE_CONFIG_OR_RUN] = " -x -k -a '(__fish_complete_suffix .yaml)'",
                                         [VALUE_SETTING] = " -x -a '$__qkv_settings'"};
    const char *choice;
    if (!choices) {
        fputs(values[kind], file);
        return;
    }
    fputs(" -x -a '", file);
    for (int64_t i = 0; (choice = choices(NULL, i)); i++) fprintf(file, "%s%s", i ? " " : "", choice);
    fputc('\'', file);
}

static void print_command(FILE *file, const struct command *command)
{
    char help[OPTION_HELP_SIZE];
    int number = 0;
    fputc('\n', file);
    for (const struct command_option *o = command->options; o->name; o++) {
        fprintf(file, "complete -c qkv -n '__qkv_command %s' -l %s", command->name, o->name);
        if (o->letter) fprintf(file, " -s %c", o->letter);
        if (o->type != OPTION_FLAG) print_value(file, o->completes, o->choices);
        fputs(" -d ", file);
        print_quoted(file, write_option_help(o, help));
        fputc('\n', file);
    }
    fprintf(file, "complete -c qkv -n '__qkv_command %s' -l help -s h -d 'print the help page'\n",
            command->name);
    for (const struct command_operand *o = command->operands; o->name; o++) {
        number++;
        if (o->completes == VALUE_OTHER && !o->choices) continue;
        fprintf(file, "complete -c qkv -n '__qkv_operand %s %s %d", command->name,
                o->repeated ? "-ge" : "-eq", number);
        for (const struct command_option *p = command->options; p->name; p++) {
            if (p->type == OPTION_FLAG) continue;
            if (p->letter) fprintf(file, " -%c", p->letter);
            fprintf(file, " --%s", p->name);
        }
        fputc('\'', file);
        print_value(file, o->completes, o->choices);
        fputc('\n', file);
    }
}

void help_fish(FILE *file)
{
    fputs(
        "# Completion of qkv for fish, made by `qkv help --format fish`.\n"
        "\n"
        "# True when the command is $argv[1].\n"
        "function __qkv_command\n"
        "    set -l words (commandline -opc)\n"
        "    test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
        "end\n"
        "\n"
        "# True when the command is $argv[1] and the number of the operand to complete is $argv[2] (-eq or\n"
        "# -ge) $argv[3]. The rest of $argv are the options that take a value.\n"
        "function __qkv_operand\n"
        "    __qkv_command $argv[1]; or return 1\n"
        "    set -l number 1\n"
        "    set -l is_value 0\n"
        "    for word in (commandline -opc)[3..]\n"
        "        if test $is_value = 1\n"
        "            set is_value 0\n"
        "        else if contains -- $word $argv[4..]\n"
        "            set is_value 1\n"
        "        else if not string match -q -- '-*' $word\n"
        "            set number (math $number + 1)\n"
        "        end\n"
        "    end\n"
        "    test $number $argv[2] $argv[3]\n"
        "end\n"
        "\n"
        "complete -c qkv -f\n"
        "set -g __qkv_settings ",
        file);
    print_settings(file);
    fputs(
        "\n"
        "complete -c qkv -n 'test (count (commandline -opc)) -eq 1' -l help -s h -d 'list the commands'\n"
        "complete -c qkv -n 'test (count (commandline -opc)) -eq 1' -l version -d 'print the version and the "
        "kernels in use'\n",
        file);
    for (int i = 0; COMMANDS[i]; i++) {
        fprintf(file, "complete -c qkv -n 'test (count (commandline -opc)) -eq 1' -a %s -d ",
                COMMANDS[i]->name);
        print_quoted(file, COMMANDS[i]->summary);
        fputc('\n', file);
    }
    for (int i = 0; COMMANDS[i]; i++) print_command(file, COMMANDS[i]);
}
