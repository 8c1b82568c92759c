/* Draws attention maps as a figure of heat maps, as vector graphics or pixels. Maps (panels) are arranged in lines, share the
 * labels of their rows and columns, and have one colour bar. Cells that a rule hides are hatched. In a figure of many cells,
 * colours are rounded and cells have no tooltips, because the file would otherwise have several megabytes.
 *
 *     title, in lines
 *     subtitle
 *               title              title
 *     r   labels [panel]            [panel]            [colour bar] value name
 *     o   ...
 *     w         title              title
 *     s   labels [panel]            [panel]
 *               column labels      column labels
 *                          columns
 */
#include "core/memory.h"
#include "core/numbers.h"
#include "draw/picture.h"
#include "graph/attention_rule.h"
#include "report/writer.h"

#include <math.h>
#include <utf8proc.h>

static const uint32_t ink = 0x222222, soft_ink = 0x666666, frame = 0xCCCCCC;

/* If there are more cells than MAX_CELLS, colours are rounded to LEVELS levels above that of 0, and as many below. */
enum { MAX_CELLS = 6000, LEVELS = 64 };

enum { MAX_STROKES = 64 }; /* of a line of the hatching */

#define HATCHING      6.         /* from one stroke to the next, along an edge */
#define MIN_NUMBER    0.005      /* lower values would be printed as 0.00 */
#define LONGEST_LABEL 150.       /* width; longer labels are cut */
#define MIN_WIDTH     420.       /* of the figure, so that the title has space */
#define SINE          0.70710678 /* of 45 degrees */

#define MARGIN      16.
#define GAP         20. /* between panels */
#define LABEL_GAP   6.  /* between a label and its row or column */
#define AXIS        20. /* space for the name of an axis */
#define TITLE_SIZE  14.
#define TITLE_PITCH 20. /* from one line of the title to the next */
#define SMALL_SIZE  11.
#define BAR_WIDTH   16.

enum { MAX_TITLE_LINES = 4 };

/* Maximal number of panels in a line: heads of one layer, or layers if each has only one map. */
enum { MAX_HEADS = 16, MAX_LAYERS = 4 };

/* ---- positions ---- */

/* One axis of the maps of a kind of attention. */
struct axis {
    const char *name;
    const char **labels; /* [count]: cut to fit */
    int64_t count;
    double width; /* of the longest label */
};

/* The axes that all maps of a kind share; without rows: there are no such maps. */
struct axes {
    struct axis rows, columns;
    double angle;        /* of the column labels: 0, -45 or -90 */
    double label_height; /* of the column labels, which are below the cells */
};

/* Panels side by side: first .. end - 1, all of one kind. */
struct line {
    int64_t first, end;
    double top;      /* of the cells */
    bool ends_block; /* the next line belongs to another kind, or there is none */
};

struct layout {
    struct axes axes[QKV_ATTENTION_KINDS];
    const char **panel_titles; /* [map_count]; not drawn if there is only one map */
    struct line *lines;
    int64_t line_count;
    const char **title;
    int64_t title_count;
    const char *subtitle; /* NULL: none */
    bool single;          /* the figure has one panel: larger cells, no title above the panel */
    double cell, font;    /* side of a cell, size of labels */
    double pitch;         /* from one panel of a line to the next */
    double left;          /* of the first panel of each line */
    double label_width;   /* of the widest row label of any kind */
    double bar_left, bar_height;
    double width, height;
};

struct figure {
    const struct format_job *job;
    const struct qkv_attention_report *report;
    struct canvas *canvas;
    double maximum, tick; /* of the colour bar */
    struct layout layout;
    struct cell_run *runs; /* NULL: cells are drawn one by one */
};

static const struct axes *axes_of(const struct figure *figure, int64_t panel)
{
    return &figure->layout.axes[figure->report->maps[panel].kind];
}

