#include "training_speed.h"

#include "json.h"

#include <cjson/cJSON.h>
#include <errno.h>
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

/* Reads the speeds, which the caller frees, also on failure. */
static enum qkv_status read_speeds(FILE *file, double **speeds, size_t *count)
{
    char *line = NULL;
    size_t capacity = 0;
    bool complete = true;
    while (complete && getline(&line, &capacity, file) > 0) {
        double speed = speed_of(line);
        if (!(speed > 0)) continue;
        double *more = realloc(*speeds, (*count + 1) * sizeof *more);
        complete = more != NULL;
        if (!more) break;
        *speeds = more;
        more[(*count)++] = speed;
    }
    free(line);
    return complete && feof(file) && !json_memory_is_out() ? QKV_OK : QKV_INVALID;
}

enum qkv_status training_speed(struct qkv_run *run, double *speed, struct qkv_error *error)
{
    *speed = 0;
    const char *path = qkv_run_file(&run->arena, run->path, QKV_RUN_METRICS);
    if (!path) return qkv_error_set(error, "out of memory");
    errno = 0;
    FILE *file = fopen(path, "rb");
    if (!file && errno == ENOENT) return QKV_OK;
    double *speeds = NULL;
    size_t count = 0;
    enum qkv_status status = file ? read_speeds(file, &speeds, &count) : QKV_INVALID;
    if (status) qkv_error_set(error, "%s: cannot be read: %s", path, strerror(errno ? errno : ENOMEM));
    if (file) fclose(file);
    if (count) {
        qsort(speeds, count, sizeof *speeds, compare_ascending);
        *speed = speeds[count / 2];
    }
    free(speeds);
    return status;
}
