/* Draws attention maps as a figure of heat maps, as vector graphics or pixels. The maps (panels) of a kind of attention are a
 * block of lines, and share the labels of their rows and columns; blocks are placed so that the figure fills a page of 16:9. They
 * have one colour bar, with a chart on its right if there is one. Cells that a rule hides are hatched. In a figure of many cells,
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
#define CHART_WIDTH 260. /* of the plot of a chart */

enum { MAX_TITLE_LINES = 4 };

/* Maximal number of panels in a line, if there is one kind: heads of one layer, or layers if each has only one map. */
enum { MAX_HEADS = 16, MAX_LAYERS = 4 };

enum { MAX_CHOSEN = 6 }; /* blocks whose places are chosen: three kinds, random and learned */

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

/* Adjacent maps of one kind, first .. end - 1, in lines of `columns` panels. */
struct block {
    int64_t first, end, columns;
    int64_t heads;            /* of a layer */
    double left, top;         /* of the cells of the first panel */
    double before;            /* space for labels on the left of the cells */
    double cells;             /* height of a panel */
    double pitch, line_pitch; /* from one panel to the next, and from one line to the next */
};

struct layout {
    struct axes axes[QKV_ATTENTION_KINDS];
    const char **panel_titles; /* [map_count]; not drawn if there is only one map */
    struct block *blocks;
    int64_t block_count;
    int64_t across; /* the most panels in a line of a block */
    int places;     /* digit i in base PLACES: the place of block i + 1 */
    const char **title;
    int64_t title_count;
    const char *subtitle;            /* NULL: none */
    bool single;                     /* the figure has one panel: larger cells, no title above the panel */
    double cell, font;               /* side of a cell, size of labels */
    double block_title, panel_title; /* heights; 0: none */
    double bar_left, bar_top, bar_height;
    double chart_width; /* with its axis; 0: none */
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

/* Makes a block of the maps of each kind. */
static bool find_blocks(struct figure *figure)
{
    const struct qkv_attention_map *maps = figure->report->maps;
    struct layout *layout = &figure->layout;
    int64_t count = figure->report->map_count;
    layout->blocks = qkv_arena_array(figure->job->arena, count, sizeof *layout->blocks);
    for (int64_t first = 0, end; layout->blocks && first < count; first = end) {
        int64_t heads = 1;
        for (end = first + 1; end < count && maps[end].kind == maps[first].kind; end++)
            heads += end == first + heads && maps[end].layer == maps[first].layer;
        layout->blocks[layout->block_count++] = (struct block){.first = first, .end = end, .heads = heads};
    }
    layout->panel_title = layout->single ? 0 : TITLE_PITCH;
    layout->block_title = layout->block_count > 1 ? 28 : 0;
    return layout->blocks;
}

/* Measures a block. The pitch is at least the width of a panel and of its title; left of the first panel there is space for
 * row labels and for slanted labels of columns, whose lower ends reach to the left. */
static void measure_block(const struct figure *figure, struct block *block)
{
    const struct layout *layout = &figure->layout;
    const struct axes *axes = axes_of(figure, block->first);
    double panel = layout->cell * (double)axes->columns.count, left = AXIS + axes->rows.width + LABEL_GAP;
    for (int64_t c = 0; axes->angle < 0 && axes->angle > -90 && c < axes->columns.count; c++)
        left = fmax(left, qkv_display_width(axes->columns.labels[c], layout->font) * SINE -
                              layout->cell * ((double)c + 0.5));
    for (int64_t i = block->first; !layout->single && i < block->end; i++)
        panel = fmax(panel, qkv_display_width(layout->panel_titles[i], SMALL_SIZE));
    block->before = ceil(left);
    block->pitch = ceil(panel + GAP);
    block->cells = layout->cell * (double)axes->rows.count;
    block->line_pitch = ceil(layout->panel_title + block->cells + LABEL_GAP + axes->label_height + 8);
}

/* Returns a quotient, rounded up. */
static int64_t share(int64_t count, int64_t parts)
{
    return (count + parts - 1) / parts;
}

/* Returns how many panels of a block are in a line of at most `most`: some layers, or the same part of each layer. */
static int64_t columns_of(const struct block *block, int64_t most)
{
    int64_t layers = share(block->end - block->first, block->heads);
    if (most < block->heads) return share(block->heads, share(block->heads, most));
    return block->heads * share(layers, share(layers, most / block->heads));
}

/* Where a block is placed: in a new row, on the right of all blocks of its row, or below the one before. */
enum { NEW_ROW, BESIDE, BELOW, PLACES };

/* Places the blocks. Returns the area of the figure and of the smallest page of 16:9 that it fits on: since that of the maps is
 * given, the figure with the least has the least white. */
static double place_blocks(struct layout *layout)
{
    int places = layout->places;
    double y = MARGIN + TITLE_PITCH * (double)layout->title_count, x = MARGIN, row_right = x, right = x,
           end = 0;
    if (layout->subtitle) y += 18;
    if (layout->title_count || layout->subtitle) y += 10;
    double row = y, bottom = y;
    layout->bar_top = y + layout->block_title + layout->panel_title;
    for (struct block *block = layout->blocks; block < layout->blocks + layout->block_count; block++) {
        block->columns = columns_of(block, layout->across);
        block->left = x + block->before;
        block->top = y + layout->block_title + layout->panel_title;
        double last =
            block->top + block->line_pitch * (double)((block->end - block->first - 1) / block->columns);
        end = fmax(end, last + block->cells);
        y = last + block->line_pitch - layout->panel_title + AXIS;
        bottom = fmax(bottom, y);
        row_right = fmax(row_right, block->left + block->pitch * (double)block->columns);
        right = fmax(right, row_right);
        if (places % PLACES == NEW_ROW) {
            row = bottom;
            row_right = MARGIN;
        }
        if (places % PLACES != BELOW) {
            x = row_right;
            y = row;
        }
        places /= PLACES;
    }
    layout->bar_height = fmin(end - layout->bar_top, 360);
    layout->height = bottom + MARGIN - 8;
    layout->width = right + 4 + BAR_WIDTH + 58 + layout->chart_width + MARGIN;
    double extra = floor(fmax(MIN_WIDTH - layout->width, 0) / 2);
    for (int64_t i = 0; i < layout->block_count; i++) layout->blocks[i].left += extra;
    layout->bar_left = right + 4 + extra;
    layout->width = fmax(layout->width, MIN_WIDTH);
    double page = fmax(layout->width, layout->height * 16 / 9);
    return page * page * 9 / 16 + layout->width * layout->height;
}

/* Chooses how many panels are side by side, and the places of blocks. A single block has one layer in a line. */
static void choose_places(struct layout *layout)
{
    int64_t heads = layout->blocks[0].heads, most = 0,
            best = heads == 1          ? MAX_LAYERS
                   : heads < MAX_HEADS ? heads
                                       : MAX_HEADS;
    int best_places = 0, arrangements = 1;
    double least = INFINITY;
    for (int64_t i = 0; layout->block_count > 1 && i < layout->block_count; i++) {
        int64_t count = layout->blocks[i].end - layout->blocks[i].first;
        if (count > most) most = count;
        if (i && i < MAX_CHOSEN) arrangements *= PLACES;
    }
    for (layout->across = 1; layout->across <= most; layout->across++)
        for (layout->places = 0; layout->places < arrangements; layout->places++) {
            double area = place_blocks(layout);
            if (area >= least) continue;
            least = area;
            best = layout->across;
            best_places = layout->places;
        }
    layout->across = best;
    layout->places = best_places;
    place_blocks(layout);
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
 * maps of several kinds names them above their blocks; without a model it has no subtitle. False if memory runs
 * out. */
static bool name_panels(struct figure *figure)
{
    const struct qkv_attention_report *report = figure->report;
    struct qkv_arena *arena = figure->job->arena;
    struct layout *layout = &figure->layout;
    bool mixed = layout->block_count > 1;
    layout->panel_titles = qkv_arena_array(arena, report->map_count, sizeof *layout->panel_titles);
    if (!layout->panel_titles) return false;
    for (int64_t i = 0; i < report->map_count; i++) {
        layout->panel_titles[i] = qkv_report_map_title(arena, &report->maps[i], false);
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

/* Computes the layout. False if memory runs out. */
static bool compute_layout(struct figure *figure)
{
    const struct qkv_attention_report *report = figure->report;
    struct layout *layout = &figure->layout;
    layout->single = report->map_count == 1;
    if (figure->job->chart) layout->chart_width = CHART_LEFT + CHART_WIDTH;
    choose_cell(figure);
    for (int64_t i = 0; i < report->map_count; i++)
        if (!read_axes(figure, &report->maps[i])) return false;
    if (!find_blocks(figure) || !name_panels(figure)) return false;
    for (int64_t i = 0; i < layout->block_count; i++) measure_block(figure, &layout->blocks[i]);
    choose_places(layout);
    if (!break_title(figure)) return false;
    double width = layout->width - 2 * MARGIN;
    if (layout->subtitle)
        layout->subtitle = qkv_display_cut(figure->job->arena, layout->subtitle, SMALL_SIZE, width);
    place_blocks(layout); /* again, below a title of so many lines */
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

static void draw_row_labels(const struct figure *figure, const struct axis *rows, double left, double top)
{
    const struct layout *layout = &figure->layout;
    for (int64_t r = 0; r < rows->count; r++)
        draw_text(figure, left - LABEL_GAP, top + layout->cell * ((double)r + 0.5), rows->labels[r],
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

/* Draws the names of both axes once for a block. */
static void draw_axis_names(const struct figure *figure, const struct block *block, double bottom)
{
    const struct axes *axes = axes_of(figure, block->first);
    double panel = figure->layout.cell * (double)axes->columns.count;
    draw_text(figure, block->left + (block->pitch * (double)(block->columns - 1) + panel) / 2,
              bottom + LABEL_GAP + axes->label_height + AXIS / 2, axes->columns.name,
              (struct text_style){.size = SMALL_SIZE, .anchor = ANCHOR_MIDDLE, .color = soft_ink});
    draw_text(
        figure, block->left - LABEL_GAP - axes->rows.width - AXIS / 2, (block->top + bottom) / 2,
        axes->rows.name,
        (struct text_style){.size = SMALL_SIZE, .anchor = ANCHOR_MIDDLE, .angle = -90, .color = soft_ink});
}

static void draw_block(const struct figure *figure, const struct block *block)
{
    const struct layout *layout = &figure->layout;
    const struct axes *axes = axes_of(figure, block->first);
    double top = block->top;
    char title[32];
    snprintf(title, sizeof title, "%s attention",
             qkv_attention_kind_name(figure->report->maps[block->first].kind));
    if (layout->block_title > 0 && !figure->report->maps[block->first].label)
        draw_text(figure, block->left, top - 12 - TITLE_PITCH, title,
                  (struct text_style){.size = 13, .color = ink, .bold = true});
    for (int64_t i = block->first; i < block->end; i++) {
        const struct qkv_attention_map *map = &figure->report->maps[i];
        int64_t column = (i - block->first) % block->columns;
        double left = block->left + block->pitch * (double)column;
        if (!column && i > block->first) top += block->line_pitch;
        if (!column) draw_row_labels(figure, &axes->rows, left, top);
        if (!layout->single)
            draw_text(figure, left, top - 10, layout->panel_titles[i],
                      (struct text_style){.size = SMALL_SIZE, .color = ink});
        draw_cells(figure, &(struct grid){map, left, top, map->rows, map->columns});
        draw_column_labels(figure, axes, left, top + block->cells);
    }
    draw_axis_names(figure, block, top + block->cells);
}

/* Draws the colour bar as overlapping rectangles, which leave no gaps. */
static void draw_bar(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    double maximum = figure->maximum, tick = figure->tick;
    double left = layout->bar_left, top = layout->bar_top, height = layout->bar_height;
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

bool qkv_draw_maps(const void *picture, struct canvas *canvas)
{
    const struct format_job *job = picture;
    struct figure figure = {.job = job, .report = job->report, .canvas = canvas};
    figure.maximum = qkv_report_color_maximum(job, &figure.tick);
    if (!compute_layout(&figure) || !choose_runs(&figure)) return false;
    if (!canvas->begin(canvas, figure.layout.width, figure.layout.height)) return false;
    draw_heading(&figure);
    for (int64_t i = 0; i < figure.layout.block_count; i++) draw_block(&figure, &figure.layout.blocks[i]);
    draw_bar(&figure);
    const struct layout *layout = &figure.layout;
    return !job->chart || qkv_chart_draw(job->chart, canvas, layout->width - MARGIN - CHART_WIDTH,
                                         layout->bar_top, CHART_WIDTH, layout->bar_height, job->arena);
}

static enum qkv_status write_svg(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    (void)error;
    qkv_svg_draw(qkv_draw_maps, job, out);
    return QKV_OK;
}

static enum qkv_status write_png(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    return qkv_png_draw(qkv_draw_maps, job, job->options.scale, job->options.missing, out, error);
}

static enum qkv_status write_pdf(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    return qkv_pdf_draw(qkv_draw_maps, job, job->options.missing, out, error);
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
