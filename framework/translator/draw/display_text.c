#include "draw/display_text.h"

#include "core/plain_text.h"
#include "qkv/scalar_math.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* More marks than this on one letter are dropped. This is the limit of Unicode Standard Annex 15 for text that is safe to
 * stream. Marks have no width, so without a limit a label of nothing but marks would never be cut. */
enum { MAX_MARKS = 30 };

/* The characters that are shown in place of spaces and line ends. */
struct replacements {
    utf8proc_int32_t space, line_end;
};

static const char *clean(struct qkv_arena *arena, const char *text, struct replacements replacements)
{
    utf8proc_uint8_t *copy = qkv_arena_allocate(arena, strlen(text) * 3 + 1), *end = copy;
    int marks = 0;
    if (!copy) return NULL;
    for (uint32_t next; (next = qkv_utf8_next(&text));) {
        utf8proc_int32_t point = (utf8proc_int32_t)next;
        if (point == '\t' || utf8proc_category(point) == UTF8PROC_CATEGORY_ZS)
            point = replacements.space;
        else if (point == '\n')
            point = replacements.line_end;
        else if (!qkv_is_plain(next))
            point = QKV_REPLACEMENT;
        marks = utf8proc_charwidth(point) ? 0 : marks + 1;
        if (marks > MAX_MARKS) continue;
        end += utf8proc_encode_char(point, end);
    }
    *end = 0;
    return (const char *)copy;
}

const char *qkv_display_token(struct qkv_arena *arena, const char *token)
{
    return clean(arena, token, (struct replacements){0x2423, QKV_REPLACEMENT});
}

const char *qkv_display_line(struct qkv_arena *arena, const char *text)
{
    return clean(arena, text, (struct replacements){' ', QKV_REPLACEMENT});
}

const char *qkv_display_paragraph(struct qkv_arena *arena, const char *text)
{
    return clean(arena, text, (struct replacements){' ', '\n'});
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
    for (uint32_t point; (point = qkv_utf8_next(&text));) width += advance((utf8proc_int32_t)point);
    return width * size;
}

const char *qkv_display_fitting(const char *text, double size, double width)
{
    double used = 0;
    for (const char *next = text;; text = next) {
        uint32_t point = qkv_utf8_next(&next);
        used += point ? advance((utf8proc_int32_t)point) : 0;
        if (!point || used * size > width) return text;
    }
}

const char *qkv_display_cut(struct qkv_arena *arena, const char *text, double size, double width)
{
    if (!*qkv_display_fitting(text, size, width)) return text;
    const char *end = qkv_display_fitting(text, size, width - size);
    return qkv_arena_format(arena, "%.*s…", (int)(end - text), text);
}

void qkv_display_number(char text[32], double value, int digits)
{
    long long unit = llround(qkv_scalar_power(10, digits)), scaled = llround(value * (double)unit);
    if (digits)
        snprintf(text, 32, "%lld.%0*lld", scaled / unit, digits, scaled % unit);
    else
        snprintf(text, 32, "%lld", scaled);
}