static bool read_axis(struct axis *axis, struct qkv_arena *arena, const char *name, const char *const *tokens,
                      int64_t count, double font)
{
    *axis = (struct axis){.name = name, .count = count};
    axis->labels = qkv_arena_array(arena, count, sizeof *axis->labels);
    for (int64_t i = 0; axis->labels && i < count; i++) {
        axis->labels[i] = qkv_display_cut(arena, qkv_display_token(arena, tokens[i]), font, LONGEST_LABEL);
        if (!axis->labels[i]) return false;
        axis->width = fmax(axis->width, qkv_display_width(axis->labels[i], font));
    }
    return axis->labels;
}

/* Chooses the side of a cell: larger for a single panel, and large enough for a number if cells have one.
 * It is always an integer, so that edges are sharp. */
static void choose_cell(struct figure *figure)
{
    struct layout *layout = &figure->layout;
    int64_t longest = 1;
    for (int64_t i = 0; i < figure->report->map_count; i++) {
        if (figure->report->maps[i].rows > longest) longest = figure->report->maps[i].rows;
        if (figure->report->maps[i].columns > longest) longest = figure->report->maps[i].columns;
    }
    double extent = layout->single ? 640 : 260, min = layout->single ? 15 : 13,
           max = layout->single ? 38 : 28;
    layout->cell = floor(fmin(fmax(extent / (double)longest, min), max));
    if (figure->job->options.annotate) layout->cell = fmax(layout->cell, 34);
    layout->font = fmin(fmax(layout->cell * 0.62, 8.5), 13);
}

/* Reads the axes of the kind of a map. */
static bool read_axes(struct figure *figure, const struct qkv_attention_map *map)
{
    const struct qkv_attention_report *report = figure->report;
    struct layout *layout = &figure->layout;
    struct axes *axes = &layout->axes[map->kind];
    struct qkv_arena *arena = figure->job->arena;
    bool cross = map->kind == QKV_ATTENTION_CROSS;
    const char *row = cross ? "target (output)" : "query", *column = cross ? "source" : "key";
    if (axes->rows.count) return true; /* those of an earlier map */
    if (!read_axis(&axes->rows, arena, report->row_axis ? report->row_axis : row,
                   qkv_attention_row_tokens(report, map->kind), map->rows, layout->font) ||
        !read_axis(&axes->columns, arena, report->column_axis ? report->column_axis : column,
                   qkv_attention_column_tokens(report, map->kind), map->columns, layout->font))
        return false;
    double width = axes->columns.width;
    if (width <= layout->cell - 2) {
        axes->angle = 0;
        axes->label_height = layout->font;
    } else if (layout->cell >= 16) { /* in smaller cells, slanted labels of columns would touch */
        axes->angle = -45;
        axes->label_height = (width + layout->font / 2) * SINE;
    } else {
        axes->angle = -90;
        axes->label_height = width;
    }
    return true;
}

/* Puts the heads of each layer into a line; all layers of a kind into one line if each has only one map. */
static bool break_lines(struct figure *figure)
{
    const struct qkv_attention_map *maps = figure->report->maps;
    struct layout *layout = &figure->layout;
    int64_t count = figure->report->map_count;
    layout->lines = qkv_arena_array(figure->job->arena, count, sizeof *layout->lines);
    if (!layout->lines) return false;
    for (int64_t first = 0, end; first < count; first = end) {
        bool line_per_layer = false;
        for (int64_t i = first + 1; i < count && maps[i].kind == maps[first].kind; i++)
            line_per_layer = line_per_layer || maps[i].layer == maps[i - 1].layer;
        int64_t most = line_per_layer ? MAX_HEADS : MAX_LAYERS;
        end = first + 1;
        while (end < count && maps[end].kind == maps[first].kind &&
               (!line_per_layer || maps[end].layer == maps[first].layer))
            end++;
        int64_t lines = (end - first + most - 1) / most;
        int64_t per_line = (end - first + lines - 1) / lines;
        for (int64_t at = first; at < end; at += per_line)
            layout->lines[layout->line_count++] =
                (struct line){.first = at, .end = at + per_line < end ? at + per_line : end};
    }
    for (int64_t i = 0; i < layout->line_count; i++)
        layout->lines[i].ends_block =
            i + 1 == layout->line_count ||
            maps[layout->lines[i].first].kind != maps[layout->lines[i + 1].first].kind;
    return true;
}

