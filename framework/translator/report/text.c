/* Attention maps and explanations in the terminal, as tables with aligned columns, and with coloured cells if the terminal has
 * colours. Explanations have a section per step, in which matrices stand side by side if they fit. A matrix that is wider than
 * the terminal is split into blocks of columns. */
#include "core/memory.h"
#include "report/explanation.h"

#include <math.h>

enum {
    INDENT = 4,
    GAP = 3,                /* between matrices side by side */
    MAX_LABEL = 17,         /* columns; longer labels are cut */
    MAX_NUMBERED_ROWS = 12, /* shown of a matrix unless options.full is set */
    MAX_NAMED_ROWS = 24,    /* the same for rows with labels */
    MAX_HEADS = 6,          /* the same for heads */
    BRIEF_LINES = 12,       /* of a matrix in a brief explanation */
    /* Columns of maps: */
    MIN_MAP_COLUMN = 4,  /* "0.12" */
    MAX_MAP_COLUMN = 12, /* longer labels of columns are cut */
    MAX_MAP_LABEL = 20,  /* longer labels of rows are cut */
    NATS = 8,            /* of the column of nats */
};

/* A matrix to print, or a block of its columns. Widths are in columns of the terminal. */
struct table {
    const struct qkv_step *step;
    const double *values;
    const char *caption;
    struct number_style style;
    bool is_map;        /* numbers have two decimals, and those that round to 0.00 are dots */
    bool colored;       /* cells have background colours */
    double largest;     /* the value that gets the last colour */
    const double *nats; /* of the rows, after their labels; NULL: none */
    int label_width;    /* of the widest row label */
    int *widths;        /* of the columns */
    int width;          /* of the table */
    int64_t row_count;
    struct elision rows;         /* of row_count */
    int64_t first_column, after; /* the columns of the block: first_column .. after - 1 */
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* ---- brief explanations: one head of a layer of a model, in one or two screens ---- */

static bool is_brief(const struct format_job *job)
{
    return !job->options.full && job->explanations[0].layer > 0;
}

/* Whether a brief explanation leaves a step out. */
static bool is_left_out(const struct format_job *job, const struct qkv_step *step)
{
    static const char *const shown[] = {"queries", "rotated_queries", "keys",         "rotated_keys",
                                        "scores",  "weights",         "word_weights", "context"};
    if (!is_brief(job)) return false;
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (!strcmp(shown[i], step->name)) return false;
    return true;
}

/* ---- measuring ---- */

/* The text of a number. In a map, dots in place of 0.00 make larger weights easy to see. */
static void cell_text(const struct table *table, int64_t row, int64_t column, char text[40])
{
    double value = table->values[row * table->step->columns + column];
    if (!table->is_map)
        qkv_number_text(text, table->style, value);
    else if (fabs(value) < 0.005)
        strcpy(text, "·");
    else
        qkv_display_number(text, fmax(fmin(value, 9), -9), 2);
}

/* Chooses a block of columns. */
static void set_columns(struct table *table, int64_t first, int64_t after)
{
    table->first_column = first;
    table->after = after;
    table->width = table->label_width + (table->nats ? NATS : 0);
    for (int64_t c = first; c < after; c++) table->width += 1 + table->widths[c];
}

/* Measures the complete matrix, and chooses its rows. False if memory runs out. */
static bool measure(const struct format_job *job, struct table *table)
{
    const struct qkv_step *step = table->step;
    table->widths = qkv_arena_zeros(job->arena, step->columns, sizeof *table->widths);
    if (!table->widths) return false;
    const int min_column = table->is_map ? MIN_MAP_COLUMN : 0,
              max_column = table->is_map ? MAX_MAP_COLUMN : MAX_LABEL,
              max_label = table->is_map ? MAX_MAP_LABEL : MAX_LABEL;
    table->row_count = step->rows;
    table->label_width = table->is_map;
    table->rows = table->is_map || job->options.full || is_brief(job)
                      ? (struct elision){step->rows, 0}
                      : qkv_elide(step->rows, step->row_names ? MAX_NAMED_ROWS : MAX_NUMBERED_ROWS, 2);
    for (int64_t i = 0; i < qkv_elision_places(table->rows, step->rows); i++) {
        int64_t r = qkv_elision_at(table->rows, step->rows, i);
        if (r < 0) continue;
        int label = smaller(qkv_cell_width(qkv_step_label(job, step->row_names, r)), max_label);
        table->label_width = larger(table->label_width, label);
        for (int64_t c = 0; c < step->columns; c++) {
            char text[40];
            cell_text(table, r, c, text);
            table->widths[c] = larger(table->widths[c], qkv_cell_width(text));
        }
    }
    for (int64_t c = 0; c < step->columns; c++) {
        int label = smaller(qkv_cell_width(qkv_step_label(job, step->column_names, c)), max_column);
        table->widths[c] = larger(larger(table->widths[c], min_column), label);
    }
    if (table->colored) table->label_width++; /* labels must not touch coloured cells */
    set_columns(table, 0, step->columns);
    return true;
}

/* The end of the block of columns that begins at `from`: as many as fit into the line for tables first .. last - 1, side by
 * side; at least one. */
static int64_t end_of_block(const struct format_job *job, struct table *tables, int64_t first, int64_t last,
                            int64_t from)
{
    int64_t after = from, columns = tables[first].step->columns;
    while (after < columns) {
        int width = (tables[first].is_map ? 0 : INDENT) - GAP;
        for (int64_t t = first; t < last; t++) {
            set_columns(&tables[t], from, after + 1);
            width += GAP + tables[t].width;
        }
        if (width > job->options.width && after > from) break;
        after++;
    }
    for (int64_t t = first; t < last; t++) set_columns(&tables[t], from, after);
    return after;
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
    if (table->nats) qkv_display_number(number, row < 0 ? 0 : table->nats[row], 2);
    if (table->nats) qkv_cell_padded(out, row < 0 ? "nats" : number, NATS, CELL_RIGHT);
    for (int64_t c = table->first_column; c < table->after; c++) {
        uint32_t color = 0;
        if (row >= 0) cell_text(table, row, c, number);
        if (colored) {
            qkv_colormap_color(job->options.colormap, table->values[row * step->columns + c] / table->largest,
                               &color);
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
    const int64_t rows = table->row_count, i = line - captions - 1,
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
    for (int64_t t = first; t < last; t++)
        captions = captions || (*tables[t].caption && !tables[t].first_column);
    for (int64_t t = first; t < last; t++) {
        int64_t height = captions + 1 + qkv_elision_places(tables[t].rows, tables[t].row_count);
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
    int used = 0;
    const char *at = qkv_display_paragraph(job->arena, text);
    if (!at) out->failed = true;
    while (at && *at) {
        size_t length = strcspn(at, " \n");
        const char *word = qkv_arena_format(job->arena, "%.*s", (int)length, at);
        if (!word) out->failed = true;
        int columns = word ? qkv_cell_width(word) : 0;
        bool fits = used && indent + used + 1 + columns <= job->options.width;
        if (used && !fits) qkv_bytes_text(out, "\n");
        qkv_cell_spaces(out, fits ? 1 : indent);
        qkv_bytes_append(out, at, length);
        used = (fits ? used + 1 : 0) + columns;
        at += length + strspn(at + length, " ");
        if (*at && *at != '\n') continue;
        qkv_bytes_text(out, "\n");
        used = 0;
        at += strspn(at, " \n");
    }
}

/* Appends the heading of a step: " 8  scores   S = Q Kᵀ                          [4, 4]". A formula that would move the
 * shape out of its column is below. rows: how many of its rows are shown, from the first. */
static void append_title(const struct format_job *job, int64_t at, int64_t rows, struct bytes *out)
{
    const struct qkv_step *step = &job->explanations[0].steps[at];
    const char *title = qkv_display_line(job->arena, step->title),
               *formula = qkv_display_line(job->arena, step->formula);
    bool colors = job->options.colors != QKV_COLORS_NONE;
    char complete[64], shape[128], number[24];
    if (!title || !formula) {
        out->failed = true;
        return;
    }
    qkv_step_shape(&job->explanations[0], step, complete);
    snprintf(shape, sizeof shape, "%s", complete);
    if (rows < step->rows)
        snprintf(shape, sizeof shape, "%lld row%s of %s", (long long)rows, rows == 1 ? "" : "s", complete);
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

/* Makes a table for each of the first `heads` heads in each explanation that has the step, heads first. Returns their number. */
static int64_t make_tables(const struct format_job *job, int64_t at, int64_t heads, struct table *tables,
                           struct bytes *out)
{
    const bool weights = job->explanations[0].steps[at].content == QKV_STEP_WEIGHTS;
    int64_t count = 0;
    for (int64_t i = 0; i < heads * job->count && !out->failed; i++) {
        int index = (int)(i % job->count);
        int64_t h = i / job->count;
        const struct qkv_step *step = qkv_step_counterpart(job, index, at);
        if (!step) continue;
        tables[count] = (struct table){
            .step = step,
            .values = step->values + h * step->rows * step->columns,
            .caption = qkv_step_caption(job, index, step, h),
            .style = qkv_step_number_style(job, at),
            .colored = weights && job->options.colors != QKV_COLORS_NONE,
            .largest = weights ? qkv_step_largest(job, at) : 1,
        };
        if (!measure(job, &tables[count++])) out->failed = true;
    }
    return count;
}

/* Returns the end of a band that begins with table `first`: further tables as far as they fit beside it. Beside a table that is
 * split into blocks of numbered columns stand those of the same head; `walks` is their number. */
static int64_t end_of_band(const struct format_job *job, const struct table *tables, int64_t first,
                           int64_t count, int64_t walks)
{
    int64_t last = first + 1;
    int used = INDENT + tables[first].width;
    if (used > job->options.width)
        return tables[first].step->column_names ? last : first + walks - first % walks;
    while (last < count && tables[last].step->columns == tables[first].step->columns &&
           used + GAP + tables[last].width <= job->options.width)
        used += GAP + tables[last++].width;
    return last;
}

/* Shows only the first rows of the tables, as many as fit into BRIEF_LINES if each is split as the first. Returns their number. */
static int64_t shorten(const struct format_job *job, struct table *tables, int64_t count, int64_t walks)
{
    const struct qkv_step *step = tables[0].step;
    int64_t last = end_of_band(job, tables, 0, count, walks), blocks = 0, rows = step->rows;
    for (int64_t from = 0; from < step->columns; blocks++) from = end_of_block(job, tables, 0, last, from);
    if (blocks && rows >= BRIEF_LINES / blocks) rows = larger(BRIEF_LINES / (int)blocks - 1, 1);
    for (int64_t t = 0; t < count; t++) {
        tables[t].row_count = rows;
        tables[t].rows = (struct elision){rows, 0};
        set_columns(&tables[t], 0, tables[t].step->columns);
    }
    return rows;
}

static void append_step(const struct format_job *job, int64_t at, struct bytes *out)
{
    const struct qkv_step *step = &job->explanations[0].steps[at];
    int64_t heads = step->heads ? step->heads : 1;
    int64_t shown = job->options.full || heads <= MAX_HEADS ? heads : MAX_HEADS;
    struct table *tables = qkv_arena_zeros(job->arena, shown * job->count, sizeof *tables);
    bool repeated = !is_brief(job) && qkv_step_repeated(job, at);
    int64_t count = tables && !repeated ? make_tables(job, at, shown, tables, out) : 0, walks = count / shown;
    if (!tables) out->failed = true;
    if (out->failed) return;
    append_title(job, at, is_brief(job) ? shorten(job, tables, count, walks) : step->rows, out);
    if (repeated)
        qkv_bytes_format(out, "%*ssame numbers as step %lld\n", INDENT, "",
                         (long long)qkv_step_repeated(job, at));
    for (int64_t first = 0, last; first < count; first = last) {
        int64_t from = 0;
        last = end_of_band(job, tables, first, count, walks);
        if (first) qkv_bytes_text(out, "\n");
        do {
            from = end_of_block(job, tables, first, last, from);
            append_band(job, tables, first, last, out);
        } while (from < tables[first].step->columns);
    }
    if (shown < heads && !repeated)
        qkv_bytes_format(out, "%*s… and %lld more heads (--head H shows one, --full all)\n", INDENT, "",
                         (long long)(heads - shown));
}

static enum qkv_status write_explanations(const struct format_job *job, struct bytes *out,
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
        if (is_left_out(job, &first->steps[i])) continue;
        if (out->size) qkv_bytes_text(out, "\n");
        append_step(job, i, out);
    }
    if (is_brief(job))
        qkv_bytes_format(out, "\n--full prints all %lld steps with all their rows%s\n",
                         (long long)first->step_count, first->layer_heads > 1 ? " and heads" : "");
    return QKV_OK;
}

/* ---- maps ---- */

static void append_map(const struct format_job *job, const struct qkv_attention_map *map, struct bytes *out)
{
    bool cross = map->kind == QKV_ATTENTION_CROSS, colored = job->options.colors != QKV_COLORS_NONE;
    const char *title = qkv_report_map_title(job->arena, map, true), *value = job->report->value_name;
    const struct qkv_step step = {.rows = map->rows,
                                  .columns = map->columns,
                                  .row_names = qkv_attention_row_labels(job->report, map->kind),
                                  .column_names = qkv_attention_column_tokens(job->report, map->kind)};
    struct table table = {
        .step = &step, .values = map->weights, .nats = map->nats, .is_map = true, .colored = colored};
    double tick;
    table.largest = qkv_report_color_maximum(job, &tick);
    if (value) value = qkv_display_line(job->arena, value);
    if (!title || (job->report->value_name && !value) || !measure(job, &table)) {
        out->failed = true;
        return;
    }
    qkv_bytes_format(out, "%s\nrows: %s, columns: %s%s%s\n", title,
                     qkv_attention_row_axis(job->report, map->kind, "queries"), cross ? "source" : "keys",
                     value ? ", cells: " : "", value ? value : "");
    for (int64_t from = 0; from < map->columns;) {
        from = end_of_block(job, &table, 0, 1, from);
        qkv_bytes_text(out, "\n");
        for (int64_t row = -1; row < map->rows; row++) {
            append_row(job, &table, row, out);
            qkv_bytes_text(out, "\n");
        }
    }
}

static enum qkv_status write_maps(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    const char *title = job->report->title ? qkv_display_line(job->arena, job->report->title) : NULL;
    (void)error;
    if (title) qkv_bytes_format(out, "%s\n\n", title);
    for (int64_t i = 0; i < job->report->map_count; i++) {
        if (i > 0) qkv_bytes_text(out, "\n");
        append_map(job, &job->report->maps[i], out);
    }
    return QKV_OK;
}

const struct qkv_format_writer qkv_writer_text = {
    .format = {"text", "txt", "tables in the terminal", QKV_FORMAT_TERMINAL, .sequence = QKV_FORMAT_BLOCKS},
    .write_maps = write_maps,
    .write_explanations = write_explanations,
};
