/* Collects the errors of one file in any order, and returns them in the order of its lines. */
#ifndef QKV_CONFIG_COLLECTOR_H
#define QKV_CONFIG_COLLECTOR_H

#include "qkv/arena.h"
#include "qkv/messages.h"

/* A place in a file: `name:line:column`, or only `name` when line is 0. */
struct qkv_place {
    const char *name;
    int line, column;
};

/* Caller's storage; set the arena, and the rest to zero. */
struct qkv_collector {
    struct qkv_arena *arena;
    int count, left_out;
    struct qkv_finding {
        const char *text;
        int line, column;
    } finding[QKV_MESSAGES_MOST];
};

/* Adds one sentence. */
void qkv_collect(struct qkv_collector *collector, struct qkv_place place, const char *format, ...)
    QKV_PRINTF(3, 4);

/* Adds the sentence "not enough memory". */
void qkv_collect_no_memory(struct qkv_collector *collector, const char *name);

/* Sorts the sentences into `messages`. `name` is the file, for the sentence about those that are left out. */
void qkv_collector_finish(struct qkv_collector *collector, const char *name, struct qkv_messages *messages);

/* A user's text for an error message: on one line, with control characters escaped, shortened when it is long. In the
 * arena; never NULL. */
const char *qkv_shown(struct qkv_arena *arena, const char *text);

#endif
