/* A subcommand as data: its operands, its options, and the function that runs it; the parser; and the table of all subcommands.
 *
 * The parser, the help pages, docs/commands.md, the man pages and the shell completions are all made from these tables. To add
 * a subcommand, write one file that defines `const struct command command_<name>` and add COMMAND(<name>) to commands.def.
 *
 * This header also brings what nearly every file of the tools needs: the public headers of the library, printing, the C
 * library and cJSON. */
#pragma once

#include "print.h"
#include "terminal.h"

#include "core/file.h"
#include "qkv/qkv.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <unistd.h>

/* Defines a lister whose names need no context: `name` is an expression in `index`, NULL behind the last name. */
#define NAME_LISTER(function, name)                                                                          \
    const char *function(const void *context, int64_t index)                                                 \
    {                                                                                                        \
        (void)context;                                                                                       \
        return (name);                                                                                       \
    }                                                                                                        \
    qkv_name_lister function

/* What an option stores in its destination. */
enum option_type {
    OPTION_FLAG,    /* bool: becomes true */
    OPTION_TEXT,    /* const char *: points into argv */
    OPTION_CHOICE,  /* const char *: one of the row's choices */
    OPTION_INTEGER, /* int64_t: within lowest .. highest */
    OPTION_NUMBER,  /* double: within lowest .. highest */
    OPTION_LIST,    /* struct option_list: the option may be repeated; with choices, each value is one of
                       them or several with commas between */
};

/* What a shell offers to complete an operand or the value of an option that has no choices. */
enum value_kind {
    VALUE_OTHER, /* nothing */
    VALUE_FILE,
    VALUE_FOLDER,
    VALUE_CONFIG,        /* a YAML file */
    VALUE_RUN,           /* a run folder */
    VALUE_CONFIG_OR_RUN, /* a YAML file or a run folder */
    VALUE_SETTING,       /* KEY=VALUE: a key of a config, and `=` */
};

/* The values of an option that may be repeated. */
struct option_list {
    const char *value[64];
    int count;
};

/* One option. A table ends with a row whose name is NULL. */
struct command_option {
    const char *name;  /* long name, without dashes */
    char letter;       /* short name, or 0 */
    const char *value; /* what the help calls its value ("N", "FILE"); NULL for flags */
    enum option_type type;
    void *destination;
    const char *help;       /* "{choices}" becomes the list of the row's choices */
    double lowest, highest; /* bounds of numbers; both 0: no bounds */
    /* Names that completions offer; OPTION_CHOICE and OPTION_LIST accept no others */
    qkv_name_lister *choices;
    enum value_kind completes;
    bool needs_translations; /* has no effect where a command does not translate (--no-translation) */
};

/* One operand. A table ends with a row whose name is NULL; optional operands follow required ones, and only
 * the last may be repeated. */
struct command_operand {
    const char *name; /* in capitals: "RUN" */
    enum value_kind completes;
    const char *help;
    bool optional, repeated;
    qkv_name_lister *choices; /* the only operands accepted; NULL: any */
};

/* The tables of a command: their rows, and the row that ends them. */
#define OPERANDS(...) ((const struct command_operand[]){__VA_ARGS__, {0}})
#define OPTIONS(...)  ((const struct command_option[]){__VA_ARGS__, {0}})

/* Texts are paragraphs that each format of `qkv help` wraps, with an empty line between; lines that
 * begin with a space are printed as they are. */
struct command {
    const char *name, *summary;
    const char *synopsis; /* "gradcheck [CONFIG... | --all]"; NULL: made from the operands */
    const char *description;
    const char *examples; /* lines, each ended by \n */
    const struct command_operand *operands;
    const struct command_option *options; /* NULL: none; options_of gives the list */
    /* Runs the command with `operands` operands, operand[0 ..]; returns the exit code. */
    int (*run)(int operands, char **operand);
    bool standalone; /* a program called `name`, not a subcommand of qkv */
    bool writes_run; /* the results are in a run folder, not on standard output */
    /* The processes that mpirun starts share its work; all other subcommands refuse to be several. */
    bool is_divided;
};

/* The options of a command, which end with one without a name. */
static inline const struct command_option *options_of(const struct command *command)
{
    static const struct command_option NONE = {0};
    return command->options ? command->options : &NONE;
}

/* Rows that several commands have. */
/* clang-format off */
#define COMMAND_OPTION_BEAM(number)                                                                          \
    {"beam", 'k', "K", OPTION_INTEGER, number,                                                               \
     "hypotheses per sentence; 1: greedy search (default: testing.beam_size)", 1, 1000,                      \
     .needs_translations = true}
#define COMMAND_OPTION_CHECKPOINT(text)                                                                      \
    {"checkpoint", 0, "NAME", OPTION_TEXT, text,                                                             \
     "last, best, average or another checkpoint of RUN (default: the average if the run has testing.average, else the best, else the last)"}
#define COMMAND_OPTION_THREADS(number)                                                                       \
    {"threads", 'j', "N", OPTION_INTEGER, number, "number of threads (default: one per processor)", 1, 1024}
#define COMMAND_OPTION_SETTINGS(list)                                                                        \
    {"set", 's', "KEY=VALUE", OPTION_LIST, list, "override a key of the config; may be repeated", \
     .completes = VALUE_SETTING}
#define COMMAND_OPTION_JSON(flag) {"json", 0, NULL, OPTION_FLAG, flag, "print one JSON object"}
/* clang-format on */

/* Parses argv[1..], stores the options where their rows say, runs the command on the operands and
 * returns its exit code. Options may precede or follow operands; a shortened name is refused; `--`
 * ends them. -h and --help print the help page to stdout instead. Invalid arguments are reported on
 * stderr, with exit code 2. */
int parse_and_run(const struct command *command, int argc, char **argv);

/* The first given option that needs translations; NULL: none. `command` is the one that parse_and_run runs. */
const char *translation_option(const struct command *command);

/* For a command that was given --no-translation: reports the first given option that needs translations. `command` is the one
 * that parse_and_run runs. QKV_OK if there is no such option. */
int print_translation_options_error(const struct command *command);

/* Prints `qkv: <message> (usage: qkv train CONFIG [options])` and returns the exit code 2. */
int print_usage_error(const struct command *command, const char *format, ...) QKV_PRINTF(2, 3);

#define COMMAND(name) extern const struct command command_##name;
#include "commands.def"
#undef COMMAND

/* The subcommands in the order of the help page; ends with NULL. */
extern const struct command *const COMMANDS[];

/* Finds a subcommand by name. Prints an error message and returns NULL when there is none. */
const struct command *command_find(const char *name);

/* The names of the subcommands; the context is not used. */
const char *command_name(const void *context, int64_t index);
