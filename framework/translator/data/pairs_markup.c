#include "data/pairs_markup.h"

#include "data/pairs_columns.h"
#include "data/unicode.h"
#include "qkv/pairs_set.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_NAME = 8 /* of a tag or an entity */ };

/* ---- finding ---- */

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* The number of leading letters, at most MAX_NAME + 1. */
static size_t name_size(const char *text)
{
    size_t size = 0;
    while (size <= MAX_NAME && is_letter(text[size])) size++;
    return size;
}

/* Bytes of an entity, behind its &: `nbsp;`, `#39;` or `#x27;`. 0: there is none. */
static size_t entity_size(const char *text)
{
    size_t size = 0;
    if (*text != '#') {
        size = name_size(text);
    } else {
        bool is_hexadecimal = text[1] == 'x' || text[1] == 'X';
        const char *digits = text + 1 + is_hexadecimal;
        size_t count =
            is_hexadecimal ? strspn(digits, "0123456789abcdefABCDEF") : strspn(digits, "0123456789");
        if (count) size = (size_t)(digits - text) + count;
    }
    return size && size <= MAX_NAME && text[size] == ';' ? size + 1 : 0;
}

size_t qkv_markup_size(const char *text, bool entities)
{
    if (*text == '&') {
        size_t size = entities ? entity_size(text + 1) : 0;
        return size ? size + 1 : 0;
    }
    if (!strncmp(text, "[sound:", 7)) {
        const char *end = text + strcspn(text, "]");
        return *end ? (size_t)(end - text) + 1 : 0;
    }
    if (*text != '<') return 0;
    const char *name = text + 1 + (text[1] == '/');
    size_t size = name_size(name);
    if (!size || size > MAX_NAME || !name[size] || !strchr("> /", name[size])) return 0;
    const char *end = name + strcspn(name, "<>");
    return *end == '>' ? (size_t)(end - text) + 1 : 0;
}

/* ---- removing ---- */

static bool is_one_of(const char *name, size_t size, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == size && !strncasecmp(name, names[i], size)) return true;
    return false;
}

/* Writes what stands for a tag: nothing if it only changes the look of letters, else a space. Returns its bytes. */
static size_t replace_tag(const char *tag, char *to)
{
    static const char *const inlines[] = {"a",    "b",      "em",  "font", "i", "s",
                                          "span", "strong", "sub", "sup",  "u"};
    const char *name = tag + 1 + (tag[1] == '/');
    if (is_one_of(name, name_size(name), inlines, sizeof inlines / sizeof *inlines)) return 0;
    *to = ' ';
    return 1;
}

/* Writes the character of an entity `size` bytes long. Returns its bytes; 0: the entity is not known. */
static size_t replace_entity(const char *entity, size_t size, char to[5])
{
    static const struct {
        const char *name;
        char byte;
    } known[] = {{"nbsp", ' '}, {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    if (entity[1] == '#') {
        bool is_hexadecimal = entity[2] == 'x' || entity[2] == 'X';
        long value = strtol(entity + 2 + is_hexadecimal, NULL, is_hexadecimal ? 16 : 10);
        if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return 0;
        bool is_blank =
            value < ' ' || (value >= 0x7F && value <= 0xA0); /* control characters, no-break space */
        int32_t point = is_blank ? ' ' : (int32_t)value;
        return (size_t)(qkv_utf8_encode(&point, 1, to) - to);
    }
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (!is_one_of(entity + 1, size - 2, &known[k].name, 1)) continue;
        *to = known[k].byte;
        return 1;
    }
    return 0;
}

/* Removes repeated spaces, and white space at the ends. */
static void tidy_spaces(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++)
        if (*at != ' ' || at[1] != ' ') *to++ = *at;
    struct pairs_field rest = qkv_pairs_trim((struct pairs_field){text, (size_t)(to - text)});
    memmove(text, rest.text, rest.size);
    text[rest.size] = '\0';
}

/* Removes the markup of a sentence in place: what replaces it is never longer. Returns whether there was any. */
static bool remove_markup(char *text, bool entities)
{
    char *to = text, character[5];
    bool is_changed = false;
    for (const char *at = text; *at;) {
        size_t size = qkv_markup_size(at, entities), kept = 0;
        if (size && *at != '[')
            kept = *at == '<' ? replace_tag(at, character) : replace_entity(at, size, character);
        if (!size || (!kept && *at == '&')) {
            *to++ = *at++;
            continue;
        }
        memcpy(to, character, kept);
        to += kept;
        at += size;
        is_changed = true;
    }
    *to = '\0';
    if (is_changed) tidy_spaces(text);
    return is_changed;
}

int64_t qkv_pairs_remove_markup(struct qkv_pairs *pairs, const struct qkv_pairs_statistics *facts)
{
    int64_t kept = 0, changed = 0;
    for (int64_t i = 0; i < pairs->count; i++) {
        bool is_changed = false, is_empty = false;
        for (int side = 0; side < 2; side++) {
            char *text = pairs->text + pairs->start[side][i];
            is_changed = remove_markup(text, !facts->side[side].is_tokenized) || is_changed;
            is_empty = is_empty || !*text;
            pairs->start[side][kept] = pairs->start[side][i];
        }
        changed += is_changed;
        kept += !is_empty;
    }
    pairs->count = kept;
    return changed;
}
