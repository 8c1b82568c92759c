/* Private: text of any origin, read and shown without harm. Sentences show what is not plain escaped, tables and
 * pictures show QKV_REPLACEMENT, and files for programs hold it in the way of their format. */
#ifndef QKV_PLAIN_TEXT_H
#define QKV_PLAIN_TEXT_H

#include "qkv/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { QKV_REPLACEMENT = 0xFFFD };

/* Returns the next code point of UTF-8 text and moves past it. A byte that is not valid UTF-8 gives
 * QKV_REPLACEMENT. At the end returns 0 and does not move. */
uint32_t qkv_utf8_next(const char **text);

/* True when every byte of a text is valid UTF-8. */
bool qkv_is_utf8(const char *text);

/* False for what must not reach a terminal or a picture: control characters, which steer terminals; line and
 * paragraph separators; embeddings, overrides and isolates, which reorder the text around them; surrogates
 * and noncharacters, which XML forbids. */
bool qkv_is_plain(uint32_t point);

/* Appends the next character of a text to `out`, which has space for QKV_PLAIN_SIZE bytes, and moves past it.
 * What is not plain is escaped: \x1B (a control character or an invalid byte), \u202E. Returns the number of
 * bytes, without a NUL; 0 at the end of the text. */
enum { QKV_PLAIN_SIZE = 11 };
int qkv_plain_next(const char **text, char out[QKV_PLAIN_SIZE]);

/* core/arena.c: copies a text into the arena, escaped as above. NULL if memory runs out. */
const char *qkv_arena_plain(struct qkv_arena *arena, const char *text);

#endif
