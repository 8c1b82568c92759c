/* Lines of metrics.jsonl. */
#include "train/training.h"

#include "core/clock.h"

#include <cjson/cJSON.h>

struct log_line qkv_log_line(const char *kind, int64_t update)
{
    struct log_line line = {.object = cJSON_CreateObject()};
    line.complete = cJSON_AddStringToObject(line.object, "kind", kind) &&
                    cJSON_AddNumberToObject(line.object, "update", (double)update);
    return line;
}

void qkv_log_number(struct log_line *line, const char *key, double value)
{
    line->complete = cJSON_AddNumberToObject(line->object, key, value) && line->complete;
}

void qkv_log_flag(struct log_line *line, const char *key, bool value)
{
    line->complete = cJSON_AddBoolToObject(line->object, key, value) && line->complete;
}

void qkv_log_scores(struct log_line *line, const struct qkv_scores *scores)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        if (!info->on_request) qkv_log_number(line, info->key, scores->value[m]);
    }
}

void qkv_log_seconds(struct log_line *line, const struct training *training)
{
    qkv_log_number(line, "seconds", training->seconds_before + qkv_clock_seconds() - training->begun);
}

enum qkv_status qkv_log_write(struct training *training, const struct log_line *line, struct qkv_error *error)
{
    if (line->complete) return qkv_run_folder_log(training, line->object, error);
    cJSON_Delete(line->object);
    return qkv_error_set(error, "%s: out of memory for %s", training->folder, QKV_RUN_METRICS);
}
