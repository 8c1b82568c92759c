/* Private: text as people see it, and its width. */
#ifndef QKV_DISPLAY_TEXT_H
#define QKV_DISPLAY_TEXT_H

#include "qkv/arena.h"

#include <stdint.h>

/* Returns the next code point of UTF-8 text and moves past it: U+FFFD for an invalid byte, 0 at the end. */
uint32_t qkv_display_next(const char **text);

/* Copies a token into the arena as it should be shown. Spaces become U+2423, because a token of a character
 * model may be nothing else. Control characters, which could steer a terminal, and invalid UTF-8 become
 * U+FFFD. NULL if memory runs out. */
const char *qkv_display_token(struct qkv_arena *arena, const char *token);

/* The same for a line of text: spaces stay spaces. */
const char *qkv_display_line(struct qkv_arena *arena, const char *text);

/* Estimates the width of a text in a sans serif font of the given size, on the high side. It depends on
 * classes of characters, not on installed fonts, so that a layout is the same on every machine. */
double qkv_display_width(const char *text, double size);

/* Formats a number that is at least 0 with `digits` decimals and a decimal point in every locale. */
void qkv_display_number(char text[32], double value, int digits);

#endif
