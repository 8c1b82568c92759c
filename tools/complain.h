/* Error messages on standard error: one line each, "qkv: <message>". */
#ifndef QKV_TOOLS_COMPLAIN_H
#define QKV_TOOLS_COMPLAIN_H

#include "qkv/error.h"
#include "qkv/nearest.h"

/* Prints `qkv: <message>` and returns the exit code 2. */
int complain(const char *format, ...) QKV_PRINTF(1, 2);

/* Begins all later messages with the name of this process, of several; NULL: no longer. For what it alone may fail in. */
void complain_as(const char *process);

/* Prints a message that begins with its place, such as "x.yaml:3:1: ", and so without "qkv: ". */
void complain_of_place(const char *message);

/* Prints `qkv: <what> is '<given>'; did you mean <the nearest names>`, or all names when none is near, and
 * returns the exit code 2. */
int complain_of_name(const char *what, const char *given, qkv_naming *name, const void *context);

/* Writes "json, csv, npz". Returns `text`. */
const char *list_names(char *text, size_t size, qkv_naming *name, const void *context);

/* Prints the error unless `status` is QKV_OK or the message is empty, because another process has it; returns the exit code. */
int conclude(enum qkv_status status, const struct qkv_error *error);

#endif
