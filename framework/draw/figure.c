#include "draw/figure.h"

#include "draw/cells.h"

#include "draw/layout.h"

#include <math.h>
#include <stdio.h>

static const uint32_t ink = 0x222222, soft_ink = 0x666666, frame = 0xCCCCCC;

struct figure {
    const struct maps_job *job;
    struct canvas *canvas;
    struct layout layout;
};

static uint32_t color_of(const struct figure *figure, double weight)
{
    uint32_t color = 0;
    qkv_colormap_color(figure->job->options.colormap, weight / figure->layout.maximum, &color);
    return color;
}

static void draw_text(const struct figure *figure, double x, double y, const char *text, double size,
                      enum anchor anchor, double angle, uint32_t color)
{
    const struct text_style style = {.size = size, .anchor = anchor, .angle = angle, .color = color};
    figure->canvas->text(figure->canvas, x, y, text, &style);
}

static void draw_heading(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    const struct text_style bold = {.size = LAYOUT_TITLE_SIZE, .color = ink, .bold = true};
    double y = LAYOUT_MARGIN + LAYOUT_TITLE_PITCH / 2;
    for (int64_t i = 0; i < layout->title_count; i++, y += LAYOUT_TITLE_PITCH)
        figure->canvas->text(figure->canvas, LAYOUT_MARGIN, y, layout->title[i], &bold);
    if (layout->subtitle)
        draw_text(figure, LAYOUT_MARGIN, y, layout->subtitle, LAYOUT_SMALL_SIZE, ANCHOR_START, 0, soft_ink);
}

/* A weight with two digits behind the point, in every locale. */
static void format_weight(char text[16], double weight)
{
    int hundredths = (int)lround(fmin(fmax(weight, 0), 99) * 100);
    snprintf(text, 16, "%d.%02d", hundredths / 100, hundredths % 100);
}

static void draw_cells(const struct figure *figure, const struct qkv_attention_map *map, double left,
                       double top)
{
    const struct kind_layout *kind = &figure->layout.kinds[map->kind];
    double cell = figure->layout.cell;
    /* A frame, so that a white cell at the edge shows. */
    figure->canvas->rectangle(figure->canvas, left - 1, top - 1, cell * (double)map->columns + 2,
                              cell * (double)map->rows + 2, frame, NULL);
    for (int64_t i = 0; i < map->rows * map->columns; i++) {
        int64_t row = i / map->columns, column = i % map->columns;
        double x = left + cell * (double)column, y = top + cell * (double)row;
        uint32_t color = color_of(figure, map->weights[i]);
        char number[16], tooltip[512];
        format_weight(number, map->weights[i]);
        snprintf(tooltip, sizeof tooltip, "%s → %s: %s", kind->rows.labels[row], kind->columns.labels[column],
                 number);
        figure->canvas->rectangle(figure->canvas, x, y, cell, cell, color, tooltip);
        if (figure->job->options.annotate)
            draw_text(figure, x + cell / 2, y + cell / 2, number, 10, ANCHOR_MIDDLE, 0,
                      qkv_readable_ink(color));
    }
}

static void draw_row_labels(const struct figure *figure, const struct line *line, const struct axis *axis)
{
    const struct layout *layout = &figure->layout;
    for (int64_t r = 0; r < axis->count; r++)
        draw_text(figure, layout->left - LAYOUT_LABEL_GAP, line->top + layout->cell * ((double)r + 0.5),
                  axis->labels[r], layout->font, ANCHOR_END, 0, ink);
}

static void draw_column_labels(const struct figure *figure, const struct kind_layout *kind, double left,
                               double bottom)
{
    const struct layout *layout = &figure->layout;
    bool level = kind->angle == 0;
    for (int64_t c = 0; c < kind->columns.count; c++)
        draw_text(figure, left + layout->cell * ((double)c + 0.5),
                  bottom + LAYOUT_LABEL_GAP + (level ? layout->font / 2 : 0), kind->columns.labels[c],
                  layout->font, level ? ANCHOR_MIDDLE : ANCHOR_END, kind->angle, ink);
}

