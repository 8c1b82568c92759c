/* Files of sentence pairs for the tests of `qkv init`. */
#pragma once

#include "support.h"

/* Writes to the current folder `count` pairs of words of two syllables, all different, in a given form of line: source, target. */
static inline const char *write_pairs(const char *name, int count, const char *form)
{
    char *text = remember(calloc((size_t)count, 120)), *end = text;
    for (int i = 0; i < count; i++) {
        const char *source = format("%c%c dog number %d.", 'a' + i % 7, 'a' + i % 11, i);
        const char *target = format("%c%c perro %d.", 'n' + i % 7, 'm' + i % 11, i);
        end += sprintf(end, form, source, target);
    }
    return write_text(".", name, text);
}

/* Lines of a file. */
static inline int lines_of(const char *name)
{
    return atoi(run_ok("wc -l <'%s'", name));
}
