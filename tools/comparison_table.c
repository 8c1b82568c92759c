/* The table of a comparison as text, Markdown, TSV and JSON. All but JSON show the same cells. */
#include "comparison.h"
#include "score_options.h"

#include <cjson/cJSON.h>
#include <math.h>
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
    const cJSON *evaluation = column->test < 0 ? NULL : run->evaluation[column->test];
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

/* Width on a terminal, in characters. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void print_right(FILE *file, const char *text, int width)
{
    fprintf(file, "%*s%s", width - width_of(text), "", text);
}

static void print_left(FILE *file, const char *text, int width)
{
    int padding = width - width_of(text);
    fprintf(file, "%s%*s", text, padding > 0 ? padding : 0, "");
}

void comparison_print_text(const struct comparison *c, FILE *file)
{
    struct column columns[MOST_COLUMNS];
    int count = columns_of(c, columns), widths[MOST_COLUMNS];
    char text[CELL];
    for (int i = 0; i < count; i++) {
        widths[i] = width_of(columns[i].name);
        for (int r = 0; r < c->runs; r++) {
            if (i) cell_of(&c->run[r], &columns[i], true, text);
            int width = width_of(i ? text : c->run[r].name);
            if (width > widths[i]) widths[i] = width;
        }
    }
    for (int t = 0; t < c->tests; t++) { /* the name of a test is printed above its columns */
        int width = -2, last = 0;
        for (int i = 0; i < count; i++)
            if (columns[i].test == t) width += widths[last = i] + 2;
        if (width_of(c->test[t].name) > width) widths[last] += width_of(c->test[t].name) - width;
    }
    for (int i = 0; i < count;) {
        int test = columns[i].test, width = -2;
        for (; i < count && columns[i].test == test; i++) width += widths[i] + 2;
        print_left(file, test < 0 ? "" : c->test[test].name, i < count ? width + 2 : 0);
    }
    fputc('\n', file);
    print_left(file, columns[0].name, widths[0]);
    for (int i = 1; i < count; i++) {
        fputs("  ", file);
        print_right(file, columns[i].name, widths[i]);
    }
    fputc('\n', file);
    for (int r = 0; r < c->runs; r++) {
        print_left(file, c->run[r].name, widths[0]);
        for (int i = 1; i < count; i++) {
            cell_of(&c->run[r], &columns[i], true, text);
            fputs("  ", file);
            print_right(file, text, widths[i]);
        }
        fputc('\n', file);
    }
}

/* A row for each run below `TEST: COLUMN`, between separators. */
static void print_rows(const struct comparison *c, FILE *file, const char *separator, bool markdown)
{
    struct column columns[MOST_COLUMNS];
    int count = columns_of(c, columns);
    const char *edge = markdown ? "|" : "";
    char text[CELL];
    fputs(markdown ? "| " : "", file);
    for (int i = 0; i < count; i++) {
        if (i) fputs(separator, file);
        if (columns[i].test >= 0) fprintf(file, "%s: ", c->test[columns[i].test].name);
        fputs(columns[i].name, file);
    }
    fprintf(file, "%s%s\n", *edge ? " " : "", edge);
    for (int i = 0; markdown && i < count; i++) fputs(i ? "---:|" : "|---|", file);
    if (markdown) fputc('\n', file);
    for (int r = 0; r < c->runs; r++) {
        fprintf(file, "%s%s", markdown ? "| " : "", c->run[r].name);
        for (int i = 1; i < count; i++) {
            cell_of(&c->run[r], &columns[i], markdown, text);
            fprintf(file, "%s%s", separator, text);
        }
        fprintf(file, "%s%s\n", *edge ? " " : "", edge);
    }
}

void comparison_print_markdown(const struct comparison *c, FILE *file)
{
    print_rows(c, file, " | ", true);
}

void comparison_print_tsv(const struct comparison *c, FILE *file)
{
    print_rows(c, file, "\t", false);
}

/* The evaluations as they came, one array of all. */
void comparison_print_json(const struct comparison *c, FILE *file)
{
    fputs("[", file);
    for (int i = 0; i < c->files; i++) {
        char *text = cJSON_Print(c->file[i]);
        fprintf(file, "%s%s", i ? ",\n" : "", text ? text : "null");
        cJSON_free(text);
    }
    fputs("]\n", file);
}
