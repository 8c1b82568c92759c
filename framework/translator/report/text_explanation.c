/* Explanations in the terminal: a section per step. Matrices have aligned columns and stand side by side if
 * they fit. */
#include "core/memory.h"
#include "report/explanation.h"

#include "draw/text.h"

#include <math.h>
#include <string.h>

enum {
    INDENT = 4,
    GAP = 3,                /* between matrices side by side */
    MAX_LABEL = 14,         /* columns; longer labels are cut */
    MAX_NUMBERED_ROWS = 12, /* shown of a matrix unless options.full is set */
    MAX_NAMED_ROWS = 24,    /* the same for rows with labels */
    MAX_HEADS = 6,          /* the same for heads */
};

/* One matrix to print. Widths are in columns of the terminal. */
struct table {
    const struct qkv_step *step;
    const double *values;
    const char *caption;
    struct number_style style;
    bool colored;    /* cells have background colours */
    double largest;  /* the value that gets the last colour */
    int label_width; /* of the widest row label */
    int *widths;     /* of the columns */
    int width;       /* of the table */
    struct elision rows, columns;
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* ---- measuring ---- */

/* Chooses the columns that fit into `limit`: the first ones, a gap, and the last one. At least two are shown, so
 * a table of one or two columns is always complete. */
static void choose_columns(const struct format_job *job, struct table *table, int limit)
{
    const struct qkv_step *step = table->step;
    int width = table->label_width;
    int64_t fitting = 0;
    table->columns = (struct elision){step->columns, 0};
    for (int64_t c = 0; c < step->columns; c++) width += 1 + table->widths[c];
    table->width = width;
    if (width <= limit || step->columns < 3 || job->options.full) return;
    int used = table->label_width + 4 + table->widths[step->columns - 1]; /* "  …", and the last one */
    while (fitting < step->columns - 1 && used + 1 + table->widths[fitting] <= limit)
        used += 1 + table->widths[fitting++];
    if (fitting < 1) {
        fitting = 1;
        used += 1 + table->widths[0];
    }
    table->columns = (struct elision){fitting, 1};
    table->width = used;
}

/* Chooses the rows and sets the widths of the columns. False if memory runs out. */
static bool measure(const struct format_job *job, struct table *table)
{
    const struct qkv_step *step = table->step;
    table->widths = qkv_arena_zeros(job->arena, step->columns, sizeof *table->widths);
    if (!table->widths) return false;
    table->rows = job->options.full
                      ? (struct elision){step->rows, 0}
                      : qkv_elide(step->rows, step->row_names ? MAX_NAMED_ROWS : MAX_NUMBERED_ROWS, 2);
    for (int64_t i = 0; i < qkv_elision_places(table->rows, step->rows); i++) {
        int64_t r = qkv_elision_at(table->rows, step->rows, i);
        if (r < 0) continue;
        int label = smaller(qkv_cell_width(qkv_step_label(job, step->row_names, r)), MAX_LABEL);
        table->label_width = larger(table->label_width, label);
        for (int64_t c = 0; c < step->columns; c++) {
            char text[40];
            qkv_number_text(text, table->style, table->values[r * step->columns + c]);
            table->widths[c] = larger(table->widths[c], (int)strlen(text));
        }
    }
    for (int64_t c = 0; c < step->columns; c++)
        table->widths[c] = larger(
            table->widths[c], smaller(qkv_cell_width(qkv_step_label(job, step->column_names, c)), MAX_LABEL));
    if (table->colored) table->label_width++; /* labels must not touch coloured cells */
    return true;
}

/* ---- lines ---- */

/* Appends a row of a table; row -1: the names of the columns. */
static void append_row(const struct format_job *job, const struct table *table, int64_t row,
                       struct bytes *out)
{
    const struct qkv_step *step = table->step;
    bool colored = table->colored && row >= 0;
    char number[40];
    qkv_cell_padded(out, row < 0 ? "" : qkv_step_label(job, step->row_names, row), table->label_width,
                    CELL_LEFT);
    for (int64_t i = 0; i < qkv_elision_places(table->columns, step->columns); i++) {
        int64_t c = qkv_elision_at(table->columns, step->columns, i);
        if (c < 0) {
            qkv_bytes_text(out, "   …");
            continue;
        }
        double value = row < 0 ? 0 : table->values[row * step->columns + c];
        uint32_t color = 0;
        qkv_number_text(number, table->style, value);
        if (colored) {
            qkv_colormap_color(job->options.colormap, value / table->largest, &color);
            qkv_cell_begin_color(out, job->options.colors, color);
        }
        qkv_bytes_text(out, " ");
        qkv_cell_padded(out, row < 0 ? qkv_step_label(job, step->column_names, c) : number, table->widths[c],
                        CELL_RIGHT);
        if (colored) qkv_cell_end_color(out, job->options.colors);
    }
}

/* Appends line `line` of a table in a band, which is several tables side by side: the caption, if
 * any table of the band has one, the column names, or a row. Appends spaces after the last row. */
static void append_line(const struct format_job *job, const struct table *table, int64_t line, bool captions,
                        struct bytes *out)
{
    const int64_t rows = table->step->rows, i = line - captions - 1,
                  row = i < 0 ? -1 : qkv_elision_at(table->rows, rows, i);
    if (captions && line == 0)
        qkv_cell_padded(out, table->caption, table->width, CELL_LEFT);
    else if (i >= qkv_elision_places(table->rows, rows))
        qkv_cell_spaces(out, table->width);
    else if (i >= 0 && row < 0)
        qkv_cell_padded(out, "⋮", table->width, CELL_LEFT);
    else
        append_row(job, table, row, out);
}

/* Drops the spaces at the end of the last line. */
static void end_line(struct bytes *out)
{
    while (out->size && out->data[out->size - 1] == ' ') out->size--;
    qkv_bytes_text(out, "\n");
}

/* Appends a band: tables first .. last - 1 side by side. */
static void append_band(const struct format_job *job, const struct table *tables, int64_t first, int64_t last,
                        struct bytes *out)
{
    int64_t lines = 0;
    bool captions = false;
    for (int64_t t = first; t < last; t++) captions = captions || *tables[t].caption;
    for (int64_t t = first; t < last; t++) {
        int64_t height = captions + 1 + qkv_elision_places(tables[t].rows, tables[t].step->rows);
        if (height > lines) lines = height;
    }
    for (int64_t line = 0; line < lines; line++) {
        qkv_cell_spaces(out, INDENT);
        for (int64_t t = first; t < last; t++) {
            if (t > first) qkv_cell_spaces(out, GAP);
            append_line(job, &tables[t], line, captions, out);
        }
        end_line(out);
    }
}

/* ---- a step ---- */

/* Appends a text, broken into lines at spaces. */
static void append_wrapped(const struct format_job *job, const char *text, int indent, struct bytes *out)
{
    int used = 0, width = (int)job->options.width;
    const char *at = qkv_display_paragraph(job->arena, text);
    if (!at) out->failed = true;
    while (at && *at) {
        size_t length = strcspn(at, " \n");
        char word[256];
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        int columns = qkv_cell_width(word);
        if (used && used + 1 + columns > width - indent) {
            qkv_bytes_text(out, "\n");
            used = 0;
        }
        if (used)
            qkv_bytes_text(out, " ");
        else
            qkv_cell_spaces(out, indent);
        qkv_bytes_append(out, at, length);
        used += (used > 0) + columns;
        at += length;
        while (*at == ' ' || *at == '\n') {
            if (*at == '\n' && used) {
                qkv_bytes_text(out, "\n");
                used = 0;
            }
            at++;
        }
    }
    if (used) qkv_bytes_text(out, "\n");
}

/* Appends the heading of a step: " 8  scores   S = Q Kᵀ                          [4, 4]". A formula that would move the
 * shape out of its column is below. */
static void append_title(const struct format_job *job, int64_t at, struct bytes *out)
{
    const struct qkv_step *step = &job->explanations[0].steps[at];
    const char *title = qkv_display_line(job->arena, step->title),
               *formula = qkv_display_line(job->arena, step->formula);
    bool colors = job->options.colors != QKV_COLORS_NONE;
    char shape[64], number[24];
    if (!title || !formula) {
        out->failed = true;
        return;
    }
    qkv_step_shape(&job->explanations[0], step, shape);
    snprintf(number, sizeof number, "%2lld", (long long)at + 1);
    int used = (int)strlen(number) + 2 + qkv_cell_width(title);
    qkv_bytes_format(out, "%s%s  %s%s", colors ? "\033[1m" : "", number, title, colors ? "\033[0m" : "");
    int width = smaller((int)job->options.width, 100);
    int formula_width = *formula ? 3 + qkv_cell_width(formula) : 0;
    bool is_below = used + formula_width + 2 + (int)strlen(shape) > width;
    if (*formula && !is_below) {
        qkv_bytes_format(out, "   %s", formula);
        used += formula_width;
    }
    qkv_cell_spaces(out, larger(width - used - (int)strlen(shape), 2));
    qkv_bytes_format(out, "%s\n", shape);
    if (*formula && is_below) append_wrapped(job, step->formula, INDENT, out);
    if (step->note) append_wrapped(job, step->note, INDENT, out);
}

/* Returns the columns that one table may use. Tables with numbered columns are shortened so that all
 * explanations fit side by side. */
static int table_limit(const struct format_job *job, const struct qkv_step *step)
{
    int line = (int)job->options.width - INDENT;
    return job->count > 1 && !step->column_names ? (line - GAP * (job->count - 1)) / job->count : line;
}

static void append_step(const struct format_job *job, int64_t at, struct bytes *out)
{
    const struct qkv_step *first_step = &job->explanations[0].steps[at];
    int64_t heads = first_step->heads ? first_step->heads : 1;
    int64_t shown = job->options.full || heads <= MAX_HEADS ? heads : MAX_HEADS, count = 0;
    struct table *tables = qkv_arena_zeros(job->arena, shown * job->count, sizeof *tables);
    bool weights = first_step->content == QKV_STEP_WEIGHTS;
    append_title(job, at, out);
    if (qkv_step_repeated(job, at)) {
        qkv_bytes_format(out, "%*ssame numbers as step %lld\n", INDENT, "",
                         (long long)qkv_step_repeated(job, at));
        return;
    }
    for (int64_t h = 0; tables && h < shown; h++)
        for (int index = 0; index < job->count; index++) {
            const struct qkv_step *step = qkv_step_counterpart(job, index, at);
            if (!step) continue;
            struct table *table = &tables[count++];
            *table = (struct table){
                .step = step,
                .values = step->values + h * step->rows * step->columns,
                .caption = qkv_step_caption(job, index, step, h),
                .style = qkv_step_number_style(job, at),
                .colored = weights && job->options.colors != QKV_COLORS_NONE,
                .largest = weights ? qkv_step_largest(job, at) : 1,
            };
            if (!measure(job, table)) out->failed = true;
            if (out->failed) return;
            choose_columns(job, table, table_limit(job, step));
        }
    if (!tables) out->failed = true;
    for (int64_t first = 0, last; first < count; first = last) {
        int used = INDENT + tables[first].width;
        for (last = first + 1; last < count && used + GAP + tables[last].width <= job->options.width; last++)
            used += GAP + tables[last].width;
        if (first) qkv_bytes_text(out, "\n");
        append_band(job, tables, first, last, out);
    }
    if (shown < heads)
        qkv_bytes_format(out, "%*s… and %lld more heads (--head H shows one, --full all)\n", INDENT, "",
                         (long long)(heads - shown));
}

enum qkv_status qkv_text_explanations(const struct format_job *job, struct bytes *out,
                                      struct qkv_error *error)
{
    const struct qkv_explanation *first = &job->explanations[0];
    const char *title = first->title ? qkv_display_line(job->arena, first->title) : NULL;
    (void)error;
    if (title && *title) qkv_bytes_format(out, "%s\n", title);
    if (first->about && *first->about) {
        qkv_bytes_text(out, "\n");
        append_wrapped(job, first->about, 0, out);
    }
    for (int64_t i = 0; i < first->step_count; i++) {
        if (out->size) qkv_bytes_text(out, "\n");
        append_step(job, i, out);
    }
    return QKV_OK;
}
