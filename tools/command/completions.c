/* The completion scripts: for bash a branch of a `case` for each command, for zsh the specifications of _arguments, for fish a
 * line for each option and operand. */
#include "command.h"
#include "help.h"

#include "config/config_keys.h"

/* ---- parts of all scripts ---- */

enum shell { BASH, ZSH, FISH };

static void print_names(FILE *file, const char *separator, qkv_name_lister *naming)
{
    const char *name;
    for (int64_t i = 0; (name = naming(NULL, i)); i++) fprintf(file, "%s%s", i ? separator : "", name);
}

/* Prints the completions of KEY=VALUE: every key of a config followed by `=`. */
static void print_settings(FILE *file)
{
    print_names(file, "= ", qkv_config_key);
    fputc('=', file);
}

/* Prints what completes a value: its choices, or its kind. In bash it is the argument of _qkv_value, in zsh an action, in fish
 * flags of `complete`, of which -x says that the value is not a file. */
static void print_value(FILE *file, enum shell shell, enum value_kind kind, qkv_name_lister *choices)
{
    static const char *const kinds[][3] = {
        [VALUE_OTHER] = {"''", ": ", " -x"},
        [VALUE_FILE] = {"file", ":_files", " -r -F"},
        [VALUE_FOLDER] = {"folder", ":_files -/", " -x -a '(__fish_complete_directories)'"},
        [VALUE_RUN] = {"folder", ":_files -/", " -x -a '(__fish_complete_directories)'"},
        [VALUE_CONFIG] = {"config", ":_files -g \"*.(yaml|yml)\"",
                          " -x -k -a '(__fish_complete_suffix .yaml)'"},
        [VALUE_CONFIG_OR_RUN] = {"config", ":_files -g \"*.(yaml|yml)\"",
                                 " -x -k -a '(__fish_complete_suffix .yaml)'"},
        [VALUE_SETTING] = {"setting", ":_qkv_settings", " -x -a '$__qkv_settings'"}};
    static const char *const before[] = {"'words ", ":(", " -x -a '"}, *const after[] = {"'", ")", "'"};
    fputs(choices ? before[shell] : kinds[kind][shell], file);
    if (choices) print_names(file, " ", choices);
    if (choices) fputs(after[shell], file);
}

/* Prints text inside '...' of a shell, with a backslash before each of the characters `special`. */
static void print_escaped(FILE *file, const char *text, const char *special)
{
    for (; *text; text++) {
        bool is_special = strchr(special, *text);
        fputs(is_special ? "\\" : *text == '\'' ? "'\\'" : "", file);
        fputc(*text, file);
    }
}

/* Prints the short and the long name of an option: "-o --output" when the separator is " ". */
static void print_spellings(FILE *file, const struct command_option *option, const char *separator)
{
    if (option->letter) fprintf(file, "-%c%s", option->letter, separator);
    fprintf(file, "--%s", option->name);
}

/* Prints the names of all options, or of those that take a value. */
static void print_options(FILE *file, const struct command *command, const char *before, const char *after,
                          bool with_value)
{
    for (const struct command_option *o = command->options; o->name; o++) {
        if (with_value && o->type == OPTION_FLAG) continue;
        fputs(before, file);
        print_spellings(file, o, " ");
        fputs(after, file);
    }
}

/* ---- bash ---- */

static const char BEGINNING[] =
    "\n"
    "# Offers those of the words $1 that begin like the word to complete.\n"
    "_qkv_words()\n"
    "{\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$word\")\n"
    "}\n"
    "\n"
    "# Offers files of the kind $1, keys of a config, or, where it is `words ...`, these words.\n"
    "_qkv_value()\n"
    "{\n"
    "    case $1 in\n"
    "    'words '*)\n"
    "        _qkv_words \"${1#words }\"\n"
    "        return\n"
    "        ;;\n"
    "    setting)\n"
    "        _qkv_words \"$_qkv_settings\"\n"
    "        compopt -o nospace 2>/dev/null\n"
    "        return\n"
    "        ;;\n"
    "    file) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
    "    folder) mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;\n"
    "    config)\n"
    "        mapfile -t COMPREPLY < <(\n"
    "            compgen -f -X '!*.yaml' -- \"$word\"\n"
    "            compgen -f -X '!*.yml' -- \"$word\"\n"
    "            compgen -d -- \"$word\"\n"
    "        )\n"
    "        ;;\n"
    "    esac\n"
    "    compopt -o filenames 2>/dev/null\n"
    "}\n"
    "\n"
    "_qkv()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local options valued operands last operand=0 i\n"
    "    COMPREPLY=()\n"
    "    # bash cuts --format=png, and KEY=VALUE, into three words.\n"
    "    if [[ $word == = || $previous == = ]]; then\n"
    "        [[ $word == = ]] && word=\n"
    "        [[ $previous == = ]] && previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "        [[ $previous == -* ]] || return 0\n"
    "    fi\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        _qkv_words \"";

