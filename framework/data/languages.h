/* Names of languages, in the names of files and above columns. */
#ifndef QKV_DATA_LANGUAGES_H
#define QKV_DATA_LANGUAGES_H

#include <stdbool.h>
#include <stddef.h>

/* The code of a language, such as "es", by that code, its code of three letters or its name; NULL when `name` is none of
 * these. */
const char *qkv_language_code(const char *name, size_t size);

/* True of a word that stands above a column of sentences: the name of a language, or a word such as "source". */
bool qkv_is_column_title(const char *name, size_t size);

/* The codes of up to two languages that the name of a file mentions, in their order: en and es of "data/eng-spa.tsv.gz".
 * NULL where there are fewer. */
void qkv_languages_of_path(const char *path, const char *code[2]);

#endif
