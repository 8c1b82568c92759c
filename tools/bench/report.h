/* What the files that show results share. */
#ifndef QKV_BENCH_REPORT_H
#define QKV_BENCH_REPORT_H

#include "bench.h"

enum { MOST_ROWS = 64, MOST_POINTS = 64, MOST_FORECASTS = 64 };

struct bench_report {
    bool json, begun;    /* begun: something stands above */
    const char *picture; /* where to draw what was found; NULL: nowhere */
    cJSON *results, *profiles, *points, *forecasts;

    struct bench_profile_row row[MOST_ROWS]; /* of the profile that is being told */
    int rows;
    struct bench_point point[MOST_POINTS]; /* all that were told, and how many of them are printed */
    int point_count, points_printed;
    struct bench_forecast forecast[MOST_FORECASTS];
    int forecast_count, forecasts_printed;
};

/* Numbers with as many digits as are worth reading; "-" for what is not there. */
const char *bench_text_of(double number, char text[16]);

/* Prints what was told since the last time, or keeps it as JSON. */
void bench_report_end_scaling(struct bench_report *report);

/* Draws points and forecasts; complains where it cannot. Exit code. */
int bench_report_draw(const struct bench_report *report);

#endif
