/* Line charts: one chart, or a sheet of several with one legend. */
#include "qkv/chart.h"

#include "draw/canvas.h"
#include "draw/chart_scale.h"
#include "draw/display_text.h"
#include "qkv/arena.h"
#include "qkv/file.h"
#include "qkv/scalar_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CORNERS = 25 };     /* of a mark, and of a closed one */
enum { CIRCLE = 0, STAR = 5 }; /* shapes of mark_corners */

#define MARGIN       16.
#define TICK_WIDTH   44. /* left of the plot: numbers beside ticks, and the rotated label of the axis */
#define LABEL_SIZE   20. /* space for the label of an axis */
#define LEGEND_GAP   22.
#define SAMPLE       40. /* width of the sample of a line in the legend */
#define PITCH        22. /* from one entry of the legend to the next */
#define FONT         12.
#define TITLE_FONT   14.
#define MARK_SIZE    5.
#define PNG_SCALE    2.
#define BAND_OPACITY 0.2

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
    int max_ticks;
};

static const struct plot_size SINGLE = {560, 320, 10}, PANEL = {360, 220, 7};

/* A chart at its place on the canvas. */
struct frame {
    const struct qkv_chart *chart;
    struct canvas *canvas;
    struct plot_size plot;
    double left, top; /* of the plot */
    struct chart_axes axes;
};

/* The contents of a file: one chart with its legend beside it, or several charts (panels) in `columns`
 * columns with one legend below. */
struct sheet {
    const struct qkv_chart *charts; /* with texts that are ready to be drawn (show_texts) */
    int64_t count, columns;
};

/* ---- drawing ---- */

static double x_of(const struct frame *frame, double x)
{
    return frame->left + frame->plot.width * x / frame->axes.x_end;
}

static double y_of(const struct frame *frame, double y)
{
    return frame->top + frame->plot.height * (1 - y / frame->axes.y_end);
}

static void draw_text(const struct frame *frame, double x, double y, const char *text, enum anchor anchor,
                      double angle, uint32_t color)
{
    const struct text_style style = {.size = FONT, .anchor = anchor, .angle = angle, .color = color};
    frame->canvas->text(frame->canvas, x, y, text, &style);
}

static void draw_axes(const struct frame *frame)
{
    const struct qkv_chart *chart = frame->chart;
    double bottom = frame->top + frame->plot.height, right = frame->left + frame->plot.width;
    char text[32];
    for (int i = 0; i * frame->axes.y_tick <= frame->axes.y_end * (1 + 1e-9); i++) {
        double y = floor(y_of(frame, i * frame->axes.y_tick));
        frame->canvas->rectangle(frame->canvas, frame->left, y, frame->plot.width, 1, i ? grid : ink, NULL);
        draw_text(frame, frame->left - 8, y,
                  qkv_chart_tick_text(text, i * frame->axes.y_tick, frame->axes.y_tick), ANCHOR_END, 0, ink);
    }
    for (int i = 0; i * frame->axes.x_tick <= frame->axes.x_end * (1 + 1e-9); i++) {
        double x = floor(x_of(frame, i * frame->axes.x_tick));
        frame->canvas->rectangle(frame->canvas, x, bottom, 1, 5, ink, NULL);
        draw_text(frame, x, bottom + 15,
                  qkv_chart_tick_text(text, i * frame->axes.x_tick, frame->axes.x_tick), ANCHOR_MIDDLE, 0,
                  ink);
    }
    draw_text(frame, (frame->left + right) / 2, bottom + 36, chart->x_label, ANCHOR_MIDDLE, 0, ink);
    draw_text(frame, frame->left - TICK_WIDTH, (frame->top + bottom) / 2, chart->y_label, ANCHOR_MIDDLE, -90,
              ink);
}

static void draw_vertical_line(const struct frame *frame)
{
    const struct qkv_chart *chart = frame->chart;
    if (!(chart->vertical_line > 0) || chart->vertical_line > frame->axes.x_end) return;
    double x = x_of(frame, chart->vertical_line);
    const double points[] = {x, frame->top, x, frame->top + frame->plot.height};
    const struct path_style style = {.color = soft_ink, .width = 1, .dash = 2};
    frame->canvas->path(frame->canvas, points, 2, &style);
    if (!chart->vertical_line_label) return;
    bool fits = qkv_display_width(chart->vertical_line_label, FONT) < frame->left + frame->plot.width - x;
    draw_text(frame, x + (fits ? 6 : -6), frame->top - 10, chart->vertical_line_label,
              fits ? ANCHOR_START : ANCHOR_END, 0, soft_ink);
}

/* After STYLES lines, colours repeat. In each further round, dashes and marks are shifted by one, so that lines of the same
 * colour differ. */
