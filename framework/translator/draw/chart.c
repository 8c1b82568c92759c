/* Line charts: one chart, or a sheet of several with one legend; and charts in a terminal. */
#include "draw/chart.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/numbers.h"

#include <math.h>

/* ---- axes, which start at 0 ---- */

struct axes {
    double x_end, y_end;
    double x_tick, y_tick; /* distances of the ticks */
};

/* Returns the smallest distance between ticks, 1, 2, 5 or 10 times a power of ten, that gives at most max_ticks ticks. */
static double tick_distance(double end, int max_ticks)
{
    double power = qkv_scalar_power(10, floor(qkv_scalar_log10(end / max_ticks)));
    const double steps[] = {1, 2, 5, 10};
    int i = 0;
    while (i < 3 && end / (power * steps[i]) > max_ticks) i++;
    return power * steps[i];
}

/* Chooses the axes of a chart, with at most this many ticks after 0. If the chart does not define the end of an axis, it is the
 * first tick at or above all values, also of bands. */
static struct axes axes_of(const struct chart *chart, int max_x_ticks, int max_y_ticks)
{
    double x = 0, y = 0;
    struct axes axes = {.y_end = chart->y_end};
    for (const struct chart_line *line = chart->lines; line < chart->lines + chart->line_count; line++)
        for (int64_t i = 0; i < line->count; i++) {
            x = fmax(x, line->x[i]);
            y = fmax(y, line->high ? fmax(line->y[i], line->high[i]) : line->y[i]);
        }
    if (x <= 1e-15) x = 1;
    if (y <= 1e-15) y = 1;
    axes.x_tick = tick_distance(x, max_x_ticks);
    axes.x_end = axes.x_tick * ceil(x / axes.x_tick - 1e-9);
    axes.y_tick = tick_distance(axes.y_end > 0 ? axes.y_end : y, max_y_ticks);
    if (axes.y_end <= 0) axes.y_end = axes.y_tick * ceil(y / axes.y_tick - 1e-9);
    return axes;
}

/* Formats the number of a tick, with as many decimals as the distance between ticks needs. Returns `text`. */
static const char *tick_text(char text[32], double value, double tick)
{
    qkv_display_number(text, value, tick < 0.999 ? (int)ceil(-qkv_scalar_log10(tick) - 1e-9) : 0);
    return text;
}

/* Refuses the first number that no axis can show, NaN included. path: of the file; NULL: the terminal. */
static enum qkv_status check_numbers(const struct chart *chart, const char *path, struct qkv_error *error)
{
    for (int64_t i = -1; i < chart->line_count; i++) {
        const struct chart_line limit = {.count = 1, .x = &chart->vertical_line, .y = &chart->y_end},
                                *line = i < 0 ? &limit : &chart->lines[i];
        const double *const numbers[] = {line->x, line->y, line->low, line->high};
        for (int64_t j = 0; j < 4 * line->count; j++) {
            const double *number = numbers[j % 4] ? &numbers[j % 4][j / 4] : NULL;
            if (!number || (*number >= 0 && *number <= 1e15)) continue;
            return qkv_error_set(error, "%s%sa chart cannot show %g; its numbers are 0 to 1e15",
                                 path ? path : "", path ? ": " : "", *number);
        }
    }
    return QKV_OK;
}

/* ---- pictures ---- */

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

static const uint32_t ink = 0x222222, soft_ink = 0x666666, pale_ink = 0xE4E4E4;

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

/* The contents of a file: one chart with its legend beside it, or several charts (panels) in `columns`
 * columns with one legend below. */
struct sheet {
    const struct chart *charts;
    int64_t count, columns;
    struct qkv_arena *arena;
    bool *is_memory_out;
};

/* A chart at its place on the canvas. */
struct frame {
    const struct sheet *sheet;
    const struct chart *chart;
    struct canvas *canvas;
    struct plot_size plot;
    double left, top; /* of the plot */
    struct axes axes;
};

