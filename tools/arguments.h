/* Command-line options as a table: parsing (getopt_long) and help come from the same rows. */
#ifndef QKV_TOOLS_ARGUMENTS_H
#define QKV_TOOLS_ARGUMENTS_H

#include "qkv/error.h"
#include "qkv/nearest.h"

#include <stdbool.h>
#include <stdint.h>

enum argument_kind {
    ARGUMENT_FLAG,    /* bool *: set to true */
    ARGUMENT_TEXT,    /* const char **: points into argv */
    ARGUMENT_INTEGER, /* int64_t *: within lowest .. highest */
    ARGUMENT_NUMBER,  /* double *: within lowest .. highest */
    ARGUMENT_LIST,    /* struct argument_list *: may be given many times */
};

/* Values of an option that may be repeated; caller's storage, all zero at first. */
struct argument_list {
    const char *value[64];
    int count;
};

/* One option. A table ends with a row whose name is NULL. */
struct argument {
    const char *name;  /* long name without dashes */
    char letter;       /* short name, or 0 */
    const char *value; /* what its value is called in the help ("N", "FILE"); NULL for flags */
    enum argument_kind kind;
    void *destination;
    double lowest, highest; /* for numbers; both 0: no bounds */
    const char *help;
};

/* What a subcommand is, for its help page. */
struct usage {
    const char *synopsis;    /* "train CONFIG [options]" */
    const char *description; /* some lines, each ended by \n */
    const struct argument *arguments;
    const char *examples; /* some lines, each ended by \n, or NULL */
    int fewest, most;     /* operands */
    const char *program;  /* "qkv-bench" for a program of its own; NULL: a subcommand of qkv */
};

/* Rows that several commands have. */
/* clang-format off */
#define ARGUMENT_BEAM(number)                                                                                \
    {"beam", 'k', "K", ARGUMENT_INTEGER, number, 1, 1000,                                                    \
     "hypotheses per sentence; 1: greedy (default: testing.beam_size)"}
#define ARGUMENT_LENGTH_PENALTY(number)                                                                      \
    {"length-penalty", 'a', "ALPHA", ARGUMENT_NUMBER, number, 0, 10,                                         \
     "exponent of the length penalty (default: testing.beam_alpha)"}
#define ARGUMENT_CHECKPOINT(text)                                                                            \
    {"checkpoint", 0, "NAME", ARGUMENT_TEXT, text, 0, 0, "file in the run folder (default: best, else last)"}
#define ARGUMENT_THREADS(number)                                                                             \
    {"threads", 'j', "N", ARGUMENT_INTEGER, number, 1, 1024, "threads (default: as many as the machine has)"}
#define ARGUMENT_JSON(flag, what) {"json", 0, NULL, ARGUMENT_FLAG, flag, 0, 0, what}
/* clang-format on */

/* What arguments_parse gives when the command is to run; anything else is an exit code. */
enum { ARGUMENTS_GOOD = -1 };

/* Parses argv[1..]; options may follow or precede operands; `--` ends options. Operands are moved to the
 * front of argv[1..] and counted in *operands. `-h`/`--help` is understood everywhere. Gives ARGUMENTS_GOOD,
 * or 0 after printing the help that was asked for to stdout, or 2 after printing one sentence to stderr. */
int arguments_parse(const struct usage *usage, int argc, char **argv, int *operands);

/* Prints `qkv: <message>` to stderr and returns the exit code 2; for errors found by a subcommand. */
int complain(const char *format, ...) QKV_PRINTF(1, 2);

/* Writes "json, csv, npz". Returns `text`. */
const char *list_names(char *text, size_t size, qkv_naming *name, const void *context);

/* Prints `qkv: <what> is '<given>'; did you mean <the nearest names>`, or, where none is near, all the names
 * that there are, and returns the exit code 2. */
int complain_of_name(const char *what, const char *given, qkv_naming *name, const void *context);

/* How a command ends: complains of the error, unless all went well, and gives the exit code. */
int conclude(enum qkv_status status, const struct qkv_error *error);

#endif
