#include "checkpoint/json.h"

#include "core/number.h"

#include <string.h>

enum { DEEPEST = 64 };

struct reader {
    struct qkv_arena *arena;
    const char *at, *end;
    int depth;
    bool has_memory;
};

static char next_of(const struct reader *reader)
{
    return reader->at < reader->end ? *reader->at : '\0';
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at) reader->at++;
}

/* Moves past a character if it comes next. */
static bool skip(struct reader *reader, char character)
{
    bool is_next = next_of(reader) == character;
    reader->at += is_next;
    return is_next;
}

/* Reads four hexadecimal digits. */
static bool read_unit(struct reader *reader, uint32_t *unit)
{
    static const char DIGITS[] = "0123456789abcdef";
    *unit = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        char digit = next_of(reader);
        const char *found =
            digit ? strchr(DIGITS, digit >= 'A' && digit <= 'F' ? digit - 'A' + 'a' : digit) : NULL;
        if (!found) return false;
        *unit = 16 * *unit + (uint32_t)(found - DIGITS);
    }
    return true;
}

/* Appends a code point as UTF-8. */
static char *append(char *to, uint32_t point)
{
    int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char FIRST[] = {0, 0xC0, 0xE0, 0xF0};
    *to++ = (char)(FIRST[more] | point >> (6 * more));
    while (more-- > 0) *to++ = (char)(0x80 | (point >> (6 * more) & 0x3F));
    return to;
}

/* Reads what follows a backslash, and appends it. NULL: it is no escape of JSON. */
static char *read_escape(struct reader *reader, char *to)
{
    static const char NAMES[] = "\"\\/bfnrt", VALUES[] = "\"\\/\b\f\n\r\t";
    char name = next_of(reader);
    const char *found = name ? strchr(NAMES, name) : NULL;
    uint32_t unit, low;
    if (found) {
        reader->at++;
        *to++ = VALUES[found - NAMES];
        return to;
    }
    if (!skip(reader, 'u') || !read_unit(reader, &unit) || (unit >= 0xDC00 && unit < 0xE000)) return NULL;
    if (unit < 0xD800 || unit > 0xDFFF) return append(to, unit);
    bool is_pair = skip(reader, '\\') && skip(reader, 'u') && read_unit(reader, &low);
    if (!is_pair || low < 0xDC00 || low > 0xDFFF) return NULL;
    return append(to, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
}

/* Reads a text after its first quotation mark. NULL: it is not a text, or memory runs out. */
static const char *read_text(struct reader *reader)
{
    const char *close = reader->at;
    while (close < reader->end && *close != '"') close += *close == '\\' && reader->end - close > 1 ? 2 : 1;
    if (close == reader->end) {
        reader->at = close;
        return NULL;
    }
    char *text = qkv_arena_allocate(reader->arena, (size_t)(close - reader->at) + 1), *to = text;
    if (!text) reader->has_memory = false;
    while (to && reader->at < close) {
        if (skip(reader, '\\'))
            to = read_escape(reader, to);
        else
            *to++ = *reader->at++;
    }
    if (!to) return NULL;
    *to = '\0';
    reader->at++;
    return text;
}

static bool read_number(struct reader *reader, double *number)
{
    char text[QKV_NUMBER_SIZE] = "";
    size_t size = 0;
    while (size + 1 < sizeof text && next_of(reader) && strchr("+-.0123456789eE", next_of(reader)))
        text[size++] = *reader->at++;
    return qkv_number_kind(text) != QKV_NUMBER_NONE && qkv_number_read(text, number);
}

static bool read_literal(struct reader *reader)
{
    static const char *const LITERALS[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof LITERALS / sizeof *LITERALS; i++) {
        size_t size = strlen(LITERALS[i]);
        if ((size_t)(reader->end - reader->at) < size || strncmp(reader->at, LITERALS[i], size) != 0)
            continue;
        reader->at += size;
        return true;
    }
    return false;
}

static struct qkv_json *read_value(struct reader *reader);

/* Reads the items of an array or object after its first bracket. */
static bool read_items(struct reader *reader, struct qkv_json *list)
{
    struct qkv_json **last = &list->child;
    char close = list->kind == QKV_JSON_OBJECT ? '}' : ']';
    if (++reader->depth > DEEPEST) return false;
    skip_space(reader);
    while (list->child || next_of(reader) != close) {
        const char *name = NULL;
        skip_space(reader);
        if (list->kind == QKV_JSON_OBJECT) {
            if (!skip(reader, '"') || !(name = read_text(reader))) return false;
            skip_space(reader);
            if (!skip(reader, ':')) return false;
        }
        struct qkv_json *item = read_value(reader);
        if (!item) return false;
        item->name = name;
        *last = item;
        last = &item->next;
        list->count++;
        skip_space(reader);
        if (!skip(reader, ',')) break;
    }
    reader->depth--;
    return skip(reader, close);
}

static struct qkv_json *read_value(struct reader *reader)
{
    struct qkv_json *value = qkv_arena_zeroed(reader->arena, sizeof *value);
    bool is_read;
    if (!value) {
        reader->has_memory = false;
        return NULL;
    }
    skip_space(reader);
    if (skip(reader, '{')) {
        value->kind = QKV_JSON_OBJECT;
        is_read = read_items(reader, value);
    } else if (skip(reader, '[')) {
        value->kind = QKV_JSON_ARRAY;
        is_read = read_items(reader, value);
    } else if (skip(reader, '"')) {
        value->kind = QKV_JSON_TEXT;
        is_read = (value->text = read_text(reader));
    } else if (read_literal(reader)) {
        is_read = true;
    } else {
        value->kind = QKV_JSON_NUMBER;
        is_read = read_number(reader, &value->number);
    }
    return is_read ? value : NULL;
}

const struct qkv_json *qkv_json_read(struct qkv_arena *arena, const char *text, size_t size, const char **end)
{
    struct reader reader = {.arena = arena, .at = text, .end = text + size, .has_memory = true};
    const struct qkv_json *value = read_value(&reader);
    *end = reader.has_memory ? reader.at : NULL;
    return value;
}

const struct qkv_json *qkv_json_item(const struct qkv_json *object, const char *name)
{
    const struct qkv_json *item = object && object->kind == QKV_JSON_OBJECT ? object->child : NULL;
    while (item && strcmp(item->name, name) != 0) item = item->next;
    return item;
}
