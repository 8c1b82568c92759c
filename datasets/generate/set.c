#include "datasets/generate/set.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a. */
static size_t hash(const char *text)
{
    uint64_t value = UINT64_C(14695981039346656037);
    for (; *text; text++) value = (value ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return (size_t)(value ^ value >> 32);
}

/* The slot that holds the text, or the free one where it belongs; the room is a power of two. */
static size_t find(const struct text_set *set, const char *text)
{
    size_t at = hash(text) & (set->room - 1);
    while (set->slot[at] && strcmp(set->slot[at], text) != 0) at = (at + 1) & (set->room - 1);
    return at;
}

bool text_set_has(const struct text_set *set, const char *text)
{
    return set->room && set->slot[find(set, text)];
}

static bool grow(struct text_set *set)
{
    struct text_set larger = {.room = set->room ? set->room * 2 : 1024, .count = set->count};
    larger.slot = calloc(larger.room, sizeof *larger.slot);
    if (!larger.slot) return false;
    for (size_t i = 0; i < set->room; i++)
        if (set->slot[i]) larger.slot[find(&larger, set->slot[i])] = set->slot[i];
    free(set->slot);
    *set = larger;
    return true;
}

bool text_set_add(struct text_set *set, const char *text)
{
    if (2 * (set->count + 1) > set->room && !grow(set)) return false;
    size_t at = find(set, text);
    if (!set->slot[at]) set->count++;
    set->slot[at] = text;
    return true;
}

void text_set_release(struct text_set *set)
{
    free(set->slot);
    *set = (struct text_set){0};
}