static const char END[] = "    *) return ;;\n"
                          "    esac\n"
                          "    if [[ $word == -* ]]; then\n"
                          "        _qkv_words \"$options\"\n"
                          "        return\n"
                          "    fi\n"
                          "    # Count the operands before the word to complete.\n"
                          "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
                          "        case ${COMP_WORDS[i]} in\n"
                          "        -*)\n"
                          "            [[ $valued != *\" ${COMP_WORDS[i]} \"* ]] && continue\n"
                          "            [[ ${COMP_WORDS[i + 1]} == = ]] && ((i++))\n"
                          "            ((i++))\n"
                          "            [[ ${COMP_WORDS[i + 1]} == = ]] && ((i += 2))\n"
                          "            ;;\n"
                          "        *) ((operand++)) ;;\n"
                          "        esac\n"
                          "    done\n"
                          "    [[ -n $last ]] && ((operand > last)) && operand=$last\n"
                          "    _qkv_value \"${operands[operand]}\"\n"
                          "}\n"
                          "complete -F _qkv qkv\n";

static void bash_command(FILE *file, const struct command *command)
{
    int count = 0;
    bool repeated = false;
    fprintf(file, "    %s)\n        options='", command->name);
    print_options(file, command, "", " ", false);
    fputs("-h --help'\n        valued=' ", file);
    print_options(file, command, "", " ", true);
    fputs("'\n        operands=(", file);
    for (const struct command_operand *o = command->operands; o->name; o++) {
        fputs(count++ ? " " : "", file);
        print_value(file, BASH, o->completes, o->choices);
        repeated = o->repeated;
    }
    fputs(")\n", file);
    if (repeated) fprintf(file, "        last=%d\n", count - 1);
    fputs("        case $previous in\n", file);
    for (const struct command_option *o = command->options; o->name; o++) {
        if (o->type == OPTION_FLAG) continue;
        fputs("        ", file);
        print_spellings(file, o, " | ");
        fputs(")\n            _qkv_value ", file);
        print_value(file, BASH, o->completes, o->choices);
        fputs("\n            return\n            ;;\n", file);
    }
    fputs("        esac\n        ;;\n", file);
}

void help_bash(FILE *file)
{
    fputs("# Completion of qkv for bash, made by `qkv help --format bash`.\n\n_qkv_settings='", file);
    print_settings(file);
    fputs("'\n", file);
    fputs(BEGINNING, file);
    for (int i = 0; COMMANDS[i]; i++) fprintf(file, "%s%s", i ? " " : "", COMMANDS[i]->name);
    fputs(" --help --version\"\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", file);
    for (int i = 0; COMMANDS[i]; i++) bash_command(file, COMMANDS[i]);
    fputs(END, file);
}

/* ---- zsh ---- */

/* ":NAME:action" */
static void zsh_value(FILE *file, const char *name, enum value_kind kind, qkv_name_lister *choices)
{
    fputc(':', file);
    print_escaped(file, name, ":\\");
    print_value(file, ZSH, kind, choices);
}

static void zsh_option(FILE *file, const struct command_option *o)
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
    if (!flag) zsh_value(file, o->value, o->completes, o->choices);
    fputs("' \\\n", file);
}

static void zsh_command(FILE *file, const struct command *command)
{
    int number = 0;
    fprintf(file, "        %s)\n        _arguments -s \\\n", command->name);
    for (const struct command_option *o = command->options; o->name; o++) zsh_option(file, o);
    fputs("            '(- *)'{-h,--help}'[print the help page]'", file);
    for (const struct command_operand *o = command->operands; o->name; o++) {
        fputs(" \\\n            '", file);
        if (o->repeated)
            fputc('*', file);
        else
            fprintf(file, "%d%s", ++number, o->optional ? ":" : "");
        zsh_value(file, o->name, o->completes, o->choices);
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
    for (int i = 0; COMMANDS[i]; i++) zsh_command(file, COMMANDS[i]);
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

/* ---- fish ---- */

/* Ends a line with the text that describes what it completes. */
static void fish_text(FILE *file, const char *text)
{
    fputs(" -d '", file);
    print_escaped(file, text, "'\\");
    fputs("'\n", file);
}

static void fish_command(FILE *file, const struct command *command)
{
    char help[OPTION_HELP_SIZE];
    int number = 0;
    fputc('\n', file);
    for (const struct command_option *o = command->options; o->name; o++) {
        fprintf(file, "complete -c qkv -n '__qkv_command %s' -l %s", command->name, o->name);
        if (o->letter) fprintf(file, " -s %c", o->letter);
        if (o->type != OPTION_FLAG) print_value(file, FISH, o->completes, o->choices);
        fish_text(file, write_option_help(o, help));
    }
    fprintf(file, "complete -c qkv -n '__qkv_command %s' -l help -s h -d 'print the help page'\n",
            command->name);
    for (const struct command_operand *o = command->operands; o->name; o++) {
        number++;
        if (o->completes == VALUE_OTHER && !o->choices) continue;
        fprintf(file, "complete -c qkv -n '__qkv_operand %s %s %d", command->name,
                o->repeated ? "-ge" : "-eq", number);
        print_options(file, command, " ", "", true);
        fputc('\'', file);
        print_value(file, FISH, o->completes, o->choices);
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
        fprintf(file, "complete -c qkv -n 'test (count (commandline -opc)) -eq 1' -a %s", COMMANDS[i]->name);
        fish_text(file, COMMANDS[i]->summary);
    }
    for (int i = 0; COMMANDS[i]; i++) fish_command(file, COMMANDS[i]);
}