/* A text as it is drawn: without what is no text, and cut. "" if memory runs out. */
static const char *shown(const struct frame *frame, const char *text, double size)
{
    struct qkv_arena *arena = frame->sheet->arena;
    text = qkv_display_cut(arena, qkv_display_line(arena, text), size, LONGEST);
    if (!text) *frame->sheet->is_memory_out = true;
    return text ? text : "";
}

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
    frame->canvas->text(frame->canvas, x, y, shown(frame, text, FONT), &style);
}

static void draw_path(const struct frame *frame, const double *points, int64_t count, struct path_style style)
{
    frame->canvas->path(frame->canvas, points, count, &style);
}

static void draw_axes(const struct frame *frame)
{
    const struct chart *chart = frame->chart;
    double bottom = frame->top + frame->plot.height, right = frame->left + frame->plot.width;
    char text[32];
    for (int i = 0; i * frame->axes.y_tick <= frame->axes.y_end * (1 + 1e-9); i++) {
        double y = floor(y_of(frame, i * frame->axes.y_tick));
        frame->canvas->rectangle(frame->canvas, frame->left, y, frame->plot.width, 1, i ? pale_ink : ink,
                                 NULL);
        draw_text(frame, frame->left - 8, y, tick_text(text, i * frame->axes.y_tick, frame->axes.y_tick),
                  ANCHOR_END, 0, ink);
    }
    for (int i = 0; i * frame->axes.x_tick <= frame->axes.x_end * (1 + 1e-9); i++) {
        double x = floor(x_of(frame, i * frame->axes.x_tick));
        frame->canvas->rectangle(frame->canvas, x, bottom, 1, 5, ink, NULL);
        draw_text(frame, x, bottom + 15, tick_text(text, i * frame->axes.x_tick, frame->axes.x_tick),
                  ANCHOR_MIDDLE, 0, ink);
    }
    draw_text(frame, (frame->left + right) / 2, bottom + 36, chart->x_label, ANCHOR_MIDDLE, 0, ink);
    draw_text(frame, frame->left - TICK_WIDTH, (frame->top + bottom) / 2, chart->y_label, ANCHOR_MIDDLE, -90,
              ink);
}

