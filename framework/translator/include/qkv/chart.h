/* Line charts, written as SVG or PNG. Lines differ in colour, dashes and marks, so that they can be
 * told apart without colour.
 *
 * Example:
 *     const double x[] = {5, 10, 15}, y[] = {99, 97, 60};
 *     const struct qkv_chart_line line = {.name = "cho_2014", .count = 3, .x = x, .y = y};
 *     const struct qkv_chart chart = {.x_label = "words", .y_label = "correct, %", .y_end = 100,
 *                                     .lines = &line, .line_count = 1};
 *     struct qkv_error error;
 *     if (qkv_chart_write(&chart, "accuracy.svg", &error)) fprintf(stderr, "%s\n", error.message);
 */
#ifndef QKV_CHART_H
#define QKV_CHART_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

struct qkv_chart_line {
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
enum qkv_chart_symbol { QKV_CHART_STAR, QKV_CHART_RING };
enum { QKV_CHART_SYMBOLS = QKV_CHART_RING + 1 };

struct qkv_chart_point {
    double x, y;
    int64_t line; /* the line whose colour it has, from 0; other charts of the sheet may have more lines */
    enum qkv_chart_symbol symbol;
};

struct qkv_chart {
    const char *title;             /* one line above the chart; NULL: none */
    const char *x_label, *y_label; /* of the axes, with units */
    double x_end, y_end;  /* ends of the axes, which start at 0; 0: a round number past the largest value */
    double vertical_line; /* x of a dotted vertical line; 0: none */
    const char *vertical_line_label; /* NULL: none */
    const struct qkv_chart_line *lines;
    int64_t line_count;
    const struct qkv_chart_point *points;
    int64_t point_count;
    /* Legend texts that explain symbols, companions and bands, after the lines; NULL: no text. */
    const char *symbol_meaning[QKV_CHART_SYMBOLS], *companion_meaning, *band_meaning;
};

/* Writes a chart to a file. The name must end in .svg or .png. A text that is wider than 400 units is cut; control
 * characters and bytes that are not UTF-8 are shown as U+FFFD. Fails for another extension, a number outside 0 to 1e15, a
 * count below 0, a line or symbol that does not exist, if the file cannot be written, and if memory runs out; the file is
 * then left as it was. */
QKV_API enum qkv_status qkv_chart_write(const struct qkv_chart *chart, const char *path,
                                        struct qkv_error *error);

/* Writes `count` smaller charts to one file, row by row in `columns` columns. They share one
 * legend, that of the chart with the most lines: line i must mean the same in all charts. Fails as
 * qkv_chart_write does. */
QKV_API enum qkv_status qkv_charts_write(const struct qkv_chart *charts, int64_t count, int64_t columns,
                                         const char *path, struct qkv_error *error);

#endif