static int64_t with_round(int64_t line)
{
    return line + line / STYLES;
}

/* Sets the corners of the mark of a line around a point, and returns their number. In order: circle, square,
 * triangle, diamond, inverted triangle, star of five points, star of four points. */
static int64_t mark_corners(int64_t line, double x, double y, double size, double points[2 * MAX_CORNERS])
{
    static const struct {
        int corners;
        double rotation;     /* degrees */
        double inner_radius; /* radius of every second corner, relative to the first */
    } shapes[] = {{24, 0, 1}, {4, 45, 1}, {3, -90, 1}, {4, 0, 1}, {3, 90, 1}, {10, -90, 0.45}, {8, 0, 0.4}};
    int64_t kind = with_round(line) % (int64_t)(sizeof shapes / sizeof shapes[0]);
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
    double points[2 * MAX_CORNERS];
    const struct path_style rim = {.color = 0xFFFFFF}, fill = {.color = COLORS[line % STYLES]};
    frame->canvas->path(frame->canvas, points, mark_corners(line, x, y, MARK_SIZE + 1.5, points), &rim);
    frame->canvas->path(frame->canvas, points, mark_corners(line, x, y, MARK_SIZE, points), &fill);
}

/* The index of the line that determines the style: the line itself, or the line whose companion it is. */
static int64_t style_of(const struct qkv_chart *chart, int64_t index)
{
    int64_t companion_of = chart->lines[index].companion_of;
    return companion_of ? companion_of - 1 : index;
}

/* Fills the area between the two ends of a band. */
static bool draw_band(const struct frame *frame, int64_t index)
{
    const struct qkv_chart_line *line = &frame->chart->lines[index];
    if (!line->low || !line->high || line->count < 2) return true;
    double *points = malloc(sizeof *points * (size_t)(4 * line->count));
    if (!points) return false;
    for (int64_t i = 0; i < line->count; i++) {
        double *high = points + 2 * i, *low = points + 2 * (2 * line->count - 1 - i);
        high[0] = low[0] = x_of(frame, line->x[i]);
        high[1] = y_of(frame, line->high[i]);
        low[1] = y_of(frame, line->low[i]);
    }
    const struct path_style style = {.color = COLORS[style_of(frame->chart, index) % STYLES],
                                     .opacity = BAND_OPACITY};
    frame->canvas->path(frame->canvas, points, 2 * line->count, &style);
    free(points);
    return true;
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
    int64_t like = style_of(frame->chart, index);
    bool is_companion = line->companion_of > 0;
    const struct path_style style = {.color = COLORS[like % STYLES],
                                     .width = is_companion ? 1 : 2,
                                     .dash = is_companion ? 0 : DASHES[with_round(like) % STYLES]};
    frame->canvas->path(frame->canvas, points, line->count, &style);
    for (int64_t i = 0; i < line->count && !line->without_marks && !is_companion; i++)
        draw_mark(frame, index, points[2 * i], points[2 * i + 1]);
    free(points);
    return true;
}

/* Draws a symbol: a star with a white rim, or a ring around a point. */
static void draw_symbol(const struct frame *frame, enum qkv_chart_symbol symbol, double x, double y,
                        uint32_t color)
{
    double points[2 * MAX_CORNERS];
    if (symbol == QKV_CHART_STAR) {
        const struct path_style rim = {.color = 0xFFFFFF}, fill = {.color = color};
        frame->canvas->path(frame->canvas, points, mark_corners(STAR, x, y, 1.9 * MARK_SIZE, points), &rim);
        frame->canvas->path(frame->canvas, points, mark_corners(STAR, x, y, 1.5 * MARK_SIZE, points), &fill);
        return;
    }
    const struct path_style outline = {.color = color, .width = 1.5};
    int64_t corners = mark_corners(CIRCLE, x, y, 2.2 * MARK_SIZE, points);
    points[2 * corners] = points[0];
    points[2 * corners + 1] = points[1];
    frame->canvas->path(frame->canvas, points, corners + 1, &outline);
}

/* ---- the legend ---- */

struct legend_entry {
    enum { ENTRY_LINE, ENTRY_SYMBOL, ENTRY_COMPANION, ENTRY_BAND } kind;
    int64_t index;    /* of the line or symbol */
    const char *text; /* NULL: there is no such entry */
};

