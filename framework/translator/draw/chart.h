/* Private: line charts, as SVG or PNG or in a terminal. Lines differ in colour, dashes and marks, so that they can be
 * told apart without colour. */
#pragma once

#include "picture.h"

struct chart_line {
    const char *name;
    int64_t count;
    const double *x, *y;      /* [count]; 0 to 1e15; x ascends */
    bool without_marks;       /* for lines of computed, not measured, values */
    const double *low, *high; /* [count]: ends of a band around the line; NULL: none */
    /* 1 + the index of another line of the chart that this line belongs to, as a training loss belongs to a dev loss: the
     * companion has the colour of that line, is thin, and has neither marks nor its own entry in the legend. 0: no
     * companion */
    int64_t companion_of;
};

/* The symbol that highlights a point. */
enum chart_symbol { CHART_STAR, CHART_RING, CHART_DOT, CHART_SYMBOLS };

struct chart_point {
    double x, y;
    int64_t line; /* the line whose colour it has */
    enum chart_symbol symbol;
};

struct chart {
    const char *title;             /* one line above the chart; NULL: none */
    const char *x_label, *y_label; /* of the axes, with units */
    double y_end;         /* end of the y axis, which starts at 0; 0: a round number past the largest value */
    double vertical_line; /* x of a dotted vertical line; 0: none */
    const char *vertical_line_label;
    const struct chart_line *lines;
    int64_t line_count;
    const struct chart_point *points;
    int64_t point_count;
    /* Legend texts that explain symbols, companions and bands, after the lines; NULL: no text. */
    const char *symbol_meaning[CHART_SYMBOLS], *companion_meaning, *band_meaning;
};

/* Writes charts to one file, a .svg or .png: one chart with its legend beside it, or several smaller ones, row by row in
 * `columns` columns. These share one legend, that of the chart with the most lines: line i must mean the same in all charts. A
 * text that is wider than 400 units is cut. Fails for another extension, a number outside 0 to 1e15, if the file cannot be
 * written, and if memory runs out; the file is then left as it was. missing: as of qkv_png_draw. */
enum qkv_status qkv_charts_write(const struct chart *charts, int64_t count, int64_t columns, const char *path,
                                 struct qkv_missing_characters *missing, struct qkv_error *error);

/* Draws a chart without title and legend. This is the rectangle of its plot; the numbers of its axes are within CHART_LEFT on the
 * left of it, and CHART_BELOW below. False if memory runs out. */
enum { CHART_LEFT = 64, CHART_BELOW = 48 };
bool qkv_chart_draw(const struct chart *chart, struct canvas *canvas, double left, double top, double width,
                    double height, struct qkv_arena *arena);

/* Appends charts for a terminal of `width` columns, each `height` lines high without the labels of the axes, and their legend,
 * that of the first chart. Every line except companions has a letter, from a on. `ascii`: no Braille patterns, which have eight
 * points per character. Fails for a number outside 0 to 1e15. */
struct chart_text {
    int width, height;
    bool ascii;
};
enum qkv_status qkv_charts_text(const struct chart *charts, int64_t count, const struct chart_text *text,
                                struct bytes *out, struct qkv_error *error);
