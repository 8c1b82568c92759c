#include "config/collector.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char NO_MEMORY[] = "not enough memory";

void qkv_collect(struct qkv_collector *collector, struct qkv_place place, const char *format, ...)
{
    if (collector->count == QKV_MESSAGES_MOST) {
        collector->left_out++;
        return;
    }
    struct qkv_error sentence;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence.message, sizeof sentence.message, format, arguments);
    va_end(arguments);
    const char *text = place.line
                           ? qkv_arena_format(collector->arena, "%s:%d:%d: %s", place.name, place.line,
                                              place.column, sentence.message)
                           : qkv_arena_format(collector->arena, "%s: %s", place.name, sentence.message);
    collector->finding[collector->count++] =
        (struct qkv_finding){text ? text : NO_MEMORY, place.line, place.column};
}

void qkv_collect_no_memory(struct qkv_collector *collector, const char *name)
{
    qkv_collect(collector, (struct qkv_place){.name = name}, "%s", NO_MEMORY);
}

/* True when `a` belongs after `b`. Findings without a line are last. */
static bool is_after(const struct qkv_finding *a, const struct qkv_finding *b)
{
    if (!a->line || !b->line) return !a->line && b->line;
    return a->line != b->line ? a->line > b->line : a->column > b->column;
}

void qkv_collector_finish(struct qkv_collector *collector, const char *name, struct qkv_messages *messages)
{
    /* Insertion sort, because it is stable; the list has at most a hundred entries. */
    for (int i = 1; i < collector->count; i++) {
        struct qkv_finding moving = collector->finding[i];
        int to = i;
        for (; to > 0 && is_after(&collector->finding[to - 1], &moving); to--)
            collector->finding[to] = collector->finding[to - 1];
        collector->finding[to] = moving;
    }
    messages->count = collector->count;
    for (int i = 0; i < collector->count; i++) messages->text[i] = collector->finding[i].text;
    if (!collector->left_out) return;
    /* This message replaces the last one, which is then left out as well: hence + 1. */
    const char *last =
        qkv_arena_format(collector->arena, "%s: %d more errors are not shown", name, collector->left_out + 1);
    messages->text[QKV_MESSAGES_MOST - 1] = last ? last : NO_MEMORY;
}

const char *qkv_printable(struct qkv_arena *arena, const char *text)
{
    enum { LONGEST = 60 };
    char line[4 * LONGEST + 8];
    size_t used = 0, i = 0;
    for (; text[i] && i < LONGEST; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < 0x20 || byte == 0x7F)
            used += (size_t)snprintf(line + used, sizeof line - used, "\\x%02X", byte);
        else
            line[used++] = text[i];
    }
    if (text[i]) {
        /* Do not cut a UTF-8 sequence in two. */
        if (((unsigned char)text[i] & 0xC0) == 0x80) {
            while (used && ((unsigned char)line[used - 1] & 0xC0) == 0x80) used--;
            if (used) used--;
        }
        memcpy(line + used, "...", 3);
        used += 3;
    }
    line[used] = '\0';
    const char *copy = qkv_arena_string(arena, line);
    return copy ? copy : "?";
}
