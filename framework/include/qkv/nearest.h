/* What a misspelled name was probably meant to be: behind every "did you mean". */
#ifndef QKV_NEAREST_H
#define QKV_NEAREST_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Letters that must be put in, left out, exchanged or swapped with their neighbour to make one name of the
 * other, case aside (Damerau 1964; no letter takes part twice). Far apart when one has over 63 bytes. */
QKV_API int qkv_name_distance(const char *a, const char *b);

/* Whether names at that distance are likely to be one name misspelled: a slip in one letter, and from four
 * letters on in a third of them as well. */
QKV_API bool qkv_names_are_near(const char *a, const char *b, int distance);

/* A list of names: the one at `index`, NULL behind the last. */
typedef const char *qkv_naming(const void *context, int64_t index);

/* Writes the names that `given` was probably meant to be, each behind `prefix`: the nearest of those that are
 * near, else those that `given` is a part of, three at most: "", "--beam", "relu or gelu", "a, b or c".
 * Returns `text`. */
QKV_API const char *qkv_names_near(char *text, size_t size, const char *given, const char *prefix,
                                   qkv_naming *name, const void *context);

#endif
