/* Names of languages, as they occur in file names and column titles. */
#ifndef QKV_DATA_LANGUAGES_H
#define QKV_DATA_LANGUAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the two-letter code of a language, such as "es", by that code, its three-letter code or its name; NULL when `name` is
 * none of these. */
const char *qkv_language_code(const char *name, size_t size);

/* Whether `name` can be the title of a column of sentences: the name of a language, or a word such as "source". */
bool qkv_is_column_title(const char *name, size_t size);

/* The codes of the first two languages that the name of a file mentions, in their order: en and es for "data/eng-spa.tsv.gz".
 * code[i] is NULL if there are fewer. */
void qkv_languages_of_path(const char *path, const char *code[2]);

#endif
