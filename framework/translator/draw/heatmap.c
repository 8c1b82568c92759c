/* Figures of heat maps: drawing what layout.c places. */
#include "draw/heatmap.h"

#include "draw/cells.h"
#include "draw/display_text.h"
#include "draw/layout.h"
#include "qkv/colormap.h"
#include "qkv/scalar_math.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint32_t ink = 0x222222, soft_ink = 0x666666, frame = 0xCCCCCC;

/* If there are more cells than MAX_CELLS, colours are rounded to LEVELS levels above that of 0. */
enum { MAX_CELLS = 6000, LEVELS = 64 };

enum { MAX_STROKES = 64 }; /* of a line of the hatching */

#define HATCHING   6.    /* from one stroke to the next, along an edge */
#define MIN_NUMBER 0.005 /* lower values would be printed as 0.00 */

struct figure {
    const struct heatmap *heatmap;
    struct canvas *canvas;
    struct layout layout;
    struct cell_run *runs; /* NULL: cells are drawn one by one */
};

static uint32_t color_of(const struct figure *figure, double value)
{
    uint32_t color = 0;
    qkv_colormap_color(figure->heatmap->colormap, value / figure->heatmap->maximum, &color);
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
    double y = LAYOUT_MARGIN + LAYOUT_TITLE_PITCH / 2;
    for (int64_t i = 0; i < layout->title_count; i++, y += LAYOUT_TITLE_PITCH)
        draw_text(figure, LAYOUT_MARGIN, y, layout->title[i],
                  (struct text_style){.size = LAYOUT_TITLE_SIZE, .color = ink, .bold = true});
    if (layout->subtitle)
        draw_text(figure, LAYOUT_MARGIN, y, layout->subtitle,
                  (struct text_style){.size = LAYOUT_SMALL_SIZE, .color = soft_ink});
}

/* ---- cells ---- */

/* The cells of one panel. */
struct grid {
    const struct heatmap_panel *panel;
    double left, top;
    int64_t rows, columns;
};

static struct qkv_visible_keys visible_in(const struct grid *grid, int64_t row)
{
    const struct qkv_attention_rule *rule = grid->panel->rule;
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
    const struct group_layout *labels = &figure->layout.groups[grid->panel->group];
    double cell = figure->layout.cell, x = grid->left + cell * (double)column,
           y = grid->top + cell * (double)row, value = grid->panel->values[row * grid->columns + column];
    uint32_t color = color_of(figure, value);
    char number[32], tooltip[512];
    qkv_display_number(number, fmin(fmax(value, 0), 99), 2);
    snprintf(tooltip, sizeof tooltip, "%s → %s: %s", labels->rows.labels[row], labels->columns.labels[column],
             number);
    figure->canvas->rectangle(figure->canvas, x, y, cell, cell, color, tooltip);
    if (figure->heatmap->annotate && value >= MIN_NUMBER)
        draw_text(figure, x + cell / 2, y + cell / 2, number,
                  (struct text_style){.size = 10, .anchor = ANCHOR_MIDDLE, .color = qkv_readable_ink(color)});
}

