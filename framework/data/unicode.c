#include "data/unicode.h"

#include "core/grow.h"

#include <string.h>
#include <utf8proc.h>

/* Below it every code point is in normal form C by itself and composes with nothing before it. */
enum { FIRST_COMBINING = 0x300 };

const struct qkv_language *qkv_language(const char *lang)
{
    static const struct qkv_language table[] = {
        {.code = "fr", .elides = true, .spaces_marks = true},
        {.code = "it", .elides = true},
        {.code = "ca", .elides = true},
        {.code = "oc", .elides = true},
    };
    static const struct qkv_language any = {.code = ""};
    size_t size = lang ? strcspn(lang, "-_") : 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (size == strlen(table[i].code) && !memcmp(lang, table[i].code, size)) return &table[i];
    return &any;
}

size_t qkv_text_valid(const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        if (bytes[i] < 0x80) {
            if (!bytes[i]) return i;
            i++;
            continue;
        }
        utf8proc_int32_t point;
        utf8proc_ssize_t used = utf8proc_iterate(bytes + i, (utf8proc_ssize_t)(size - i), &point);
        if (used <= 0) return i;
        i += (size_t)used;
    }
    return size;
}

enum qkv_status qkv_text_refuse(const char *place, const char *text, size_t offset, struct qkv_error *error)
{
    const char *word = *place ? "" : "column ";
    unsigned byte = (unsigned char)text[offset];
    if (!byte)
        return qkv_error_set(error, "%s%s%zu: a NUL byte does not belong in text", place, word, offset + 1);
    return qkv_error_set(error, "%s%s%zu: byte 0x%02X is not valid UTF-8", place, word, offset + 1, byte);
}

bool qkv_is_space(int32_t point)
{
    if (point < 0x80) return point == ' ' || (point >= '\t' && point <= '\r');
    return point == 0x85 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
           point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

bool qkv_is_mark(int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_SO;
}

bool qkv_is_digit(int32_t point)
{
    return utf8proc_category(point) == UTF8PROC_CATEGORY_ND;
}

bool qkv_is_apostrophe(int32_t point)
{
    return point == '\'' || point == 0x2019;
}

int qkv_point(const char *text, int32_t *point)
{
    if (!(*text & 0x80)) {
        *point = *text;
        return 1;
    }
    return (int)utf8proc_iterate((const utf8proc_uint8_t *)text, -1, point);
}

/* Canonical decomposition of `count` code points, with marks in canonical order. */
static int64_t decompose(int32_t **points, int64_t *room, int64_t count)
{
    int64_t needed = 0, spare_room = 0;
    int32_t *spare = NULL;
    for (int64_t i = 0; i < count; i++) {
        int32_t boundary = 0, pieces[8];
        utf8proc_ssize_t used =
            utf8proc_decompose_char((*points)[i], pieces, 8, UTF8PROC_DECOMPOSE, &boundary);
        if (!QKV_RESERVE(spare, spare_room, needed + used)) return -1;
        memcpy(spare + needed, pieces, (size_t)used * sizeof *pieces);
        needed += used;
    }
    free(*points);
    *points = spare;
    *room = spare_room;
    /* Stable insertion sort of each run of marks by combining class (Unicode 3.11, D108-D109). */
    for (int64_t i = 1; i < needed; i++) {
        int32_t point = spare[i];
        int class = utf8proc_get_property(point)->combining_class;
        int64_t j = i;
        while (class && j > 0 && utf8proc_get_property(spare[j - 1])->combining_class > class) {
            spare[j] = spare[j - 1];
            j--;
        }
        spare[j] = point;
    }
    return needed;
}

int64_t qkv_normalize(int32_t **points, int64_t *room, int64_t count, bool lowercase)
{
    const utf8proc_option_t compose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    bool simple = true;
    for (int64_t i = 0; i < count; i++) simple = simple && (*points)[i] < FIRST_COMBINING;
    if (!simple) {
        count = decompose(points, room, count);
        if (count < 0) return -1;
        count = utf8proc_normalize_utf32(*points, count, compose);
    }
    if (!lowercase) return count;
    for (int64_t i = 0; i < count; i++) {
        int32_t point = (*points)[i];
        if (point < 0x80)
            (*points)[i] = point >= 'A' && point <= 'Z' ? point + 32 : point;
        else
            (*points)[i] = utf8proc_tolower(point);
    }
    /* Some small letters compose with a mark where the capital does not: J + caron stays two, j + caron is
     * one. */
    return simple ? count : utf8proc_normalize_utf32(*points, count, compose);
}

bool qkv_breaks(int32_t left, int32_t right, int32_t *state)
{
    if (left < FIRST_COMBINING && right < FIRST_COMBINING) {
        *state = 0; /* the next call starts afresh from its left side */
        return true;
    }
    return utf8proc_grapheme_break_stateful(left, right, state);
}
