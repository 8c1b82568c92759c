/* Private: reads and shows text of any origin safely. Messages escape characters that are not plain, tables and pictures
 * show QKV_REPLACEMENT instead, and files for programs use the escapes of their format. */
#ifndef QKV_PLAIN_TEXT_H
#define QKV_PLAIN_TEXT_H

#include "qkv/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* core/arena.c: copies a text into the arena, escaped as above. NULL if memory runs out. */
const char *qkv_arena_plain(struct qkv_arena *arena, const char *text);

#endif