static void draw_vertical_line(const struct frame *frame)
{
    const struct chart *chart = frame->chart;
    if (!(chart->vertical_line > 0) || chart->vertical_line > frame->axes.x_end) return;
    double x = x_of(frame, chart->vertical_line);
    const double points[] = {x, frame->top, x, frame->top + frame->plot.height};
    draw_path(frame, points, 2, (struct path_style){.color = soft_ink, .width = 1, .dash = 2});
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
static void draw_mark(const struct frame *frame, int64_t kind, double x, double y, double size, double rim,
                      uint32_t color)
{
    double points[2 * MAX_CORNERS];
    draw_path(frame, points, mark_corners(kind, x, y, size + rim, points),
              (struct path_style){.color = 0xFFFFFF});
    draw_path(frame, points, mark_corners(kind, x, y, size, points), (struct path_style){.color = color});
}

static void draw_mark_of_line(const struct frame *frame, int64_t line, double x, double y)
{
    draw_mark(frame, line, x, y, MARK_SIZE, 1.5, COLORS[line % STYLES]);
}

static struct path_style style_of(int64_t line)
{
    return (struct path_style){
        .color = COLORS[line % STYLES], .width = 2, .dash = DASHES[with_round(line) % STYLES]};
}

/* Draws a line with its marks or, for a band, fills the area between its two ends. */
static void draw_line(const struct frame *frame, int64_t index, bool of_band)
{
    const struct chart_line *line = &frame->chart->lines[index];
    const int64_t count = line->count;
    if (of_band && (!line->low || !line->high || count < 2)) return;
    double *points = qkv_arena_allocate(frame->sheet->arena, sizeof *points * (size_t)(4 * count + 1));
    if (!points) {
        *frame->sheet->is_memory_out = true;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double *at = points + 2 * i, *back = points + 2 * (2 * count - 1 - i);
        back[0] = x_of(frame, line->x[i]);
        back[1] = of_band ? y_of(frame, line->low[i]) : 0;
        at[0] = x_of(frame, line->x[i]);
        at[1] = y_of(frame, of_band ? line->high[i] : line->y[i]);
    }
    struct path_style style = style_of(line->companion_of ? line->companion_of - 1 : index);
    if (of_band) {
        style = (struct path_style){.color = style.color, .opacity = BAND_OPACITY};
    } else if (line->companion_of) {
        style.width = 1;
        style.dash = 0;
    }
    draw_path(frame, points, of_band ? 2 * count : count, style);
    for (int64_t i = 0; i < count && !of_band && !line->without_marks && !line->companion_of; i++)
        draw_mark_of_line(frame, index, points[2 * i], points[2 * i + 1]);
}

/* Draws a symbol: a star or dot with a white rim, or a ring around a point. */
static void draw_symbol(const struct frame *frame, enum chart_symbol symbol, double x, double y,
                        uint32_t color)
{
    double points[2 * MAX_CORNERS];
    if (symbol != CHART_RING) {
        draw_mark(frame, symbol == CHART_STAR ? STAR : CIRCLE, x, y, 1.5 * MARK_SIZE, 0.4 * MARK_SIZE, color);
        return;
    }
    int64_t corners = mark_corners(CIRCLE, x, y, 2.2 * MARK_SIZE, points);
    points[2 * corners] = points[0];
    points[2 * corners + 1] = points[1];
    draw_path(frame, points, corners + 1, (struct path_style){.color = color, .width = 1.5});
}

/* ---- the legend ---- */

struct legend_entry {
    enum { ENTRY_LINE, ENTRY_SYMBOL, ENTRY_COMPANION, ENTRY_BAND } kind;
    int64_t index;    /* of the line or symbol */
    const char *text; /* NULL: there is no such entry */
};

/* Returns entry n: lines first, then the meanings of symbols, companions and the band. */
static struct legend_entry legend_entry(const struct chart *chart, int64_t n)
{
    for (int64_t i = 0; i < chart->line_count; i++)
        if (!chart->lines[i].companion_of && n-- == 0)
            return (struct legend_entry){ENTRY_LINE, i, chart->lines[i].name};
    for (int64_t s = 0; s < CHART_SYMBOLS; s++)
        if (chart->symbol_meaning[s] && n-- == 0)
            return (struct legend_entry){ENTRY_SYMBOL, s, chart->symbol_meaning[s]};
    if (chart->companion_meaning && n-- == 0)
        return (struct legend_entry){ENTRY_COMPANION, 0, chart->companion_meaning};
    return (struct legend_entry){ENTRY_BAND, 0, n == 0 ? chart->band_meaning : NULL};
}

static void draw_legend_entry(const struct frame *frame, const struct legend_entry *entry, double left,
                              double y)
{
    const double points[] = {left, y, left + SAMPLE, y};
    const double corners[] = {left, y - 6, left + SAMPLE, y - 6, left + SAMPLE, y + 6, left, y + 6};
    if (entry->kind == ENTRY_LINE) {
        draw_path(frame, points, 2, style_of(entry->index));
        if (!frame->chart->lines[entry->index].without_marks)
            draw_mark_of_line(frame, entry->index, left + SAMPLE / 2, y);
    } else if (entry->kind == ENTRY_SYMBOL) {
        draw_symbol(frame, (enum chart_symbol)entry->index, left + SAMPLE / 2, y, soft_ink);
    } else if (entry->kind == ENTRY_COMPANION) {
        draw_path(frame, points, 2, (struct path_style){.color = soft_ink, .width = 1});
    } else {
        draw_path(frame, corners, 4, (struct path_style){.color = soft_ink, .opacity = BAND_OPACITY});
    }
    draw_text(frame, left + SAMPLE + 8, y, entry->text, ANCHOR_START, 0, ink);
}

/* Draws the legend of a chart in lines of at most `width` (0: an entry a line), and returns their number; without a canvas it
 * only measures. Sets *widest to the width of the widest entry. */
static double draw_legend(const struct frame *frame, double left, double top, double width, double *widest)
{
    double x = 0, line = 0;
    struct legend_entry entry;
    *widest = SAMPLE + 8;
    for (int64_t n = 0; (entry = legend_entry(frame->chart, n)).text; n++) {
        double needed = SAMPLE + 8 + qkv_display_width(shown(frame, entry.text, FONT), FONT);
        *widest = fmax(*widest, needed);
        if (x > 0 && x + needed > width) {
            x = 0;
            line++;
        }
        if (frame->canvas) draw_legend_entry(frame, &entry, left + x, top + PITCH * (line + 0.5));
        x += needed + LEGEND_GAP;
    }
    return line + 1;
}

/* ---- charts ---- */

static double height_above(const struct chart *chart)
{
    return (chart->title ? 30 : 0) + (chart->vertical_line > 0 ? 20 : 4);
}

static double panel_height(const struct chart *chart, const struct plot_size *plot)
{
    return height_above(chart) + plot->height + 36 + LABEL_SIZE / 2;
}

/* Draws a chart without its legend; (left, top) is its upper left corner. */
static void draw_panel(struct frame *frame, double left, double top)
{
    const struct chart *chart = frame->chart;
    frame->axes = axes_of(chart, frame->plot.max_ticks, frame->plot.max_ticks);
    frame->left = left + LABEL_SIZE / 2 + TICK_WIDTH;
    frame->top = top + height_above(chart);
    if (chart->title) {
        const struct text_style bold = {.size = TITLE_FONT, .color = ink, .bold = true};
        frame->canvas->text(frame->canvas, frame->left, top + TITLE_FONT / 2,
                            shown(frame, chart->title, TITLE_FONT), &bold);
    }
    draw_axes(frame);
    draw_vertical_line(frame);
    for (int64_t i = 0; i < chart->line_count; i++) draw_line(frame, i, true);
    for (int64_t i = 0; i < chart->line_count; i++) draw_line(frame, i, false);
    for (int64_t i = 0; i < chart->point_count; i++) {
        const struct chart_point *point = &chart->points[i];
        draw_symbol(frame, point->symbol, x_of(frame, point->x), y_of(frame, point->y),
                    COLORS[point->line % STYLES]);
    }
}

static bool draw_sheet(const void *what, struct canvas *canvas)
{
    const struct sheet *sheet = what;
    const bool single = sheet->count == 1;
    const int64_t rows = (sheet->count + sheet->columns - 1) / sheet->columns;
    struct frame frame = {.sheet = sheet, .chart = sheet->charts, .plot = single ? SINGLE : PANEL};
    double wide = LABEL_SIZE / 2 + TICK_WIDTH + frame.plot.width + LEGEND_GAP, high = 0, widest;
    for (int64_t i = 0; i < sheet->count; i++) {
        high = fmax(high, panel_height(&sheet->charts[i], &frame.plot) + PITCH / 2);
        if (sheet->charts[i].line_count > frame.chart->line_count) frame.chart = &sheet->charts[i];
    }
    const struct chart *longest = frame.chart;
    double left = MARGIN + (single ? wide : LABEL_SIZE / 2 + TICK_WIDTH),
           top = MARGIN + (single ? height_above(longest) : (double)rows * high),
           width = MARGIN + (double)sheet->columns * wide, room = single ? 0 : width - left - MARGIN;
    double bottom = top + PITCH * draw_legend(&frame, left, top, room, &widest);
    if (single) {
        width = left + widest + MARGIN;
        bottom = fmax(bottom, MARGIN + panel_height(longest, &frame.plot));
    }
    if (!canvas->begin(canvas, ceil(width), ceil(bottom + MARGIN))) return false;
    frame.canvas = canvas;
    for (int64_t i = 0; i < sheet->count; i++) {
        frame.chart = &sheet->charts[i];
        double column = (double)(i % sheet->columns), row = (double)(i / sheet->columns);
        draw_panel(&frame, MARGIN + column * wide, MARGIN + row * high);
    }
    frame.chart = longest;
    draw_legend(&frame, left, top, room, &widest);
    return true;
}

bool qkv_chart_draw(const struct chart *chart, struct canvas *canvas, double left, double top, double width,
                    double height, struct qkv_arena *arena)
{
    bool is_memory_out = false;
    const struct sheet sheet = {chart, 1, 1, arena, &is_memory_out};
    struct frame frame = {&sheet, chart, canvas, .plot = {width, height, 4}};
    draw_panel(&frame, left - LABEL_SIZE / 2 - TICK_WIDTH, top - height_above(chart));
    return !is_memory_out;
}

enum qkv_status qkv_charts_write(const struct chart *charts, int64_t count, int64_t columns, const char *path,
                                 struct qkv_missing_characters *missing, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct bytes out = {0};
    const struct sheet sheet = {charts, count, columns < count ? columns : count, &arena, &out.failed};
    const char *dot = strrchr(path, '.');
    enum qkv_status status = QKV_OK;
    for (int64_t i = 0; i < count; i++)
        if (check_numbers(&charts[i], path, error)) return QKV_INVALID;
    if (dot && !strcmp(dot, ".png"))
        status = qkv_png_draw(draw_sheet, &sheet, PNG_SCALE, missing, &out, error);
    else if (dot && !strcmp(dot, ".svg"))
        qkv_svg_draw(draw_sheet, &sheet, &out);
    else
        status = qkv_error_set(error, "%s: a chart is written as .svg or .png", path);
    if (!status && out.failed) status = qkv_no_memory(error);
    if (!status) status = qkv_file_write(path, out.data, out.size, error);
    free(out.data);
    qkv_arena_release(&arena);
    return status;
}

/* ---- in a terminal ---- */

enum {
    LABEL = 9,       /* columns of the numbers beside the y axis */
    DOTS_ACROSS = 2, /* of a Braille pattern */
    DOTS_DOWN = 4,
    LETTERS_APART = 24, /* minimal distance in columns between the letters of a line */
};

static const char SYMBOLS[CHART_SYMBOLS] = {[CHART_STAR] = '*', [CHART_RING] = '@', [CHART_DOT] = 'o'};

/* The cells of a chart, [height, width]. */
struct text_grid {
    const struct chart *chart;
    struct axes axes;
    int width, height;
    bool ascii;
    char *letter;        /* 0: none */
    unsigned char *dots; /* Braille: the bits of U+2800 + bits */
};

static double column_of(const struct text_grid *grid, double x)
{
    return x / grid->axes.x_end * (grid->width - 1);
}

static double row_of(const struct text_grid *grid, double y)
{
    return (1 - y / grid->axes.y_end) * (grid->height - 1);
}

static void set_letter(struct text_grid *grid, double column, double row, char letter)
{
    int x = (int)lround(column), y = (int)lround(row);
    if (x >= 0 && x < grid->width && y >= 0 && y < grid->height) grid->letter[y * grid->width + x] = letter;
}

static void set_dot(struct text_grid *grid, double column, double row)
{
    static const unsigned char bits[DOTS_DOWN][DOTS_ACROSS] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    int x = (int)lround((column + 0.5) * DOTS_ACROSS - 0.5), y = (int)lround((row + 0.5) * DOTS_DOWN - 0.5);
    int cell_x = x / DOTS_ACROSS, cell_y = y / DOTS_DOWN;
    if (x < 0 || y < 0 || cell_x >= grid->width || cell_y >= grid->height) return;
    grid->dots[cell_y * grid->width + cell_x] |= bits[y % DOTS_DOWN][x % DOTS_ACROSS];
}

/* The letter of a line, by its number among the lines that are not companions. */
static char letter_of(const struct chart *chart, int64_t index)
{
    int64_t number = 0;
    for (int64_t i = 0; i < index; i++) number += !chart->lines[i].companion_of;
    return (char)("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+#"[number % 64]);
}

static void draw_segment(struct text_grid *grid, double from[2], double to[2], char letter)
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

static void draw_text_line(struct text_grid *grid, int64_t index)
{
    const struct chart_line *line = &grid->chart->lines[index];
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
static void draw_letters(struct text_grid *grid, int64_t index)
{
    const struct chart_line *line = &grid->chart->lines[index];
    double last = INFINITY;
    if (line->companion_of) return;
    for (int64_t i = line->count - 1; i >= 0; i--) {
        double column = column_of(grid, line->x[i]);
        if (last - column < LETTERS_APART) continue;
        set_letter(grid, column, row_of(grid, line->y[i]), letter_of(grid->chart, index));
        last = column;
    }
}

static void append_cell(const struct text_grid *grid, int cell, struct bytes *out)
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
static void append_rows(const struct text_grid *grid, struct bytes *out)
{
    char text[32];
    for (int row = 0; row < grid->height; row++) {
        const char *label = "";
        for (int i = 0; i * grid->axes.y_tick <= grid->axes.y_end * (1 + 1e-9); i++)
            if (lround(row_of(grid, i * grid->axes.y_tick)) == row)
                label = tick_text(text, i * grid->axes.y_tick, grid->axes.y_tick);
        qkv_cell_padded(out, label, LABEL - 1, CELL_RIGHT);
        qkv_bytes_text(out, grid->ascii ? (*label ? " +" : " |") : *label ? " ┤" : " │");
        for (int column = 0; column < grid->width; column++)
            append_cell(grid, row * grid->width + column, out);
        while (out->size && out->data[out->size - 1] == ' ') out->size--;
        qkv_bytes_text(out, "\n");
    }
}

static void append_x_axis(const struct text_grid *grid, struct bytes *out)
{
    char text[32];
    int used = 0;
    qkv_cell_spaces(out, LABEL);
    qkv_bytes_text(out, grid->ascii ? "+" : "└");
    for (int i = 0; i < grid->width; i++) qkv_bytes_text(out, grid->ascii ? "-" : "─");
    qkv_bytes_text(out, "\n");
    for (int i = 0; i * grid->axes.x_tick <= grid->axes.x_end * (1 + 1e-9); i++) {
        tick_text(text, i * grid->axes.x_tick, grid->axes.x_tick);
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

static void append_chart(const struct chart *chart, const struct chart_text *text, struct bytes *out)
{
    struct text_grid grid = {
        .chart = chart, .width = text->width - LABEL - 1, .height = text->height, .ascii = text->ascii};
    if (grid.width < 10) grid.width = 10;
    size_t cells = (size_t)grid.width * (size_t)grid.height;
    grid.axes = axes_of(chart, grid.width / 10, grid.height / 2);
    grid.letter = calloc(cells, 1);
    grid.dots = calloc(cells, 1);
    if (!grid.letter || !grid.dots) {
        out->failed = true;
    } else {
        for (int64_t i = chart->line_count - 1; i >= 0; i--) draw_text_line(&grid, i);
        for (int64_t i = chart->line_count - 1; i >= 0; i--) draw_letters(&grid, i);
        for (int symbol = 0; symbol < CHART_SYMBOLS; symbol++)
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

static void append_legend(const struct chart *chart, bool ascii, struct bytes *out)
{
    for (int64_t i = 0; i < chart->line_count; i++)
        if (!chart->lines[i].companion_of)
            qkv_bytes_format(out, "%c  %s\n", letter_of(chart, i), chart->lines[i].name);
    for (int symbol = 0; symbol < CHART_SYMBOLS; symbol++)
        if (chart->symbol_meaning[symbol])
            qkv_bytes_format(out, "%c  %s\n", SYMBOLS[symbol], chart->symbol_meaning[symbol]);
    if (chart->companion_meaning)
        qkv_bytes_format(out, "%s  %s\n", ascii ? "." : "no letter:", chart->companion_meaning);
}

enum qkv_status qkv_charts_text(const struct chart *charts, int64_t count, const struct chart_text *text,
                                struct bytes *out, struct qkv_error *error)
{
    for (int64_t i = 0; i < count; i++) {
        if (check_numbers(&charts[i], NULL, error)) return QKV_INVALID;
        append_chart(&charts[i], text, out);
        qkv_bytes_text(out, "\n");
    }
    append_legend(&charts[0], text->ascii, out);
    return out->failed ? qkv_no_memory(error) : QKV_OK;
}
