/* Text for files and people: escaping, labels of pictures, and cells of tables. */
#include "draw/text.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "core/text.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <utf8proc.h>

/* ---- numbers ---- */

void qkv_decimal_point(char *number)
{
    const char *point = localeconv()->decimal_point;
    char *found = strstr(number, point);
    if (!found) return;
    *found = '.';
    memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
}

/* Tries increasing numbers of digits: the first decimal that reads back as the same double is the shortest. It can start
 * at 15 digits, because different decimals of up to 15 digits are different doubles, and `%g` drops zeros at the end. */
void qkv_bytes_number(struct bytes *bytes, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    qkv_decimal_point(text);
    qkv_bytes_text(bytes, text);
}

/* ---- output formats ---- */

/* Appends a character: the bytes from `start` to `end`, which qkv_utf8_next has read. */
static void append_character(struct bytes *out, uint32_t point, const char *start, const char *end)
{
    if (point == QKV_REPLACEMENT)
        qkv_bytes_text(out, "\xEF\xBF\xBD"); /* U+FFFD */
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

void qkv_text_xml(struct bytes *out, const char *text)
{
    static const char special[] = "&<>\"\t\n";
    static const char *const written[] = {"&amp;", "&lt;", "&gt;", "&quot;", "\t", "\n"};
    while (*text) {
        const char *found = strchr(special, *text);
        if (found)
            qkv_bytes_text(out, written[found - special]), text++;
        else
            qkv_text_next(out, &text);
    }
}

void qkv_text_markdown(struct bytes *out, const char *text)
{
    for (const char *at = text; *at;) {
        /* An underscore between letters or digits has no meaning in Markdown. */
        bool is_within_word = at > text && isalnum((unsigned char)at[-1]) && isalnum((unsigned char)at[1]);
        if (strchr("\\`*[]<>|~&$", *at) || (*at == '_' && !is_within_word)) qkv_bytes_text(out, "\\");
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

/* ---- labels of pictures ---- */

/* More marks than this on one letter are dropped. This is the limit of Unicode Standard Annex 15 for text that is safe to
 * stream. Marks have no width, so without a limit a label of nothing but marks would never be cut. */
enum { MAX_MARKS = 30 };

/* space, line_end: the characters that are shown in place of spaces and line ends. */
static const char *clean(struct qkv_arena *arena, const char *text, uint32_t space, uint32_t line_end)
{
    utf8proc_uint8_t *copy = qkv_arena_allocate(arena, strlen(text) * 3 + 1), *end = copy;
    int marks = 0;
    if (!copy) return NULL;
    for (uint32_t point; (point = qkv_utf8_next(&text));) {
        if (point == '\t' || utf8proc_category((utf8proc_int32_t)point) == UTF8PROC_CATEGORY_ZS)
            point = space;
        else if (point == '\n')
            point = line_end;
        else if (!qkv_is_plain(point))
            point = QKV_REPLACEMENT;
        marks = utf8proc_charwidth((utf8proc_int32_t)point) ? 0 : marks + 1;
        if (marks <= MAX_MARKS) end += utf8proc_encode_char((utf8proc_int32_t)point, end);
    }
    *end = 0;
    return (const char *)copy;
}

const char *qkv_display_token(struct qkv_arena *arena, const char *token)
{
    return clean(arena, token, 0x2423, QKV_REPLACEMENT);
}

const char *qkv_display_line(struct qkv_arena *arena, const char *text)
{
    return clean(arena, text, ' ', QKV_REPLACEMENT);
}

const char *qkv_display_paragraph(struct qkv_arena *arena, const char *text)
{
    return clean(arena, text, ' ', '\n');
}

/* Returns the width of a character relative to the font size, as in DejaVu Sans, one of the widest fonts. */
static double advance(utf8proc_int32_t point)
{
    if (point < 128) {
        if (point && strchr("iljI.,:;'|![]() /\\", point)) return 0.40;
        if (point && strchr("mwMW@%<>=+~", point)) return 0.98;
        return point >= 'A' && point <= 'Z' ? 0.76 : 0.64;
    }
    int columns = utf8proc_charwidth(point);
    if (columns == 0 || columns == 2) return columns / 2;
    return utf8proc_category(point) == UTF8PROC_CATEGORY_LU ? 0.80 : 0.68;
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
    if (!text || !*qkv_display_fitting(text, size, width)) return text;
    const char *end = qkv_display_fitting(text, size, width - size);
    return qkv_arena_format(arena, "%.*s…", (int)(end - text), text);
}

void qkv_display_number(char text[32], double value, int digits)
{
    long long unit = llround(qkv_scalar_power(10, digits)), scaled = llround(value * (double)unit);
    if (digits)
        snprintf(text, 32, "%s%lld.%0*lld", scaled < 0 ? "-" : "", llabs(scaled / unit), digits,
                 llabs(scaled % unit));
    else
        snprintf(text, 32, "%lld", scaled);
}

/* ---- cells of tables ---- */

static int columns_of(uint32_t point)
{
    return utf8proc_charwidth((utf8proc_int32_t)(qkv_is_plain(point) ? point : QKV_REPLACEMENT));
}

int qkv_cell_width(const char *text)
{
    int width = 0;
    for (uint32_t point; (point = qkv_utf8_next(&text));) width += columns_of(point);
    return width;
}

void qkv_cell_spaces(struct bytes *out, int count)
{
    if (count > 0) qkv_bytes_format(out, "%*s", count, "");
}

void qkv_cell_padded(struct bytes *out, const char *text, int width, enum cell_align align)
{
    bool cut = qkv_cell_width(text) > width;
    int used = cut;
    const char *end = text;
    if (width < 1) return;
    for (const char *next = end; *end; end = next) {
        int columns = columns_of(qkv_utf8_next(&next));
        if (used + columns > width) break;
        used += columns;
    }
    /* If a double-width character does not fit, its column is padded on the same side as in all other cells. */
    if (align == CELL_RIGHT) qkv_cell_spaces(out, width - used);
    while (text < end) qkv_text_next(out, &text);
    if (cut) qkv_bytes_text(out, "…");
    if (align == CELL_LEFT) qkv_cell_spaces(out, width - used);
}

/* The entry of xterm's 6 x 6 x 6 cube that is closest to a colour. */
static int palette_index(uint32_t color)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    int index = 16;
    for (int shift = 16, weight = 36; shift >= 0; shift -= 8, weight /= 6) {
        int value = (int)(color >> shift & 0xFF), best = 0;
        for (int i = 1; i < 6; i++)
            if (abs(levels[i] - value) < abs(levels[best] - value)) best = i;
        index += weight * best;
    }
    return index;
}

void qkv_cell_begin_color(struct bytes *out, enum qkv_terminal_colors colors, uint32_t color)
{
    int ink = qkv_readable_ink(color) == 0 ? 16 : 231;
    if (colors == QKV_COLORS_TRUE)
        qkv_bytes_format(out, "\033[48;2;%u;%u;%u;38;5;%dm", color >> 16, color >> 8 & 0xFF, color & 0xFF,
                         ink);
    else if (colors == QKV_COLORS_256)
        qkv_bytes_format(out, "\033[48;5;%d;38;5;%dm", palette_index(color), ink);
}

void qkv_cell_end_color(struct bytes *out, enum qkv_terminal_colors colors)
{
    if (colors != QKV_COLORS_NONE) qkv_bytes_text(out, "\033[0m");
}

/* The sRGB luma is close enough to choose between two inks. */
uint32_t qkv_readable_ink(uint32_t background)
{
    double luma = 0.299 * (background >> 16) + 0.587 * (background >> 8 & 0xFF) + 0.114 * (background & 0xFF);
    return luma > 140 ? 0x000000 : 0xFFFFFF;
}
