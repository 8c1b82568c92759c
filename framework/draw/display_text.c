#include "draw/display_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

uint32_t qkv_display_next(const char **text)
{
    utf8proc_int32_t point = 0;
    if (!**text) return 0;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)*text, -1, &point);
    *text += size < 1 ? 1 : size;
    return size < 1 ? 0xFFFD : (uint32_t)point;
}

/* Returns what to draw for a code point; `space` replaces spaces. */
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
    utf8proc_uint8_t *copy = qkv_arena_allocate(arena, strlen(text) * 3 + 1), *end = copy;
    if (!copy) return NULL;
    for (uint32_t point; (point = qkv_display_next(&text));)
        end += utf8proc_encode_char(visible((utf8proc_int32_t)point, space), end);
    *end = 0;
    return (const char *)copy;
}

const char *qkv_display_token(struct qkv_arena *arena, const char *token)
{
    return clean(arena, token, 0x2423);
}

const char *qkv_display_line(struct qkv_arena *arena, const char *text)
{
    return clean(arena, text, ' ');
}

/* Returns the width of a character relative to the font size, as in DejaVu Sans, one of the widest fonts. */
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

double qkv_display_width(const char *text, double size)
{
    double width = 0;
    for (uint32_t point; (point = qkv_display_next(&text));) width += advance((utf8proc_int32_t)point);
    return width * size;
}

void qkv_display_number(char text[32], double value, int digits)
{
    long long unit = llround(pow(10, digits)), scaled = llround(value * (double)unit);
    if (digits)
        snprintf(text, 32, "%lld.%0*lld", scaled / unit, digits, scaled % unit);
    else
        snprintf(text, 32, "%lld", scaled);
}
