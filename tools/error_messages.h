/* Error messages on standard error: one line each, "qkv: <message>". */
#ifndef QKV_TOOLS_ERROR_MESSAGES_H
#define QKV_TOOLS_ERROR_MESSAGES_H

#include "qkv/error.h"
#include "qkv/nearest.h"

/* Prints `qkv: <message>` and returns the exit code 2. */
int print_error(const char *format, ...) QKV_PRINTF(1, 2);

/* Begins all later messages with the name of this process, one of several; NULL: no longer. For failures that may happen in
 * this process only. */
void set_error_process(const char *process);

/* Prints a message without "qkv: ", because it begins with its place, such as "x.yaml:3:1: ". */
void print_located_error(const char *message);

/* Prints `qkv: <what> is '<given>'; did you mean <the most similar names>`, or all names if none is similar, and
 * returns the exit code 2. */
int print_unknown_name(const char *what, const char *given, qkv_name_lister *name, const void *context);

/* Writes "json, csv, npz". Returns `text`. */
const char *list_names(char *text, size_t size, qkv_name_lister *name, const void *context);

/* Prints the error, unless `status` is QKV_OK or the message is empty because another process reports it. Returns the exit
 * code. */
int conclude(enum qkv_status status, const struct qkv_error *error);

#endif