/* Sets the horizontal positions. The pitch is at least the width of a panel and of its title; left
 * of the first panel there is space for row labels and for slanted labels of columns, whose lower
 * ends reach to the left. */
static void place_columns(struct figure *figure)
{
    struct layout *layout = &figure->layout;
    double left = 0, panel = 0, labels = 0;
    int64_t max = 1;
    for (const struct axes *axes = layout->axes; axes < layout->axes + QKV_ATTENTION_KINDS; axes++) {
        panel = fmax(panel, layout->cell * (double)axes->columns.count);
        labels = fmax(labels, axes->rows.width);
        for (int64_t c = 0; axes->angle < 0 && axes->angle > -90 && c < axes->columns.count; c++)
            left = fmax(left, qkv_display_width(axes->columns.labels[c], layout->font) * SINE -
                                  layout->cell * ((double)c + 0.5));
    }
    for (int64_t i = 0; i < layout->line_count; i++)
        if (layout->lines[i].end - layout->lines[i].first > max)
            max = layout->lines[i].end - layout->lines[i].first;
    for (int64_t i = 0; !layout->single && i < figure->report->map_count; i++)
        panel = fmax(panel, qkv_display_width(layout->panel_titles[i], SMALL_SIZE));
    layout->pitch = ceil(panel + GAP);
    layout->left = ceil(MARGIN + fmax(AXIS + labels + LABEL_GAP, left));
    layout->label_width = labels;
    layout->bar_left = layout->left + layout->pitch * (double)max + 4;
    layout->width = ceil(layout->bar_left + BAR_WIDTH + 58 + MARGIN);
    if (layout->width < MIN_WIDTH) {
        double extra = floor((MIN_WIDTH - layout->width) / 2);
        layout->left += extra;
        layout->bar_left += extra;
        layout->width = MIN_WIDTH;
    }
}

/* Returns the end of the line of the title that starts at `text`: after the last space or wide character that
 * fits, or within a word that is too long for a line. */
static const char *line_end(const char *text, double width)
{
    const char *end = qkv_display_fitting(text, 1.06 * TITLE_SIZE, width), *last_break = NULL; /* bold */
    if (end == text) qkv_utf8_next(&end);
    if (!*end) return end;
    for (const char *at = text; at < end;) {
        uint32_t point = qkv_utf8_next(&at);
        if (point == ' ' || utf8proc_charwidth((utf8proc_int32_t)point) == 2) last_break = at;
    }
    return last_break ? last_break : end;
}

static bool break_title(struct figure *figure)
{
    struct layout *layout = &figure->layout;
    struct qkv_arena *arena = figure->job->arena;
    const char *rest = figure->report->title ? qkv_display_line(arena, figure->report->title) : "";
    double width = layout->width - 2 * MARGIN;
    layout->title = qkv_arena_allocate(arena, MAX_TITLE_LINES * sizeof *layout->title);
    if (!rest || !layout->title) return false;
    while (*rest && layout->title_count < MAX_TITLE_LINES) {
        const char *end = line_end(rest, width);
        bool last = layout->title_count == MAX_TITLE_LINES - 1 && *end;
        const char *line = last ? qkv_display_cut(arena, rest, 1.06 * TITLE_SIZE, width)
                                : qkv_arena_format(arena, "%.*s", (int)(end - rest), rest);
        if (!line) return false;
        layout->title[layout->title_count++] = line;
        rest = end;
    }
    return true;
}

/* Names the panels, and sets the subtitle: what is shown (report->name or the kind of attention), and the model. A report with
 * maps of several kinds names them in the titles of the panels; without a model it has no subtitle. False if memory runs
 * out. */
