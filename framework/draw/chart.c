/* Line charts: one chart, or a sheet of several with one legend. */
#include "qkv/chart.h"

#include "draw/canvas.h"
#include "draw/display_text.h"
#include "qkv/arena.h"
#include "qkv/file.h"
#include "qkv/scalar_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CORNERS = 24 }; /* of a mark */

#define MARGIN     16.
#define TICK_WIDTH 44. /* left of the plot: numbers beside ticks, and the rotated label of the axis */
#define LABEL_SIZE 20. /* space for the label of an axis */
#define LEGEND_GAP 22.
#define SAMPLE     40. /* width of the sample of a line in the legend */
#define PITCH      22. /* from one entry of the legend to the next */
#define FONT       12.
#define TITLE_FONT 14.
#define MARK_SIZE  5.
#define PNG_SCALE  2.

#define LONGEST 400. /* width; longer texts are cut */

static const uint32_t ink = 0x222222, soft_ink = 0x666666, grid = 0xE4E4E4;

/* The colours of Okabe and Ito (2008), which colour-blind people can tell apart. Neighbours differ in
 * lightness. */
static const uint32_t COLORS[] = {0x000000, 0xE69F00, 0x0072B2, 0x56B4E9, 0xD55E00, 0x009E73, 0xCC79A7};
static const double DASHES[] = {0, 7, 0, 3, 0, 12, 0};

enum { STYLES = sizeof COLORS / sizeof COLORS[0] };

/* Size of the plot of a chart. */
struct plot_size {
    double width, height;
    int most_ticks;
};

static const struct plot_size SINGLE = {560, 320, 10}, PANEL = {360, 220, 7};

/* A chart at its place on the canvas. */
struct frame {
    const struct qkv_chart *chart;
    struct canvas *canvas;
    struct plot_size plot;
    double left, top;      /* of the plot */
    double x_end, y_end;   /* ends of the axes, which start at 0 */
    double x_tick, y_tick; /* distances of the ticks */
};

/* What a file shows: one chart with its legend beside it, or several charts (panels) in `columns`
 * columns with one legend below. */
struct sheet {
    const struct qkv_chart *charts; /* their texts are as they are shown */
    int64_t count, columns;
};

/* ---- the ends of the axes ---- */

/* Returns the smallest distance of ticks, 1, 2, 5 or 10 times a power of ten, that needs at most most_ticks. */
static double tick_distance(double end, int most_ticks)
{
    double power = qkv_scalar_power(10, floor(qkv_scalar_log10(end / most_ticks)));
    const double steps[] = {1, 2, 5, 10};
    int i = 0;
    while (i < 3 && end / (power * steps[i]) > most_ticks) i++;
    return power * steps[i];
}

static double largest_value(const struct qkv_chart *chart, bool of_y)
{
    double largest = 0;
    for (int64_t i = 0; i < chart->line_count; i++)
        for (int64_t j = 0; j < chart->lines[i].count; j++)
            largest = fmax(largest, of_y ? chart->lines[i].y[j] : chart->lines[i].x[j]);
    return largest > 1e-15 ? largest : 1;
}

/* Returns the end of an axis: `wanted`, or, if that is 0, the first tick at or above `largest`. */
static double axis_end(double wanted, double largest, int most_ticks, double *tick)
{
    *tick = tick_distance(wanted > 0 ? wanted : largest, most_ticks);
    return wanted > 0 ? wanted : *tick * ceil(largest / *tick - 1e-9);
}

static double x_of(const struct frame *frame, double x)
{
    return frame->left + frame->plot.width * x / frame->x_end;
}

static double y_of(const struct frame *frame, double y)
{
    return frame->top + frame->plot.height * (1 - y / frame->y_end);
}

/* ---- drawing ---- */

static void draw_text(const struct frame *frame, double x, double y, const char *text, enum anchor anchor,
                      double angle, uint32_t color)
{
    const struct text_style style = {.size = FONT, .anchor = anchor, .angle = angle, .color = color};
    frame->canvas->text(frame->canvas, x, y, text, &style);
}

/* The number beside a tick, with as many decimals as the distance of the ticks needs. */
static const char *tick_text(char text[32], double value, double tick)
{
    qkv_display_number(text, value, tick < 0.999 ? (int)ceil(-qkv_scalar_log10(tick) - 1e-9) : 0);
    return text;
}

