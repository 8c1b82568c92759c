/* The table of commands, and qkv help: writes it as text, Markdown, man pages and shell completions. */
#include "help.h"

const struct command *const COMMANDS[] = {
#define COMMAND(name) &command_##name,
#include "commands.def"
#undef COMMAND
    NULL,
};

NAME_LISTER(command_name, COMMANDS[index] ? COMMANDS[index]->name : NULL);

const struct command *command_find(const char *name)
{
    char near[128];
    for (int i = 0; COMMANDS[i]; i++)
        if (!strcmp(name, COMMANDS[i]->name)) return COMMANDS[i];
    if (!strcmp(name, "version"))
        strcpy(near, "--version");
    else
        qkv_suggest_names(near, sizeof near, name, "", command_name, NULL);
    print_error("unknown command '%s'%s%s (see `qkv --help`)", name, *near ? "; did you mean " : "", near);
    return NULL;
}

static const struct format {
    const char *name;
    void (*overview)(FILE *file);
    void (*page)(const struct command *command, FILE *file); /* NULL: the overview has all commands in full */
} FORMATS[] = {
    {"text", help_text_overview, help_text_page},
    {"markdown", help_markdown_overview, help_markdown_page},
    {"man", help_man_overview, help_man_page},
    {"bash", help_bash, NULL},
    {"zsh", help_zsh, NULL},
    {"fish", help_fish, NULL},
};

enum { FORMAT_COUNT = sizeof FORMATS / sizeof FORMATS[0] };

static NAME_LISTER(format_name, index < FORMAT_COUNT ? FORMATS[index].name : NULL);

const char HELP_ABOUT[] =
    "Trainable mini-transformers on an ordinary CPU: train a small translator from a YAML config, check its "
    "gradients, and look at the attention that it learned.\n";

const struct help_exit_code HELP_EXIT_CODES[] = {
    {"0", "success"},
    {"1", "a check or a run of a sweep failed, or training diverged"},
    {"2", "wrong arguments or input; a message on standard error says what"},
    {"128 + N", "ended by signal N, as 130 by Ctrl-C"},
    {0},
};

void help_text_overview(FILE *file)
{
    fputs("Usage: qkv COMMAND [operands] [options]\n\n", file);
    print_wrapped(file, HELP_ABOUT, 0, 0);
    fputs("\nCommands:\n", file);
    for (int i = 0; COMMANDS[i]; i++) fprintf(file, "  %-10s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    fputs("\n`qkv help COMMAND` explains a command; `qkv --version` prints the version and\n"
          "the kernels in use.\n\n"
          "Exit status:\n",
          file);
    for (const struct help_exit_code *c = HELP_EXIT_CODES; c->code; c++)
        fprintf(file, "  %-10s %s\n", c->code, c->meaning);
}

static const char *format = "text";

static int run_help(int operands, char **operand)
{
    const struct format *chosen = FORMATS;
    while (strcmp(format, chosen->name) != 0) chosen++;
    if (!operands) {
        chosen->overview(stdout);
        return QKV_OK;
    }
    if (!chosen->page)
        return print_error("--format %s completes all commands: leave out %s", format, operand[0]);
    const struct command *command = command_find(operand[0]);
    if (!command) return QKV_INVALID;
    chosen->page(command, stdout);
    return QKV_OK;
}

const struct command command_help = {
    .name = "help",
    .summary = "explain a command; print man pages and shell completions",
    .description = "Explains a command, or lists all of them. The other formats serve programs: a page of "
                   "documentation (markdown, man), or a script that completes commands, options and "
                   "operands (bash, zsh, fish).\n",
    .examples = "  qkv help train\n"
                "  eval \"$(qkv help --format bash)\"\n"
                "  qkv help --format fish >~/.config/fish/completions/qkv.fish\n",
    .operands = OPERANDS({"COMMAND", VALUE_OTHER, "a command of qkv (default: an overview)", .optional = true,
                          .choices = command_name}),
    .options = OPTIONS({"format", 'f', "FORMAT", OPTION_CHOICE, &format, "{choices} (default: text)",
                        .choices = format_name}),
    .run = run_help,
};
