/* Finds the columns of a table that hold the sentences. */
#ifndef QKV_DATA_PAIRS_COLUMNS_H
#define QKV_DATA_PAIRS_COLUMNS_H

#include "qkv/pairs_file.h"

#include <stddef.h>

/* One field of a line, without a terminating NUL. */
struct pairs_field {
    const char *text;
    size_t size;
};

/* Splits a line at its tabs and trims white space. Returns the number of fields, of which the first QKV_PAIRS_COLUMNS are
 * stored. */
int qkv_pairs_fields(const char *line, size_t size, struct pairs_field field[QKV_PAIRS_COLUMNS]);

/* The field without leading and trailing white space. */
struct pairs_field qkv_pairs_trim(struct pairs_field field);

enum { QKV_PAIRS_HASHES = 4096 };

/* Statistics of a column: the number of lines in which its field ... */
struct pairs_column {
    bool is_excluded;    /* set by the caller: the column holds no sentences, whatever its text is */
    int64_t filled;      /* ... has text */
    int64_t letterless;  /* ... has text without a letter: a number, a date */
    int64_t attribution; /* ... says who wrote the sentence */
    int64_t repeated;    /* ... repeats the text of the line before */
    int64_t one_word;    /* ... is one word of printable ASCII */
    int64_t digits;      /* ... has text with a digit */
    /* private: a bit for each hash of a text, to estimate how many different texts there are */
    uint8_t seen[QKV_PAIRS_HASHES / 8];
};

struct pairs_columns {
    int64_t lines;
    int count; /* maximal number of fields in a line */
    struct pairs_column column[QKV_PAIRS_COLUMNS];
    /* private: hash of each field of the line before */
    uint32_t before[QKV_PAIRS_COLUMNS];
};

/* Counts a line. */
void qkv_pairs_columns_add(struct pairs_columns *columns, const struct pairs_field *field, int count);

/* Finds the first two columns of sentences, numbered from 1; labels such as "noun-12" or "easy" are sentences only where
 * fewer than two other columns are. Returns how many it has found: 0, 1 or 2. */
int qkv_pairs_columns_find(const struct pairs_columns *columns, int found[2]);

#endif
