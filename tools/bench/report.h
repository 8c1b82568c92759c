/* The report of qkv-bench: shared by the files that print, draw and write it. */
#ifndef QKV_BENCH_REPORT_H
#define QKV_BENCH_REPORT_H

#include "bench.h"

#include "qkv/chart.h"

enum { MAX_ROWS = 64, MAX_POINTS = 64, MAX_FORECASTS = 64, MAX_NETWORKS = 128 };

struct bench_report {
    bool json;
    bool has_output;     /* a table was printed, so the next one starts with an empty line */
    const char *picture; /* file of the picture; NULL: none */
    cJSON *results, *profiles, *points, *forecasts;

    struct bench_profile_row row[MAX_ROWS]; /* of the current profile */
    int rows;
    struct bench_point point[MAX_POINTS]; /* all points; the first points_printed are printed */
    int point_count, points_printed;
    struct bench_forecast forecast[MAX_FORECASTS];
    int forecast_count, forecasts_printed;
    struct bench_exchange exchange[MAX_POINTS];
    int exchange_count, exchanges_printed;
    struct bench_network network[MAX_NETWORKS];
    int network_count, networks_printed;
    cJSON *exchanges, *networks;
};

/* Charts of one picture, at most. */
enum { MAX_PANELS = 16, PANEL_LINES = 3 };

/* One chart and the numbers of its lines: measured, expected, and a third. */
struct bench_panel {
    char x_label[64];
    double x[PANEL_LINES][MAX_POINTS], y[PANEL_LINES][MAX_POINTS];
    struct qkv_chart_line line[PANEL_LINES];
};

/* Formats a number with three or four significant digits; "-" if it is not positive. */
const char *bench_format_number(double number, char text[16]);

/* Prints the points and forecasts that are not printed yet, or adds them to the JSON. */
void bench_report_end_scaling(struct bench_report *report);

/* The same for exchanges and forecasts of networks. */
void bench_report_end_processes(struct bench_report *report);

/* Makes the chart of the workload of network *i, and sets *i to the first one of the next workload. */
struct qkv_chart bench_network_panel(const struct bench_report *report, int *i, struct bench_panel *panel);

/* Draws points and forecasts. Prints an error where it cannot. Returns the exit code. */
int bench_report_draw(const struct bench_report *report);

#endif
