/* Attention maps in the terminal: tables of numbers, with coloured cells if the terminal has colours. A map
 * that is wider than the terminal is split into blocks of columns. */
#include "core/memory.h"
#include "report/explanation.h"

#include "draw/text.h"

#include <math.h>

enum {
    MIN_COLUMN = 4,  /* "0.12" */
    MAX_COLUMN = 12, /* longer labels of columns are cut */
    MAX_LABEL = 20,  /* longer labels of rows are cut */
};

struct table {
    const struct format_job *job;
    struct bytes *out;
    const struct qkv_attention_map *map;
    const char **rows, **columns;    /* labels */
    int *row_widths, *column_widths; /* of the labels, limited as above */
    int label_width;                 /* of the widest row label */
    double maximum;                  /* the weight that gets the last colour */
};

/* Appends the cell of a weight, with a space before it. A weight that rounds to 0.00 is shown as a dot, so that
 * larger weights are easy to see. */
static void append_weight(const struct table *table, double weight, int width)
{
    uint32_t color = 0;
    qkv_colormap_color(table->job->options.colormap, weight / table->maximum, &color);
    qkv_cell_begin_color(table->out, table->job->options.colors, color);
    if (weight < 0.005) {
        qkv_cell_spaces(table->out, width);
        qkv_bytes_text(table->out, "·");
    } else {
        qkv_cell_spaces(table->out, width - 3);
        char number[32];
        qkv_display_number(number, fmin(weight, 9), 2);
        qkv_bytes_text(table->out, number);
    }
    qkv_cell_end_color(table->out, table->job->options.colors);
}

static void append_block(const struct table *table, int64_t first, int64_t last)
{
    const struct qkv_attention_map *map = table->map;
    qkv_cell_spaces(table->out, table->label_width);
    for (int64_t c = first; c < last; c++) {
        qkv_bytes_text(table->out, " ");
        qkv_cell_padded(table->out, table->columns[c], table->column_widths[c], CELL_RIGHT);
    }
    qkv_bytes_text(table->out, "\n");
    for (int64_t r = 0; r < map->rows; r++) {
        qkv_cell_padded(table->out, table->rows[r], table->label_width, CELL_LEFT);
        for (int64_t c = first; c < last; c++)
            append_weight(table, map->weights[r * map->columns + c], table->column_widths[c]);
        qkv_bytes_text(table->out, "\n");
    }
}

static int clamp(int value, int min, int max)
{
    return value < min ? min : value > max ? max : value;
}

/* Sets the labels of an axis and their widths, limited to min .. max. False if memory runs out. */
static bool read_labels(struct qkv_arena *arena, const char *const *tokens, int64_t count, int min, int max,
                        const char ***labels, int **widths)
{
    *labels = qkv_arena_array(arena, count, sizeof **labels);
    *widths = qkv_arena_array(arena, count, sizeof **widths);
    if (!*labels || !*widths) return false;
    for (int64_t i = 0; i < count; i++) {
        (*labels)[i] = qkv_display_token(arena, tokens[i]);
        if (!(*labels)[i]) return false;
        (*widths)[i] = clamp(qkv_cell_width((*labels)[i]), min, max);
    }
    return true;
}

/* Appends one map. value: the name of the numbers in its cells; NULL: attention weights. */
static void append_map(const struct format_job *job, const struct qkv_attention_map *map, const char *value,
                       struct bytes *out)
{
    double tick;
    struct table table = {
        .job = job, .out = out, .map = map, .maximum = qkv_report_color_maximum(job, &tick)};
    const char *title = qkv_report_map_title(job->arena, map, true);
    if (!title ||
        !read_labels(job->arena, qkv_attention_row_tokens(job->report, map->kind), map->rows, 1, MAX_LABEL,
                     &table.rows, &table.row_widths) ||
        !read_labels(job->arena, qkv_attention_column_tokens(job->report, map->kind), map->columns,
                     MIN_COLUMN, MAX_COLUMN, &table.columns, &table.column_widths)) {
        out->failed = true;
        return;
    }
    for (int64_t r = 0; r < map->rows; r++)
        if (table.row_widths[r] > table.label_width) table.label_width = table.row_widths[r];
    if (job->options.colors != QKV_COLORS_NONE)
        table.label_width++; /* labels must not touch coloured cells */
    qkv_bytes_format(out, "%s\nrows: %s, columns: %s", title,
                     map->kind == QKV_ATTENTION_CROSS ? "target (output)" : "queries",
                     map->kind == QKV_ATTENTION_CROSS ? "source" : "keys");
    if (value) qkv_bytes_format(out, ", cells: %s", value);
    qkv_bytes_text(out, "\n");
    for (int64_t first = 0, last; first < map->columns; first = last) {
        int64_t width = table.label_width;
        for (last = first; last < map->columns; last++) {
            width += 1 + table.column_widths[last];
            if (width > job->options.width && last > first) break;
        }
        qkv_bytes_text(out, "\n");
        append_block(&table, first, last);
    }
}

static enum qkv_status write_maps(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    (void)error;
    const char *value =
        job->report->value_name ? qkv_display_line(job->arena, job->report->value_name) : NULL;
    if (job->report->value_name && !value) out->failed = true;
    if (job->report->title) {
        const char *title = qkv_display_line(job->arena, job->report->title);
        if (title) qkv_bytes_format(out, "%s\n\n", title);
    }
    for (int64_t i = 0; i < job->report->map_count; i++) {
        if (i > 0) qkv_bytes_text(out, "\n");
        append_map(job, &job->report->maps[i], value, out);
    }
    return QKV_OK;
}

const struct qkv_format_writer qkv_writer_text = {
    .format = {"text", "txt", "tables in the terminal", QKV_FORMAT_TERMINAL, .sequence = QKV_FORMAT_BLOCKS},
    .write_maps = write_maps,
    .write_explanations = qkv_text_explanations,
};
