/* Private: text for files and people: text of any origin in each output format, labels of pictures, and cells
 * of tables in the terminal. Characters that are not plain (core/text.h), and bytes that are not valid UTF-8, are shown to
 * people as U+FFFD. */
#pragma once

#include "core/text.h"
#include "qkv/attention_map.h"

/* ---- numbers ---- */

/* Appends the shortest decimal that reads back as the same double, with a decimal point in every locale. */
void qkv_bytes_number(struct bytes *bytes, double value);

/* Replaces the decimal point of the locale by ".", in a number that printf has written. */
void qkv_decimal_point(char *number);

/* ---- output formats: what has a meaning in the format is escaped. For JSON, see qkv_json_append (report/json_text.h); for a
 * sentence in the terminal, qkv_plain_next. ---- */

/* Appends the next character of a text, or U+FFFD, and moves past it. Returns its code point; 0 at the end. */
uint32_t qkv_text_next(struct bytes *out, const char **text);

/* Appends text or the value of an attribute in XML and HTML. Tabs and line ends stay. */
void qkv_text_xml(struct bytes *out, const char *text);

/* Appends a cell of a table in Markdown. */
void qkv_text_markdown(struct bytes *out, const char *text);

/* Appends a field of CSV (RFC 4180), or of TSV: `separator` is ',' or '\t'. It is quoted if necessary. Readers get the same
 * text, with one exception: spreadsheets would evaluate a field that begins with = + - or @ and is not a number, so an
 * apostrophe is put before it. The same is done to a field that has apostrophes before such a character. So readers can always
 * restore the text by removing one apostrophe before such a character, or before apostrophes and such a character. */
void qkv_text_field(struct bytes *out, const char *text, char separator);

/* ---- labels of pictures ---- */

/* Copies a token into the arena as it should be shown. Spaces become U+2423, because a token of a character
 * model may be just a space. NULL if memory runs out. */
const char *qkv_display_token(struct qkv_arena *arena, const char *token);

/* The same for a line of text, in which spaces remain spaces, and for several lines. */
const char *qkv_display_line(struct qkv_arena *arena, const char *text);
const char *qkv_display_paragraph(struct qkv_arena *arena, const char *text);

/* Estimates the width of a text in a sans serif font of the given size, on the high side. It depends on
 * classes of characters, not on installed fonts, so that a layout is the same on every machine. */
double qkv_display_width(const char *text, double size);

/* Returns the end of the longest beginning of a text that is not wider than `width`. */
const char *qkv_display_fitting(const char *text, double size, double width);

/* Cuts a text to a width; a cut text ends with an ellipsis. NULL if memory runs out, or the text is NULL. */
const char *qkv_display_cut(struct qkv_arena *arena, const char *text, double size, double width);

/* Formats a number that is at least 0 with `digits` decimals and a decimal point in every locale. */
void qkv_display_number(char text[32], double value, int digits);

/* ---- cells of tables in the terminal, measured in its columns ---- */

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

/* ---- colormaps: the colour of a number between 0 and 1, as in matplotlib ---- */

/* Returns the name of the colormap at `index`, counted from 0: YlOrRd, viridis, plasma, magma,
 * gray; NULL after the last. The table is framework/translator/draw/colormap.c. */
const char *qkv_colormap_name(int64_t index);

/* Sets `color` to the colour of `value`, as 0xRRGGBB, within 2/255 of matplotlib's colormap of that
 * name. Values below 0 get the first colour, values above 1 the last, NaN the first. `name` NULL
 * means the first, YlOrRd. Returns false, and leaves `color` as it was, if there is no such colormap. */
bool qkv_colormap_color(const char *name, double value, uint32_t *color);
