/* Parallel text as the tests of the data sets read it. */
#ifndef QKV_TESTS_PAIRS_H
#define QKV_TESTS_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

enum { MOST_WORDS = 128, MOST_PAIRS = 30000 };

/* A list of texts, each with another one; sorted by key once filled. */
struct table {
    struct entry {
        const char *key, *value;
    } entry[MOST_PAIRS * 16];
    size_t count;
};

void put(struct table *table, const char *key, const char *value);
void sort(struct table *table);

/* What a sorted table has for a key, or NULL. */
const char *get(const struct table *table, const char *key);

/* How many different keys a sorted table has. */
size_t distinct(const struct table *table);

struct pair {
    char *source, *target; /* target: NULL in a file without tabs */
};

/* Reads the lines of a file, and splits each at its tab if it has one. */
int read_pairs(const char *path, struct pair *pairs);

/* The words of a text, with NULL behind them. */
int split(const char *text, char **words);

/* Fails where a word of either side has no link, or a link leads out of the sentence, or stands out of order.
 */
void check_links(const struct pair *pair, const char *links);

/* Fails at what English and Spanish writing in lower case without punctuation does not have: "a apple", "de
 * el". */
void check_writing(const char *text, bool english);

#endif
