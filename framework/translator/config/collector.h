/* Collects errors about files in any order, and returns them file by file, in the order of lines. */
#ifndef QKV_CONFIG_COLLECTOR_H
#define QKV_CONFIG_COLLECTOR_H

#include "qkv/arena.h"
#include "qkv/messages.h"

#include <stdbool.h>

/* A place in a file: `name:line:column`, or only `name` when line is 0. */
struct qkv_place {
    const char *name;
    int line, column;
};

/* Caller's storage; set the arena, and the rest to zero. */
struct qkv_collector {
    struct qkv_arena *arena;
    int count;          /* of `finding` */
    int left_out;       /* errors beyond the capacity of `finding` */
    bool out_of_memory; /* no more errors are added, because they may only be consequences */
    struct qkv_finding {
        const char *text, *name; /* name: of the file */
        int file, line, column;  /* file: number of the file, in the order of their first errors */
    } finding[QKV_MESSAGES_MAX];
};

/* Adds one error. Its message is the place, followed by the formatted text. */
void qkv_collect(struct qkv_collector *collector, struct qkv_place place, const char *format, ...)
    QKV_PRINTF(3, 4);

/* Adds the error "out of memory" for the file `name`. */
void qkv_collect_no_memory(struct qkv_collector *collector, const char *name);

/* Writes the errors to `messages`, sorted by file and line. If there are more than QKV_MESSAGES_MAX, the last message tells
 * how many are not shown, and begins with the file `name`. */
void qkv_collector_finish(struct qkv_collector *collector, const char *name, struct qkv_messages *messages);

/* Returns a text of the user as it is shown in error messages: control characters as \xNN, cut after 60
 * bytes. The result is in the arena and never NULL. */
const char *qkv_printable(struct qkv_arena *arena, const char *text);

#endif