static bool name_panels(struct figure *figure)
{
    const struct qkv_attention_report *report = figure->report;
    struct qkv_arena *arena = figure->job->arena;
    struct layout *layout = &figure->layout;
    bool mixed = report->maps[0].kind != report->maps[report->map_count - 1].kind;
    layout->panel_titles = qkv_arena_array(arena, report->map_count, sizeof *layout->panel_titles);
    if (!layout->panel_titles) return false;
    for (int64_t i = 0; i < report->map_count; i++) {
        layout->panel_titles[i] = qkv_report_map_title(arena, &report->maps[i], mixed);
        if (!layout->panel_titles[i]) return false;
    }
    const char *name = report->name;
    if (report->map_count == 1)
        name = qkv_report_map_title(arena, &report->maps[0], true);
    else if (!name && !mixed)
        name = qkv_arena_format(arena, "%s attention", qkv_attention_kind_name(report->maps[0].kind));
    layout->subtitle = name && report->model ? qkv_arena_format(arena, "%s · %s", name, report->model)
                       : name                ? name
                                             : report->model;
    if (!layout->subtitle) return mixed && !report->model;
    layout->subtitle = qkv_display_line(arena, layout->subtitle);
    return layout->subtitle;
}

static void place_lines(struct figure *figure)
{
    struct layout *layout = &figure->layout;
    double y = MARGIN + TITLE_PITCH * (double)layout->title_count;
    if (layout->subtitle) y += 18;
    if (layout->title_count || layout->subtitle) y += 10;
    for (int64_t i = 0; i < layout->line_count; i++) {
        struct line *line = &layout->lines[i];
        const struct axes *axes = axes_of(figure, line->first);
        if (!layout->single) y += 20;
        line->top = ceil(y);
        y = line->top + layout->cell * (double)axes->rows.count;
        layout->bar_height = fmin(y - layout->lines[0].top, 360);
        y += LABEL_GAP + axes->label_height + 8;
        if (line->ends_block) y += AXIS;
    }
    layout->height = ceil(y + MARGIN - 8);
}

/* Computes the layout. False if memory runs out. */
static bool compute_layout(struct figure *figure)
{
    const struct qkv_attention_report *report = figure->report;
    struct layout *layout = &figure->layout;
    layout->single = report->map_count == 1;
    choose_cell(figure);
    for (int64_t i = 0; i < report->map_count; i++)
        if (!read_axes(figure, &report->maps[i])) return false;
    if (!break_lines(figure) || !name_panels(figure)) return false;
    place_columns(figure);
    if (!break_title(figure)) return false;
    double width = layout->width - 2 * MARGIN;
    if (layout->subtitle)
        layout->subtitle = qkv_display_cut(figure->job->arena, layout->subtitle, SMALL_SIZE, width);
    place_lines(figure);
    return true;
}

/* ---- drawing ---- */

static uint32_t color_of(const struct figure *figure, double value)
{
    uint32_t color = 0;
    qkv_colormap_color(figure->job->options.colormap, value / figure->maximum, &color);
    return color;
}

static void draw_text(const struct figure *figure, double x, double y, const char *text,
                      struct text_style style)
{
    figure->canvas->text(figure->canvas, x, y, text, &style);
}

static void draw_heading(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    double y = MARGIN + TITLE_PITCH / 2;
    for (int64_t i = 0; i < layout->title_count; i++, y += TITLE_PITCH)
        draw_text(figure, MARGIN, y, layout->title[i],
                  (struct text_style){.size = TITLE_SIZE, .color = ink, .bold = true});
    if (layout->subtitle)
        draw_text(figure, MARGIN, y, layout->subtitle,
                  (struct text_style){.size = SMALL_SIZE, .color = soft_ink});
}

/* ---- cells ---- */

/* The cells of one panel. */
struct grid {
    const struct qkv_attention_map *map;
    double left, top;
    int64_t rows, columns;
};

static struct qkv_visible_keys visible_in(const struct grid *grid, int64_t row)
{
    const struct qkv_attention_rule *rule = grid->map->rule;
    if (!rule) return (struct qkv_visible_keys){0, 0, grid->columns};
    return qkv_attention_visible(rule, grid->columns - grid->rows + row, grid->columns);
}

/* Hatches the grid except for its visible cells. The hatching is a single line of strokes that alternately go down to the left
 * and up to the right; between strokes, it follows the edges. */
