#include "draw/figure.h"

#include <string.h>
#include <utf8proc.h>

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

double qkv_figure_text_width(const char *text, double size)
{
    double width = 0;
    utf8proc_int32_t point;
    while (*text) {
        text += utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &point);
        width += advance(point);
    }
    return width * size;
}