static void draw_axes(const struct frame *frame)
{
    const struct qkv_chart *chart = frame->chart;
    double bottom = frame->top + frame->plot.height, right = frame->left + frame->plot.width;
    char text[32];
    for (int i = 0; i * frame->y_tick <= frame->y_end * (1 + 1e-9); i++) {
        double y = floor(y_of(frame, i * frame->y_tick));
        frame->canvas->rectangle(frame->canvas, frame->left, y, frame->plot.width, 1, i ? grid : ink, NULL);
        draw_text(frame, frame->left - 8, y, tick_text(text, i * frame->y_tick, frame->y_tick), ANCHOR_END, 0,
                  ink);
    }
    for (int i = 0; i * frame->x_tick <= frame->x_end * (1 + 1e-9); i++) {
        double x = floor(x_of(frame, i * frame->x_tick));
        frame->canvas->rectangle(frame->canvas, x, bottom, 1, 5, ink, NULL);
        draw_text(frame, x, bottom + 15, tick_text(text, i * frame->x_tick, frame->x_tick), ANCHOR_MIDDLE, 0,
                  ink);
    }
    draw_text(frame, (frame->left + right) / 2, bottom + 36, chart->x_label, ANCHOR_MIDDLE, 0, ink);
    draw_text(frame, frame->left - TICK_WIDTH, (frame->top + bottom) / 2, chart->y_label, ANCHOR_MIDDLE, -90,
              ink);
}

static void draw_vertical_line(const struct frame *frame)
{
    const struct qkv_chart *chart = frame->chart;
    if (!(chart->vertical_line > 0) || chart->vertical_line > frame->x_end) return;
    double x = x_of(frame, chart->vertical_line);
    const double points[] = {x, frame->top, x, frame->top + frame->plot.height};
    const struct path_style style = {.color = soft_ink, .width = 1, .dash = 2};
    frame->canvas->path(frame->canvas, points, 2, &style);
    if (!chart->vertical_line_label) return;
    bool fits = qkv_display_width(chart->vertical_line_label, FONT) < frame->left + frame->plot.width - x;
    draw_text(frame, x + (fits ? 6 : -6), frame->top - 10, chart->vertical_line_label,
              fits ? ANCHOR_START : ANCHOR_END, 0, soft_ink);
}

/* Sets the corners of the mark of a line around a point, and returns their number. In order: circle, square,
 * triangle, diamond, inverted triangle, star of five points, star of four points. */
static int64_t mark_corners(int64_t line, double x, double y, double size, double points[2 * MOST_CORNERS])
{
    static const struct {
        int corners;
        double rotation;     /* degrees */
        double inner_radius; /* of every second corner, relative to the others */
    } shapes[] = {{24, 0, 1}, {4, 45, 1}, {3, -90, 1}, {4, 0, 1}, {3, 90, 1}, {10, -90, 0.45}, {8, 0, 0.4}};
    int64_t kind = line % (int64_t)(sizeof shapes / sizeof shapes[0]);
    double radius = size * (shapes[kind].corners < 5 || shapes[kind].inner_radius < 1 ? 1.3 : 1);
    for (int i = 0; i < shapes[kind].corners; i++) {
        double angle = (shapes[kind].rotation + 360. * i / shapes[kind].corners) * 3.14159265358979 / 180;
        double length = i % 2 ? radius * shapes[kind].inner_radius : radius;
        points[2 * i] = x + length * qkv_scalar_cos(angle);
        points[2 * i + 1] = y + length * qkv_scalar_sin(angle);
    }
    return shapes[kind].corners;
}

/* Draws a mark with a white rim, which separates overlapping marks. */
static void draw_mark(const struct frame *frame, int64_t line, double x, double y)
{
    double points[2 * MOST_CORNERS];
    const struct path_style rim = {.color = 0xFFFFFF}, fill = {.color = COLORS[line % STYLES]};
    frame->canvas->path(frame->canvas, points, mark_corners(line, x, y, MARK_SIZE + 1.5, points), &rim);
    frame->canvas->path(frame->canvas, points, mark_corners(line, x, y, MARK_SIZE, points), &fill);
}

static bool draw_line(const struct frame *frame, int64_t index)
{
    const struct qkv_chart_line *line = &frame->chart->lines[index];
    double *points = malloc(sizeof *points * (size_t)(2 * line->count + 1));
    if (!points) return false;
    for (int64_t i = 0; i < line->count; i++) {
        points[2 * i] = x_of(frame, line->x[i]);
        points[2 * i + 1] = y_of(frame, line->y[i]);
    }
    const struct path_style style = {
        .color = COLORS[index % STYLES], .width = 2, .dash = DASHES[index % STYLES]};
    frame->canvas->path(frame->canvas, points, line->count, &style);
    for (int64_t i = 0; i < line->count && !line->without_marks; i++)
        draw_mark(frame, index, points[2 * i], points[2 * i + 1]);
    free(points);
    return true;
}

