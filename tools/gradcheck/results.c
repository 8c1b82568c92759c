/* The results of a gradient check as tables of 80 columns for people, and as JSON for programs. */
#include "check/check.h"
#include "command.h"
#include "gradcheck.h"

#include <ctype.h>

/* ---- rows ---- */

/* Writes the index of the worst element by its axes, "[3,17]"; "(all)" when all elements moved together. */
static void format_index(const struct qkv_check_row *row, char *text, size_t size)
{
    if (row->worst < 0 || !row->shape.rank) {
        snprintf(text, size, "%s", row->checked ? "(all)" : "");
        return;
    }
    int64_t rest = row->worst, index[QKV_MAX_RANK];
    for (int i = row->shape.rank - 1; i >= 0; i--) {
        index[i] = rest % row->shape.size[i];
        rest /= row->shape.size[i];
    }
    size_t used = 0;
    for (int i = 0; i < row->shape.rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "[", (long long)index[i]);
    if (used < size) snprintf(text + used, size - used, "]");
}

/* Some rows only pass or fail; others compare numbers. */
static bool has_numbers(const struct qkv_check_row *row)
{
    return row->error > 0 || fabs(row->analytic) > 0 || fabs(row->numeric) > 0 || row->shape.rank;
}

/* The gradient is below the noise of finite differences, and its relative error means nothing. */
static bool is_noise(const struct qkv_check_row *row)
{
    return row->excess <= 0 && row->error > 0 &&
           row->rounding > 1e-3 * fmax(fabs(row->analytic), fabs(row->numeric));
}

/* The widths of the columns of names and of counts, which make 80 columns unless an index is long. */
enum { NAME_WIDTH = 22, CHECKED_WIDTH = 6 };

/* The width of the column of indices. */
static int index_width(const struct qkv_check_report *report, const struct gradcheck_subject *subject)
{
    int width = (int)strlen("worst at") + 1;
    for (int64_t i = subject->first; i < subject->end; i++) {
        char where[64];
        format_index(&report->rows[i], where, sizeof where);
        if ((int)strlen(where) > width) width = (int)strlen(where);
    }
    return width;
}

/* Prints the first three columns. What is wider than its column takes room from the next one. */
static void print_place(const char *name, const char *checked, const char *where, int where_width)
{
    int left = 2 + NAME_WIDTH + 1 + CHECKED_WIDTH + 1 + where_width, excess = (int)strlen(name) - NAME_WIDTH;
    int used = printf("  %-*s %*s ", NAME_WIDTH, name, CHECKED_WIDTH - (excess > 0 ? excess : 0), checked);
    printf("%*s", left - used, where);
}

static void print_row(const struct qkv_check_row *row, const char *name, int where_width)
{
    char where[64], checked[32], error[32] = "", bound[32] = "", analytic[32] = "", numeric[32] = "";
    format_index(row, where, sizeof where);
    snprintf(checked, sizeof checked, "%lld", (long long)row->checked);
    if (has_numbers(row)) {
        snprintf(analytic, sizeof analytic, "%.2e", row->analytic);
        snprintf(numeric, sizeof numeric, "%.2e", row->numeric);
        if (row->bound > 0) snprintf(bound, sizeof bound, "%.1e", row->bound);
        if (is_noise(row))
            snprintf(error, sizeof error, "noise");
        else
            snprintf(error, sizeof error, "%.1e", row->error);
    }
    print_place(name, checked, where, where_width);
    printf(" %9s %9s %7s %7s %s\n", analytic, numeric, error, bound, row->failure ? "FAIL" : "ok");
    if (row->failure) printf("      %s\n", row->failure);
}

/* The length of the prefix that is printed once above a group of parameters: "encoder.1." of
 * "encoder.1.self.query.weight", "output." of "output.bias". */
static size_t prefix_length(const char *name)
{
    const char *dot = strchr(name, '.');
    if (!dot) return 0;
    if (isdigit((unsigned char)dot[1])) {
        const char *second = strchr(dot + 1, '.');
        if (second) dot = second;
    }
    return (size_t)(dot + 1 - name);
}

/* Prints the rows of a subject, each group of parameters below its common prefix. */
static void print_rows(const struct qkv_check_report *report, const struct gradcheck_subject *subject,
                       bool failures_only)
{
    const char *above = "", *shown = "";
    int where_width = index_width(report, subject);
    bool model = !strcmp(subject->kind, "config") || !strcmp(subject->kind, "run"),
         quiet_head = model && !failures_only; /* describe() has printed the path */
    for (int64_t i = subject->first; i < subject->end; i++) {
        const struct qkv_check_row *row = &report->rows[i];
        if (failures_only && !row->failure) continue;
        if (strcmp(row->subject, shown) != 0) {
            if (!quiet_head) {
                fputs(*shown ? "\n" : "", stdout);
                say(stdout, "%s\n", row->subject);
            }
            if (!*shown && !failures_only) {
                print_place("tensor", "checked", "worst at", where_width);
                printf(" %9s %9s %7s %7s\n", "analytic", "numeric", "error", "bound");
            }
            shown = row->subject;
            above = "";
        }
        size_t length = strlen(row->tensor) > NAME_WIDTH + 3 ? prefix_length(row->tensor) : 0;
        if (model) length = prefix_length(row->tensor);
        if (length && (prefix_length(above) != length || strncmp(above, row->tensor, length) != 0))
            printf(" %.*s\n", (int)length - 1, row->tensor);
        above = row->tensor;
        print_row(row, row->tensor + length, where_width);
    }
}

/* ---- the summary ---- */

struct totals {
    int64_t checks, elements, held, below_noise, failures;
    double worst; /* largest relative error of gradients above the noise */
};

