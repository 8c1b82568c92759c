/* Writes the table of a comparison as text, Markdown, TSV and JSON. All formats except JSON have the same cells. */
#include "compare.h"
#include "score_options.h"

#include "metrics/metric.h"
#include "report/json_text.h"

enum {
    MAX_DIFFERENCES = 128,
    MAX_COLUMNS = 3 + (QKV_METRIC_COUNT + 1) * MAX_TESTS,
    MOST_COLUMNS = MAX_COLUMNS > MAX_DIFFERENCES ? MAX_COLUMNS : MAX_DIFFERENCES + 1,
};

/* ---- numbers of evaluations ---- */

double evaluation_alignment_error(const cJSON *evaluation)
{
    const cJSON *alignment = cJSON_GetObjectItemCaseSensitive(evaluation, "alignment"), *best;
    double min = (double)NAN;
    cJSON_ArrayForEach(best, cJSON_GetObjectItemCaseSensitive(alignment, "best"))
    {
        double error = qkv_json_number(best, "aer");
        if (!(min <= error)) min = error; /* also when `min` is not a number yet */
    }
    return min;
}

double run_number(const struct compared_run *run, const char *key)
{
    double found = (double)NAN;
    for (int t = 0; t < MAX_TESTS; t++) {
        double number = qkv_json_number(run->evaluation[t], key);
        if (number > 0) found = number;
    }
    return found;
}

/* ---- tables of texts ---- */

/* A table with headings in its first row and column; its texts live in the arena of the comparison. */
struct table {
    struct comparison *comparison;
    struct bytes *out;
    int rows, columns;
    const char **cell; /* [rows, columns] */
    int width[MOST_COLUMNS];
};

static struct table make_table(struct comparison *c, int rows, int columns, struct bytes *out)
{
    struct table table = {.comparison = c, .out = out, .rows = rows, .columns = columns};
    table.cell = required(qkv_arena_allocate(&c->arena, (size_t)(rows * columns) * sizeof *table.cell));
    return table;
}

static void set_cell(struct table *table, int row, int column, const char *text)
{
    int width = qkv_cell_width(text);
    table->cell[row * table->columns + column] = text;
    if (width > table->width[column]) table->width[column] = width;
}

static void append_text(const struct table *table)
{
    for (int i = 0; i < table->rows * table->columns; i++) {
        int column = i % table->columns, width = table->width[column];
        qkv_cell_padded(table->out, table->cell[i], column ? width + 2 : width,
                        column ? CELL_RIGHT : CELL_LEFT);
        if (column == table->columns - 1) qkv_bytes_text(table->out, "\n");
    }
}

static void append_markdown(const struct table *table)
{
    for (int i = 0; i < table->rows * table->columns; i++) {
        bool is_last = i % table->columns == table->columns - 1;
        qkv_bytes_text(table->out, i % table->columns ? " | " : "| ");
        qkv_text_markdown(table->out, table->cell[i]);
        if (is_last) qkv_bytes_text(table->out, " |\n");
        for (int column = 0; is_last && i < table->columns && column < table->columns; column++)
            qkv_bytes_text(table->out, column ? "---:|" : "|---|");
        if (is_last && i < table->columns) qkv_bytes_text(table->out, "\n");
    }
}

/* ---- what differs between the configs ---- */

/* The keys that differ, with the values of each group of the set. */
struct differences {
    int count;
    const char *key[MAX_DIFFERENCES], *value[MAX_DIFFERENCES][MAX_RUNS];
    int groups, left_out;
};

static void add_difference(void *context, const char *key, const char *const *values)
{
    struct differences *d = context;
    if (d->count == MAX_DIFFERENCES) {
        d->left_out++;
        return;
    }
    d->key[d->count] = key;
    for (int g = 0; g < d->groups; g++) d->value[d->count][g] = values[g];
    d->count++;
}

/* Appends the keys of the configs whose values differ between the rows, in a table that has a row for each key or, if there are
 * more runs than keys, for each run; nothing when none does. */
