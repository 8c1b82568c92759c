/* Names of languages, as they occur in file names and column titles. */
#ifndef QKV_DATA_LANGUAGES_H
#define QKV_DATA_LANGUAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the two-letter code of a language, such as "es", by that code, its three-letter code or its name; NULL when `name` is
 * none of these. */
const char *qkv_language_code(const char *name, size_t size);

/* Whether two names of languages mean the same language, as en, eng and en-US do. */
bool qkv_is_same_language(const char *a, const char *b);

/* Whether `name` can be the title of a column of sentences: the name of a language, or a word such as "source". */
bool qkv_is_column_title(const char *name, size_t size);

/* The language that the title of a column names, also beside other words: "en" for "en-US" and "English sentence"; NULL when it
 * names none. */
const char *qkv_language_of_title(const char *name, size_t size);

/* Whether two cells are the titles of columns of sentences. Two names of one language, as "French" and "Francés", are not: they
 * are a word and its translation. */
bool qkv_is_title_pair(const char *source, size_t source_size, const char *target, size_t target_size);

/* The codes of the first two languages that the name of a file mentions, in their order: en and es for "data/eng-spa.tsv.gz".
 * code[i] is NULL if there are fewer. */
void qkv_languages_of_path(const char *path, const char *code[2]);

#endif