static struct totals total_of(const struct qkv_check_report *report, int64_t first, int64_t end)
{
    struct totals totals = {0};
    for (int64_t i = first; i < end; i++) {
        const struct qkv_check_row *row = &report->rows[i];
        totals.checks++;
        totals.failures += row->failure != NULL;
        if (!row->shape.rank) continue;
        totals.elements += row->checked;
        totals.held += row->held;
        totals.below_noise += row->below_noise;
        if (!is_noise(row)) totals.worst = fmax(totals.worst, row->error);
    }
    return totals;
}

void gradcheck_print_head(void)
{
    printf("%-34s %8s %10s %12s\n", "", "checks", "gradients", "worst error");
}

static void print_summary(const struct gradcheck_subject *subject, struct totals totals)
{
    int width = 33 - (int)strlen(subject->kind) - (int)strlen(subject->name);
    say(stdout, "%s %s%*s %8lld %10lld ", subject->kind, subject->name, width > 0 ? width : 0, "",
        (long long)totals.checks, (long long)totals.elements);
    if (totals.elements)
        printf("%12.1e", totals.worst);
    else
        printf("%12s", "none");
    if (totals.failures)
        printf("  FAIL (%lld)\n", (long long)totals.failures);
    else
        printf("  ok\n");
}

void gradcheck_print_subject(const struct qkv_check_report *report, const struct gradcheck_subject *subject,
                             enum gradcheck_detail detail)
{
    struct totals totals = total_of(report, subject->first, subject->end);
    if (detail == GRADCHECK_SUMMARY) print_summary(subject, totals);
    if (detail == GRADCHECK_ROWS || totals.failures) print_rows(report, subject, detail != GRADCHECK_ROWS);
    if (detail == GRADCHECK_ROWS || totals.failures) putchar('\n');
}

void gradcheck_print_total(const struct qkv_check_report *report, const struct qkv_check_options *options,
                           double seconds)
{
    struct totals totals = total_of(report, 0, report->count);
    printf("%lld checks of %lld gradients in float64, tolerance %g, seed %llu, %.1f s\n",
           (long long)totals.checks, (long long)totals.elements, options->tolerance,
           (unsigned long long)options->seed, seconds);
    printf("tolerance: %g for %lld gradients", options->tolerance, (long long)totals.held);
    if (totals.held < totals.elements)
        printf(", the rounding of differences for %lld", (long long)(totals.elements - totals.held));
    putchar('\n');
    if (totals.below_noise)
        printf("%lld of these are below the noise of differences and were not judged\n",
               (long long)totals.below_noise);
    if (totals.failures)
        printf("FAILED: %lld of %lld checks\n", (long long)totals.failures, (long long)totals.checks);
    else
        printf("passed\n");
}

/* ---- JSON ---- */

static void add_shape(cJSON *object, const struct qkv_check_row *row)
{
    cJSON *shape = cJSON_AddArrayToObject(object, "shape");
    for (int i = 0; i < row->shape.rank; i++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)row->shape.size[i]));
}

static cJSON *row_object(const struct qkv_check_row *row)
{
    cJSON *object = cJSON_CreateObject();
    JSON_TEXTS(object, {"subject", row->subject}, {"tensor", row->tensor});
    add_shape(object, row);
    JSON_NUMBERS(object, {"elements", (double)row->elements}, {"checked", (double)row->checked},
                 {"held", (double)row->held}, {"below_noise", (double)row->below_noise});
    if (row->worst < 0)
        cJSON_AddNullToObject(object, "worst");
    else
        cJSON_AddNumberToObject(object, "worst", (double)row->worst);
    /* cJSON writes NaN as null. */
    JSON_NUMBERS(object, {"analytic", row->analytic}, {"numeric", row->numeric}, {"rounding", row->rounding},
                 {"error", row->error}, {"excess", row->excess}, {"bound", row->bound});
    cJSON_AddBoolToObject(object, "passed", row->failure == NULL);
    if (row->failure) cJSON_AddStringToObject(object, "failure", row->failure);
    return object;
}

static cJSON *subject_object(const struct qkv_check_report *report, const struct gradcheck_subject *subject)
{
    struct totals totals = total_of(report, subject->first, subject->end);
    cJSON *object = cJSON_CreateObject();
    JSON_TEXTS(object, {"kind", subject->kind}, {"name", subject->name});
    cJSON_AddBoolToObject(object, "passed", totals.failures == 0);
    JSON_NUMBERS(object, {"gradients", (double)totals.elements}, {"worst_error", totals.worst});
    cJSON *checks = cJSON_AddArrayToObject(object, "checks");
    for (int64_t i = subject->first; i < subject->end; i++)
        cJSON_AddItemToArray(checks, row_object(&report->rows[i]));
    return object;
}

void gradcheck_print_json(const struct qkv_check_report *report, const struct gradcheck_subject *subjects,
                          int count, const struct qkv_check_options *options)
{
    struct totals totals = total_of(report, 0, report->count);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "passed", totals.failures == 0);
    JSON_NUMBERS(root, {"checks", (double)totals.checks}, {"failures", (double)totals.failures},
                 {"gradients", (double)totals.elements}, {"held", (double)totals.held},
                 {"below_noise", (double)totals.below_noise}, {"tolerance", options->tolerance},
                 {"seed", (double)options->seed});
    cJSON_AddStringToObject(root, "dtype", "float64");
    if (options->fault) {
        JSON_TEXTS(root, {"fault", qkv_fault_name(options->fault)},
                   {"fault_op", qkv_op_name(options->fault_op)});
    }
    cJSON *list = cJSON_AddArrayToObject(root, "subjects");
    for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, subject_object(report, &subjects[i]));
    json_print(root);
}