static void draw_hatching(const struct figure *figure, const struct grid *grid)
{
    struct canvas *canvas = figure->canvas;
    const double cell = figure->layout.cell, width = cell * (double)grid->columns,
                 height = cell * (double)grid->rows;
    const int64_t strokes = (int64_t)((width + height) / HATCHING);
    for (int64_t first = 0; first < strokes; first += MAX_STROKES) {
        double points[4 * (MAX_STROKES + 1)];
        int64_t count = 0;
        for (int64_t i = first; i <= first + MAX_STROKES && i < strokes; i++) {
            double at = HATCHING * ((double)i + 0.5), right = fmin(at, width), bottom = fmin(at, height);
            const double upper[] = {grid->left + right, grid->top + at - right},
                         lower[] = {grid->left + at - bottom, grid->top + bottom};
            memcpy(points + 2 * count++, i % 2 ? lower : upper, sizeof upper);
            memcpy(points + 2 * count++, i % 2 ? upper : lower, sizeof lower);
        }
        canvas->path(canvas, points, count, &(struct path_style){.color = frame, .width = 1});
    }
    for (int64_t row = 0; row < grid->rows; row++) {
        struct qkv_visible_keys seen = visible_in(grid, row);
        const struct cell_run runs[] = {{row, 0, seen.global_end}, {row, seen.from, seen.to - seen.from}};
        for (int i = 0; i < 2; i++)
            canvas->runs(canvas, grid->left, grid->top, cell, &runs[i], runs[i].length > 0,
                         color_of(figure, 0));
    }
}

/* Fills the grid with the colour of 0; cells of keys that are hidden from their row are hatched instead. */
static void draw_ground(const struct figure *figure, const struct grid *grid)
{
    struct canvas *canvas = figure->canvas;
    const double cell = figure->layout.cell, width = cell * (double)grid->columns,
                 height = cell * (double)grid->rows;
    bool hides = false;
    for (int64_t row = 0; row < grid->rows && !hides; row++)
        hides = qkv_visible_count(visible_in(grid, row)) < grid->columns;
    /* The frame makes the edges of white cells visible. */
    canvas->rectangle(canvas, grid->left - 1, grid->top - 1, width + 2, height + 2, frame, NULL);
    canvas->rectangle(canvas, grid->left, grid->top, width, height, hides ? 0xFFFFFF : color_of(figure, 0),
                      NULL);
    if (hides) draw_hatching(figure, grid);
}

static void draw_cell(const struct figure *figure, const struct grid *grid, int64_t row, int64_t column)
{
    const struct axes *axes = &figure->layout.axes[grid->map->kind];
    double cell = figure->layout.cell, x = grid->left + cell * (double)column,
           y = grid->top + cell * (double)row, value = grid->map->weights[row * grid->columns + column];
    uint32_t color = color_of(figure, value);
    char number[32], tooltip[512];
    qkv_display_number(number, fmin(fmax(value, -99), 99), 2);
    snprintf(tooltip, sizeof tooltip, "%s → %s: %s", axes->rows.labels[row], axes->columns.labels[column],
             number);
    figure->canvas->rectangle(figure->canvas, x, y, cell, cell, color, tooltip);
    if (figure->job->options.annotate && fabs(value) >= MIN_NUMBER)
        draw_text(figure, x + cell / 2, y + cell / 2, number,
                  (struct text_style){.size = 10, .anchor = ANCHOR_MIDDLE, .color = qkv_readable_ink(color)});
}

/* The colour level of a cell, -LEVELS .. LEVELS. */
static int level_of(const struct figure *figure, const struct grid *grid, int64_t row, int64_t column)
{
    double share = grid->map->weights[row * grid->columns + column] / figure->maximum;
    return (int)lround(fmin(fmax(share, -1), 1) * LEVELS);
}

/* Finds the runs of cells of one level; `runs` has room for one run per cell. Returns their number. */
static int64_t find_runs(const struct figure *figure, const struct grid *grid, int level,
                         struct cell_run *runs)
{
    int64_t count = 0;
    for (int64_t row = 0; row < grid->rows; row++)
        for (int64_t column = 0, end; column < grid->columns; column = end) {
            bool found = level_of(figure, grid, row, column) == level;
            for (end = column + 1; found && end < grid->columns; end++)
                if (level_of(figure, grid, row, end) != level) break;
            if (found) runs[count++] = (struct cell_run){row, column, end - column};
        }
    return count;
}