static void append_differences(struct comparison *c, void append(const struct table *table),
                               const char *between, struct bytes *out)
{
    static struct differences d; /* large */
    const struct compared_row *row[MAX_RUNS];
    int rows = 0; /* rows of the comparison whose config is known */
    d = (struct differences){.groups = c->set.groups};
    run_set_differences(&c->set, add_difference, &d);
    for (int r = 0; r < c->rows; r++)
        if (c->run[c->row[r].run[0]].in_set >= 0) row[rows++] = &c->row[r];
    bool keys_down = d.count > rows;
    if (!d.count) return;
    struct table table =
        make_table(c, 1 + (keys_down ? d.count : rows), 1 + (keys_down ? rows : d.count), out);
    for (int k = 0; k <= d.count; k++)
        for (int r = 0; r <= rows; r++) {
            const char *cell = keys_down ? "config" : "model";
            if (r && k)
                cell = d.value[k - 1][c->set.run[c->run[row[r - 1]->run[0]].in_set].group];
            else if (r || k)
                cell = r ? row[r - 1]->name : d.key[k - 1];
            set_cell(&table, keys_down ? k : r, keys_down ? r : k, cell);
        }
    qkv_bytes_text(out, "\n");
    append(&table);
    if (d.left_out) qkv_bytes_format(out, "%sand %d more keys\n", between, d.left_out);
}

/* ---- scores ---- */

/* A column of the table. */
struct column {
    int test; /* -1: a number of the run, the same for all tests */
    char name[METRIC_NAME_SIZE];
    const char *key; /* of the number in an evaluation; NULL: the name of the row */
    bool percent;    /* the number is a share, shown in percent */
    int digits;      /* after the decimal point */
};

/* The key of the alignment error, which evaluation_alignment_error finds. */
static const char ALIGNMENT[] = "alignment";

static int columns_of(const struct comparison *c, struct column columns[MAX_COLUMNS])
{
    int count = 0;
    columns[count++] = (struct column){-1, "model", NULL, false, 0};
    columns[count++] = (struct column){-1, "parameters", "parameters", false, 0};
    columns[count++] = (struct column){-1, "tokens/s", "training_tokens_per_second", false, 0};
    for (int t = 0; t < c->tests; t++) {
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
            bool is_shown = c->test[t].is_text ? m == QKV_METRIC_PERPLEXITY
                                               : info->columns & QKV_COLUMN_COMPARE ||
                                                     (m == QKV_METRIC_LOSS && c->test[t].of_training);
            if (!is_shown) continue;
            columns[count] = (struct column){t, "", info->key, info->percent, info->line_digits};
            metric_column_name((enum qkv_metric)m, columns[count++].name);
        }
        if (c->test[t].is_text)
            columns[count++] = (struct column){t, "bits per character", QKV_BITS_PER_CHARACTER, false, 4};
        if (c->test[t].aligned) columns[count++] = (struct column){t, "AER, %", ALIGNMENT, true, 2};
    }
    return count;
}

/* 1234567 as 1,234,567. */
static const char *with_commas(struct qkv_arena *arena, double number)
{
    char *text = TEXT_IN(arena, "%.0f", number);
    for (int at = (int)strlen(text) - 3; at > 0; at -= 3)
        text = TEXT_IN(arena, "%.*s,%s", at, text, text + at);
    return text;
}

/* The number of a run in a column; NAN: none. */
static double number_of(const struct compared_run *run, const struct column *column)
{
    if (column->test < 0) return run_number(run, column->key);
    const struct cJSON *evaluation = run->evaluation[column->test];
    double number = column->key == ALIGNMENT ? evaluation_alignment_error(evaluation)
                                             : qkv_json_number(evaluation, column->key);
    return column->percent ? 100 * number : number;
}

/* Computes the mean over the runs of a row that have a number, NAN if none has, and the standard deviation. Returns the number
 * of these runs. */
