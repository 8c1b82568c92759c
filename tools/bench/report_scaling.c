/* Prints points and forecasts as tables or JSON, and draws them. */
#include "error_messages.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

void bench_report_point(struct bench_report *report, const struct bench_point *point)
{
    if (report->point_count < MAX_POINTS) report->point[report->point_count++] = *point;
}

void bench_report_forecast(struct bench_report *report, const struct bench_forecast *forecast)
{
    if (report->forecast_count < MAX_FORECASTS) report->forecast[report->forecast_count++] = *forecast;
}

static double per_token(const struct bench_point *point, double ms)
{
    return 1e3 * ms / point->tokens;
}

/* ---- tables ---- */

static void print_point(const struct bench_point *p)
{
    char ms[16], cost[16], attention[16], rest[16], line[16];
    printf("%-10s %6lld %-13s %7.0f %9s %9s %9s %9s %9s %6.2f %8.1f\n", p->axis, (long long)p->value, p->unit,
           p->tokens, bench_format_number(p->ms, ms), bench_format_number(per_token(p, p->ms), cost),
           bench_format_number(per_token(p, p->attention), attention),
           bench_format_number(per_token(p, p->ms - p->attention), rest),
           bench_format_number(per_token(p, p->line), line), p->ms / p->line, 1e-6 * p->operations / p->ms);
}

static void print_forecast(const struct bench_forecast *f, double first, double first_measured)
{
    char serial[16], computing[16], waiting[16], updating[16], sum[16], forecast[16], measured[16], speed[16];
    printf("%-10s %7lld %6lld %7s %9s %6.3f %7s %8s %7s %5.0f %8s %6.2f %8s %6s\n", f->work,
           (long long)f->threads, (long long)f->shards, bench_format_number(f->serial, serial),
           bench_format_number(f->computing, computing), f->share, bench_format_number(f->waiting, waiting),
           bench_format_number(f->updating, updating), bench_format_number(f->gradient_sum, sum),
           f->gradient_megabytes, bench_format_number(f->forecast, forecast), first / f->forecast,
           bench_format_number(f->measured, measured),
           bench_format_number(f->measured > 0 ? first_measured / f->measured : 0, speed));
}

static void print_new(struct bench_report *report)
{
    const struct bench_forecast *forecast = report->forecast;
    int first = report->forecasts_printed;
    if (report->points_printed < report->point_count) {
        printf(
            "%sA training step on one thread; us per token, and of it in attention; line: "
            "straight in the\noperations of the step.\n\n%-10s %6s %-13s %7s %9s %9s %9s %9s %9s %6s %8s\n",
            report->has_output ? "\n" : "", "axis", "", "", "tokens", "ms", "us/token", "attention",
            "the rest", "line", "ratio", "GFLOP/s");
        for (int i = report->points_printed; i < report->point_count; i++) print_point(&report->point[i]);
        report->has_output = true;
    }
    if (first < report->forecast_count) {
        printf(
            "%sForecast of a step: serial + computing x share + waiting + updating / threads; of updating, "
            "sum is\nadding up gradients, MB. Its parts are measured on one thread.\n\n"
            "%-10s %7s %6s %7s %9s %6s %7s %8s %7s %5s %8s %6s %8s %6s\n",
            report->has_output ? "\n" : "", "workload", "threads", "shards", "serial", "computing", "share",
            "waiting", "updating", "sum", "MB", "forecast", "times", "measured", "times");
        for (int i = first; i < report->forecast_count; i++)
            print_forecast(&forecast[i], forecast[first].forecast, forecast[first].measured);
        report->has_output = true;
    }
    fflush(stdout);
}

/* ---- JSON ---- */

static void add_point(cJSON *list, const struct bench_point *p)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "axis", p->axis);
    cJSON_AddNumberToObject(object, "value", (double)p->value);
    cJSON_AddNumberToObject(object, "tokens", p->tokens);
    cJSON_AddNumberToObject(object, "ms", p->ms);
    cJSON_AddNumberToObject(object, "us_per_token", per_token(p, p->ms));
    cJSON_AddNumberToObject(object, "attention_us_per_token", per_token(p, p->attention));
    cJSON_AddNumberToObject(object, "line_us_per_token", per_token(p, p->line));
    cJSON_AddNumberToObject(object, "operations", p->operations);
    cJSON_AddItemToArray(list, object);
}

