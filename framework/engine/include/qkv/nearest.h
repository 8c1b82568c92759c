/* Suggestions for misspelled names: "did you mean ...".
 *
 * Example:
 *     printf("%d\n", qkv_name_distance("atention", "attention")); // 1
 *
 * Most callers need qkv_suggest_names, with a function that lists the valid names. */
#ifndef QKV_NEAREST_H
#define QKV_NEAREST_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Edit distance: letters to insert, delete, replace or swap with their neighbour to turn one name into the other,
 * ignoring case (Damerau 1964; restricted: no letter is edited twice). INT_MAX if a name has more than 63 bytes. */
QKV_API int qkv_name_distance(const char *a, const char *b);

/* Whether one name at that distance is probably a misspelling of the other: the distance is at most 1, or for names of
 * 5 letters and more at most 1 plus a quarter of the letters. */
QKV_API bool qkv_names_are_near(const char *a, const char *b, int distance);

/* A function that lists names: returns the name at `index`, from 0; NULL after the last. */
typedef const char *qkv_name_lister(const void *context, int64_t index);

/* Writes up to three suggestions for `given`, each after `prefix`: the near names at the smallest distance; if there
 * are none, names that contain `given`. "", "--beam", "relu or gelu", "a, b or c". Returns `text`. */
QKV_API const char *qkv_suggest_names(char *text, size_t size, const char *given, const char *prefix,
                                      qkv_name_lister *name, const void *context);

#endif
