/* Reads metrics.jsonl, the log of a training. */
#include "run/training_log.h"
#include "run/checkpoints.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "metrics/metric.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>

double qkv_json_number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static struct qkv_log_place place_of(const cJSON *line)
{
    return (struct qkv_log_place){qkv_json_number(line, "update"), qkv_json_number(line, "tokens"),
                                  qkv_json_number(line, "seconds")};
}

static bool add_interval(struct qkv_training_log *log, const cJSON *line)
{
    if (!QKV_RESERVE(log->interval, log->interval_capacity, log->intervals + 1)) {
        log->intervals = 0;
        return false;
    }
    log->interval[log->intervals++] = (struct qkv_log_interval){
        .place = place_of(line),
        .loss = qkv_json_number(line, "loss"),
        .cross_entropy = qkv_json_number(line, "cross_entropy"),
        .learning_rate = qkv_json_number(line, "learning_rate"),
        .gradient_norm = qkv_json_number(line, "gradient_norm"),
        .tokens_per_second = qkv_json_number(line, "tokens_per_second"),
    };
    return true;
}

static struct qkv_log_validation validation_of(const cJSON *line)
{
    struct qkv_log_validation validation = {.place = place_of(line)};
    for (int m = 0; m < QKV_METRIC_COUNT; m++)
        validation.score[m] = qkv_json_number(line, qkv_metric_info((enum qkv_metric)m)->key);
    validation.bits_per_character = qkv_json_number(line, QKV_BITS_PER_CHARACTER);
    return validation;
}

static bool add_validation(struct qkv_training_log *log, const cJSON *line)
{
    if (!QKV_RESERVE(log->validation, log->validation_capacity, log->validations + 1)) {
        log->validations = 0;
        return false;
    }
    log->validation[log->validations++] = validation_of(line);
    return true;
}

/* Adds the record of one line to the log. False: no memory. */
static bool add_line(struct qkv_training_log *log, const char *text)
{
    errno = 0;
    cJSON *line = cJSON_Parse(text);
    if (!line && errno == ENOMEM) return false; /* cJSON does not say why it fails */
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, "kind"));
    bool complete = true;
    if (kind && qkv_json_number(line, "update") >= 0) {
        if (!strcmp(kind, "train")) complete = add_interval(log, line);
        if (!strcmp(kind, "validation")) complete = add_validation(log, line);
        if (!strcmp(kind, "average")) {
            log->average = validation_of(line);
            log->has_average = true;
        }
    }
    cJSON_Delete(line);
    return complete;
}

enum qkv_status qkv_training_log_read(struct qkv_training_log *log, const char *folder,
                                      struct qkv_error *error)
{
    const char *path = QKV_RUN_FILE(folder, QKV_RUN_METRICS);
    if (!qkv_path_exists(path)) return QKV_OK;
    FILE *file = qkv_file_stream(path, true, error);
    if (!file) return QKV_INVALID;
    char *line = NULL;
    size_t capacity = 0;
    bool complete = true;
    /* After a failed read, getline returns what it read before. */
    while (complete && getline(&line, &capacity, file) > 0 && !ferror(file)) complete = add_line(log, line);
    if (!complete || !feof(file))
        qkv_error_set(error, "%s: cannot be read: %s", path, strerror(complete ? errno : ENOMEM));
    complete = complete && feof(file);
    free(line);
    fclose(file);
    return complete ? QKV_OK : QKV_INVALID;
}

void qkv_training_log_release(struct qkv_training_log *log)
{
    free(log->interval);
    free(log->validation);
    *log = (struct qkv_training_log){0};
}

const struct qkv_log_validation *qkv_training_log_default(const struct qkv_training_log *log,
                                                          const struct qkv_config *config)
{
    enum qkv_metric metric = config->training.early_stopping_metric;
    const struct qkv_log_validation *best = NULL;
    if (config->testing.average && log->has_average) return &log->average;
    for (int64_t i = 0; i < log->validations; i++)
        if (!best || qkv_metric_is_better(metric, log->validation[i].score[metric], best->score[metric]))
            best = &log->validation[i];
    return best;
}

enum qkv_status qkv_training_log_speed(const struct qkv_training_log *log, double *speed,
                                       struct qkv_error *error)
{
    int64_t count = 0;
    double *speeds = malloc((size_t)(log->intervals + 1) * sizeof *speeds);
    *speed = 0;
    if (!speeds) return qkv_no_memory(error);
    for (int64_t i = 0; i < log->intervals; i++)
        if (log->interval[i].tokens_per_second > 0) speeds[count++] = log->interval[i].tokens_per_second;
    qsort(speeds, (size_t)count, sizeof *speeds, qkv_by_value);
    if (count) *speed = speeds[count / 2];
    free(speeds);
    return QKV_OK;
}
