/* A phrase in English and Spanish with its word alignment. The grammar appends words to both sides. A finished phrase can
 * be placed into another one, each side at a different point, because the order of constituents can differ: "my brother's
 * dog", "el perro de mi hermano". */
#ifndef QKV_DATASETS_PHRASE_H
#define QKV_DATASETS_PHRASE_H

#include "qkv/arena.h"

#include <stdbool.h>

enum { PHRASE_WORDS = 192, PHRASE_LINKS = 768 };

/* English word `source` translates to Spanish word `target` (or a part of it); both from 0. */
struct link {
    int source, target;
};

/* Caller's storage; all zero is an empty phrase. The words are not copied. */
struct phrase {
    const char *source[PHRASE_WORDS], *target[PHRASE_WORDS];
    struct link link[PHRASE_LINKS];
    int source_count, target_count, link_count;
};

/* Empties a phrase. Setting it to zero would take much longer. */
static inline void phrase_clear(struct phrase *phrase)
{
    phrase->source_count = phrase->target_count = phrase->link_count = 0;
}

/* Appends an English word and returns its position. "a" before a vowel becomes "an". */
int phrase_source(struct phrase *phrase, const char *word);

/* Appends a Spanish word and returns its position. "a" and "de" contract with a following "el"; the position is then that
 * of "al" or "del", which keeps its links. "y" becomes "e" before an i sound. */
int phrase_target(struct phrase *phrase, const char *word);

/* Links two positions. A link that exists is not added again; a negative position is ignored. */
void phrase_link(struct phrase *phrase, int source, int target);

/* The positions of the words of a placed phrase. */
struct placement {
    int source[PHRASE_WORDS], target[PHRASE_WORDS];
};

/* Append one side of `part` to `phrase`. Call both, in any order, then phrase_place_links. */
void phrase_place_source(struct phrase *phrase, const struct phrase *part, struct placement *placement);
void phrase_place_target(struct phrase *phrase, const struct phrase *part, struct placement *placement);
void phrase_place_links(struct phrase *phrase, const struct phrase *part, const struct placement *placement);

/* Appends both sides and the links. */
void phrase_place(struct phrase *phrase, const struct phrase *part);

/* One side as text with single spaces, or the links as `i-j`, sorted by i, then j. NULL when there is no memory. */
char *phrase_source_text(const struct phrase *phrase, struct qkv_arena *arena);
char *phrase_target_text(const struct phrase *phrase, struct qkv_arena *arena);
char *phrase_link_text(const struct phrase *phrase, struct qkv_arena *arena);

#endif
