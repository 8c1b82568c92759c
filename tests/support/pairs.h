/* Reads and checks parallel text, for the tests of the data sets. */
#pragma once

#include "support.h"

enum { MAX_WORDS = 128, MAX_PAIRS = 30000 };

/* A table from texts to texts. Fill it with put, then sort it, then look up. */
struct table {
    struct entry {
        const char *key, *value;
    } entry[MAX_PAIRS * 16];
    size_t count;
};

void put(struct table *table, const char *key, const char *value);
void sort(struct table *table);

/* Returns the value of a key in a sorted table, or NULL. */
const char *get(const struct table *table, const char *key);

/* Returns the number of different keys in a sorted table. */
size_t distinct(const struct table *table);

struct pair {
    char *source, *target; /* target: NULL in a file without tabs */
};

/* Reads the lines of a file and splits each at its tab, if it has one. Returns the number of
 * lines. */
int read_pairs(const char *path, struct pair *pairs);

/* Splits a text into words, followed by NULL. Returns the number of words. */
int split(const char *text, char **words);

/* Fails where a word of either side has no link, a link leads outside the sentence, or links are
 * not in order. */
void check_links(const struct pair *pair, const char *links);

/* Fails at mistakes such as "a apple" or "de el", and at characters other than lower-case letters
 * and spaces. */
void check_writing(const char *text, bool english);
