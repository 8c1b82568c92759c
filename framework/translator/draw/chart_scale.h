/* Private: the axes of a line chart (qkv/chart.h). */
#ifndef QKV_CHART_SCALE_H
#define QKV_CHART_SCALE_H

#include "qkv/chart.h"

/* Both axes start at 0. */
struct chart_axes {
    double x_end, y_end;
    double x_tick, y_tick; /* distances of the ticks */
};

/* Chooses the axes of a chart, with at most this many ticks after 0. If the chart does not define the end of an axis, it is the
 * first tick at or above all values. */
struct chart_axes qkv_chart_axes(const struct qkv_chart *chart, int max_x_ticks, int max_y_ticks);

/* Formats the number of a tick, with as many decimals as the distance between ticks needs. Returns `text`. */
const char *qkv_chart_tick_text(char text[32], double value, double tick);

/* Returns the first number of a chart that no axis can show, NaN included, or 0. */
double qkv_chart_unshown_number(const struct qkv_chart *chart);

#endif
