/* Line charts, one or a sheet of them, drawn on the canvases of the heat maps. */
#include "qkv/chart.h"

#include "draw/canvas.h"
#include "draw/text.h"
#include "qkv/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CORNERS = 24 };

#define MARGIN     16.
#define TICK_ROOM  44. /* left of the plot: numbers and the name of the axis, which is turned */
#define NAME_ROOM  20.
#define LEGEND_GAP 22.
#define SAMPLE     40. /* width of a line in the legend */
#define PITCH      22. /* from one line of the legend to the next */
#define FONT       12.
#define TITLE_FONT 14.
#define MARK_SIZE  5.
#define PNG_SCALE  2.

static const uint32_t ink = 0x222222, soft_ink = 0x666666, grid = 0xE4E4E4;

/* The colours of Okabe and Ito (2008), which the colour-blind tell apart, in an order of changing lightness.
 */
static const uint32_t COLORS[] = {0x000000, 0xE69F00, 0x0072B2, 0x56B4E9, 0xD55E00, 0x009E73, 0xCC79A7};
static const double DASHES[] = {0, 7, 0, 3, 0, 12, 0};

enum { STYLES = sizeof COLORS / sizeof COLORS[0] };

/* How large the plot of a chart is, that stands alone or among others. */
struct plot {
    double width, height;
    int most_ticks;
};

static const struct plot ALONE = {560, 320, 10}, PANEL = {360, 220, 7};

struct frame {
    const struct qkv_chart *chart;
    struct canvas *canvas;
    struct plot plot;
    double left, top, x_end, y_end, x_tick, y_tick;
};

/* What is drawn: one chart with its legend beside it, or more in columns with one legend below. */
struct sheet {
    const struct qkv_chart *charts;
    int64_t count, columns;
};

/* ---- the ends of the axes ---- */

/* 1, 2 or 5 times a power of ten, so that there are not too many ticks. */
static double tick_of(double most, int most_ticks)
{
    double power = pow(10, floor(log10(most / most_ticks)));
    const double steps[] = {1, 2, 5, 10};
    int i = 0;
    while (i < 3 && most / (power * steps[i]) > most_ticks) i++;
    return power * steps[i];
}

static double largest(const struct qkv_chart *chart, bool of_y)
{
    double most = 0;
    for (int64_t i = 0; i < chart->line_count; i++)
        for (int64_t j = 0; j < chart->lines[i].count; j++)
            most = fmax(most, of_y ? chart->lines[i].y[j] : chart->lines[i].x[j]);
    return most > 0 ? most : 1;
}

/* The end of an axis: what was asked for, or the first tick behind the largest value. */
static double end_of(double asked, double most, int most_ticks, double *tick)
{
    *tick = tick_of(asked > 0 ? asked : most, most_ticks);
    return asked > 0 ? asked : *tick * ceil(most / *tick - 1e-9);
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
    qkv_text_fixed(text, value, tick < 0.999 ? (int)ceil(-log10(tick) - 1e-9) : 0);
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
    draw_text(frame, frame->left - TICK_ROOM, (frame->top + bottom) / 2, chart->y_label, ANCHOR_MIDDLE, -90,
              ink);
}

static void draw_vertical_mark(const struct frame *frame)
{
    const struct qkv_chart *chart = frame->chart;
    if (!(chart->vertical_line > 0) || chart->vertical_line > frame->x_end) return;
    double x = x_of(frame, chart->vertical_line);
    const double points[] = {x, frame->top, x, frame->top + frame->plot.height};
    const struct path_style style = {.color = soft_ink, .width = 1, .dash = 2};
    frame->canvas->path(frame->canvas, points, 2, &style);
    bool room = qkv_text_width(chart->vertical_line_label, FONT) < frame->left + frame->plot.width - x;
    draw_text(frame, x + (room ? 6 : -6), frame->top - 10, chart->vertical_line_label,
              room ? ANCHOR_START : ANCHOR_END, 0, soft_ink);
}

/* The corners of the mark of a line, around a point: a circle, a square, a triangle, a diamond, a triangle
 * that stands on its tip, a star, a bar. */
static int64_t corners_of(int64_t line, double x, double y, double size, double points[2 * CORNERS])
{
    static const struct {
        int corners;
        double turn, inner; /* degrees; radius of each second corner */
    } shapes[] = {{24, 0, 1}, {4, 45, 1}, {3, -90, 1}, {4, 0, 1}, {3, 90, 1}, {10, -90, 0.45}, {8, 0, 0.4}};
    int64_t kind = line % (int64_t)(sizeof shapes / sizeof shapes[0]);
    double radius = size * (shapes[kind].corners < 5 || shapes[kind].inner < 1 ? 1.3 : 1);
    for (int i = 0; i < shapes[kind].corners; i++) {
        double angle = (shapes[kind].turn + 360. * i / shapes[kind].corners) * 3.14159265358979 / 180;
        double length = i % 2 ? radius * shapes[kind].inner : radius;
        points[2 * i] = x + length * cos(angle);
        points[2 * i + 1] = y + length * sin(angle);
    }
    return shapes[kind].corners;
}

