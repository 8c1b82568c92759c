/* Writes the table of a comparison as text, Markdown, TSV and JSON. All formats except JSON have the same cells. */
#include "comparison.h"
#include "score_options.h"

#include "draw/text.h"
#include "report/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 48, MAX_DIFFERENCES = 128, MAX_COLUMNS = 3 + (QKV_METRIC_COUNT + 1) * MAX_TESTS };

/* A column of the table. */
struct column {
    int test; /* -1: the same for all tests */
    char name[METRIC_NAME_SIZE];
    const char *key; /* of the number in an evaluation; NULL: a number of the run */
    bool percent;    /* the number is a share, shown in percent */
    int digits;      /* after the decimal point, of numbers with a key */
};

/* The key of the alignment error, which evaluation_alignment_error finds. */
static const char ALIGNMENT[] = "alignment";

static int columns_of(const struct comparison *c, struct column columns[MAX_COLUMNS])
{
    int count = 0;
    columns[count++] = (struct column){-1, "model", NULL, false, 0};
    columns[count++] = (struct column){-1, "parameters", NULL, false, 0};
    columns[count++] = (struct column){-1, "tokens/s", NULL, false, 0};
    for (int t = 0; t < c->tests; t++) {
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
            bool is_shown =
                info->columns & QKV_COLUMN_COMPARE || (m == QKV_METRIC_LOSS && c->test[t].of_training);
            if (!is_shown) continue;
            columns[count] = (struct column){t, "", info->key, info->percent, info->line_digits};
            metric_column_name((enum qkv_metric)m, columns[count++].name);
        }
        if (c->test[t].aligned) columns[count++] = (struct column){t, "AER, %", ALIGNMENT, true, 2};
    }
    return count;
}

