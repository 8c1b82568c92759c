#include "training_speed.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns tokens_per_second of a line of metrics.jsonl; 0 when it has none. */
static double speed_of(const char *line)
{
    cJSON *object = cJSON_Parse(line);
    const cJSON *speed = cJSON_GetObjectItemCaseSensitive(object, "tokens_per_second");
    double value = cJSON_IsNumber(speed) ? speed->valuedouble : 0;
    cJSON_Delete(object);
    return value;
}

static int compare_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double training_speed(struct qkv_run *run)
{
    const char *path = qkv_run_file(&run->arena, run->path, QKV_RUN_METRICS);
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file) return 0;
    char *line = NULL;
    size_t capacity = 0, count = 0;
    double *speeds = NULL, median = 0;
    while (getline(&line, &capacity, file) > 0) {
        double speed = speed_of(line);
        double *more = speed > 0 ? realloc(speeds, (count + 1) * sizeof *speeds) : NULL;
        if (!more) continue;
        speeds = more;
        speeds[count++] = speed;
    }
    if (count) {
        qsort(speeds, count, sizeof *speeds, compare_ascending);
        median = speeds[count / 2];
    }
    free(speeds);
    free(line);
    fclose(file);
    return median;
}
