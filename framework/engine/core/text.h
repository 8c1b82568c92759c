/* Text of any origin, shown safely; a growing buffer; numbers as text; names that are misspelled; numbered strings. */
#pragma once

#include "qkv/base.h"

#include <string.h>

/* ---- text of any origin ----
 * Messages escape characters that are not plain, tables and pictures show QKV_REPLACEMENT instead, and files for programs
 * use the escapes of their format. */

enum { QKV_REPLACEMENT = 0xFFFD };

/* Returns the next code point of UTF-8 text and moves past it. Returns QKV_REPLACEMENT for a byte that is not valid UTF-8.
 * At the end of the text, returns 0 and does not move. */
uint32_t qkv_utf8_next(const char **text);

/* Returns the number of valid bytes at the start of a text: the offset of the first byte that is
 * NUL or not part of valid UTF-8, or `size`. */
size_t qkv_text_valid_size(const char *text, size_t size);

/* True when every byte of a text is valid UTF-8. */
bool qkv_is_utf8(const char *text);

/* False for characters that must not reach a terminal or a picture: control characters, which control terminals; line and
 * paragraph separators; embeddings, overrides and isolates, which reorder the text around them; surrogates and
 * noncharacters, which XML forbids. */
bool qkv_is_plain(uint32_t point);

/* Appends the next character of a text to `out`, which has space for QKV_PLAIN_SIZE bytes, and moves past it. Characters
 * that are not plain are escaped: \x1B (a control character or an invalid byte), \u202E. Returns the number of bytes,
 * without a NUL; 0 at the end of the text. */
enum { QKV_PLAIN_SIZE = 11 };
int qkv_plain_next(const char **text, char out[QKV_PLAIN_SIZE]);

/* ---- ends ---- */

static inline bool qkv_ends_in(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && !strcmp(text + size - end_size, end);
}

/* Compares two texts, for qsort: by bytes. */
static inline int qkv_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- a growing buffer ---- */

/* Starts all zero; the owner frees `data`. If memory runs out, `failed` stays set and later appends do
 * nothing, so that callers check once at the end (a stream of open_memstream
 * loses bytes where memory is out, and does not set its error flag). A NUL that `size` does not count follows the bytes. */
struct bytes {
    char *data;
    size_t size, capacity;
    bool failed;
};

void qkv_bytes_append(struct bytes *bytes, const void *data, size_t size);
void qkv_bytes_text(struct bytes *bytes, const char *text);
void qkv_bytes_format(struct bytes *bytes, const char *format, ...) QKV_PRINTF(2, 3);

/* Appends the `size` low bytes of a number, lowest first. */
void qkv_bytes_little_endian(struct bytes *bytes, uint64_t value, int size);

/* ---- numbers as text: exactly, and in the same way in every locale ---- */

enum { QKV_NUMBER_SIZE = 40 }; /* bytes of the longest formatted number, NUL included */

enum qkv_number_kind {
    QKV_NUMBER_NONE,    /* not a number: `abc`, `1_000`, `0x10`, `010`, `.inf` */
    QKV_NUMBER_DECIMAL, /* has a point or an exponent: `0.5`, `1e-3` */
    QKV_NUMBER_INTEGER, /* only digits, after an optional sign */
};

/* The kind of number that a text is. A number is an optional sign and decimal or scientific notation without leading
 * zeros. */
enum qkv_number_kind qkv_number_kind(const char *text);

/* Reads a text that is a number (qkv_number_kind); false when it is outside the range of the type. */
bool qkv_number_read(const char *text, double *value);
bool qkv_integer_read(const char *text, int64_t *value); /* the text is QKV_NUMBER_INTEGER */

/* Writes the shortest text that reads back as exactly this finite value. */
void qkv_number_format(char text[static QKV_NUMBER_SIZE], double value);

/* ---- suggestions for misspelled names: "did you mean ..." ---- */

/* Edit distance: letters to insert, delete, replace or swap with their neighbour to turn one name into the other,
 * ignoring case (Damerau 1964; restricted: no letter is edited twice). INT_MAX if a name has more than 63 bytes. */
int qkv_name_distance(const char *a, const char *b);

/* Whether one name at that distance is probably a misspelling of the other: the distance is at most 1, or for names of
 * 5 letters and more at most 1 plus a quarter of the letters. */
bool qkv_names_are_near(const char *a, const char *b, int distance);

/* A function that lists names: returns the name at `index`, from 0; NULL after the last. */
typedef const char *qkv_name_lister(const void *context, int64_t index);

/* Writes up to three suggestions for `given`, each after `prefix`: the near names at the smallest distance; if there
 * are none, names that contain `given`. "", "--beam", "relu or gelu", "a, b or c". Returns `text`. */
const char *qkv_suggest_names(char *text, size_t size, const char *given, const char *prefix,
                              qkv_name_lister *name, const void *context);

/* ---- numbered strings: struct qkv_types of qkv/base.h ---- */

/* Returns the number of a string, or -1 when it was not added. */
int32_t qkv_types_find(const struct qkv_types *types, const char *token);

/* The string of a number, 0 <= type < size, else NULL; valid until the next string is added. */
const char *qkv_types_token(const struct qkv_types *types, int64_t type);

/* Adds `frequency` to the frequency of a string, which is copied if it is new. The sum stays within int64_t. Returns its
 * number. When there is no memory, returns -1 and empties the types. */
int32_t qkv_types_add(struct qkv_types *types, const char *token, int64_t frequency);

void qkv_types_release(struct qkv_types *types);
