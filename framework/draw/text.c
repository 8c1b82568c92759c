#include "draw/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* What can be drawn for a code point, with the given sign for a space. */
static utf8proc_int32_t visible(utf8proc_int32_t point, utf8proc_int32_t space)
{
    if (point == '\t') return space;
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_ZS:
        return space;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return 0xFFFD;
    default:
        return point;
    }
}

static const char *clean(struct qkv_arena *arena, const char *text, utf8proc_int32_t space)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
    utf8proc_uint8_t *label = qkv_arena_allocate(arena, (size_t)left * 3 + 1), *end = label;
    if (!label) return NULL;
    while (left > 0) {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate(bytes, left, &point);
        if (size < 1) {
            point = 0xFFFD;
            size = 1;
        }
        end += utf8proc_encode_char(visible(point, space), end);
        bytes += size;
        left -= size;
    }
    *end = 0;
    return (const char *)label;
}

const char *qkv_text_token(struct qkv_arena *arena, const char *token)
{
    return clean(arena, token, 0x2423);
}

const char *qkv_text_line(struct qkv_arena *arena, const char *text)
{
    return clean(arena, text, ' ');
}

/* In units of the font size, as in DejaVu Sans, one of the widest fonts in use. */
static double advance(utf8proc_int32_t point)
{
    static const char narrow[] = "iljI.,:;'|![]() /\\", wide[] = "mwMW@%<>=+~";
    if (point < 128) {
        if (point && strchr(narrow, point)) return 0.40;
        if (point && strchr(wide, point)) return 0.98;
        return point >= 'A' && point <= 'Z' ? 0.76 : 0.64;
    }
    switch (utf8proc_charwidth(point)) {
    case 0:
        return 0;
    case 2:
        return 1;
    default:
        return utf8proc_category(point) == UTF8PROC_CATEGORY_LU ? 0.80 : 0.68;
    }
}

double qkv_text_width(const char *text, double size)
{
    double width = 0;
    utf8proc_int32_t point;
    while (*text) {
        text += utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &point);
        width += advance(point);
    }
    return width * size;
}

void qkv_text_fixed(char text[32], double value, int digits)
{
    long long unit = llround(pow(10, digits)), scaled = llround(value * (double)unit);
    if (digits)
        snprintf(text, 32, "%lld.%0*lld", scaled / unit, digits, scaled % unit);
    else
        snprintf(text, 32, "%lld", scaled);
}
