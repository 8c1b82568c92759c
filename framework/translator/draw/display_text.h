/* Private: prepares text for display, and estimates its width. */
#ifndef QKV_DISPLAY_TEXT_H
#define QKV_DISPLAY_TEXT_H

#include "qkv/arena.h"

#include <stdint.h>

/* Copies a token into the arena as it should be shown. Spaces become U+2423, because a token of a character
 * model may be just a space. Invalid UTF-8 and characters that are not plain (core/plain_text.h) become U+FFFD. NULL if
 * memory runs out. */
const char *qkv_display_token(struct qkv_arena *arena, const char *token);

/* The same for a line of text, in which spaces remain spaces. */
const char *qkv_display_line(struct qkv_arena *arena, const char *text);

/* The same for several lines. */
const char *qkv_display_paragraph(struct qkv_arena *arena, const char *text);

/* Returns the end of the longest beginning of a text that is not wider than `width`: see qkv_display_width. */
const char *qkv_display_fitting(const char *text, double size, double width);

/* Cuts a text to a width; a cut text ends with an ellipsis. NULL if memory runs out. */
const char *qkv_display_cut(struct qkv_arena *arena, const char *text, double size, double width);

/* Estimates the width of a text in a sans serif font of the given size, on the high side. It depends on
 * classes of characters, not on installed fonts, so that a layout is the same on every machine. */
double qkv_display_width(const char *text, double size);

/* Formats a number that is at least 0 with `digits` decimals and a decimal point in every locale. */
void qkv_display_number(char text[32], double value, int digits);

#endif
