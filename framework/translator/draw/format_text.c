#include "draw/format_text.h"

#include "core/plain_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* Appends a character: the bytes from `start` to `end`, which qkv_utf8_next has read. */
static void append_character(struct bytes *out, uint32_t point, const char *start, const char *end)
{
    if (point == QKV_REPLACEMENT)
        qkv_bytes_text(out, REPLACEMENT);
    else
        qkv_bytes_append(out, start, (size_t)(end - start));
}

uint32_t qkv_text_next(struct bytes *out, const char **text)
{
    const char *start = *text;
    uint32_t point = qkv_utf8_next(text);
    append_character(out, point && !qkv_is_plain(point) ? QKV_REPLACEMENT : point, start, *text);
    return point;
}

static const char *entity_of(char character)
{
    switch (character) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\t':
        return "\t";
    case '\n':
        return "\n";
    default:
        return NULL;
    }
}

void qkv_text_xml(struct bytes *out, const char *text)
{
    while (*text) {
        const char *entity = entity_of(*text);
        if (entity) {
            qkv_bytes_text(out, entity);
            text++;
        } else {
            qkv_text_next(out, &text);
        }
    }
}

/* An underscore between letters or digits has no meaning in Markdown. */
static bool is_within_word(const char *text, const char *at)
{
    return at > text && isalnum((unsigned char)at[-1]) && isalnum((unsigned char)at[1]);
}

void qkv_text_markdown(struct bytes *out, const char *text)
{
    for (const char *at = text; *at;) {
        if (strchr("\\`*[]<>|~&$", *at) || (*at == '_' && !is_within_word(text, at)))
            qkv_bytes_text(out, "\\");
        qkv_text_next(out, &at);
    }
}

/* Whether a spreadsheet would take the text, after any number of apostrophes, for a formula. */
static bool is_formula(const char *text)
{
    char *end;
    while (*text == '\'') text++;
    if (!*text || !strchr("=+-@\t\r", *text)) return false;
    if (!strchr("+-", *text) || !strchr("0123456789.", text[1])) return true;
    strtod(text, &end);
    return *end;
}

void qkv_text_field(struct bytes *out, const char *text, char separator)
{
    const char special[] = {'"', '\r', '\n', separator, 0};
    bool quoted = text[strcspn(text, special)];
    if (quoted) qkv_bytes_text(out, "\"");
    if (is_formula(text)) qkv_bytes_text(out, "'");
    for (const char *start = text; *start; start = text) {
        uint32_t point = qkv_utf8_next(&text);
        if (point == '"') qkv_bytes_text(out, "\"");
        append_character(out, point, start, text);
    }
    if (quoted) qkv_bytes_text(out, "\"");
}