static void add_forecast(cJSON *list, const struct bench_forecast *f)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "workload", f->work);
    cJSON_AddNumberToObject(object, "threads", (double)f->threads);
    cJSON_AddNumberToObject(object, "shards", (double)f->shards);
    cJSON_AddNumberToObject(object, "serial_ms", f->serial);
    cJSON_AddNumberToObject(object, "computing_ms", f->computing);
    cJSON_AddNumberToObject(object, "busiest_share", f->share);
    cJSON_AddNumberToObject(object, "waiting_ms", f->waiting);
    cJSON_AddNumberToObject(object, "updating_ms", f->updating);
    cJSON_AddNumberToObject(object, "gradient_sum_ms", f->gradient_sum);
    cJSON_AddNumberToObject(object, "gradient_sum_mb", f->gradient_megabytes);
    cJSON_AddNumberToObject(object, "forecast_ms", f->forecast);
    if (f->measured > 0)
        cJSON_AddNumberToObject(object, "ms", f->measured);
    else
        cJSON_AddNullToObject(object, "ms");
    cJSON_AddItemToArray(list, object);
}

void bench_report_end_scaling(struct bench_report *report)
{
    if (!report->json) print_new(report);
    for (; report->points_printed < report->point_count; report->points_printed++)
        add_point(report->points, &report->point[report->points_printed]);
    for (; report->forecasts_printed < report->forecast_count; report->forecasts_printed++)
        add_forecast(report->forecasts, &report->forecast[report->forecasts_printed]);
}

/* ---- the picture ---- */

static struct qkv_chart make_chart(struct bench_panel *panel, const char *title, const char *y_label,
                                   const int counts[PANEL_LINES])
{
    static const char *const names[] = {"measured", "straight line, or forecast", "all but attention"};
    struct qkv_chart chart = {
        .title = title, .x_label = panel->x_label, .y_label = y_label, .lines = panel->line};
    for (int i = 0; i < PANEL_LINES && counts[i]; i++)
        panel->line[chart.line_count++] =
            (struct qkv_chart_line){names[i], counts[i], panel->x[0], panel->y[i], i == 1};
    return chart;
}

/* Makes the chart of the axis of point *i, and sets *i to the first point of the next axis. */
static struct qkv_chart axis_panel(const struct bench_report *report, int *i, struct bench_panel *panel)
{
    const struct bench_point *first = &report->point[*i];
    int count = 0;
    for (; *i < report->point_count && !strcmp(report->point[*i].axis, first->axis); count++) {
        const struct bench_point *p = &report->point[(*i)++];
        panel->x[0][count] = (double)p->value;
        panel->y[0][count] = per_token(p, p->ms);
        panel->y[1][count] = per_token(p, p->line);
        panel->y[2][count] = per_token(p, p->ms - p->attention);
    }
    snprintf(panel->x_label, sizeof panel->x_label, "%s, %s", first->axis, first->unit);
    return make_chart(panel, NULL, "us per token", (const int[]){count, count, count});
}

static struct qkv_chart thread_panel(const struct bench_report *report, int *i, struct bench_panel *panel)
{
    const struct bench_forecast *first = &report->forecast[*i];
    int count = 0, measured = 0;
    do {
        const struct bench_forecast *f = &report->forecast[(*i)++];
        panel->x[0][count] = (double)f->threads;
        if (f->measured > 0) panel->y[0][measured++] = first->measured / f->measured;
        panel->y[1][count++] = first->forecast / f->forecast;
    } while (*i < report->forecast_count && report->forecast[*i].threads > first->threads);
    snprintf(panel->x_label, sizeof panel->x_label, "threads (%s)", first->work);
    return make_chart(panel, NULL, "times as fast as one", (const int[]){measured, count, 0});
}

int bench_report_draw(const struct bench_report *report)
{
    static struct bench_panel panel[MAX_PANELS]; /* large */
    struct qkv_chart charts[MAX_PANELS];
    struct qkv_error error = {""};
    int count = 0;
    for (int i = 0; i < report->point_count && count < MAX_PANELS; count++)
        charts[count] = axis_panel(report, &i, &panel[count]);
    for (int i = 0; i < report->forecast_count && count < MAX_PANELS; count++)
        charts[count] = thread_panel(report, &i, &panel[count]);
    bool has_networks = count == 0; /* they have a picture of their own */
    for (int i = 0; has_networks && i < report->network_count && count < MAX_PANELS; count++)
        charts[count] = bench_network_panel(report, &i, &panel[count]);
    return conclude(qkv_charts_write(charts, count, has_networks ? 2 : 3, report->picture, &error), &error);
}
