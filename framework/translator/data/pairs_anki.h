/* The header of a text that the program Anki exports: lines `#key:value` before the notes, such as `#separator:tab`,
 * `#html:true` and `#guid column:1`. */
#ifndef QKV_DATA_PAIRS_ANKI_H
#define QKV_DATA_PAIRS_ANKI_H

#include "qkv/lines.h"
#include "qkv/pairs_file.h"

/* Whether a line has the form of a header line. */
bool qkv_pairs_is_anki_line(const char *line);

/* Reads a header line. If it names a column, stores its number. Fails when it names another separator than tabs. */
enum qkv_status qkv_pairs_read_anki_line(const struct qkv_lines *lines, int column[QKV_ANKI_COLUMNS],
                                         struct qkv_error *error);

#endif
