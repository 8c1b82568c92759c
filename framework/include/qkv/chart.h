/* Line charts as SVG or PNG: lines that differ in colour, dashes and marks, so that they can be told apart
 * without colour as well.
 *
 *     double x[] = {5, 10, 15}, y[] = {99, 97, 60};
 *     struct qkv_chart_line line = {"cho_2014", 3, x, y};
 *     struct qkv_chart chart = {.x_name = "words", .y_name = "right, %", .y_most = 100,
 *                               .lines = &line, .line_count = 1};
 *     qkv_chart_write(&chart, "accuracy.svg", &error);
 */
#ifndef QKV_CHART_H
#define QKV_CHART_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

struct qkv_chart_line {
    const char *name;
    int64_t count;
    const double *x, *y; /* [count]: at least 0; from left to right */
    bool plain;          /* without marks, as something computed */
};

struct qkv_chart {
    const char *title;           /* above, in one line; NULL: none */
    const char *x_name, *y_name; /* what the axes show, with its unit */
    double x_most, y_most; /* where the axes end, which begin at 0; 0: at the largest value of any line */
    double mark;           /* x of a vertical line; 0: none */
    const char *mark_name; /* what stands beside it */
    const struct qkv_chart_line *lines;
    int64_t line_count;
};

/* Draws a chart into a file, which is whole or not there: .svg or .png. Fails for another extension, and when
 * the file cannot be written or memory is out. */
QKV_API enum qkv_status qkv_chart_write(const struct qkv_chart *chart, const char *path,
                                        struct qkv_error *error);

/* Draws several charts into one file, smaller ones, side by side in `columns` columns, row by row. One legend
 * stands below them, that of the chart with the most lines: lines of the same number are the same thing in
 * all of them. Fails as qkv_chart_write. */
QKV_API enum qkv_status qkv_charts_write(const struct qkv_chart *charts, int64_t count, int64_t columns,
                                         const char *path, struct qkv_error *error);

#endif
