/* Completion: what may stand at the cursor of a command line, and scripts for bash, zsh and fish that ask for it. */
#include "help.h"

#include "config/config_keys.h"

/* ---- what may stand at the cursor ---- */

/* Prints what a value may be: first what the shell is to complete, then the words that begin like `word`, each behind
 * `before`. */
static void offer_value(const char *before, const char *word, enum value_kind kind, qkv_name_lister *choices)
{
    static const char *const kinds[] = {
        [VALUE_OTHER] = "nothing",  [VALUE_FILE] = "file",     [VALUE_FOLDER] = "folder",
        [VALUE_RUN] = "folder",     [VALUE_CONFIG] = "config", [VALUE_CONFIG_OR_RUN] = "config",
        [VALUE_SETTING] = "setting"};
    bool is_setting = !choices && kind == VALUE_SETTING;
    const char *name;
    puts(choices ? "words" : kinds[kind]);
    if (is_setting) choices = qkv_config_key;
    for (int64_t i = 0; choices && (name = choices(NULL, i)); i++)
        if (!strncmp(name, word, strlen(word))) printf("%s%s%s\n", before, name, is_setting ? "=" : "");
}

/* Prints a name with its help, if it begins like `word`. */
static void offer_name(const char *word, const char *name, const char *help)
{
    if (!strncmp(name, word, strlen(word))) printf("%s\t%s\n", name, help);
}

static void offer_commands(const char *word)
{
    puts("words");
    for (int i = 0; COMMANDS[i]; i++) offer_name(word, COMMANDS[i]->name, COMMANDS[i]->summary);
    if (*word != '-') return;
    offer_name(word, "--help", "list the commands");
    offer_name(word, "--version", "print the version and the kernels in use");
}

static void offer_option(const char *word, const struct command_option *option)
{
    char name[64], help[OPTION_HELP_SIZE];
    snprintf(name, sizeof name, "--%s", option->name);
    offer_name(word, name, write_option_help(option, help));
    snprintf(name, sizeof name, "-%c", option->letter);
    if (option->letter) offer_name(word, name, help);
}

/* Finds the option that takes a value and that a word, of which `length` bytes count, names; NULL: there is none. */
static const struct command_option *valued_option(const struct command *command, const char *word,
                                                  size_t length)
{
    bool is_long = word[1] == '-';
    if (!is_long && length != 2) return NULL;
    const struct command_option *o = find_option(command, is_long ? 0 : word[1], word + 2, length - 2);
    return o && o->type != OPTION_FLAG ? o : NULL;
}

/* bash cuts --format=png, and KEY=VALUE, into three words. */
void help_complete(int count, char **word)
{
    const char *last = count ? word[count - 1] : "";
    if (count < 2) {
        offer_commands(last);
        return;
    }
    const struct command *command = NULL;
    const struct command_option *option = NULL; /* whose value comes next */
    bool is_setting = false;                    /* the value of a key comes next */
    for (int i = 0; COMMANDS[i]; i++)
        if (!strcmp(COMMANDS[i]->name, word[0])) command = COMMANDS[i];
    if (!command) return;
    const struct command_operand *operand = command->operands;
    for (int i = 1; i < count - 1; i++) {
        if (!strcmp(word[i], "="))
            is_setting = !option;
        else if (option || is_setting)
            option = NULL, is_setting = false;
        else if (word[i][0] == '-' && word[i][1])
            option = valued_option(command, word[i], strlen(word[i]));
        else if (operand->name && !operand->repeated)
            operand++;
    }
    size_t name_length = strcspn(last, "=");
    if (!strcmp(last, "=")) {
        is_setting = !option;
        last = "";
    }
    if (is_setting) return;
    if (option) {
        offer_value("", last, option->completes, option->choices);
    } else if (*last != '-') {
        if (operand->name) offer_value("", last, operand->completes, operand->choices);
    } else if (!last[name_length]) {
        puts("words");
        for (const struct command_option *o = options_of(command); o->name; o++) offer_option(last, o);
        offer_option(last, &HELP_OPTION);
    } else if ((option = valued_option(command, last, name_length))) {
        char before[64];
        snprintf(before, sizeof before, "--%s=", option->name);
        offer_value(before, last + name_length + 1, option->completes, option->choices);
    }
}

/* ---- scripts ---- */

void help_bash(FILE *file)
{
    fputs(
        "# Completion of qkv for bash, made by `qkv help --format bash`.\n"
        "_qkv()\n"
        "{\n"
        "    local kind word=${COMP_WORDS[COMP_CWORD]}\n"
        "    COMPREPLY=()\n"
        "    [[ $word == = ]] && word=\n"
        "    {\n"
        "        read -r kind\n"
        "        mapfile -t COMPREPLY\n"
        "    } < <(\"${COMP_WORDS[0]}\" --complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
        "    COMPREPLY=(\"${COMPREPLY[@]%%$'\\t'*}\") # without the help\n"
        "    case $kind in\n"
        "    setting) compopt -o nospace 2>/dev/null ;;\n"
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
        "    [[ $kind == file || $kind == folder || $kind == config ]] && compopt -o filenames 2>/dev/null\n"
        "    return 0\n"
        "}\n"
        "complete -F _qkv qkv\n",
        file);
}

void help_zsh(FILE *file)
{
    fputs("#compdef qkv\n"
          "# Completion of qkv for zsh, made by `qkv help --format zsh`.\n"
          "_qkv()\n"
          "{\n"
          "    local kind\n"
          "    local -a before lines\n"
          "    before=(${(Q)words[2,CURRENT-1]})\n"
          "    lines=(${(f)\"$(${(Q)words[1]} --complete $before \"${(Q)PREFIX}\" 2>/dev/null)\"})\n"
          "    kind=${lines[1]}\n"
          "    lines=(${lines[2,-1]})\n"
          "    [[ $kind == (file|folder|config) ]] && compset -P '--*='\n"
          "    case $kind in\n"
          "    setting) compadd -S '' -- $lines ;;\n"
          "    file) _files ;;\n"
          "    folder) _files -/ ;;\n"
          "    config) _files -g '*.(yaml|yml)' ;;\n"
          "    words)\n"
          "        lines=(${lines//:/\\\\:})\n"
          "        lines=(${lines/$'\\t'/:})\n"
          "        _describe qkv lines\n"
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

void help_fish(FILE *file)
{
    fputs("# Completion of qkv for fish, made by `qkv help --format fish`.\n"
          "function __qkv_complete\n"
          "    set -l words (commandline -opc)\n"
          "    set -l word (commandline -ct)\n"
          "    set -l lines (command $words[1] --complete $words[2..] \"$word\" 2>/dev/null)\n"
          "    set -l before (string match -r -- '^--[^=]*=' $word)\n"
          "    set -l value (string replace -r -- '^--[^=]*=' '' $word)\n"
          "    switch \"$lines[1]\"\n"
          "        case file\n"
          "            __fish_complete_path \"$value\" | string replace -r -- '^' \"$before\"\n"
          "        case folder\n"
          "            __fish_complete_directories \"$value\" | string replace -r -- '^' \"$before\"\n"
          "        case config\n"
          "            __fish_complete_suffix \"$value\" .yaml | string replace -r -- '^' \"$before\"\n"
          "        case '*'\n"
          "            printf '%s\\n' $lines[2..]\n"
          "    end\n"
          "end\n"
          "complete -c qkv -f -k -a '(__qkv_complete)'\n",
          file);
}
