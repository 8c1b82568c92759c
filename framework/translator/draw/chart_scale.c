#include "draw/chart_scale.h"

#include "draw/display_text.h"
#include "qkv/scalar_math.h"

#include <math.h>

/* Returns the smallest distance between ticks, 1, 2, 5 or 10 times a power of ten, that gives at most max_ticks ticks. */
static double tick_distance(double end, int max_ticks)
{
    double power = qkv_scalar_power(10, floor(qkv_scalar_log10(end / max_ticks)));
    const double steps[] = {1, 2, 5, 10};
    int i = 0;
    while (i < 3 && end / (power * steps[i]) > max_ticks) i++;
    return power * steps[i];
}

/* The highest value that is drawn for a line at a point, with its band. */
static double top_of(const struct qkv_chart_line *line, int64_t point)
{
    return line->high ? fmax(line->y[point], line->high[point]) : line->y[point];
}

static double largest_value(const struct qkv_chart *chart, bool of_y)
{
    double largest = 0;
    for (int64_t i = 0; i < chart->line_count; i++)
        for (int64_t j = 0; j < chart->lines[i].count; j++)
            largest = fmax(largest, of_y ? top_of(&chart->lines[i], j) : chart->lines[i].x[j]);
    return largest > 1e-15 ? largest : 1;
}

/* Returns the end of an axis: `wanted`, or, if that is 0, the first tick at or above `largest`. */
static double axis_end(double wanted, double largest, int max_ticks, double *tick)
{
    *tick = tick_distance(wanted > 0 ? wanted : largest, max_ticks);
    return wanted > 0 ? wanted : *tick * ceil(largest / *tick - 1e-9);
}

struct chart_axes qkv_chart_axes(const struct qkv_chart *chart, int max_x_ticks, int max_y_ticks)
{
    struct chart_axes axes;
    axes.x_end = axis_end(chart->x_end, largest_value(chart, false), max_x_ticks, &axes.x_tick);
    axes.y_end = axis_end(chart->y_end, largest_value(chart, true), max_y_ticks, &axes.y_tick);
    return axes;
}

const char *qkv_chart_tick_text(char text[32], double value, double tick)
{
    qkv_display_number(text, value, tick < 0.999 ? (int)ceil(-qkv_scalar_log10(tick) - 1e-9) : 0);
    return text;
}

/* Whether an axis can show a number; it cannot show NaN. The end of an axis must be 0, for none, or large enough for ticks. */
static bool can_be_shown(double number, bool is_end)
{
    return number >= (is_end && number > 0 ? 1e-15 : 0) && number <= 1e15;
}

double qkv_chart_unshown_number(const struct qkv_chart *chart)
{
    const double ends[] = {chart->x_end, chart->y_end, chart->vertical_line};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!can_be_shown(ends[i], true)) return ends[i];
    for (int64_t i = 0; i < chart->line_count; i++)
        for (int64_t j = 0; j < chart->lines[i].count; j++) {
            if (!can_be_shown(chart->lines[i].x[j], false)) return chart->lines[i].x[j];
            if (!can_be_shown(chart->lines[i].y[j], false)) return chart->lines[i].y[j];
            if (chart->lines[i].low && !can_be_shown(chart->lines[i].low[j], false))
                return chart->lines[i].low[j];
            if (chart->lines[i].high && !can_be_shown(chart->lines[i].high[j], false))
                return chart->lines[i].high[j];
        }
    for (int64_t i = 0; i < chart->point_count; i++) {
        if (!can_be_shown(chart->points[i].x, false)) return chart->points[i].x;
        if (!can_be_shown(chart->points[i].y, false)) return chart->points[i].y;
    }
    return 0;
}
