/* Unicode for tokenizers and readers. In data/, only unicode.c and input.c call utf8proc. */
#pragma once

#include "qkv/base.h"

/* Whether the first subtag of `lang` (fr in fr-CA, fr_CA), which may be NULL, is `code`. */
bool qkv_is_language(const char *lang, const char *code);

/* Whether a token ends after an apostrophe (l'homme is l' and homme): in French, Italian, Catalan and Occitan. */
bool qkv_has_elision(const char *lang);

/* Fails with `x.tsv:3:5: byte 0xFF is not valid UTF-8`, or `...: a NUL byte is not allowed in text`, where `place` is
 * "x.tsv:3:" and the column 5 is `offset` + 1. With an empty place, the message is `column 5: byte ...`. If the text of
 * `size` bytes looks like Latin-1, the message tells how to convert it. */
enum qkv_status qkv_text_refuse(const char *place, const char *text, size_t size, size_t offset,
                                struct qkv_error *error);

/* White_Space of the Unicode character database. */
bool qkv_is_space(int32_t point);

/* Punctuation or symbol: general categories P and S. */
bool qkv_is_punctuation(int32_t point);

/* Opening and closing brackets: general categories Ps and Pe. */
bool qkv_is_opening(int32_t point);
bool qkv_is_closing(int32_t point);

/* Letter: general category L. */
bool qkv_is_letter(int32_t point);

/* Has a lower case of its own. */
bool qkv_is_capital(int32_t point);

/* The simple upper or lower case of a code point. */
int32_t qkv_point_in_case(int32_t point, bool is_upper);

/* Decimal digit: general category Nd. */
bool qkv_is_digit(int32_t point);

/* ' and ’ */
bool qkv_is_apostrophe(int32_t point);

/* Reads the code point at `text`, which is valid and not empty; returns its size in bytes. */
int qkv_point(const char *text, int32_t *point);

/* Whether a character of a valid text is of a class, such as qkv_is_space. */
bool qkv_text_has(const char *text, bool (*is_of_class)(int32_t));

/* Number of code points of a valid text. */
int64_t qkv_utf8_count(const char *text);

/* Number of words of a valid text that ends before `end`: all white space separates them, or only that of ASCII. */
int64_t qkv_utf8_count_words(const char *text, const char *end, bool by_ascii);

/* Decodes `size` bytes of valid UTF-8 into `points`, which has room for `size` code points; returns their number. */
int64_t qkv_utf8_decode(const char *text, size_t size, int32_t *points);

/* Encodes code points and a NUL into `text`, which has room for 4 bytes each and the NUL; returns where the NUL is. */
char *qkv_utf8_encode(const int32_t *points, int64_t count, char *text);

/* Converts `count` code points to normal form C and, if wanted, to lower case. Decomposition can need more memory:
 * `points` is heap memory of `*capacity` elements and may be replaced. Returns the new count, or -1 when there is no memory.
 */
int64_t qkv_normalize(int32_t **points, int64_t *capacity, int64_t count, bool lowercase);

/* A valid text of `size` bytes in normal form C, on the heap; NULL: there is no memory. */
char *qkv_text_compose(const char *text, size_t size);

/* The end of the user-perceived character (Unicode Standard Annex 29) that begins at points[first]; at most `end`. */
int64_t qkv_character_end(const int32_t *points, int64_t first, int64_t end);
