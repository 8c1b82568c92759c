#include "parse.h"

#include <ctype.h>

uint32_t parse_character(const char **text)
{
    const unsigned char *byte = (const unsigned char *)*text;
    int size = byte[0] < 0x80 ? 1 : byte[0] < 0xE0 ? 2 : byte[0] < 0xF0 ? 3 : 4;
    uint32_t point = size == 1 ? byte[0] : byte[0] & (0xFFu >> (size + 1));
    static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
    cr_assert(size == 1 || (byte[0] >= 0xC2 && byte[0] < 0xF5), "byte 0x%02X is no UTF-8", byte[0]);
    for (int i = 1; i < size; i++) {
        cr_assert_eq(byte[i] & 0xC0, 0x80, "byte 0x%02X is no UTF-8", byte[i]);
        point = point << 6 | (byte[i] & 0x3F);
    }
    cr_assert(point >= min[size] && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF));
    *text += size;
    return point;
}

/* ---- a text under construction ---- */

struct text {
    char *data;
    size_t size;
};

static void append(struct text *text, const char *from, const char *to)
{
    size_t more = (size_t)(to - from);
    text->data = realloc(text->data, text->size + more + 1);
    if (more) memcpy(text->data + text->size, from, more);
    text->size += more;
    text->data[text->size] = 0;
}

/* ---- XML ---- */

struct parser {
    const char *at;
    struct markup found;
};

/* Appends a pointer to an array whose capacity is a power of two. */
static void append_pointer(char ***array, int count, char *pointer)
{
    if (!(count & (count - 1))) *array = realloc(*array, (size_t)(2 * count + 1) * sizeof **array);
    (*array)[count] = pointer;
}

static void keep(struct parser *parser, struct text *text)
{
    append(text, "", "");
    append_pointer(&parser->found.text, parser->found.count++, remember(text->data));
}

/* Reads text up to `end`, which stays. */
static void read_text(struct parser *parser, char end)
{
    static const char *const entities[][2] = {
        {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}};
    struct text text = {0};
    while (*parser->at != end) {
        const char *start = parser->at;
        cr_assert(*start && *start != '<', "%.40s", start);
        if (*start == '&') {
            int i = 0;
            while (i < 5 && strncmp(start, entities[i][0], strlen(entities[i][0])) != 0) i++;
            cr_assert_lt(i, 5, "%.20s is no entity", start);
            append(&text, entities[i][1], entities[i][1] + 1);
            parser->at += strlen(entities[i][0]);
            continue;
        }
        uint32_t point = parse_character(&parser->at);
        bool allowed =
            point == '\t' || point == '\n' || (point >= 0x20 && point != 0xFFFE && point != 0xFFFF);
        cr_assert(allowed, "U+%04X is not allowed in XML", point);
        append(&text, start, parser->at);
    }
    keep(parser, &text);
}

static const char *read_name(struct parser *parser)
{
    const char *start = parser->at;
    while (isalnum((unsigned char)*parser->at) || (*parser->at && strchr("-:_", *parser->at))) parser->at++;
    cr_assert(parser->at > start, "a name is missing: %.40s", start);
    return format("%.*s", (int)(parser->at - start), start);
}

static void skip(struct parser *parser, const char *expected)
{
    cr_assert(begins(parser->at, expected), "%s is missing: %.40s", expected, parser->at);
    parser->at += strlen(expected);
}

static void read_element(struct parser *parser)
{
    skip(parser, "<");
    const char *name = read_name(parser);
    while (isspace((unsigned char)*parser->at)) {
        while (isspace((unsigned char)*parser->at)) parser->at++;
        if (!isalpha((unsigned char)*parser->at)) break;
        read_name(parser);
        skip(parser, "=\"");
        read_text(parser, '"');
        skip(parser, "\"");
    }
    if (*parser->at == '/') {
        skip(parser, "/>");
        return;
    }
    skip(parser, ">");
    if (!strcmp(name, "meta")) return;
    for (;;) {
        read_text(parser, '<');
        if (parser->at[1] == '/') break;
        read_element(parser);
    }
    skip(parser, format("</%s>", name));
}

struct markup parse_markup(const char *document)
{
    struct parser parser = {.at = document};
    if (!strncmp(document, "<!DOCTYPE html>\n", 16)) parser.at += 16;
    read_element(&parser);
    cr_assert_str_eq(parser.at, "\n", "there is more behind the document");
    remember(parser.found.text);
    return parser.found;
}

bool has_text(struct markup markup, const char *text)
{
    for (int i = 0; i < markup.count; i++)
        if (!strcmp(markup.text[i], text)) return true;
    return false;
}

/* ---- tables ---- */

/* Adds a cell to the row; `last`: and ends the row. */
static void add_cell(struct table_text *table, struct text *text, int *column, bool last)
{
    int count = table->rows * table->columns + *column;
    append(text, "", "");
    append_pointer(&table->cell, count, remember(text->data));
    *text = (struct text){0};
    ++*column;
    if (!last) return;
    if (!table->rows) table->columns = *column;
    cr_assert_eq(*column, table->columns, "row %d has %d cells", table->rows, *column);
    table->rows++;
    *column = 0;
}

struct table_text parse_separated(const char *at, char separator)
{
    struct table_text table = {0};
    int column = 0;
    while (*at) {
        struct text text = {0};
        bool quoted = *at == '"';
        if (quoted) at++;
        while (quoted ? *at && (*at != '"' || at[1] == '"') : *at != separator && *at != '\n') {
            const char *start = at;
            cr_assert(*at && (quoted || *at != '"'), "%.40s", at);
            if (*at == '"') start = ++at;
            parse_character(&at);
            append(&text, start, at);
        }
        if (quoted) cr_assert_eq(*at++, '"');
        cr_assert(*at == separator || *at == '\n', "%.40s", at);
        add_cell(&table, &text, &column, *at++ == '\n');
    }
    remember(table.cell);
    return table;
}

struct table_text parse_markdown(const char *at)
{
    struct table_text table = {0};
    int column = 0;
    for (bool begins = true; *at; begins = at[-1] == '\n') {
        struct text text = {0};
        if (begins) cr_assert_eq(*at++, '|');
        while (*at == ' ') at++;
        while (*at != '|') {
            cr_assert(*at && !strchr("\n<>&`*", *at), "%.40s", at);
            if (*at == '\\' && ispunct((unsigned char)at[1])) at++;
            const char *start = at;
            parse_character(&at);
            append(&text, start, at);
        }
        at++;
        while (text.size && text.data[text.size - 1] == ' ') text.size--;
        bool last = *at == '\n';
        if (last) at++;
        add_cell(&table, &text, &column, last);
    }
    remember(table.cell);
    return table;
}

const char *without_guard(const char *field)
{
    const char *start = field + strspn(field, "'");
    return *field == '\'' && *start && strchr("=+-@\t\r", *start) ? field + 1 : field;
}