/* The names of both axes, once for the lines of a kind, of which this is the last. */
static void draw_axis_names(const struct figure *figure, const struct kind_layout *kind, double block_top,
                            double bottom, int64_t panels)
{
    const struct layout *layout = &figure->layout;
    double panel = layout->cell * (double)kind->columns.count;
    double middle = layout->left + (layout->pitch * (double)(panels - 1) + panel) / 2;
    draw_text(figure, middle, bottom + LAYOUT_LABEL_GAP + kind->header + LAYOUT_AXIS / 2, kind->columns.name,
              LAYOUT_SMALL_SIZE, ANCHOR_MIDDLE, 0, soft_ink);
    double labels = layout->left - LAYOUT_LABEL_GAP - layout->label_width;
    draw_text(figure, labels - LAYOUT_AXIS / 2, (block_top + bottom) / 2, kind->rows.name, LAYOUT_SMALL_SIZE,
              ANCHOR_MIDDLE, -90, soft_ink);
}

static void draw_lines(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    const struct qkv_attention_map *maps = figure->job->report->maps;
    double block_top = layout->lines[0].top;
    int64_t block_panels = 0;
    for (int64_t i = 0; i < layout->line_count; i++) {
        const struct line *line = &layout->lines[i];
        const struct kind_layout *kind = &layout->kinds[maps[line->first].kind];
        double bottom = line->top + layout->cell * (double)kind->rows.count;
        int64_t panels = line->last - line->first;
        int64_t below = line->ends_block ? 0 : layout->lines[i + 1].last - layout->lines[i + 1].first;
        if (panels > block_panels) block_panels = panels;
        draw_row_labels(figure, line, &kind->rows);
        for (int64_t p = 0; p < panels; p++) {
            const struct qkv_attention_map *map = &maps[line->first + p];
            double left = layout->left + layout->pitch * (double)p;
            const char *title =
                layout->single ? NULL : qkv_report_map_title(figure->job->arena, map, layout->mixed);
            if (title)
                draw_text(figure, left, line->top - 10, title, LAYOUT_SMALL_SIZE, ANCHOR_START, 0, ink);
            draw_cells(figure, map, left, line->top);
            if (p >= below) draw_column_labels(figure, kind, left, bottom);
        }
        if (!line->ends_block) continue;
        draw_axis_names(figure, kind, block_top, bottom, block_panels);
        if (i + 1 < layout->line_count) block_top = layout->lines[i + 1].top;
        block_panels = 0;
    }
}

/* From the bottom up, in steps that overlap so that no gap shows between them. */
static void draw_bar(const struct figure *figure)
{
    const struct layout *layout = &figure->layout;
    double left = layout->bar_left, top = layout->lines[0].top, height = layout->bar_height;
    enum { STEPS = 128 };
    figure->canvas->rectangle(figure->canvas, left - 1, top - 1, LAYOUT_BAR_WIDTH + 2, height + 2, frame,
                              NULL);
    for (int i = 0; i < STEPS; i++) {
        double y = top + floor(height * i / STEPS);
        double weight = layout->maximum * (STEPS - 0.5 - i) / STEPS;
        figure->canvas->rectangle(figure->canvas, left, y, LAYOUT_BAR_WIDTH, top + height - y,
                                  color_of(figure, weight), NULL);
    }
    int digits = layout->tick < 0.0999 ? (int)ceil(-log10(layout->tick) - 1e-9) : 1;
    for (int i = 0; i * layout->tick <= layout->maximum * (1 + 1e-9); i++) {
        double y = top + height * (1 - i * layout->tick / layout->maximum);
        char text[32];
        long long scaled = llround(i * layout->tick * pow(10, digits)), unit = llround(pow(10, digits));
        snprintf(text, sizeof text, "%lld.%0*lld", scaled / unit, digits, scaled % unit);
        double tick_top = fmin(floor(y), top + height - 1);
        figure->canvas->rectangle(figure->canvas, left + LAYOUT_BAR_WIDTH + 1, tick_top, 4, 1, ink, NULL);
        draw_text(figure, left + LAYOUT_BAR_WIDTH + 9, tick_top + 0.5, text, LAYOUT_SMALL_SIZE, ANCHOR_START,
                  0, ink);
    }
    draw_text(figure, left + LAYOUT_BAR_WIDTH + 50, top + height / 2, "attention weight", LAYOUT_SMALL_SIZE,
              ANCHOR_MIDDLE, -90, soft_ink);
}

bool qkv_figure_draw(const void *what, struct canvas *canvas)
{
    const struct maps_job *job = what;
    struct figure figure = {.job = job, .canvas = canvas};
    if (!qkv_layout_compute(&figure.layout, job)) return false;
    if (!canvas->begin(canvas, figure.layout.width, figure.layout.height)) return false;
    draw_heading(&figure);
    draw_lines(&figure);
    draw_bar(&figure);
    return true;
}
