/* The table of a comparison as text, Markdown, TSV and JSON. All but JSON show the same cells. */
#include "comparison.h"
#include "score_options.h"

#include "draw/cells.h"
#include "draw/format_text.h"
#include "report/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 32, MOST_COLUMNS = 3 + (QKV_METRIC_COUNT + 1) * MOST_TESTS };

/* A column of the table. */
struct column {
    int test; /* -1: the same for all tests */
    char name[METRIC_NAME_SIZE];
    const char *key; /* of the number in an evaluation; NULL: a number of the run */
    bool percent;    /* the number is a share, shown in percent */
};

/* The key of the alignment error, which evaluation_alignment_error finds. */
static const char ALIGNMENT[] = "alignment";

static int columns_of(const struct comparison *c, struct column columns[MOST_COLUMNS])
{
    int count = 0;
    columns[count++] = (struct column){-1, "model", NULL, false};
    columns[count++] = (struct column){-1, "parameters", NULL, false};
    columns[count++] = (struct column){-1, "tokens/s", NULL, false};
    for (int t = 0; t < c->tests; t++) {
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
            if (!(info->columns & QKV_COLUMN_COMPARE)) continue;
            columns[count] = (struct column){t, "", info->key, info->percent};
            metric_column_name((enum qkv_metric)m, columns[count++].name);
        }
        if (c->test[t].aligned) columns[count++] = (struct column){t, "AER, %", ALIGNMENT, true};
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

/* Writes the content of a cell; `commas`: for people, who also see a dash for a missing number. */
static void cell_of(const struct compared_run *run, const struct column *column, bool commas, char text[CELL])
{
    const struct cJSON *evaluation = column->test < 0 ? NULL : run->evaluation[column->test];
    double number = column->key == ALIGNMENT              ? evaluation_alignment_error(evaluation)
                    : column->key                         ? evaluation_number(evaluation, column->key)
                    : !strcmp(column->name, "parameters") ? run->parameters
                                                          : run->tokens_per_second;
    if (column->percent) number *= 100;
    if (isnan(number) || (!column->key && !(number > 0)))
        strcpy(text, commas ? "–" : "");
    else if (column->key)
        snprintf(text, CELL, "%.2f", number);
    else if (commas)
        with_commas(text, number);
    else
        snprintf(text, CELL, "%.0f", number);
}

void comparison_text(struct comparison *c, struct bytes *out)
{
    struct column columns[MOST_COLUMNS];
    int count = columns_of(c, columns), widths[MOST_COLUMNS];
    char text[CELL];
    for (int i = 0; i < count; i++) {
        widths[i] = qkv_cell_width(columns[i].name);
        for (int r = 0; r < c->runs; r++) {
            if (i) cell_of(&c->run[r], &columns[i], true, text);
            int width = qkv_cell_width(i ? text : c->run[r].name);
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
    for (int r = 0; r < c->runs; r++) {
        qkv_cell_padded(out, c->run[r].name, widths[0], CELL_LEFT);
        for (int i = 1; i < count; i++) {
            cell_of(&c->run[r], &columns[i], true, text);
            qkv_cell_padded(out, text, widths[i] + 2, CELL_RIGHT);
        }
        qkv_bytes_text(out, "\n");
    }
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
    struct column columns[MOST_COLUMNS];
    int count = columns_of(c, columns);
    char text[CELL];
    for (int i = 0; i < count; i++) {
        qkv_bytes_text(out, i ? " | " : "| ");
        qkv_text_markdown(out, head_of(c, &columns[i], out));
    }
    qkv_bytes_text(out, " |\n");
    for (int i = 0; i < count; i++) qkv_bytes_text(out, i ? "---:|" : "|---|");
    for (int r = 0; r < c->runs; r++) {
        qkv_bytes_text(out, "\n| ");
        qkv_text_markdown(out, c->run[r].name);
        for (int i = 1; i < count; i++) {
            cell_of(&c->run[r], &columns[i], true, text);
            qkv_bytes_format(out, " | %s", text);
        }
        qkv_bytes_text(out, " |");
    }
    qkv_bytes_text(out, "\n");
}

void comparison_tsv(struct comparison *c, struct bytes *out)
{
    struct column columns[MOST_COLUMNS];
    int count = columns_of(c, columns);
    char text[CELL];
    for (int i = 0; i < count; i++) {
        qkv_text_field(out, head_of(c, &columns[i], out), '\t');
        qkv_bytes_text(out, i < count - 1 ? "\t" : "\n");
    }
    for (int r = 0; r < c->runs; r++) {
        qkv_text_field(out, c->run[r].name, '\t');
        for (int i = 1; i < count; i++) {
            cell_of(&c->run[r], &columns[i], false, text);
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
