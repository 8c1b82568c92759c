/* Positions in a figure of heat maps. */
#include "draw/layout.h"

#include "core/plain_text.h"
#include "draw/display_text.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

#define LONGEST_LABEL 150.       /* width; longer labels are cut */
#define MIN_WIDTH     420.       /* of the figure, so that the title has space */
#define SINE          0.70710678 /* of 45 degrees */

enum { MAX_TITLE_LINES = 4 };

static bool read_axis(struct axis *axis, const struct heatmap *heatmap, const struct heatmap_axis *from,
                      double font)
{
    *axis = (struct axis){0};
    axis->labels = qkv_arena_allocate(heatmap->arena, (size_t)from->count * sizeof *axis->labels);
    for (int64_t i = 0; axis->labels && i < from->count; i++) {
        const char *label = qkv_display_token(heatmap->arena, from->labels[i]);
        axis->labels[i] = label ? qkv_display_cut(heatmap->arena, label, font, LONGEST_LABEL) : NULL;
        if (!axis->labels[i]) return false;
        axis->width = fmax(axis->width, qkv_display_width(axis->labels[i], font));
    }
    return axis->labels;
}

/* Chooses the side of a cell: larger for a single panel, and large enough for a number if cells have one.
 * It is always an integer, so that edges are sharp. */
static void choose_cell(struct layout *layout, const struct heatmap *heatmap)
{
    int64_t longest = 1;
    for (int g = 0; g < heatmap->group_count; g++) {
        if (heatmap->groups[g].rows.count > longest) longest = heatmap->groups[g].rows.count;
        if (heatmap->groups[g].columns.count > longest) longest = heatmap->groups[g].columns.count;
    }
    double extent = layout->single ? 640 : 260, min = layout->single ? 15 : 13,
           max = layout->single ? 38 : 28;
    layout->cell = floor(fmin(fmax(extent / (double)longest, min), max));
    if (heatmap->annotate) layout->cell = fmax(layout->cell, 34);
    layout->font = fmin(fmax(layout->cell * 0.62, 8.5), 13);
}

static bool read_group(struct layout *layout, const struct heatmap *heatmap, int index)
{
    struct group_layout *group = &layout->groups[index];
    if (!read_axis(&group->rows, heatmap, &heatmap->groups[index].rows, layout->font) ||
        !read_axis(&group->columns, heatmap, &heatmap->groups[index].columns, layout->font))
        return false;
    double width = group->columns.width;
    if (width <= layout->cell - 2) {
        group->angle = 0;
        group->label_height = layout->font;
    } else if (layout->cell >= 16) { /* in smaller cells, slanted labels of columns would touch */
        group->angle = -45;
        group->label_height = (width + layout->font / 2) * SINE;
    } else {
        group->angle = -90;
        group->label_height = width;
    }
    return true;
}

static bool break_lines(struct layout *layout, const struct heatmap *heatmap)
{
    const struct heatmap_panel *panels = heatmap->panels;
    int64_t count = heatmap->panel_count;
    layout->lines = qkv_arena_allocate(heatmap->arena, (size_t)count * sizeof *layout->lines);
    if (!layout->lines) return false;
    for (int64_t first = 0, end; first < count; first = end) {
        end = first + 1;
        while (end < count && panels[end].group == panels[first].group &&
               panels[end].line == panels[first].line)
            end++;
        int64_t lines = (end - first + heatmap->per_line - 1) / heatmap->per_line;
        int64_t per_line = (end - first + lines - 1) / lines;
        for (int64_t at = first; at < end; at += per_line)
            layout->lines[layout->line_count++] =
                (struct line){.first = at, .end = at + per_line < end ? at + per_line : end};
    }
    for (int64_t i = 0; i < layout->line_count; i++)
        layout->lines[i].ends_block =
            i + 1 == layout->line_count ||
            panels[layout->lines[i].first].group != panels[layout->lines[i + 1].first].group;
    return true;
}

/* Sets the horizontal positions. The pitch is at least the width of a panel and of its title; left
 * of the first panel there is space for row labels and for slanted labels of columns, whose lower
 * ends reach to the left. */
