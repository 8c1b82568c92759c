/* The completion script of bash: a branch of a `case` for each command. */
#include "commands.h"
#include "help.h"
#include "synopsis.h"

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

static void print_names(FILE *file, const char *separator, qkv_name_lister *naming)
{
    const char *name;
    for (int64_t i = 0; (name = naming(NULL, i)); i++) fprintf(file, "%s%s", i ? separator : "", name);
}

/* Prints the argument of _qkv_value: a kind of value, or the choices, in quotes. */
static void print_value(FILE *file, enum value_kind kind, qkv_name_lister *choices)
{
    static const char *const kinds[] = {
        [VALUE_OTHER] = "''",       [VALUE_FILE] = "file",     [VALUE_FOLDER] = "folder",
        [VALUE_RUN] = "folder",     [VALUE_CONFIG] = "config", [VALUE_CONFIG_OR_RUN] = "config",
        [VALUE_SETTING] = "setting"};
    if (!choices) {
        fputs(kinds[kind], file);
        return;
    }
    fputs("'words ", file);
    print_names(file, " ", choices);
    fputc('\'', file);
}

/* Prints the short and the long name of an option: "-o --output" when the separator is " ". */
static void print_spellings(FILE *file, const struct command_option *option, const char *separator)
{
    if (option->letter) fprintf(file, "-%c%s", option->letter, separator);
    fprintf(file, "--%s", option->name);
}

static void print_command(FILE *file, const struct command *command)
{
    int count = 0;
    bool repeated = false;
    fprintf(file, "    %s)\n        options='", command->name);
    for (const struct command_option *o = command->options; o->name; o++) {
        print_spellings(file, o, " ");
        fputc(' ', file);
    }
    fputs("-h --help'\n        valued=' ", file);
    for (const struct command_option *o = command->options; o->name; o++) {
        if (o->type == OPTION_FLAG) continue;
        print_spellings(file, o, " ");
        fputc(' ', file);
    }
    fputs("'\n        operands=(", file);
    for (const struct command_operand *o = command->operands; o->name; o++) {
        fputs(count++ ? " " : "", file);
        print_value(file, o->completes, o->choices);
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
        print_value(file, o->completes, o->choices);
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
    print_names(file, " ", command_name);
    fputs(" --help --version\"\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", file);
    for (int i = 0; COMMANDS[i]; i++) print_command(file, COMMANDS[i]);
    fputs(END, file);
}
