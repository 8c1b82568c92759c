/* Private: cells of tables in the terminal, measured in columns of the terminal. Characters that are not plain
 * (core/plain_text.h) are shown as U+FFFD. */
#ifndef QKV_CELLS_H
#define QKV_CELLS_H

#include "draw/bytes.h"
#include "qkv/colormap.h"

/* Returns the columns that a text needs. */
int qkv_cell_width(const char *text);

/* Appends spaces; none if the count is negative. */
void qkv_cell_spaces(struct bytes *out, int count);

/* Appends a text in exactly `width` columns: padded, or cut with an ellipsis at the end. Appends nothing if
 * `width` is below 1. */
enum cell_align { CELL_LEFT, CELL_RIGHT };
void qkv_cell_padded(struct bytes *out, const char *text, int width, enum cell_align align);

/* Starts a background colour (0xRRGGBB) with a text colour that is readable on it. */
void qkv_cell_begin_color(struct bytes *out, enum qkv_terminal_colors colors, uint32_t color);
void qkv_cell_end_color(struct bytes *out, enum qkv_terminal_colors colors);

/* Returns black or white (0xRRGGBB), whichever is more readable on the background. */
uint32_t qkv_readable_ink(uint32_t background);

#endif
