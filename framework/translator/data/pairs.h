/* Reading sentence pairs: pairs that are found one by one, tables, and names of languages. */
#ifndef QKV_DATA_PAIRS_H
#define QKV_DATA_PAIRS_H

#include "qkv/corpus.h"

#include <stddef.h>

/* ---- pairs ---- */

/* One field of a line, without a terminating NUL. */
struct pairs_field {
    const char *text;
    size_t size;
};

/* The field without leading and trailing white space. */
struct pairs_field qkv_pairs_trim(struct pairs_field field);

/* Adds the pair of a line, unless the line is the header or a side is empty. Fails when there is no memory. */
enum qkv_status qkv_pairs_add(struct qkv_pairs *pairs, int64_t line, const struct pairs_field sentence[2],
                              struct qkv_error *error);

/* Sets the language of a side that has none; NULL: does nothing. */
void qkv_pairs_set_language(struct qkv_pairs *pairs, int side, const char *code);

/* Reads the table that is requested into pairs that are all zero; sets also its path, columns and languages. */
enum qkv_status qkv_pairs_read_table(struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                     struct qkv_error *error);

/* ---- names of languages, as they occur in file names and column titles ---- */

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
