/* Prints results and profiles as tables or JSON. */
#include "bench.h"

/* Formats a number with three or four significant digits; "-" if it is not positive. */
static const char *format_number(double number, char text[16])
{
    if (number > 0)
        snprintf(text, 16, "%.*f", number < 10 ? 3 : number < 100 ? 2 : 0, number);
    else
        snprintf(text, 16, "-");
    return text;
}

/* A number of JSON; what is not positive is not known: NaN, which becomes null. */
static double known(double number)
{
    return number > 0 ? number : (double)NAN;
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

static void print_row(struct bench_report *report, const char *work, const struct bench_result *r)
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
        print_row(report, work->name, r);
        return;
    }
    cJSON *object = cJSON_CreateObject();
    JSON_TEXTS(object, {"workload", work->name}, {"what", r->name});
    JSON_NUMBERS(object, {"threads", (double)r->threads}, {"steps", (double)r->steps}, {"ms", r->median},
                 {"ms_p10", r->low}, {"ms_p90", r->high}, {"ms_mean", r->mean}, {"cpu_ms", r->processor},
                 {"tokens_per_step", known(r->tokens)},
                 {"tokens_per_second", known(1e3 * r->tokens / r->median)},
                 {"gflops", known(1e-6 * r->operations / r->median)}, {"peak_mb", known(r->peak)},
                 {"mallocs_per_step", r->mallocs < 0 ? (double)NAN : r->mallocs});
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
            double seconds = row->seconds[pass];
            JSON_NUMBERS(half, {"ms", 1e3 * seconds}, {"share", seconds / total},
                         {"gflops", known(1e-9 * row->operations[pass] / seconds)},
                         {"gbps", known(1e-9 * row->bytes[pass] / seconds)});
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
