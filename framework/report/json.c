#include "report/report.h"

#include <cjson/cJSON.h>

/* cJSON's add functions pass a failed allocation on as NULL; one flag collects it. */
static void add(cJSON *object, const char *name, cJSON *item, bool *complete)
{
    if (!item || !cJSON_AddItemToObject(object, name, item)) {
        cJSON_Delete(item);
        *complete = false;
    }
}

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
    add(rows, "input", strings(report->target_input, map->rows), complete);
    add(rows, "output", strings(report->target_output, map->rows), complete);
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
    add(object, "name", cJSON_CreateString(name), complete);
    add(object, "kind", cJSON_CreateString(qkv_attention_kind_name(map->kind)), complete);
    add(object, "layer", number_or_mean(map->layer), complete);
    add(object, "head", number_or_mean(map->head), complete);
    add(object, "rows", row_tokens(report, map, complete), complete);
    add(object, "columns", strings(qkv_attention_column_tokens(report, map->kind), map->columns), complete);
    for (int64_t r = 0; r < map->rows; r++) {
        cJSON *row = cJSON_CreateDoubleArray(map->weights + r * map->columns, (int)map->columns);
        if (!row || !cJSON_AddItemToArray(weights, row)) *complete = false;
    }
    add(object, "weights", weights, complete);
    return object;
}

enum qkv_status qkv_report_json(const struct report_job *job, struct bytes *out, struct qkv_error *error)
{
    const struct qkv_attention_report *report = job->report;
    cJSON *root = cJSON_CreateObject(), *maps = cJSON_CreateArray();
    bool complete = root && maps;
    (void)error;
    if (complete) {
        add(root, "format", cJSON_CreateString("qkv attention 1"), &complete);
        add(root, "about",
            cJSON_CreateString(
                "weights[row][column] is how much the row's token (query) takes from the column's token "
                "(key); each row sums to 1; layers and heads count from 1"),
            &complete);
        if (report->title) add(root, "title", cJSON_CreateString(report->title), &complete);
        if (report->model) add(root, "model", cJSON_CreateString(report->model), &complete);
        add(root, "source", strings(report->source, report->source_length), &complete);
        add(root, "target_input", strings(report->target_input, report->target_length), &complete);
        add(root, "target_output", strings(report->target_output, report->target_length), &complete);
        for (int64_t i = 0; i < report->map_count; i++) {
            cJSON *map = map_object(report, &report->maps[i], &complete);
            if (!map || !cJSON_AddItemToArray(maps, map)) complete = false;
        }
        add(root, "maps", maps, &complete);
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
