/* Cells of tables in the terminal. */
#include "draw/cells.h"

#include "core/plain_text.h"
#include "draw/format_text.h"

#include <stdlib.h>
#include <utf8proc.h>

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