/* Draws the legend entry of a line; returns its width. */
static double draw_legend_entry(const struct frame *frame, int64_t i, double left, double y)
{
    const struct qkv_chart_line *line = &frame->chart->lines[i];
    const double points[] = {left, y, left + SAMPLE, y};
    const struct path_style style = {.color = COLORS[i % STYLES], .width = 2, .dash = DASHES[i % STYLES]};
    frame->canvas->path(frame->canvas, points, 2, &style);
    if (!line->without_marks) draw_mark(frame, i, left + SAMPLE / 2, y);
    draw_text(frame, left + SAMPLE + 8, y, line->name, ANCHOR_START, 0, ink);
    return SAMPLE + 8 + qkv_display_width(line->name, FONT);
}

static double height_above(const struct qkv_chart *chart)
{
    return (chart->title ? 30 : 0) + (chart->vertical_line > 0 ? 20 : 4);
}

static double panel_width(const struct plot_size *plot)
{
    return LABEL_SIZE / 2 + TICK_WIDTH + plot->width;
}

static double panel_height(const struct qkv_chart *chart, const struct plot_size *plot)
{
    return height_above(chart) + plot->height + 36 + LABEL_SIZE / 2;
}

/* Draws a chart without its legend; (left, top) is its upper left corner. */
static bool draw_panel(struct frame *frame, double left, double top)
{
    const struct qkv_chart *chart = frame->chart;
    int ticks = frame->plot.most_ticks;
    frame->x_end = axis_end(chart->x_end, largest_value(chart, false), ticks, &frame->x_tick);
    frame->y_end = axis_end(chart->y_end, largest_value(chart, true), ticks, &frame->y_tick);
    frame->left = left + LABEL_SIZE / 2 + TICK_WIDTH;
    frame->top = top + height_above(chart);
    if (chart->title) {
        const struct text_style bold = {.size = TITLE_FONT, .color = ink, .bold = true};
        frame->canvas->text(frame->canvas, frame->left, top + TITLE_FONT / 2, chart->title, &bold);
    }
    draw_axes(frame);
    draw_vertical_line(frame);
    for (int64_t i = 0; i < chart->line_count; i++)
        if (!draw_line(frame, i)) return false;
    return true;
}

static bool draw_chart(const struct qkv_chart *chart, struct canvas *canvas)
{
    struct frame frame = {.chart = chart, .canvas = canvas, .plot = SINGLE};
    double names = 0, lines = PITCH * (double)chart->line_count, above = MARGIN + height_above(chart);
    for (int64_t i = 0; i < chart->line_count; i++)
        names = fmax(names, qkv_display_width(chart->lines[i].name, FONT));
    double legend = MARGIN + panel_width(&SINGLE) + LEGEND_GAP;
    double height = fmax(MARGIN + panel_height(chart, &SINGLE), above + lines) + MARGIN;
    if (!canvas->begin(canvas, ceil(legend + SAMPLE + 8 + names + MARGIN), ceil(height))) return false;
    if (!draw_panel(&frame, MARGIN, MARGIN)) return false;
    for (int64_t i = 0; i < chart->line_count; i++)
        draw_legend_entry(&frame, i, legend, frame.top + PITCH * ((double)i + 0.5));
    return true;
}

static bool draw_panels(const struct sheet *sheet, struct canvas *canvas)
{
    struct frame frame = {.canvas = canvas, .plot = PANEL};
    const struct qkv_chart *longest = sheet->charts;
    int64_t rows = (sheet->count + sheet->columns - 1) / sheet->columns;
    double wide = panel_width(&PANEL) + LEGEND_GAP, high = 0;
    for (int64_t i = 0; i < sheet->count; i++) {
        high = fmax(high, panel_height(&sheet->charts[i], &PANEL) + PITCH / 2);
        if (sheet->charts[i].line_count > longest->line_count) longest = &sheet->charts[i];
    }
    double width = MARGIN + (double)sheet->columns * wide, legend = MARGIN + (double)rows * high;
    if (!canvas->begin(canvas, ceil(width), ceil(legend + PITCH + MARGIN))) return false;
    for (int64_t i = 0; i < sheet->count; i++) {
        frame.chart = &sheet->charts[i];
        double column = (double)(i % sheet->columns), row = (double)(i / sheet->columns);
        if (!draw_panel(&frame, MARGIN + column * wide, MARGIN + row * high)) return false;
    }
    double left = MARGIN + LABEL_SIZE / 2 + TICK_WIDTH;
    frame.chart = longest;
    for (int64_t i = 0; i < longest->line_count; i++)
        left += draw_legend_entry(&frame, i, left, legend + PITCH / 2) + LEGEND_GAP;
    return true;
}

