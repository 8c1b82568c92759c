/* Error messages on standard error: one line each, "qkv: <message>". */
#ifndef QKV_TOOLS_COMPLAIN_H
#define QKV_TOOLS_COMPLAIN_H

#include "command.h"

#include "qkv/error.h"

/* Prints `qkv: <message>` and returns the exit code 2. */
int complain(const char *format, ...) QKV_PRINTF(1, 2);

/* The same, followed by how the command is called: ` (usage: qkv train CONFIG [options])`. */
int complain_of_usage(const struct command *command, const char *format, ...) QKV_PRINTF(2, 3);

/* Prints `qkv: <what> is '<given>'; did you mean <the nearest names>`, or all names when none is near, and
 * returns the exit code 2. */
int complain_of_name(const char *what, const char *given, qkv_naming *name, const void *context);

/* Writes "json, csv, npz". Returns `text`. */
const char *list_names(char *text, size_t size, qkv_naming *name, const void *context);

/* Prints the error unless `status` is QKV_OK, and returns the exit code. */
int conclude(enum qkv_status status, const struct qkv_error *error);

#endif
