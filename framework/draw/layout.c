#include "draw/layout.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

#define LONGEST_LABEL 150.       /* units; longer labels are cut */
#define LEAST_WIDTH   420.       /* units, for the title */
#define SINE          0.70710678 /* of 45 degrees */

enum { LINE_MOST = 4, TITLE_MOST = 4 };

/* Cuts a text to a width; what was cut ends in an ellipsis. */
static const char *cut(struct qkv_arena *arena, const char *text, double size, double width)
{
    if (qkv_figure_text_width(text, size) <= width) return text;
    char *copy = qkv_arena_string(arena, text);
    size_t length = copy ? strlen(copy) : 0;
    while (length > 0 && qkv_figure_text_width(copy, size) > width - size) {
        do length--;
        while (length > 0 && ((unsigned char)copy[length] & 0xC0) == 0x80); /* to the start of a character */
        copy[length] = 0;
    }
    return copy ? qkv_arena_format(arena, "%s…", copy) : NULL;
}

static bool read_axis(struct axis *axis, const struct maps_job *job, const char *name,
                      const char *const *tokens, int64_t count, double font)
{
    *axis = (struct axis){.name = name, .count = count};
    axis->labels = qkv_arena_allocate(job->arena, (size_t)count * sizeof *axis->labels);
    for (int64_t i = 0; axis->labels && i < count; i++) {
        const char *label = qkv_report_label(job->arena, tokens[i]);
        axis->labels[i] = label ? cut(job->arena, label, font, LONGEST_LABEL) : NULL;
        if (!axis->labels[i]) return false;
        axis->width = fmax(axis->width, qkv_figure_text_width(axis->labels[i], font));
    }
    return axis->labels;
}

/* Cells of a single map may be large; those of a grid of maps are smaller; numbers need room. Always whole
 * units, so that edges are sharp. */
static void choose_cell(struct layout *layout, const struct maps_job *job)
{
    const struct qkv_attention_report *report = job->report;
    int64_t longest = 1;
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        if (map->rows > longest) longest = map->rows;
        if (map->columns > longest) longest = map->columns;
    }
    double extent = layout->single ? 640 : 260, least = layout->single ? 15 : 13,
           most = layout->single ? 38 : 28;
    layout->cell = floor(fmin(fmax(extent / (double)longest, least), most));
    if (job->options.annotate) layout->cell = fmax(layout->cell, 34);
    layout->font = fmin(fmax(layout->cell * 0.62, 8.5), 13);
}

static bool read_kind(struct layout *layout, const struct maps_job *job, enum qkv_attention_kind kind,
                      const struct qkv_attention_map *map)
{
    struct kind_layout *shared = &layout->kinds[kind];
    bool cross = kind == QKV_ATTENTION_CROSS;
    if (shared->shown) return true;
    shared->shown = true;
    const char *rows = job->report->row_axis, *columns = job->report->column_axis;
    if (!rows) rows = cross ? "target (output)" : "query";
    if (!columns) columns = cross ? "source" : "key";
    if (!read_axis(&shared->rows, job, rows, qkv_attention_row_tokens(job->report, kind), map->rows,
                   layout->font) ||
        !read_axis(&shared->columns, job, columns, qkv_attention_column_tokens(job->report, kind),
                   map->columns, layout->font))
        return false;
    double width = shared->columns.width;
    if (width <= layout->cell - 2) {
        shared->angle = 0;
        shared->header = layout->font;
    } else if (layout->cell >= 16) { /* lines of slanted text must not touch */
        shared->angle = -45;
        shared->header = (width + layout->font / 2) * SINE;
    } else {
        shared->angle = -90;
        shared->header = width;
    }
    return true;
}

/* Whether two maps may share a line: the heads of one layer, or, where `by_layer` is false, anything of one
 * kind. */
static bool same_line(const struct qkv_attention_map *a, const struct qkv_attention_map *b, bool by_layer)
{
    return a->kind == b->kind && (!by_layer || a->layer == b->layer);
}

static bool break_lines(struct layout *layout, const struct maps_job *job)
{
    const struct qkv_attention_map *maps = job->report->maps;
    int64_t count = job->report->map_count;
    bool by_layer = false;
    for (int64_t i = 1; i < count; i++) by_layer = by_layer || same_line(&maps[i - 1], &maps[i], true);
    layout->lines = qkv_arena_allocate(job->arena, (size_t)count * sizeof *layout->lines);
    if (!layout->lines) return false;
    for (int64_t first = 0, end; first < count; first = end) {
        end = first + 1;
        while (end < count && same_line(&maps[first], &maps[end], by_layer)) end++;
        int64_t parts = (end - first + LINE_MOST - 1) / LINE_MOST, each = (end - first + parts - 1) / parts;
        for (int64_t at = first; at < end; at += each)
            layout->lines[layout->line_count++] =
                (struct line){.first = at, .last = at + each < end ? at + each : end};
    }
    for (int64_t i = 0; i < layout->line_count; i++)
        layout->lines[i].ends_block =
            i + 1 == layout->line_count ||
            maps[layout->lines[i].first].kind != maps[layout->lines[i + 1].first].kind;
    return true;
}

/* The distance between panels, which their titles must fit; the left edge, which row labels and the ends of
 * slanted column labels must fit. */