static void place_columns(struct layout *layout, const struct heatmap *heatmap)
{
    double left = 0, panel = 0, labels = 0;
    int64_t max = 1;
    for (int g = 0; g < heatmap->group_count; g++) {
        const struct group_layout *group = &layout->groups[g];
        int64_t columns = heatmap->groups[g].columns.count;
        panel = fmax(panel, layout->cell * (double)columns);
        labels = fmax(labels, group->rows.width);
        for (int64_t c = 0; group->angle < 0 && group->angle > -90 && c < columns; c++)
            left = fmax(left, qkv_display_width(group->columns.labels[c], layout->font) * SINE -
                                  layout->cell * ((double)c + 0.5));
    }
    for (int64_t i = 0; i < layout->line_count; i++)
        if (layout->lines[i].end - layout->lines[i].first > max)
            max = layout->lines[i].end - layout->lines[i].first;
    for (int64_t i = 0; !layout->single && i < heatmap->panel_count; i++)
        panel = fmax(panel, qkv_display_width(heatmap->panels[i].title, LAYOUT_SMALL_SIZE));
    layout->pitch = ceil(panel + LAYOUT_GAP);
    layout->left = ceil(LAYOUT_MARGIN + fmax(LAYOUT_AXIS + labels + LAYOUT_LABEL_GAP, left));
    layout->label_width = labels;
    layout->bar_left = layout->left + layout->pitch * (double)max + 4;
    layout->width = ceil(layout->bar_left + LAYOUT_BAR_WIDTH + 58 + LAYOUT_MARGIN);
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
    const char *end = qkv_display_fitting(text, 1.06 * LAYOUT_TITLE_SIZE, width),
               *last_break = NULL; /* bold */
    if (end == text) qkv_utf8_next(&end);
    if (!*end) return end;
    for (const char *at = text; at < end;) {
        uint32_t point = qkv_utf8_next(&at);
        if (point == ' ' || utf8proc_charwidth((utf8proc_int32_t)point) == 2) last_break = at;
    }
    return last_break ? last_break : end;
}

static bool break_title(struct layout *layout, const struct heatmap *heatmap)
{
    const char *rest = heatmap->title ? qkv_display_line(heatmap->arena, heatmap->title) : "";
    double width = layout->width - 2 * LAYOUT_MARGIN;
    layout->title = qkv_arena_allocate(heatmap->arena, MAX_TITLE_LINES * sizeof *layout->title);
    if (!rest || !layout->title) return false;
    while (*rest && layout->title_count < MAX_TITLE_LINES) {
        const char *end = line_end(rest, width);
        bool last = layout->title_count == MAX_TITLE_LINES - 1 && *end;
        const char *line = last ? qkv_display_cut(heatmap->arena, rest, 1.06 * LAYOUT_TITLE_SIZE, width)
                                : qkv_arena_format(heatmap->arena, "%.*s", (int)(end - rest), rest);
        if (!line) return false;
        layout->title[layout->title_count++] = line;
        rest = end;
    }
    return true;
}

static bool read_subtitle(struct layout *layout, const struct heatmap *heatmap)
{
    if (!heatmap->subtitle) return true;
    const char *line = qkv_display_line(heatmap->arena, heatmap->subtitle);
    if (line)
        line = qkv_display_cut(heatmap->arena, line, LAYOUT_SMALL_SIZE, layout->width - 2 * LAYOUT_MARGIN);
    layout->subtitle = line;
    return line;
}

static void place_lines(struct layout *layout, const struct heatmap *heatmap)
{
    double y = LAYOUT_MARGIN + LAYOUT_TITLE_PITCH * (double)layout->title_count;
    if (layout->subtitle) y += 18;
    if (layout->title_count || layout->subtitle) y += 10;
    for (int64_t i = 0; i < layout->line_count; i++) {
        struct line *line = &layout->lines[i];
        int group = heatmap->panels[line->first].group;
        if (!layout->single) y += 20;
        line->top = ceil(y);
        y = line->top + layout->cell * (double)heatmap->groups[group].rows.count;
        layout->bar_height = fmin(y - layout->lines[0].top, 360);
        y += LAYOUT_LABEL_GAP + layout->groups[group].label_height + 8;
        if (line->ends_block) y += LAYOUT_AXIS;
    }
    layout->height = ceil(y + LAYOUT_MARGIN - 8);
}

bool qkv_layout_compute(struct layout *layout, const struct heatmap *heatmap)
{
    *layout = (struct layout){.single = heatmap->panel_count == 1};
    layout->groups =
        qkv_arena_allocate(heatmap->arena, (size_t)heatmap->group_count * sizeof *layout->groups);
    if (!layout->groups) return false;
    choose_cell(layout, heatmap);
    for (int g = 0; g < heatmap->group_count; g++)
        if (!read_group(layout, heatmap, g)) return false;
    if (!break_lines(layout, heatmap)) return false;
    place_columns(layout, heatmap);
    if (!break_title(layout, heatmap) || !read_subtitle(layout, heatmap)) return false;
    place_lines(layout, heatmap);
    return true;
}
