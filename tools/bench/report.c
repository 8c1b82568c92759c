/* Prints results and profiles as tables or JSON. */
#include "bench.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

/* Formats a number with three or four significant digits; "-" if it is not positive. */
static const char *format_number(double number, char text[16])
{
    if (number > 0)
        snprintf(text, 16, "%.*f", number < 10 ? 3 : number < 100 ? 2 : 0, number);
    else
        snprintf(text, 16, "-");
    return text;
}

/* Adds a number to a JSON object; null if it is not known. */
static void add_number(cJSON *object, const char *name, double number, bool known)
{
    if (known)
        cJSON_AddNumberToObject(object, name, number);
    else
        cJSON_AddNullToObject(object, name);
}

/* Writes an object behind those that this process or an earlier one has written, and frees it. */
static void append(FILE *file, cJSON *object)
{
    char *text = cJSON_Print(object);
    fseek(file, 0, SEEK_END);
    if (text) fprintf(file, "%s%s", ftell(file) > 0 ? ",\n" : "", text);
    fflush(file);
    cJSON_free(text);
    cJSON_Delete(object);
}

/* ---- results ---- */

static void print_result(struct bench_report *report, const char *work, const struct bench_result *r)
{
    const double numbers[] = {r->median,
                              r->low,
                              r->high,
                              r->processor,
                              1e3 * r->tokens / r->median,
                              1e-6 * r->operations / r->median,
                              r->peak};
    static const int widths[] = {9, 9, 9, 9, 9, 8, 8};
    char text[16], mallocs[16] = "-";
    if (!report->has_output)
        printf("%-20s %-10s %7s %6s %9s %9s %9s %9s %9s %8s %8s %8s\n", "workload", "what", "threads",
               "steps", "ms", "10 %", "90 %", "cpu ms", "tokens/s", "GFLOP/s", "peak MB", "mallocs");
    report->has_output = true;
    printf("%-20s %-10s %7lld %6lld", work, r->name, (long long)r->threads, (long long)r->steps);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        printf(" %*s", widths[i], format_number(numbers[i], text));
    if (r->mallocs >= 0) snprintf(mallocs, sizeof mallocs, "%.4g", r->mallocs);
    printf(" %8s\n", mallocs);
    fflush(stdout);
}

void bench_report_result(struct bench_report *report, const struct bench_work *work,
                         const struct bench_result *r)
{
    if (!report->results) {
        print_result(report, work->name, r);
        return;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "workload", work->name);
    cJSON_AddStringToObject(object, "what", r->name);
    cJSON_AddNumberToObject(object, "threads", (double)r->threads);
    cJSON_AddNumberToObject(object, "steps", (double)r->steps);
    cJSON_AddNumberToObject(object, "ms", r->median);
    cJSON_AddNumberToObject(object, "ms_p10", r->low);
    cJSON_AddNumberToObject(object, "ms_p90", r->high);
    cJSON_AddNumberToObject(object, "ms_mean", r->mean);
    cJSON_AddNumberToObject(object, "cpu_ms", r->processor);
    add_number(object, "tokens_per_step", r->tokens, r->tokens > 0);
    add_number(object, "tokens_per_second", 1e3 * r->tokens / r->median, r->tokens > 0);
    add_number(object, "gflops", 1e-6 * r->operations / r->median, r->operations > 0);
    add_number(object, "peak_mb", r->peak, r->peak > 0);
    add_number(object, "mallocs_per_step", r->mallocs, r->mallocs >= 0);
    append(report->results, object);
}

/* ---- profiles ---- */

static double seconds_of(const struct bench_profile_row *row)
{
    return row->seconds[0] + row->seconds[1];
}

static int slowest_first(const void *a, const void *b)
{
    double x = seconds_of(a), y = seconds_of(b);
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Matrix products are rated by their arithmetic, all other ops by the memory that they move. */
static const char *rate_of(const struct bench_profile_row *row, int pass, char text[24])
{
    double seconds = row->seconds[pass];
    if (!(seconds > 0) || !(row->bytes[pass] > 0))
        snprintf(text, 24, "-");
    else if (row->operations[pass] > 0)
        snprintf(text, 24, "%.1f GFLOP/s", 1e-9 * row->operations[pass] / seconds);
    else
        snprintf(text, 24, "%.1f GB/s   ", 1e-9 * row->bytes[pass] / seconds);
    return text;
}

static void print_profile(struct bench_report *report, const char *work, const struct bench_profile_row *row,
                          int rows, double total)
{
    printf("%s%s: %.3f ms of processor time on one thread\n\n%-22s %6s %11s %7s %14s %11s %7s %14s\n",
           report->has_output ? "\n" : "", work, 1e3 * total, "op", "calls", "forward ms", "share", "",
           "backward ms", "share", "");
    for (; rows > 0; rows--, row++) {
        printf("%-22s %6lld", row->name, (long long)row->calls);
        for (int pass = 0; pass < 2; pass++) {
            char rate[24];
            printf(" %11.3f %5.1f %% %14s", 1e3 * row->seconds[pass], 100 * row->seconds[pass] / total,
                   rate_of(row, pass, rate));
        }
        putchar('\n');
    }
    fflush(stdout);
    report->has_output = true;
}

static cJSON *profile_json(const char *work, const struct bench_profile_row *row, int rows, double total)
{
    cJSON *profile = cJSON_CreateObject();
    cJSON_AddStringToObject(profile, "workload", work);
    cJSON_AddNumberToObject(profile, "ms", 1e3 * total);
    cJSON *ops = cJSON_AddArrayToObject(profile, "ops");
    for (; rows > 0; rows--, row++) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToArray(ops, object);
        cJSON_AddStringToObject(object, "op", row->name);
        cJSON_AddNumberToObject(object, "calls", (double)row->calls);
        for (int pass = 0; pass < 2; pass++) {
            cJSON *half = cJSON_AddObjectToObject(object, pass ? "backward" : "forward");
            double seconds = row->seconds[pass], operations = row->operations[pass], bytes = row->bytes[pass];
            cJSON_AddNumberToObject(half, "ms", 1e3 * seconds);
            cJSON_AddNumberToObject(half, "share", seconds / total);
            add_number(half, "gflops", 1e-9 * operations / seconds, seconds > 0 && operations > 0);
            add_number(half, "gbps", 1e-9 * bytes / seconds, seconds > 0 && bytes > 0);
        }
    }
    return profile;
}

void bench_report_profile(struct bench_report *report, const struct bench_work *work,
                          struct bench_profile_row *row, int rows)
{
    double total = 0;
    for (int i = 0; i < rows; i++) total += seconds_of(&row[i]);
    qsort(row, (size_t)rows, sizeof *row, slowest_first);
    if (report->profiles)
        append(report->profiles, profile_json(work->name, row, rows, total));
    else
        print_profile(report, work->name, row, rows, total);
}

void bench_report_print_json(struct bench_report *report)
{
    FILE *const files[] = {report->results, report->profiles};
    for (int i = 0; i < 2; i++) {
        fputs(i ? "],\n\"profiles\": [" : "{\"results\": [", stdout);
        rewind(files[i]);
        for (int c; (c = getc(files[i])) != EOF;) putchar(c);
    }
    puts("]}");
}
