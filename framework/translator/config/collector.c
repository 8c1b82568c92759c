#include "config/collector.h"

#include "core/plain_text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char NO_MEMORY[] = "out of memory";

void qkv_collect(struct qkv_collector *collector, struct qkv_place place, const char *format, ...)
{
    if (collector->out_of_memory) return;
    if (collector->count == QKV_MESSAGES_MAX) {
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
    if (text) text = qkv_arena_plain(collector->arena, text);
    struct qkv_finding finding = {text ? text : NO_MEMORY, place.name, 0, place.line, place.column};
    for (int i = collector->count - 1; i >= 0; i--) {
        const struct qkv_finding *earlier = &collector->finding[i];
        if (finding.file <= earlier->file) finding.file = earlier->file + 1;
    }
    for (int i = 0; i < collector->count; i++)
        if (!strcmp(collector->finding[i].name, place.name)) finding.file = collector->finding[i].file;
    collector->finding[collector->count++] = finding;
    collector->out_of_memory = !text;
}

void qkv_collect_no_memory(struct qkv_collector *collector, const char *name)
{
    qkv_collect(collector, (struct qkv_place){.name = name}, "%s", NO_MEMORY);
    collector->out_of_memory = true;
}

/* True when `a` belongs after `b`. Findings without a line are last. */
static bool is_after(const struct qkv_finding *a, const struct qkv_finding *b)
{
    if (!a->line || !b->line) return !a->line && b->line;
    if (a->file != b->file) return a->file > b->file;
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
    /* This message replaces the last one, which is then not shown either: hence + 1. */
    const char *last =
        qkv_arena_format(collector->arena, "%s: %d more errors are not shown", name, collector->left_out + 1);
    messages->text[QKV_MESSAGES_MAX - 1] = last ? last : NO_MEMORY;
}

const char *qkv_printable(struct qkv_arena *arena, const char *text)
{
    enum { LONGEST = 60 };
    const char *end = text;
    while (*end) {
        const char *next = end;
        qkv_utf8_next(&next);
        if (next > text + LONGEST) break;
        end = next;
    }
    const char *cut = qkv_arena_format(arena, "%.*s%s", (int)(end - text), text, *end ? "..." : "");
    const char *plain = cut ? qkv_arena_plain(arena, cut) : NULL;
    return plain ? plain : "?";
}
