/* Gathers the errors of one file in any order, and hands them over in the order of its lines. */
#ifndef QKV_CONFIG_COLLECTOR_H
#define QKV_CONFIG_COLLECTOR_H

#include "qkv/arena.h"
#include "qkv/messages.h"

/* Where something stands: `name:line:column`, or `name` alone when line is 0. */
struct qkv_place {
    const char *name;
    int line, column;
};

/* Caller's storage; all zero but for the arena at first. */
struct qkv_collector {
    struct qkv_arena *arena;
    int count, left_out;
    struct qkv_finding {
        const char *text;
        int line, column;
    } finding[QKV_MESSAGES_MOST];
};

/* Adds one finished sentence. */
void qkv_collect(struct qkv_collector *collector, struct qkv_place place, const char *format, ...)
    QKV_PRINTF(3, 4);

/* Adds the sentence for the case that the arena has no memory. */
void qkv_collect_no_memory(struct qkv_collector *collector, const char *name);

/* Sorts, and fills `messages`; `name` is the file, for the sentence about what was left out. */
void qkv_collector_finish(struct qkv_collector *collector, const char *name, struct qkv_messages *messages);

/* A user's text as it may stand in a sentence: on one line, control characters escaped, cut when long. In the
 * arena; never NULL. */
const char *qkv_shown(struct qkv_arena *arena, const char *text);

#endif
