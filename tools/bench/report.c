/* Prints results and profiles as tables or JSON. */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_report *bench_report_new(bool json, const char *picture)
{
    struct bench_report *report = calloc(1, sizeof *report);
    if (!report) return NULL;
    report->json = json;
    report->picture = picture;
    report->results = cJSON_CreateArray();
    report->profiles = cJSON_CreateArray();
    report->points = cJSON_CreateArray();
    report->forecasts = cJSON_CreateArray();
    report->exchanges = cJSON_CreateArray();
    report->networks = cJSON_CreateArray();
    return report;
}

/* ---- results ---- */

static void print_result(struct bench_report *report, const char *work, const struct bench_result *r)
{
    char ms[16], low[16], high[16], processor[16], tokens[16], flops[16], peak[16], mallocs[16] = "-";
    if (!report->has_output)
        printf("%-20s %-10s %7s %6s %9s %9s %9s %9s %9s %8s %8s %8s\n", "workload", "what", "threads",
               "steps", "ms", "10 %", "90 %", "cpu ms", "tokens/s", "GFLOP/s", "peak MB", "mallocs");
    report->has_output = true;
    if (r->mallocs >= 0) snprintf(mallocs, sizeof mallocs, "%.4g", r->mallocs);
    printf("%-20s %-10s %7lld %6lld %9s %9s %9s %9s %9s %8s %8s %8s\n", work, r->name, (long long)r->threads,
           (long long)r->steps, bench_format_number(r->median, ms), bench_format_number(r->low, low),
           bench_format_number(r->high, high), bench_format_number(r->processor, processor),
           bench_format_number(1e3 * r->tokens / r->median, tokens),
           bench_format_number(1e-6 * r->operations / r->median, flops), bench_format_number(r->peak, peak),
           mallocs);
    fflush(stdout);
}

/* Adds a number to a JSON object; null if it is not known. */
static void add_number(cJSON *object, const char *name, double number, bool known)
{
    if (known)
        cJSON_AddNumberToObject(object, name, number);
    else
        cJSON_AddNullToObject(object, name);
}

void bench_report_result(struct bench_report *report, const char *work, const struct bench_result *r)
{
    if (!report->json) {
        print_result(report, work, r);
        return;
    }
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "workload", work);
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
    cJSON_AddItemToArray(report->results, object);
}

/* ---- profiles ---- */

void bench_report_profile(struct bench_report *report, const char *work, const struct bench_profile_row *row)
{
    (void)work;
    if (report->rows < MAX_ROWS) report->row[report->rows++] = *row;
}

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

static void print_profile(struct bench_report *report, const char *work, double total)
{
    printf("%s%s: %.3f ms of processor time on one thread\n\n%-22s %6s %11s %7s %14s %11s %7s %14s\n",
           report->has_output ? "\n" : "", work, 1e3 * total, "op", "calls", "forward ms", "share", "",
           "backward ms", "share", "");
    for (int i = 0; i < report->rows; i++) {
        const struct bench_profile_row *row = &report->row[i];
        char rate[2][24];
        printf("%-22s %6lld %11.3f %5.1f %% %14s %11.3f %5.1f %% %14s\n", row->name, (long long)row->calls,
               1e3 * row->seconds[0], 100 * row->seconds[0] / total, rate_of(row, 0, rate[0]),
               1e3 * row->seconds[1], 100 * row->seconds[1] / total, rate_of(row, 1, rate[1]));
    }
    fflush(stdout);
    report->has_output = true;
}

static cJSON *pass_json(const struct bench_profile_row *row, int pass, double total)
{
    cJSON *object = cJSON_CreateObject();
    double seconds = row->seconds[pass];
    cJSON_AddNumberToObject(object, "ms", 1e3 * seconds);
    cJSON_AddNumberToObject(object, "share", seconds / total);
    add_number(object, "gflops", 1e-9 * row->operations[pass] / seconds,
               seconds > 0 && row->operations[pass] > 0);
    add_number(object, "gbps", 1e-9 * row->bytes[pass] / seconds, seconds > 0 && row->bytes[pass] > 0);
    return object;
}

static void add_profile(struct bench_report *report, const char *work, double total)
{
    cJSON *profile = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(profile, "ops");
    cJSON_AddStringToObject(profile, "workload", work);
    cJSON_AddNumberToObject(profile, "ms", 1e3 * total);
    for (int i = 0; i < report->rows; i++) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "op", report->row[i].name);
        cJSON_AddNumberToObject(object, "calls", (double)report->row[i].calls);
        cJSON_AddItemToObject(object, "forward", pass_json(&report->row[i], 0, total));
        cJSON_AddItemToObject(object, "backward", pass_json(&report->row[i], 1, total));
        cJSON_AddItemToArray(rows, object);
    }
    cJSON_AddItemToArray(report->profiles, profile);
}

void bench_report_end(struct bench_report *report, const char *work)
{
    double total = 0;
    bench_report_end_scaling(report);
    bench_report_end_processes(report);
    if (!report->rows) return;
    for (int i = 0; i < report->rows; i++) total += seconds_of(&report->row[i]);
    qsort(report->row, (size_t)report->rows, sizeof report->row[0], slowest_first);
    if (report->json)
        add_profile(report, work, total);
    else
        print_profile(report, work, total);
    report->rows = 0;
}

int bench_report_finish(struct bench_report *report, bool failed)
{
    cJSON *all = cJSON_CreateObject();
    cJSON_AddItemToObject(all, "results", report->results);
    cJSON_AddItemToObject(all, "profiles", report->profiles);
    cJSON_AddItemToObject(all, "scaling", report->points);
    cJSON_AddItemToObject(all, "threads", report->forecasts);
    cJSON_AddItemToObject(all, "exchange", report->exchanges);
    cJSON_AddItemToObject(all, "networks", report->networks);
    if (report->json && !failed) {
        char *text = cJSON_Print(all);
        if (text) puts(text);
        cJSON_free(text);
    }
    cJSON_Delete(all);
    int drawn = failed || !report->picture ? QKV_OK : bench_report_draw(report);
    free(report);
    bool failed_write = fflush(stdout) != 0;
    return failed_write || ferror(stdout) ? QKV_INVALID : drawn;
}