static int mean_of(const struct comparison *c, int r, const struct column *column, double *mean,
                   double *deviation)
{
    const struct compared_row *row = &c->row[r];
    double sum = 0, squares = 0, number;
    int count = 0;
    for (int i = 0; i < row->runs; i++)
        if (!isnan(number = number_of(&c->run[row->run[i]], column))) sum += number, count++;
    *mean = sum / count;
    for (int i = 0; i < row->runs; i++)
        if (!isnan(number = number_of(&c->run[row->run[i]], column)))
            squares += (number - *mean) * (number - *mean);
    *deviation = count > 1 ? sqrt(squares / (count - 1)) : 0;
    return count;
}

/* The content of a cell; `for_people`: with commas in numbers, standard deviations, and a dash for a missing number. */
static const char *cell_of(struct comparison *c, int row, const struct column *column, bool for_people)
{
    double mean, deviation;
    int count = mean_of(c, row, column, &mean, &deviation);
    if (!count) return for_people ? "–" : "";
    if (column->test < 0 && for_people) return with_commas(&c->arena, mean);
    if (count > 1 && for_people)
        return TEXT_IN(&c->arena, "%.*f ± %.*f", column->digits, mean, column->digits, deviation);
    return TEXT_IN(&c->arena, "%.*f", column->digits, mean);
}

/* The table of scores. `under_tests`: the names of the tests are above the columns, not part of their heads. */
static struct table score_table(struct comparison *c, const struct column columns[MAX_COLUMNS], int count,
                                bool under_tests, bool for_people, struct bytes *out)
{
    struct table table = make_table(c, 1 + c->rows, count, out);
    for (int i = 0; i < count; i++) {
        const char *head = columns[i].name;
        if (!under_tests && columns[i].test >= 0)
            head = TEXT_IN(&c->arena, "%s: %s", c->test[columns[i].test].name, head);
        set_cell(&table, 0, i, head);
        for (int r = 0; r < c->rows; r++)
            set_cell(&table, 1 + r, i, i ? cell_of(c, r, &columns[i], for_people) : c->row[r].name);
    }
    return table;
}

void comparison_text(struct comparison *c, struct bytes *out)
{
    struct column columns[MAX_COLUMNS];
    int count = columns_of(c, columns);
    struct table table = score_table(c, columns, count, true, true, out);
    for (int i = 0, end; i < count; i = end) { /* the name of a test, above its columns, which it may widen */
        int test = columns[i].test, width = -2;
        const char *name = test < 0 ? "" : c->test[test].name;
        for (end = i; end < count && columns[end].test == test; end++) width += table.width[end] + 2;
        int wider = qkv_cell_width(name) - width;
        if (wider > 0) table.width[end - 1] += wider;
        if (wider > 0) width += wider;
        qkv_cell_padded(out, name, end < count ? width + 2 : qkv_cell_width(name), CELL_LEFT);
    }
    qkv_bytes_text(out, "\n");
    append_text(&table);
    append_differences(c, append_text, "", out);
}

void comparison_markdown(struct comparison *c, struct bytes *out)
{
    struct column columns[MAX_COLUMNS];
    struct table table = score_table(c, columns, columns_of(c, columns), false, true, out);
    append_markdown(&table);
    append_differences(c, append_markdown, "\n", out);
}

void comparison_tsv(struct comparison *c, struct bytes *out)
{
    struct column columns[MAX_COLUMNS];
    struct table table = score_table(c, columns, columns_of(c, columns), false, false, out);
    for (int i = 0; i < table.rows * table.columns; i++) {
        qkv_text_field(out, table.cell[i], '\t');
        qkv_bytes_text(out, i % table.columns < table.columns - 1 ? "\t" : "\n");
    }
}

void comparison_json(struct comparison *c, struct bytes *out)
{
    for (int i = 0; i < c->files; i++) {
        qkv_bytes_text(out, i ? ",\n" : "[");
        qkv_json_append(out, c->file[i]);
    }
    qkv_bytes_text(out, "]\n");
}
