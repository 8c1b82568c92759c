/* Small strict parsers, to read back what the writers of formats write. Each fails the test where the text is not
 * what the format allows. What they return lives until the test ends. */
#pragma once

#include "support.h"

/* Reads a character of valid UTF-8 and moves past it. */
uint32_t parse_character(const char **text);

/* The texts and attributes of an XML document, or of a page of HTML whose elements are all closed but for `meta`. */
struct markup {
    char **text; /* without entities, in the order of the document */
    int count;
};
struct markup parse_markup(const char *document);

/* Whether one of the texts is this one. */
bool has_text(struct markup markup, const char *text);

/* A table in CSV, TSV or Markdown. */
struct table_text {
    char **cell; /* [rows, columns] */
    int rows, columns;
};
struct table_text parse_separated(const char *text, char separator);
struct table_text parse_markdown(const char *text);

/* A field of CSV or TSV without the apostrophe that keeps spreadsheets from computing it. */
const char *without_guard(const char *field);