/* 1234567 as 1,234,567. */
static void with_commas(char text[CELL], double number)
{
    char digits[CELL];
    int length = snprintf(digits, sizeof digits, "%.0f", number), at = 0;
    for (int i = 0; i < length && at < CELL - 2; i++) {
        if (i && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
}

/* The number of a run in a column; NAN: none. */
static double number_of(const struct compared_run *run, const struct column *column)
{
    const struct cJSON *evaluation = column->test < 0 ? NULL : run->evaluation[column->test];
    double number = column->key == ALIGNMENT              ? evaluation_alignment_error(evaluation)
                    : column->key                         ? evaluation_number(evaluation, column->key)
                    : !strcmp(column->name, "parameters") ? run->parameters
                                                          : run->tokens_per_second;
    if (!column->key && !(number > 0)) return (double)NAN;
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

/* Writes the content of a cell; `for_people`: with commas in numbers, standard deviations, and a dash for a missing
 * number. */
static void cell_of(const struct comparison *c, int row, const struct column *column, bool for_people,
                    char text[CELL])
{
    double mean, deviation;
    int count = mean_of(c, row, column, &mean, &deviation);
    if (!count)
        strcpy(text, for_people ? "–" : "");
    else if (column->key && count > 1 && for_people)
        snprintf(text, CELL, "%.*f ± %.*f", column->digits, mean, column->digits, deviation);
    else if (column->key)
        snprintf(text, CELL, "%.*f", column->digits, mean);
    else if (for_people)
        with_commas(text, mean);
    else
        snprintf(text, CELL, "%.0f", mean);
}

void comparison_text(struct comparison *c, struct bytes *out)
{
    struct column columns[MAX_COLUMNS];
    int count = columns_of(c, columns), widths[MAX_COLUMNS];
    char text[CELL];
    for (int i = 0; i < count; i++) {
        widths[i] = qkv_cell_width(columns[i].name);
        for (int r = 0; r < c->rows; r++) {
            if (i) cell_of(c, r, &columns[i], true, text);
            int width = qkv_cell_width(i ? text : c->row[r].name);
            if (width > widths[i]) widths[i] = width;
        }
    }
    for (int t = 0; t < c->tests; t++) { /* the name of a test is printed above its columns */
        int width = -2, last = 0, name = qkv_cell_width(c->test[t].name);
        for (int i = 0; i < count; i++)
            if (columns[i].test == t) width += widths[last = i] + 2;
        if (name > width) widths[last] += name - width;
    }
    for (int i = 0; i < count;) {
        int test = columns[i].test, width = -2;
        const char *name = test < 0 ? "" : c->test[test].name;
        for (; i < count && columns[i].test == test; i++) width += widths[i] + 2;
        qkv_cell_padded(out, name, i < count ? width + 2 : qkv_cell_width(name), CELL_LEFT);
    }
    qkv_bytes_text(out, "\n");
    qkv_cell_padded(out, columns[0].name, widths[0], CELL_LEFT);
    for (int i = 1; i < count; i++) qkv_cell_padded(out, columns[i].name, widths[i] + 2, CELL_RIGHT);
    qkv_bytes_text(out, "\n");
    for (int r = 0; r < c->rows; r++) {
        qkv_cell_padded(out, c->row[r].name, widths[0], CELL_LEFT);
        for (int i = 1; i < count; i++) {
            cell_of(c, r, &columns[i], true, text);
            qkv_cell_padded(out, text, widths[i] + 2, CELL_RIGHT);
        }
        qkv_bytes_text(out, "\n");
    }
    comparison_differences(c, false, out);
}

/* ---- a row for each run below `TEST: COLUMN` ---- */

/* The head of a column, in the arena; "" if memory runs out, which marks `out` as failed. */
static const char *head_of(struct comparison *c, const struct column *column, struct bytes *out)
{
    if (column->test < 0) return column->name;
    const char *head = qkv_arena_format(&c->arena, "%s: %s", c->test[column->test].name, column->name);
    if (!head) out->failed = true;
    return head ? head : "";
}

void comparison_markdown(struct comparison *c, struct bytes *out)
{
    struct column columns[MAX_COLUMNS];
    int count = columns_of(c, columns);
    char text[CELL];
    for (int i = 0; i < count; i++) {
        qkv_bytes_text(out, i ? " | " : "| ");
        qkv_text_markdown(out, head_of(c, &columns[i], out));
    }
    qkv_bytes_text(out, " |\n");
    for (int i = 0; i < count; i++) qkv_bytes_text(out, i ? "---:|" : "|---|");
    for (int r = 0; r < c->rows; r++) {
        qkv_bytes_text(out, "\n| ");
        qkv_text_markdown(out, c->row[r].name);
        for (int i = 1; i < count; i++) {
            cell_of(c, r, &columns[i], true, text);
            qkv_bytes_format(out, " | %s", text);
        }
        qkv_bytes_text(out, " |");
    }
    qkv_bytes_text(out, "\n");
    comparison_differences(c, true, out);
}

void comparison_tsv(struct comparison *c, struct bytes *out)
{
    struct column columns[MAX_COLUMNS];
    int count = columns_of(c, columns);
    char text[CELL];
    for (int i = 0; i < count; i++) {
        qkv_text_field(out, head_of(c, &columns[i], out), '\t');
        qkv_bytes_text(out, i < count - 1 ? "\t" : "\n");
    }
    for (int r = 0; r < c->rows; r++) {
        qkv_text_field(out, c->row[r].name, '\t');
        for (int i = 1; i < count; i++) {
            cell_of(c, r, &columns[i], false, text);
            qkv_bytes_format(out, "\t%s", text);
        }
        qkv_bytes_text(out, "\n");
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

/* A table of differences, with headings in its first row and column. It has a row for each key or, if there are more runs than
 * keys, for each run. */
struct difference_table {
    const struct differences *differences;
    struct comparison *comparison;
    int row[MAX_RUNS], rows; /* rows of the comparison whose config is known */
    bool keys_down;
};

static const char *difference_cell(const struct difference_table *t, int down, int across)
{
    int key = (t->keys_down ? down : across) - 1, row = (t->keys_down ? across : down) - 1;
    if (key < 0 && row < 0) return t->keys_down ? "config" : "model";
    if (key < 0) return t->comparison->row[t->row[row]].name;
    if (row < 0) return t->differences->key[key];
    int run = t->comparison->row[t->row[row]].run[0];
    return t->differences->value[key][t->comparison->set.run[t->comparison->run[run].in_set].group];
}

static void append_differences(const struct difference_table *t, bool markdown, struct bytes *out)
{
    int keys = t->differences->count, downs = 1 + (t->keys_down ? keys : t->rows),
        acrosses = 1 + (t->keys_down ? t->rows : keys);
    for (int down = 0; down < downs; down++) {
        for (int across = 0; across < acrosses; across++) {
            int width = 0;
            for (int i = 0; i < downs; i++) {
                int one = qkv_cell_width(difference_cell(t, i, across));
                if (one > width) width = one;
            }
            const char *cell = difference_cell(t, down, across);
            if (markdown) {
                qkv_bytes_text(out, across ? " | " : "| ");
                qkv_text_markdown(out, cell);
            } else {
                qkv_cell_padded(out, cell, across ? width + 2 : width, across ? CELL_RIGHT : CELL_LEFT);
            }
        }
        qkv_bytes_text(out, markdown ? " |\n" : "\n");
        for (int across = 0; markdown && !down && across < acrosses; across++)
            qkv_bytes_text(out, across ? "---:|" : "|---|");
        if (markdown && !down) qkv_bytes_text(out, "\n");
    }
}

void comparison_differences(struct comparison *c, bool markdown, struct bytes *out)
{
    static struct differences differences; /* large */
    struct difference_table table = {.differences = &differences, .comparison = c};
    differences = (struct differences){.groups = c->set.groups};
    if (run_set_differences(&c->set, add_difference, &differences)) out->failed = true;
    for (int r = 0; r < c->rows; r++)
        if (c->run[c->row[r].run[0]].in_set >= 0) table.row[table.rows++] = r;
    table.keys_down = differences.count > table.rows;
    if (!differences.count || out->failed) return;
    qkv_bytes_text(out, "\n");
    append_differences(&table, markdown, out);
    if (differences.left_out)
        qkv_bytes_format(out, "%sand %d more keys\n", markdown ? "\n" : "", differences.left_out);
}