/* Returns entry n: lines first, then the meanings of symbols, companions and the band. */
static struct legend_entry legend_entry(const struct qkv_chart *chart, int64_t n)
{
    for (int64_t i = 0; i < chart->line_count; i++)
        if (!chart->lines[i].companion_of && n-- == 0)
            return (struct legend_entry){ENTRY_LINE, i, chart->lines[i].name};
    for (int64_t s = 0; s < QKV_CHART_SYMBOLS; s++)
        if (chart->symbol_meaning[s] && n-- == 0)
            return (struct legend_entry){ENTRY_SYMBOL, s, chart->symbol_meaning[s]};
    if (chart->companion_meaning && n-- == 0)
        return (struct legend_entry){ENTRY_COMPANION, 0, chart->companion_meaning};
    return (struct legend_entry){ENTRY_BAND, 0, n == 0 ? chart->band_meaning : NULL};
}

static double entry_width(const struct legend_entry *entry)
{
    return SAMPLE + 8 + qkv_display_width(entry->text, FONT);
}

static void draw_legend_entry(const struct frame *frame, const struct legend_entry *entry, double left,
                              double y)
{
    const double points[] = {left, y, left + SAMPLE, y};
    const double corners[] = {left, y - 6, left + SAMPLE, y - 6, left + SAMPLE, y + 6, left, y + 6};
    struct path_style style = {.color = soft_ink, .width = 1};
    switch (entry->kind) {
    case ENTRY_LINE:
        style.color = COLORS[entry->index % STYLES];
        style.width = 2;
        style.dash = DASHES[with_round(entry->index) % STYLES];
        frame->canvas->path(frame->canvas, points, 2, &style);
        if (!frame->chart->lines[entry->index].without_marks)
            draw_mark(frame, entry->index, left + SAMPLE / 2, y);
        break;
    case ENTRY_SYMBOL:
        draw_symbol(frame, (enum qkv_chart_symbol)entry->index, left + SAMPLE / 2, y, soft_ink);
        break;
    case ENTRY_COMPANION:
        frame->canvas->path(frame->canvas, points, 2, &style);
        break;
    case ENTRY_BAND:
        style = (struct path_style){.color = soft_ink, .opacity = BAND_OPACITY};
        frame->canvas->path(frame->canvas, corners, 4, &style);
        break;
    }
    draw_text(frame, left + SAMPLE + 8, y, entry->text, ANCHOR_START, 0, ink);
}

/* Draws the legend of a chart in lines of at most `width`, and returns their number; without a canvas it only counts. */
static int64_t draw_legend_lines(const struct frame *frame, double left, double top, double width)
{
    double x = 0, line = 0;
    struct legend_entry entry;
    for (int64_t n = 0; (entry = legend_entry(frame->chart, n)).text; n++) {
        double needed = entry_width(&entry);
        if (x > 0 && x + needed > width) {
            x = 0;
            line++;
        }
        if (frame->canvas) draw_legend_entry(frame, &entry, left + x, top + PITCH * (line + 0.5));
        x += needed + LEGEND_GAP;
    }
    return (int64_t)line + 1;
}

/* ---- charts ---- */

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
    frame->axes = qkv_chart_axes(chart, frame->plot.max_ticks, frame->plot.max_ticks);
    frame->left = left + LABEL_SIZE / 2 + TICK_WIDTH;
    frame->top = top + height_above(chart);
    if (chart->title) {
        const struct text_style bold = {.size = TITLE_FONT, .color = ink, .bold = true};
        frame->canvas->text(frame->canvas, frame->left, top + TITLE_FONT / 2, chart->title, &bold);
    }
    draw_axes(frame);
    draw_vertical_line(frame);
    for (int64_t i = 0; i < chart->line_count; i++)
        if (!draw_band(frame, i)) return false;
    for (int64_t i = 0; i < chart->line_count; i++)
        if (!draw_line(frame, i)) return false;
    for (int64_t i = 0; i < chart->point_count; i++) {
        const struct qkv_chart_point *point = &chart->points[i];
        draw_symbol(frame, point->symbol, x_of(frame, point->x), y_of(frame, point->y),
                    COLORS[point->line % STYLES]);
    }
    return true;
}