/* With a white rim, so that marks on top of each other show. */
static void draw_mark(const struct frame *frame, int64_t line, double x, double y)
{
    double points[2 * CORNERS];
    const struct path_style rim = {.color = 0xFFFFFF}, fill = {.color = COLORS[line % STYLES]};
    frame->canvas->path(frame->canvas, points, corners_of(line, x, y, MARK_SIZE + 1.5, points), &rim);
    frame->canvas->path(frame->canvas, points, corners_of(line, x, y, MARK_SIZE, points), &fill);
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

/* The line's look and name; gives the width. */
static double draw_sample(const struct frame *frame, int64_t i, double left, double y)
{
    const struct qkv_chart_line *line = &frame->chart->lines[i];
    const double points[] = {left, y, left + SAMPLE, y};
    const struct path_style style = {.color = COLORS[i % STYLES], .width = 2, .dash = DASHES[i % STYLES]};
    frame->canvas->path(frame->canvas, points, 2, &style);
    if (!line->without_marks) draw_mark(frame, i, left + SAMPLE / 2, y);
    draw_text(frame, left + SAMPLE + 8, y, line->name, ANCHOR_START, 0, ink);
    return SAMPLE + 8 + qkv_text_width(line->name, FONT);
}

static double room_above(const struct qkv_chart *chart)
{
    return (chart->title ? 30 : 0) + (chart->vertical_line > 0 ? 20 : 4);
}

static double panel_width(const struct plot *plot)
{
    return NAME_ROOM / 2 + TICK_ROOM + plot->width;
}

static double panel_height(const struct qkv_chart *chart, const struct plot *plot)
{
    return room_above(chart) + plot->height + 36 + NAME_ROOM / 2;
}

/* A chart without its legend, whose upper left corner is there. */
static bool draw_panel(struct frame *frame, double left, double top)
{
    const struct qkv_chart *chart = frame->chart;
    int ticks = frame->plot.most_ticks;
    frame->x_end = end_of(chart->x_end, largest(chart, false), ticks, &frame->x_tick);
    frame->y_end = end_of(chart->y_end, largest(chart, true), ticks, &frame->y_tick);
    frame->left = left + NAME_ROOM / 2 + TICK_ROOM;
    frame->top = top + room_above(chart);
    if (chart->title) {
        const struct text_style bold = {.size = TITLE_FONT, .color = ink, .bold = true};
        frame->canvas->text(frame->canvas, frame->left, top + TITLE_FONT / 2, chart->title, &bold);
    }
    draw_axes(frame);
    draw_vertical_mark(frame);
    for (int64_t i = 0; i < chart->line_count; i++)
        if (!draw_line(frame, i)) return false;
    return true;
}

static bool draw_chart(const struct qkv_chart *chart, struct canvas *canvas)
{
    struct frame frame = {.chart = chart, .canvas = canvas, .plot = ALONE};
    double names = 0, lines = PITCH * (double)chart->line_count, above = MARGIN + room_above(chart);
    for (int64_t i = 0; i < chart->line_count; i++)
        names = fmax(names, qkv_text_width(chart->lines[i].name, FONT));
    double legend = MARGIN + panel_width(&ALONE) + LEGEND_GAP;
    double height = fmax(MARGIN + panel_height(chart, &ALONE), above + lines) + MARGIN;
    if (!canvas->begin(canvas, ceil(legend + SAMPLE + 8 + names + MARGIN), ceil(height))) return false;
    if (!draw_panel(&frame, MARGIN, MARGIN)) return false;
    for (int64_t i = 0; i < chart->line_count; i++)
        draw_sample(&frame, i, legend, frame.top + PITCH * ((double)i + 0.5));
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
    double left = MARGIN + NAME_ROOM / 2 + TICK_ROOM;
    frame.chart = longest;
    for (int64_t i = 0; i < longest->line_count; i++)
        left += draw_sample(&frame, i, left, legend + PITCH / 2) + LEGEND_GAP;
    return true;
}

static bool draw_sheet(const void *what, struct canvas *canvas)
{
    const struct sheet *sheet = what;
    return sheet->count == 1 ? draw_chart(sheet->charts, canvas) : draw_panels(sheet, canvas);
}

/* ---- files ---- */

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
    QKV_BUG(count < 1 || columns < 1, "a sheet of %lld charts in %lld columns", (long long)count,
            (long long)columns);
    const struct sheet sheet = {charts, count, columns < count ? columns : count};
    struct bytes out = {0};
    enum qkv_status status = render(&sheet, path, &out, error);
    if (!status && out.failed) status = qkv_error_set(error, "%s: no memory to draw the chart", path);
    if (!status) status = qkv_file_write(path, out.data, out.size, error);
    free(out.data);
    return status;
}

enum qkv_status qkv_chart_write(const struct qkv_chart *chart, const char *path, struct qkv_error *error)
{
    return qkv_charts_write(chart, 1, 1, path, error);
}
