/* A sentence under construction in English and Spanish at once, with its word alignment. Parts of speech are
 * written word by word on both sides; a finished phrase can be placed into another one, its two sides at
 * different points, so that constituents may change order ("my brother's dog", "el perro de mi hermano"). */
#ifndef QKV_DATASETS_PHRASE_H
#define QKV_DATASETS_PHRASE_H

#include "qkv/arena.h"

#include <stdbool.h>

enum { PHRASE_WORDS = 192, PHRASE_LINKS = 768 };

/* English word `source` translates to Spanish word `target` (or a part of it); both from 0. */
struct link {
    int source, target;
};

/* Caller's storage; all zero is an empty phrase. The words belong to others. */
struct phrase {
    const char *source[PHRASE_WORDS], *target[PHRASE_WORDS];
    struct link link[PHRASE_LINKS];
    int source_count, target_count, link_count;
};

/* Makes a phrase empty without touching all of it. */
static inline void phrase_clear(struct phrase *phrase)
{
    phrase->source_count = phrase->target_count = phrase->link_count = 0;
}

/* Adds an English word and returns its position. An "a" right before a vowel becomes "an". */
int phrase_source(struct phrase *phrase, const char *word);

/* Adds a Spanish word and returns its position. "a" and "de" contract with a following "el"; the position is
 * then that of "al" or "del", which keeps the links that it had. "y" becomes "e" before the sound that it has
 * itself. */
int phrase_target(struct phrase *phrase, const char *word);

/* Links two positions; a link that is there already stays single, and a negative position links nothing. */
void phrase_link(struct phrase *phrase, int source, int target);

/* Where the words of a placed phrase have come to stand. */
struct placement {
    int source[PHRASE_WORDS], target[PHRASE_WORDS];
};

/* Copy one side of `part` to the end of `phrase`; call both, in any order, then phrase_place_links. */
void phrase_place_source(struct phrase *phrase, const struct phrase *part, struct placement *placement);
void phrase_place_target(struct phrase *phrase, const struct phrase *part, struct placement *placement);
void phrase_place_links(struct phrase *phrase, const struct phrase *part, const struct placement *placement);

/* All three at the end of both sides. */
void phrase_place(struct phrase *phrase, const struct phrase *part);

/* One side as text with single blanks, or the links as `i-j` sorted by i, then j; NULL when there is no
 * memory. */
char *phrase_source_text(const struct phrase *phrase, struct qkv_arena *arena);
char *phrase_target_text(const struct phrase *phrase, struct qkv_arena *arena);
char *phrase_link_text(const struct phrase *phrase, struct qkv_arena *arena);

#endif