static void draw_cells(const struct figure *figure, const struct grid *grid)
{
    draw_ground(figure, grid);
    for (int level = -LEVELS; figure->runs && level <= LEVELS; level++) {
        if (!level) continue;
        int64_t count = find_runs(figure, grid, level, figure->runs);
        figure->canvas->runs(figure->canvas, grid->left, grid->top, figure->layout.cell, figure->runs, count,
                             color_of(figure, figure->maximum * level / LEVELS));
    }
    for (int64_t row = 0; row < grid->rows && !figure->runs; row++) {
        struct qkv_visible_keys seen = visible_in(grid, row);
        for (int64_t column = 0; column < grid->columns; column++)
            if (qkv_is_visible(seen, column)) draw_cell(figure, grid, row, column);
    }
}

/* Decides whether cells are drawn one by one, with tooltips, or as runs. Allocates figure->runs in the second case. False if
 * memory runs out. */
static bool choose_runs(struct figure *figure)
{
    int64_t cells = 0, max = 0;
    for (int64_t i = 0; i < figure->report->map_count; i++) {
        int64_t count = figure->report->maps[i].rows * figure->report->maps[i].columns;
        cells += count;
        if (count > max) max = count;
    }
    if (cells <= MAX_CELLS || figure->job->options.annotate) return true;
    figure->runs = qkv_arena_array(figure->job->arena, max, sizeof *figure->runs);
    return figure->runs;
}

/* ---- labels ---- */

static void draw_row_labels(const struct figure *figure, const struct line *line, const struct axis *rows)
{
    const struct layout *layout = &figure->layout;
    for (int64_t r = 0; r < rows->count; r++)
        draw_text(figure, layout->left - LABEL_GAP, line->top + layout->cell * ((double)r + 0.5),
                  rows->labels[r],
                  (struct text_style){.size = layout->font, .anchor = ANCHOR_END, .color = ink});
}

static void draw_column_labels(const struct figure *figure, const struct axes *axes, double left,
                               double bottom)
{
    const struct layout *layout = &figure->layout;
    bool level = axes->angle == 0;
    for (int64_t c = 0; c < axes->columns.count; c++)
        draw_text(figure, left + layout->cell * ((double)c + 0.5),
                  bottom + LABEL_GAP + (level ? layout->font / 2 : 0), axes->columns.labels[c],
                  (struct text_style){.size = layout->font,
                                      .anchor = level ? ANCHOR_MIDDLE : ANCHOR_END,
                                      .angle = axes->angle,
                                      .color = ink});
}

/* Draws the names of both axes once for a block: adjacent lines of one kind. */
static void draw_axis_names(const struct figure *figure, const struct axes *axes, double block_top,
                            double bottom, int64_t panels)
{
    const struct layout *layout = &figure->layout;
    double panel = layout->cell * (double)axes->columns.count;
    double middle = layout->left + (layout->pitch * (double)(panels - 1) + panel) / 2;
    draw_text(figure, middle, bottom + LABEL_GAP + axes->label_height + AXIS / 2, axes->columns.name,
              (struct text_style){.size = SMALL_SIZE, .anchor = ANCHOR_MIDDLE, .color = soft_ink});
    double labels = layout->left - LABEL_GAP - layout->label_width;
    draw_text(
        figure, labels - AXIS / 2, (block_top + bottom) / 2, axes->rows.name,
        (struct text_style){.size = SMALL_SIZE, .anchor = ANCHOR_MIDDLE, .angle = -90, .color = soft_ink});
}

