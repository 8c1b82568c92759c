#include "report/json.h"
#include "report/report.h"

static cJSON *strings(const char *const *tokens, int64_t count)
{
    return cJSON_CreateStringArray(tokens, (int)count);
}

static cJSON *number_or_mean(int number)
{
    return number ? cJSON_CreateNumber(number) : cJSON_CreateString("mean");
}

/* The tokens of the rows: a cross row has one that the step takes in and one that it puts out. */
static cJSON *row_tokens(const struct qkv_attention_report *report, const struct qkv_attention_map *map,
                         bool *complete)
{
    if (map->kind != QKV_ATTENTION_CROSS)
        return strings(qkv_attention_row_tokens(report, map->kind), map->rows);
    cJSON *rows = cJSON_CreateObject();
    if (!rows) return NULL;
    json_add(rows, "input", strings(report->target_input, map->rows), complete);
    json_add(rows, "output", strings(report->target_output, map->rows), complete);
    return rows;
}

static cJSON *map_object(const struct qkv_attention_report *report, const struct qkv_attention_map *map,
                         bool *complete)
{
    char name[64];
    qkv_attention_map_name(map, name, sizeof name);
    cJSON *object = cJSON_CreateObject(), *weights = cJSON_CreateArray();
    if (!object || !weights) {
        cJSON_Delete(object);
        cJSON_Delete(weights);
        return NULL;
    }
    json_add(object, "name", cJSON_CreateString(name), complete);
    json_add(object, "kind", cJSON_CreateString(qkv_attention_kind_name(map->kind)), complete);
    json_add(object, "layer", number_or_mean(map->layer), complete);
    json_add(object, "head", number_or_mean(map->head), complete);
    json_add(object, "rows", row_tokens(report, map, complete), complete);
    json_add(object, "columns", strings(qkv_attention_column_tokens(report, map->kind), map->columns),
             complete);
    for (int64_t r = 0; r < map->rows; r++)
        json_push(weights, cJSON_CreateDoubleArray(map->weights + r * map->columns, (int)map->columns),
                  complete);
    json_add(object, "weights", weights, complete);
    return object;
}

enum qkv_status qkv_report_json(const struct report_job *job, struct bytes *out, struct qkv_error *error)
{
    const struct qkv_attention_report *report = job->report;
    cJSON *root = cJSON_CreateObject(), *maps = cJSON_CreateArray();
    bool complete = root && maps;
    (void)error;
    if (complete) {
        json_add(root, "format", cJSON_CreateString("qkv attention 1"), &complete);
        json_add(root, "about",
                 cJSON_CreateString(
                     "weights[row][column] is how much the row's token (query) takes from the column's token "
                     "(key); each row sums to 1; layers and heads count from 1"),
                 &complete);
        if (report->title) json_add(root, "title", cJSON_CreateString(report->title), &complete);
        if (report->model) json_add(root, "model", cJSON_CreateString(report->model), &complete);
        json_add(root, "source", strings(report->source, report->source_length), &complete);
        json_add(root, "target_input", strings(report->target_input, report->target_length), &complete);
        json_add(root, "target_output", strings(report->target_output, report->target_length), &complete);
        for (int64_t i = 0; i < report->map_count; i++)
            json_push(maps, map_object(report, &report->maps[i], &complete), &complete);
        json_add(root, "maps", maps, &complete);
    }
    char *text = complete ? cJSON_Print(root) : NULL;
    if (text) {
        qkv_bytes_text(out, text);
        qkv_bytes_text(out, "\n");
    } else {
        out->failed = true;
    }
    cJSON_free(text);
    cJSON_Delete(root);
    return QKV_OK;
}
