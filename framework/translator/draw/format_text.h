/* Private: writes text of any origin in each output format. Characters with a meaning in the format are escaped; bytes that
 * are not valid UTF-8 become U+FFFD. Formats for people also show characters that are not plain (core/plain_text.h) as
 * U+FFFD. For JSON, see qkv_json_append (report/json_text.h); for a sentence in the terminal, qkv_plain_next. */
#ifndef QKV_FORMAT_TEXT_H
#define QKV_FORMAT_TEXT_H

#include "draw/bytes.h"

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

#endif