/* The colour level of a cell, 0 .. LEVELS. */
static int level_of(const struct figure *figure, const struct grid *grid, int64_t row, int64_t column)
{
    double share = grid->panel->values[row * grid->columns + column] / figure->heatmap->maximum;
    return share > 0 ? (int)(fmin(share, 1) * LEVELS + 0.5) : 0;
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
    for (int level = 1; figure->runs && level <= LEVELS; level++) {
        int64_t count = find_runs(figure, grid, level, figure->runs);
        figure->canvas->runs(figure->canvas, grid->left, grid->top, figure->layout.cell, figure->runs, count,
                             color_of(figure, figure->heatmap->maximum * level / LEVELS));
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
    const struct heatmap *heatmap = figure->heatmap;
    int64_t cells = 0, max = 0;
    for (int64_t i = 0; i < heatmap->panel_count; i++) {
        const struct heatmap_group *group = &heatmap->groups[heatmap->panels[i].group];
        int64_t count = group->rows.count * group->columns.count;
        cells += count;
        if (count > max) max = count;
    }
    if (cells <= MAX_CELLS || heatmap->annotate) return true;
    figure->runs = qkv_arena_allocate(heatmap->arena, (size_t)max * sizeof *figure->runs);
    return figure->runs;
}

/* ---- labels ---- */

static void draw_row_labels(const struct figure *figure, const struct line *line, int group)
{
    const struct layout *layout = &figure->layout;
    for (int64_t r = 0; r < figure->heatmap->groups[group].rows.count; r++)
        draw_text(figure, layout->left - LAYOUT_LABEL_GAP, line->top + layout->cell * ((double)r + 0.5),
                  layout->groups[group].rows.labels[r],
                  (struct text_style){.size = layout->font, .anchor = ANCHOR_END, .color = ink});
}

static void draw_column_labels(const struct figure *figure, int group, double left, double bottom)
{
    const struct layout *layout = &figure->layout;
    const struct group_layout *labels = &layout->groups[group];
    bool level = labels->angle == 0;
    for (int64_t c = 0; c < figure->heatmap->groups[group].columns.count; c++)
        draw_text(figure, left + layout->cell * ((double)c + 0.5),
                  bottom + LAYOUT_LABEL_GAP + (level ? layout->font / 2 : 0), labels->columns.labels[c],
                  (struct text_style){.size = layout->font,
                                      .anchor = level ? ANCHOR_MIDDLE : ANCHOR_END,
                                      .angle = labels->angle,
                                      .color = ink});
}

/* Draws the names of both axes once for a block: adjacent lines of one group. */
static void draw_axis_names(const struct figure *figure, int group, double block_top, double bottom,
                            int64_t panels)
{
    const struct layout *layout = &figure->layout;
    const struct heatmap_group *axes = &figure->heatmap->groups[group];
    double panel = layout->cell * (double)axes->columns.count;
    double middle = layout->left + (layout->pitch * (double)(panels - 1) + panel) / 2;
    draw_text(figure, middle,
              bottom + LAYOUT_LABEL_GAP + layout->groups[group].label_height + LAYOUT_AXIS / 2,
              axes->columns.name,
              (struct text_style){.size = LAYOUT_SMALL_SIZE, .anchor = ANCHOR_MIDDLE, .color = soft_ink});
    double labels = layout->left - LAYOUT_LABEL_GAP - layout->label_width;
    draw_text(figure, labels - LAYOUT_AXIS / 2, (block_top + bottom) / 2, axes->rows.name,
              (struct text_style){
                  .size = LAYOUT_SMALL_SIZE, .anchor = ANCHOR_MIDDLE, .angle = -90, .color = soft_ink});
}

static void draw_lines(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    double block_top = layout->lines[0].top;
    int64_t block_panels = 0;
    for (int64_t i = 0; i < layout->line_count; i++) {
        const struct line *line = &layout->lines[i];
        int group = figure->heatmap->panels[line->first].group;
        double bottom = line->top + layout->cell * (double)figure->heatmap->groups[group].rows.count;
        int64_t panels = line->end - line->first;
        if (panels > block_panels) block_panels = panels;
        draw_row_labels(figure, line, group);
        for (int64_t p = 0; p < panels; p++) {
            const struct heatmap_panel *panel = &figure->heatmap->panels[line->first + p];
            double left = layout->left + layout->pitch * (double)p;
            if (!layout->single)
                draw_text(figure, left, line->top - 10, panel->title,
                          (struct text_style){.size = LAYOUT_SMALL_SIZE, .color = ink});
            draw_cells(figure, &(struct grid){.panel = panel,
                                              .left = left,
                                              .top = line->top,
                                              .rows = figure->heatmap->groups[group].rows.count,
                                              .columns = figure->heatmap->groups[group].columns.count});
            draw_column_labels(figure, group, left, bottom);
        }
        if (!line->ends_block) continue;
        draw_axis_names(figure, group, block_top, bottom, block_panels);
        if (i + 1 < layout->line_count) block_top = layout->lines[i + 1].top;
        block_panels = 0;
    }
}

/* Draws the colour bar as overlapping rectangles, which leave no gaps. */
static void draw_bar(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    double maximum = figure->heatmap->maximum, tick = figure->heatmap->tick;
    double left = layout->bar_left, top = layout->lines[0].top, height = layout->bar_height;
    enum { STEPS = 128 };
    figure->canvas->rectangle(figure->canvas, left - 1, top - 1, LAYOUT_BAR_WIDTH + 2, height + 2, frame,
                              NULL);
    for (int i = 0; i < STEPS; i++) {
        double y = top + floor(height * i / STEPS);
        double value = maximum * (STEPS - 0.5 - i) / STEPS;
        figure->canvas->rectangle(figure->canvas, left, y, LAYOUT_BAR_WIDTH, top + height - y,
                                  color_of(figure, value), NULL);
    }
    int digits = tick < 0.0999 ? (int)ceil(-qkv_scalar_log10(tick) - 1e-9) : 1;
    for (int i = 0; i * tick <= maximum * (1 + 1e-9); i++) {
        double y = top + height * (1 - i * tick / maximum);
        char text[32];
        qkv_display_number(text, i * tick, digits);
        double tick_top = fmin(floor(y), top + height - 1);
        figure->canvas->rectangle(figure->canvas, left + LAYOUT_BAR_WIDTH + 1, tick_top, 4, 1, ink, NULL);
        draw_text(figure, left + LAYOUT_BAR_WIDTH + 9, tick_top + 0.5, text,
                  (struct text_style){.size = LAYOUT_SMALL_SIZE, .color = ink});
    }
    draw_text(figure, left + LAYOUT_BAR_WIDTH + 50, top + height / 2, figure->heatmap->value_name,
              (struct text_style){
                  .size = LAYOUT_SMALL_SIZE, .anchor = ANCHOR_MIDDLE, .angle = -90, .color = soft_ink});
}

bool qkv_heatmap_draw(const void *picture, struct canvas *canvas)
{
    const struct heatmap *heatmap = picture;
    struct figure figure = {.heatmap = heatmap, .canvas = canvas};
    if (!qkv_layout_compute(&figure.layout, heatmap) || !choose_runs(&figure)) return false;
    if (!canvas->begin(canvas, figure.layout.width, figure.layout.height)) return false;
    draw_heading(&figure);
    draw_lines(&figure);
    draw_bar(&figure);
    return true;
}

double qkv_heatmap_maximum(double wanted, double largest, double *tick)
{
    double end = wanted > 0 ? wanted : largest;
    if (!(end > 0) || !isfinite(end)) end = 1;
    double step = end / 5, power = qkv_scalar_power(10, floor(qkv_scalar_log10(step) + 1e-9)),
           digit = step / power; /* 1 to 10 */
    *tick = power * (digit < 1 + 1e-9 ? 1 : digit < 2 + 1e-9 ? 2 : digit < 5 + 1e-9 ? 5 : 10);
    return wanted > 0 ? end : *tick * ceil(end / *tick - 1e-9);
}