static void place_columns(struct layout *layout, const struct maps_job *job)
{
    double left = 0, panel = 0, labels = 0;
    int64_t most = 1;
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++) {
        const struct kind_layout *shared = &layout->kinds[kind];
        if (!shared->shown) continue;
        panel = fmax(panel, layout->cell * (double)shared->columns.count);
        labels = fmax(labels, shared->rows.width);
        for (int64_t c = 0; shared->angle < 0 && shared->angle > -90 && c < shared->columns.count; c++)
            left = fmax(left, qkv_figure_text_width(shared->columns.labels[c], layout->font) * SINE -
                                  layout->cell * ((double)c + 0.5));
    }
    for (int64_t i = 0; i < layout->line_count; i++)
        if (layout->lines[i].last - layout->lines[i].first > most)
            most = layout->lines[i].last - layout->lines[i].first;
    for (int64_t i = 0; !layout->single && i < job->report->map_count; i++) {
        const char *title = qkv_report_map_title(job->arena, &job->report->maps[i], layout->mixed);
        if (title) panel = fmax(panel, qkv_figure_text_width(title, LAYOUT_SMALL_SIZE));
    }
    layout->pitch = ceil(panel + LAYOUT_GAP);
    layout->left = ceil(LAYOUT_MARGIN + fmax(LAYOUT_AXIS + labels + LAYOUT_LABEL_GAP, left));
    layout->label_width = labels;
    layout->bar_left = layout->left + layout->pitch * (double)most + 4;
    layout->width = ceil(layout->bar_left + LAYOUT_BAR_WIDTH + 58 + LAYOUT_MARGIN);
    if (layout->width < LEAST_WIDTH) {
        double extra = floor((LEAST_WIDTH - layout->width) / 2);
        layout->left += extra;
        layout->bar_left += extra;
        layout->width = LEAST_WIDTH;
    }
}

/* Where a line of the title that starts at `text` ends: at the last space that fits, or between wide
 * characters, or, in a word without end, anywhere. */
static const char *line_end(const char *text, double width)
{
    const char *at = text, *last_break = NULL;
    double used = 0;
    while (*at) {
        utf8proc_int32_t point;
        const char *next = at + utf8proc_iterate((const utf8proc_uint8_t *)at, -1, &point);
        char character[8] = {0};
        memcpy(character, at, (size_t)(next - at));
        used += 1.06 * qkv_figure_text_width(character, LAYOUT_TITLE_SIZE); /* bold */
        if (used > width && at > text) return last_break ? last_break : at;
        if (point == ' ' || utf8proc_charwidth(point) == 2) last_break = next;
        at = next;
    }
    return at;
}

static bool break_title(struct layout *layout, const struct maps_job *job)
{
    const char *rest = job->report->title ? qkv_report_line(job->arena, job->report->title) : "";
    double width = layout->width - 2 * LAYOUT_MARGIN;
    layout->title = qkv_arena_allocate(job->arena, TITLE_MOST * sizeof *layout->title);
    if (!rest || !layout->title) return false;
    while (*rest && layout->title_count < TITLE_MOST) {
        const char *end = line_end(rest, width);
        bool last = layout->title_count == TITLE_MOST - 1 && *end;
        const char *line = last ? cut(job->arena, rest, 1.06 * LAYOUT_TITLE_SIZE, width)
                                : qkv_arena_format(job->arena, "%.*s", (int)(end - rest), rest);
        if (!line) return false;
        layout->title[layout->title_count++] = line;
        rest = end;
    }
    return true;
}

static bool choose_subtitle(struct layout *layout, const struct maps_job *job)
{
    const char *model = job->report->model, *name = NULL;
    const struct qkv_attention_map *first = &job->report->maps[0];
    if (layout->single)
        name = qkv_report_map_title(job->arena, first, true);
    else if (job->report->name)
        name = job->report->name;
    else if (!layout->mixed)
        name = qkv_arena_format(job->arena, "%s attention", qkv_attention_kind_name(first->kind));
    if (!name && !layout->mixed) return false;
    layout->subtitle = name && model ? qkv_arena_format(job->arena, "%s · %s", name, model)
                       : name        ? name
                                     : model;
    if (layout->subtitle) layout->subtitle = qkv_report_line(job->arena, layout->subtitle);
    if (layout->subtitle)
        layout->subtitle =
            cut(job->arena, layout->subtitle, LAYOUT_SMALL_SIZE, layout->width - 2 * LAYOUT_MARGIN);
    return layout->subtitle || (!name && !model);
}

static void place_lines(struct layout *layout, const struct maps_job *job)
{
    double y = LAYOUT_MARGIN + LAYOUT_TITLE_PITCH * (double)layout->title_count;
    if (layout->subtitle) y += 18;
    if (layout->title_count || layout->subtitle) y += 10;
    for (int64_t i = 0; i < layout->line_count; i++) {
        struct line *line = &layout->lines[i];
        const struct qkv_attention_map *map = &job->report->maps[line->first];
        if (!layout->single) y += 20;
        line->top = ceil(y);
        y = line->top + layout->cell * (double)map->rows;
        layout->bar_height = fmin(y - layout->lines[0].top, 360);
        y += line->ends_block ? LAYOUT_LABEL_GAP + layout->kinds[map->kind].header + LAYOUT_AXIS + 8 : 8;
    }
    layout->height = ceil(y + LAYOUT_MARGIN - 8);
}

bool qkv_layout_compute(struct layout *layout, const struct maps_job *job)
{
    const struct qkv_attention_map *maps = job->report->maps;
    int64_t count = job->report->map_count;
    *layout = (struct layout){.single = count == 1, .mixed = maps[0].kind != maps[count - 1].kind};
    layout->maximum = qkv_report_color_maximum(job, &layout->tick);
    choose_cell(layout, job);
    for (int64_t i = 0; i < count; i++)
        if (!read_kind(layout, job, maps[i].kind, &maps[i])) return false;
    if (!break_lines(layout, job)) return false;
    place_columns(layout, job);
    if (!break_title(layout, job) || !choose_subtitle(layout, job)) return false;
    place_lines(layout, job);
    return true;
}