static bool draw_sheet(const void *what, struct canvas *canvas)
{
    const struct sheet *sheet = what;
    return sheet->count == 1 ? draw_chart(sheet->charts, canvas) : draw_panels(sheet, canvas);
}

/* ---- the texts as they are shown ---- */

static bool show_text(struct qkv_arena *arena, const char **text, double size)
{
    if (!*text) return true;
    *text = qkv_display_line(arena, *text);
    if (*text) *text = qkv_display_cut(arena, *text, size, LONGEST);
    return *text;
}

/* Replaces the texts of a chart, in the arena. False if memory runs out. */
static bool show_texts(struct qkv_arena *arena, struct qkv_chart *chart)
{
    struct qkv_chart_line *lines = qkv_arena_allocate(arena, (size_t)chart->line_count * sizeof *lines);
    bool complete = lines && show_text(arena, &chart->title, TITLE_FONT) &&
                    show_text(arena, &chart->x_label, FONT) && show_text(arena, &chart->y_label, FONT) &&
                    show_text(arena, &chart->vertical_line_label, FONT);
    for (int64_t i = 0; complete && i < chart->line_count; i++) {
        lines[i] = chart->lines[i];
        complete = show_text(arena, &lines[i].name, FONT);
    }
    chart->lines = lines;
    return complete;
}

/* ---- files ---- */

/* Whether an axis can show a number. NaN is not, and an end is either absent, 0, or long enough for its ticks. */
static bool can_be_shown(double number, bool is_end)
{
    return number >= (is_end && number > 0 ? 1e-15 : 0) && number <= 1e15;
}

/* Returns the first number that no axis can show, or 0. */
static double unshown_number(const struct qkv_chart *chart)
{
    const double ends[] = {chart->x_end, chart->y_end, chart->vertical_line};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!can_be_shown(ends[i], true)) return ends[i];
    for (int64_t i = 0; i < chart->line_count; i++)
        for (int64_t j = 0; j < chart->lines[i].count; j++) {
            if (!can_be_shown(chart->lines[i].x[j], false)) return chart->lines[i].x[j];
            if (!can_be_shown(chart->lines[i].y[j], false)) return chart->lines[i].y[j];
        }
    return 0;
}

static enum qkv_status render(const struct sheet *sheet, const char *path, struct bytes *out,
                              struct qkv_error *error)
{
    const char *dot = strrchr(path, '.');
    if (dot && !strcmp(dot, ".png")) return qkv_png_draw(draw_sheet, sheet, PNG_SCALE, out, error);
    if (!dot || strcmp(dot, ".svg") != 0)
        return qkv_error_set(error, "%s: a chart is written as .svg or .png", path);
    qkv_svg_draw(draw_sheet, sheet, out);
    return QKV_OK;
}

enum qkv_status qkv_charts_write(const struct qkv_chart *charts, int64_t count, int64_t columns,
                                 const char *path, struct qkv_error *error)
{
    if (count < 1 || columns < 1)
        return qkv_error_set(error, "%s: cannot draw %lld charts in %lld columns", path, (long long)count,
                             (long long)columns);
    for (int64_t i = 0; i < count; i++) {
        double number = unshown_number(&charts[i]);
        if (!(number >= 0 && number <= 0))
            return qkv_error_set(error, "%s: a chart cannot show %g; its numbers are 0 to 1e15", path,
                                 number);
    }
    struct qkv_arena arena = {0};
    struct qkv_chart *shown = qkv_arena_allocate(&arena, (size_t)count * sizeof *shown);
    const struct sheet sheet = {shown, count, columns < count ? columns : count};
    struct bytes out = {.failed = !shown};
    for (int64_t i = 0; !out.failed && i < count; i++) {
        shown[i] = charts[i];
        out.failed = !show_texts(&arena, &shown[i]);
    }
    enum qkv_status status = out.failed ? QKV_OK : render(&sheet, path, &out, error);
    if (!status && out.failed) status = qkv_error_set(error, "%s: out of memory for the chart", path);
    if (!status) status = qkv_file_write(path, out.data, out.size, error);
    free(out.data);
    qkv_arena_release(&arena);
    return status;
}

enum qkv_status qkv_chart_write(const struct qkv_chart *chart, const char *path, struct qkv_error *error)
{
    return qkv_charts_write(chart, 1, 1, path, error);
}
