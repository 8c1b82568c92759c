/* A set of texts, to know what was generated before. */
#ifndef QKV_DATASETS_SET_H
#define QKV_DATASETS_SET_H

#include <stdbool.h>
#include <stddef.h>

/* All zero is the empty set. The texts belong to others and must stay. */
struct text_set {
    const char **slot;
    size_t room, count;
};

bool text_set_has(const struct text_set *set, const char *text);

/* Adds a text; false when there is no memory. Adding one that is there changes nothing. */
bool text_set_add(struct text_set *set, const char *text);

void text_set_release(struct text_set *set);

#endif
