#include "draw/chart_text.h"

#include "draw/cells.h"
#include "draw/chart_scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABEL = 9,       /* columns of the numbers beside the y axis */
    DOTS_ACROSS = 2, /* of a Braille pattern */
    DOTS_DOWN = 4,
    LETTERS_APART = 24, /* minimal distance in columns between the letters of a line */
};

static const char SYMBOLS[QKV_CHART_SYMBOLS] = {[QKV_CHART_STAR] = '*', [QKV_CHART_RING] = '@'};

/* The cells of a chart, [height, width]. */
struct grid {
    const struct qkv_chart *chart;
    struct chart_axes axes;
    int width, height;
    bool ascii;
    char *letter;        /* 0: none */
    unsigned char *dots; /* Braille: the bits of U+2800 + bits */
};

static double column_of(const struct grid *grid, double x)
{
    return x / grid->axes.x_end * (grid->width - 1);
}

static double row_of(const struct grid *grid, double y)
{
    return (1 - y / grid->axes.y_end) * (grid->height - 1);
}

static void set_letter(struct grid *grid, double column, double row, char letter)
{
    int x = (int)lround(column), y = (int)lround(row);
    if (x >= 0 && x < grid->width && y >= 0 && y < grid->height) grid->letter[y * grid->width + x] = letter;
}

static void set_dot(struct grid *grid, double column, double row)
{
    static const unsigned char bits[DOTS_DOWN][DOTS_ACROSS] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    int x = (int)lround((column + 0.5) * DOTS_ACROSS - 0.5), y = (int)lround((row + 0.5) * DOTS_DOWN - 0.5);
    int cell_x = x / DOTS_ACROSS, cell_y = y / DOTS_DOWN;
    if (x < 0 || y < 0 || cell_x >= grid->width || cell_y >= grid->height) return;
    grid->dots[cell_y * grid->width + cell_x] |= bits[y % DOTS_DOWN][x % DOTS_ACROSS];
}

/* The letter of a line, by its number among the lines that are not companions. */
static char letter_of(const struct qkv_chart *chart, int64_t index)
{
    int64_t number = 0;
    for (int64_t i = 0; i < index; i++) number += !chart->lines[i].companion_of;
    return (char)("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+#"[number % 64]);
}

static void draw_segment(struct grid *grid, double from[2], double to[2], char letter)
{
    double across = fabs(to[0] - from[0]) * DOTS_ACROSS, down = fabs(to[1] - from[1]) * DOTS_DOWN;
    int steps = (int)ceil(fmax(fmax(across, down), 1));
    for (int i = 0; i <= steps; i++) {
        double share = (double)i / steps, column = from[0] + share * (to[0] - from[0]),
               row = from[1] + share * (to[1] - from[1]);
        if (grid->ascii)
            set_letter(grid, column, row, letter);
        else
            set_dot(grid, column, row);
    }
}

static void draw_line(struct grid *grid, int64_t index)
{
    const struct qkv_chart_line *line = &grid->chart->lines[index];
    char letter = line->companion_of ? '.' : letter_of(grid->chart, index);
    double from[2] = {0}, to[2];
    for (int64_t i = 0; i < line->count; i++) {
        to[0] = column_of(grid, line->x[i]);
        to[1] = row_of(grid, line->y[i]);
        draw_segment(grid, i ? from : to, to, letter);
        memcpy(from, to, sizeof to);
    }
}

/* Puts the letter of a line at its end, and at earlier points that are far enough apart. */
static void draw_letters(struct grid *grid, int64_t index)
{
    const struct qkv_chart_line *line = &grid->chart->lines[index];
    double last = INFINITY;
    if (line->companion_of) return;
    for (int64_t i = line->count - 1; i >= 0; i--) {
        double column = column_of(grid, line->x[i]);
        if (last - column < LETTERS_APART) continue;
        set_letter(grid, column, row_of(grid, line->y[i]), letter_of(grid->chart, index));
        last = column;
    }
}

static void append_cell(const struct grid *grid, int cell, struct bytes *out)
{
    unsigned bits = grid->dots[cell];
    const unsigned char braille[3] = {0xE2, (unsigned char)(0xA0 | bits >> 6),
                                      (unsigned char)(0x80 | (bits & 0x3F))};
    if (grid->letter[cell])
        qkv_bytes_append(out, &grid->letter[cell], 1);
    else if (bits)
        qkv_bytes_append(out, braille, sizeof braille);
    else
        qkv_bytes_text(out, " ");
}

