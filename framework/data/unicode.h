/* What tokenizer, detokenizer and readers need to know about Unicode. */
#ifndef QKV_DATA_UNICODE_H
#define QKV_DATA_UNICODE_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Conventions of a language that neither Unicode nor the text itself tells. */
struct qkv_language {
    const char *code;
    bool elides;       /* words end behind an apostrophe: l'homme */
    bool spaces_marks; /* a no-break space stands before ! ? ; : % » and behind « */
};

/* By the first subtag of `lang` (fr, fr-CA, fr_CA); never NULL. */
const struct qkv_language *qkv_language(const char *lang);

/* Finds the first byte that is NUL or not part of valid UTF-8: returns its offset, or `size` when all is
 * well. */
size_t qkv_text_valid(const char *text, size_t size);

/* Fails with `<place>column 5: byte 0xFF is not valid UTF-8` or `... a NUL byte ...`, the offset as a column
 * from 1. `place` is "" or ends in ":". */
enum qkv_status qkv_text_refuse(const char *place, const char *text, size_t offset, struct qkv_error *error);

/* White_Space of the Unicode character database. */
bool qkv_is_space(int32_t point);

/* Punctuation or symbol: general categories P and S. */
bool qkv_is_mark(int32_t point);

/* Decimal digit: general category Nd. */
bool qkv_is_digit(int32_t point);

/* ' and ’ */
bool qkv_is_apostrophe(int32_t point);

/* Reads the code point at `text`, which is valid and not at its end; returns its size in bytes. */
int qkv_point(const char *text, int32_t *point);

/* Brings `count` code points to normal form C, in lower case if wanted. Decomposition can need more room:
 * `points` is heap memory of `*room` elements and may be replaced. Returns the new count, or -1 when there is
 * no memory. */
int64_t qkv_normalize(int32_t **points, int64_t *room, int64_t count, bool lowercase);

/* Whether a user-perceived character ends between two code points (Unicode Standard Annex 29). `state`
 * carries on from call to call within one text; begin with 0. */
bool qkv_breaks(int32_t left, int32_t right, int32_t *state);

#endif