static bool draw_chart(const struct qkv_chart *chart, struct canvas *canvas)
{
    struct frame frame = {.chart = chart, .canvas = canvas, .plot = SINGLE};
    double widest = SAMPLE + 8, lines = 0, above = MARGIN + height_above(chart);
    struct legend_entry entry;
    for (int64_t n = 0; (entry = legend_entry(chart, n)).text; n++, lines += PITCH)
        widest = fmax(widest, entry_width(&entry));
    double legend = MARGIN + panel_width(&SINGLE) + LEGEND_GAP;
    double height = fmax(MARGIN + panel_height(chart, &SINGLE), above + lines) + MARGIN;
    if (!canvas->begin(canvas, ceil(legend + widest + MARGIN), ceil(height))) return false;
    if (!draw_panel(&frame, MARGIN, MARGIN)) return false;
    for (int64_t n = 0; (entry = legend_entry(chart, n)).text; n++)
        draw_legend_entry(&frame, &entry, legend, frame.top + PITCH * ((double)n + 0.5));
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
    double left = MARGIN + LABEL_SIZE / 2 + TICK_WIDTH;
    const struct frame measured = {.chart = longest};
    double lines = (double)draw_legend_lines(&measured, left, legend, width - left - MARGIN);
    if (!canvas->begin(canvas, ceil(width), ceil(legend + PITCH * lines + MARGIN))) return false;
    for (int64_t i = 0; i < sheet->count; i++) {
        frame.chart = &sheet->charts[i];
        double column = (double)(i % sheet->columns), row = (double)(i / sheet->columns);
        if (!draw_panel(&frame, MARGIN + column * wide, MARGIN + row * high)) return false;
    }
    frame.chart = longest;
    draw_legend_lines(&frame, left, legend, width - left - MARGIN);
    return true;
}

static bool draw_sheet(const void *what, struct canvas *canvas)
{
    const struct sheet *sheet = what;
    return sheet->count == 1 ? draw_chart(sheet->charts, canvas) : draw_panels(sheet, canvas);
}

/* ---- preparing texts ---- */

static bool show_text(struct qkv_arena *arena, const char **text, double size)
{
    if (!*text) return true;
    *text = qkv_display_line(arena, *text);
    if (*text) *text = qkv_display_cut(arena, *text, size, LONGEST);
    return *text;
}

/* Replaces the texts of a chart by texts to draw, in the arena. False if memory runs out. */
static bool show_texts(struct qkv_arena *arena, struct qkv_chart *chart)
{
    struct qkv_chart_line *lines = qkv_arena_allocate(arena, (size_t)chart->line_count * sizeof *lines);
    bool complete =
        lines && show_text(arena, &chart->title, TITLE_FONT) && show_text(arena, &chart->x_label, FONT) &&
        show_text(arena, &chart->y_label, FONT) && show_text(arena, &chart->vertical_line_label, FONT) &&
        show_text(arena, &chart->companion_meaning, FONT) && show_text(arena, &chart->band_meaning, FONT);
    for (int symbol = 0; complete && symbol < QKV_CHART_SYMBOLS; symbol++)
        complete = show_text(arena, &chart->symbol_meaning[symbol], FONT);
    for (int64_t i = 0; complete && i < chart->line_count; i++) {
        lines[i] = chart->lines[i];
        complete = show_text(arena, &lines[i].name, FONT);
    }
    chart->lines = lines;
    return complete;
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

/* Fails for numbers that no axis can show, and for indices of lines or symbols that do not exist. */
static enum qkv_status check_chart(const struct qkv_chart *chart, const char *path, struct qkv_error *error)
{
    if (chart->line_count < 0 || chart->point_count < 0)
        return qkv_error_set(error, "%s: a chart has %lld lines and %lld points", path,
                             (long long)chart->line_count, (long long)chart->point_count);
    for (int64_t i = 0; i < chart->line_count; i++)
        if (chart->lines[i].count < 0)
            return qkv_error_set(error, "%s: line %lld has %lld points", path, (long long)i,
                                 (long long)chart->lines[i].count);
    double number = qkv_chart_unshown_number(chart);
    if (!(number >= 0 && number <= 0))
        return qkv_error_set(error, "%s: a chart cannot show %g; its numbers are 0 to 1e15", path, number);
    for (int64_t i = 0; i < chart->line_count; i++) {
        int64_t companion_of = chart->lines[i].companion_of;
        if (companion_of < 0 || companion_of > chart->line_count)
            return qkv_error_set(error, "%s: companion_of of line %lld is %lld, but must be 0 to %lld", path,
                                 (long long)i, (long long)companion_of, (long long)chart->line_count);
    }
    for (int64_t i = 0; i < chart->point_count; i++) {
        const struct qkv_chart_point *point = &chart->points[i];
        int symbol = (int)point->symbol;
        if (point->line < 0 || symbol < 0 || symbol >= QKV_CHART_SYMBOLS)
            return qkv_error_set(error, "%s: point %lld is invalid: line %lld, symbol %d", path, (long long)i,
                                 (long long)point->line, symbol);
    }
    return QKV_OK;
}

enum qkv_status qkv_charts_write(const struct qkv_chart *charts, int64_t count, int64_t columns,
                                 const char *path, struct qkv_error *error)
{
    if (count < 1 || columns < 1)
        return qkv_error_set(error, "%s: cannot draw %lld charts in %lld columns", path, (long long)count,
                             (long long)columns);
    for (int64_t i = 0; i < count; i++)
        if (check_chart(&charts[i], path, error)) return QKV_INVALID;
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