/* Appends the rows of the chart. Each number of the y axis is placed beside the nearest row. */
static void append_rows(const struct grid *grid, struct bytes *out)
{
    char text[32];
    for (int row = 0; row < grid->height; row++) {
        const char *label = "";
        for (int i = 0; i * grid->axes.y_tick <= grid->axes.y_end * (1 + 1e-9); i++)
            if (lround(row_of(grid, i * grid->axes.y_tick)) == row)
                label = qkv_chart_tick_text(text, i * grid->axes.y_tick, grid->axes.y_tick);
        qkv_cell_padded(out, label, LABEL - 1, CELL_RIGHT);
        qkv_bytes_text(out, grid->ascii ? (*label ? " +" : " |") : *label ? " ┤" : " │");
        for (int column = 0; column < grid->width; column++)
            append_cell(grid, row * grid->width + column, out);
        while (out->size && out->data[out->size - 1] == ' ') out->size--;
        qkv_bytes_text(out, "\n");
    }
}

static void append_x_axis(const struct grid *grid, struct bytes *out)
{
    char text[32];
    int used = 0;
    qkv_cell_spaces(out, LABEL);
    qkv_bytes_text(out, grid->ascii ? "+" : "└");
    for (int i = 0; i < grid->width; i++) qkv_bytes_text(out, grid->ascii ? "-" : "─");
    qkv_bytes_text(out, "\n");
    for (int i = 0; i * grid->axes.x_tick <= grid->axes.x_end * (1 + 1e-9); i++) {
        qkv_chart_tick_text(text, i * grid->axes.x_tick, grid->axes.x_tick);
        int width = (int)strlen(text), end = LABEL + 1 + grid->width;
        int at = LABEL + 1 + (int)lround(column_of(grid, i * grid->axes.x_tick)) - width / 2;
        if (at + width > end) at = end - width;
        if (used && at <= used) continue; /* no space left for this number */
        qkv_cell_spaces(out, at - used);
        qkv_bytes_text(out, text);
        used = at + width;
    }
    qkv_bytes_text(out, "\n");
    int label = qkv_cell_width(grid->chart->x_label);
    qkv_cell_spaces(out, LABEL + 1 + (grid->width - label) / 2);
    qkv_bytes_text(out, grid->chart->x_label);
    qkv_bytes_text(out, "\n");
}

void qkv_chart_text(const struct qkv_chart *chart, const struct chart_text *text, struct bytes *out)
{
    struct grid grid = {
        .chart = chart, .width = text->width - LABEL - 1, .height = text->height, .ascii = text->ascii};
    if (grid.width < 10) grid.width = 10;
    size_t cells = (size_t)grid.width * (size_t)grid.height;
    grid.axes = qkv_chart_axes(chart, grid.width / 10, grid.height / 2);
    grid.letter = calloc(cells, 1);
    grid.dots = calloc(cells, 1);
    if (!grid.letter || !grid.dots) {
        out->failed = true;
    } else {
        for (int64_t i = chart->line_count - 1; i >= 0; i--) draw_line(&grid, i);
        for (int64_t i = chart->line_count - 1; i >= 0; i--) draw_letters(&grid, i);
        for (int symbol = 0; symbol < QKV_CHART_SYMBOLS; symbol++)
            for (int64_t i = 0; i < chart->point_count; i++)
                if ((int)chart->points[i].symbol == symbol)
                    set_letter(&grid, column_of(&grid, chart->points[i].x), row_of(&grid, chart->points[i].y),
                               SYMBOLS[symbol]);
        qkv_bytes_format(out, "%s\n", chart->y_label);
        append_rows(&grid, out);
        append_x_axis(&grid, out);
    }
    free(grid.letter);
    free(grid.dots);
}

void qkv_chart_text_legend(const struct qkv_chart *chart, const struct chart_text *text, struct bytes *out)
{
    for (int64_t i = 0; i < chart->line_count; i++)
        if (!chart->lines[i].companion_of)
            qkv_bytes_format(out, "%c  %s\n", letter_of(chart, i), chart->lines[i].name);
    for (int symbol = 0; symbol < QKV_CHART_SYMBOLS; symbol++)
        if (chart->symbol_meaning[symbol])
            qkv_bytes_format(out, "%c  %s\n", SYMBOLS[symbol], chart->symbol_meaning[symbol]);
    if (chart->companion_meaning)
        qkv_bytes_format(out, "%s  %s\n", text->ascii ? "." : "no letter:", chart->companion_meaning);
}