static void draw_lines(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    double block_top = layout->lines[0].top;
    int64_t block_panels = 0;
    for (int64_t i = 0; i < layout->line_count; i++) {
        const struct line *line = &layout->lines[i];
        const struct axes *axes = axes_of(figure, line->first);
        double bottom = line->top + layout->cell * (double)axes->rows.count;
        int64_t panels = line->end - line->first;
        if (panels > block_panels) block_panels = panels;
        draw_row_labels(figure, line, &axes->rows);
        for (int64_t p = 0; p < panels; p++) {
            const struct qkv_attention_map *map = &figure->report->maps[line->first + p];
            double left = layout->left + layout->pitch * (double)p;
            if (!layout->single)
                draw_text(figure, left, line->top - 10, layout->panel_titles[line->first + p],
                          (struct text_style){.size = SMALL_SIZE, .color = ink});
            draw_cells(figure, &(struct grid){map, left, line->top, map->rows, map->columns});
            draw_column_labels(figure, axes, left, bottom);
        }
        if (!line->ends_block) continue;
        draw_axis_names(figure, axes, block_top, bottom, block_panels);
        if (i + 1 < layout->line_count) block_top = layout->lines[i + 1].top;
        block_panels = 0;
    }
}

/* Draws the colour bar as overlapping rectangles, which leave no gaps. */
static void draw_bar(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    double maximum = figure->maximum, tick = figure->tick;
    double left = layout->bar_left, top = layout->lines[0].top, height = layout->bar_height;
    enum { STEPS = 128 };
    figure->canvas->rectangle(figure->canvas, left - 1, top - 1, BAR_WIDTH + 2, height + 2, frame, NULL);
    for (int i = 0; i < STEPS; i++) {
        double y = top + floor(height * i / STEPS);
        double value = maximum * (STEPS - 0.5 - i) / STEPS;
        figure->canvas->rectangle(figure->canvas, left, y, BAR_WIDTH, top + height - y,
                                  color_of(figure, value), NULL);
    }
    int digits = tick < 0.0999 ? (int)ceil(-qkv_scalar_log10(tick) - 1e-9) : 1;
    for (int i = 0; i * tick <= maximum * (1 + 1e-9); i++) {
        double y = top + height * (1 - i * tick / maximum);
        char text[32];
        qkv_display_number(text, i * tick, digits);
        double tick_top = fmin(floor(y), top + height - 1);
        figure->canvas->rectangle(figure->canvas, left + BAR_WIDTH + 1, tick_top, 4, 1, ink, NULL);
        draw_text(figure, left + BAR_WIDTH + 9, tick_top + 0.5, text,
                  (struct text_style){.size = SMALL_SIZE, .color = ink});
    }
    draw_text(
        figure, left + BAR_WIDTH + 50, top + height / 2, qkv_report_value_name(figure->report),
        (struct text_style){.size = SMALL_SIZE, .anchor = ANCHOR_MIDDLE, .angle = -90, .color = soft_ink});
}

/* Draws a struct format_job. */
static bool draw(const void *picture, struct canvas *canvas)
{
    const struct format_job *job = picture;
    struct figure figure = {.job = job, .report = job->report, .canvas = canvas};
    figure.maximum = qkv_report_color_maximum(job, &figure.tick);
    if (!compute_layout(&figure) || !choose_runs(&figure)) return false;
    if (!canvas->begin(canvas, figure.layout.width, figure.layout.height)) return false;
    draw_heading(&figure);
    draw_lines(&figure);
    draw_bar(&figure);
    return true;
}

static enum qkv_status write_svg(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    (void)error;
    qkv_svg_draw(draw, job, out);
    return QKV_OK;
}

static enum qkv_status write_png(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    return qkv_png_draw(draw, job, job->options.scale, job->options.missing, out, error);
}

static enum qkv_status write_pdf(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    return qkv_pdf_draw(draw, job, job->options.missing, out, error);
}

const struct qkv_format_writer qkv_writer_svg = {
    .format = {"svg", "svg", "heat maps that scale, with the weight under the pointer", QKV_FORMAT_PICTURE},
    .write_maps = write_svg,
};

const struct qkv_format_writer qkv_writer_png = {
    .format = {"png", "png", "heat maps as pixels", QKV_FORMAT_PICTURE, .binary = true},
    .write_maps = write_png,
};

const struct qkv_format_writer qkv_writer_pdf = {
    .format = {"pdf", "pdf", "heat maps on one page, for papers and slides", QKV_FORMAT_PICTURE,
               .binary = true},
    .write_maps = write_pdf,
};
