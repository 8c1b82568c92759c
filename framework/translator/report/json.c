/* Writes JSON objects. If memory runs out, cJSON returns NULL, and adding NULL or adding to NULL fails: then `complete`
 * becomes false. It is checked only once, at the end. */
#include "report/explanation.h"
#include "report/json_text.h"

#include <cjson/cJSON.h>

static void add(cJSON *object, const char *name, cJSON *item, bool *complete)
{
    if (cJSON_AddItemToObject(object, name, item)) return;
    cJSON_Delete(item);
    *complete = false;
}

static void push(cJSON *array, cJSON *item, bool *complete)
{
    if (cJSON_AddItemToArray(array, item)) return;
    cJSON_Delete(item);
    *complete = false;
}

/* Prints and frees the object. */
static enum qkv_status finish(cJSON *root, bool complete, struct bytes *out)
{
    if (complete) {
        qkv_json_append(out, root);
        qkv_bytes_text(out, "\n");
    } else {
        out->failed = true;
    }
    cJSON_Delete(root);
    return QKV_OK;
}

/* ---- attention maps ---- */

static cJSON *strings(const char *const *tokens, int64_t count)
{
    return cJSON_CreateStringArray(tokens, (int)count);
}

static cJSON *number_or_mean(int number)
{
    return number ? cJSON_CreateNumber(number) : cJSON_CreateString("mean");
}

/* The tokens of the rows. A row of cross-attention has two: the token that the decoder step reads, and the one it predicts. */
static cJSON *row_tokens(const struct qkv_attention_report *report, const struct qkv_attention_map *map,
                         bool *complete)
{
    if (map->kind != QKV_ATTENTION_CROSS)
        return strings(qkv_attention_row_tokens(report, map->kind), map->rows);
    cJSON *rows = cJSON_CreateObject();
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
    add(object, "name", cJSON_CreateString(name), complete);
    add(object, "kind", cJSON_CreateString(qkv_attention_kind_name(map->kind)), complete);
    add(object, "layer", number_or_mean(map->layer), complete);
    add(object, "head", number_or_mean(map->head), complete);
    add(object, "rows", row_tokens(report, map, complete), complete);
    add(object, "columns", strings(qkv_attention_column_tokens(report, map->kind), map->columns), complete);
    for (int64_t r = 0; r < map->rows; r++)
        push(weights, cJSON_CreateDoubleArray(map->weights + r * map->columns, (int)map->columns), complete);
    add(object, "weights", weights, complete);
    return object;
}

static enum qkv_status write_maps(const struct maps_job *job, struct bytes *out, struct qkv_error *error)
{
    static const char about[] =
        "weights[row][column] is the number that `value` names, of the row's token (query) for the column's "
        "token (key); each row sums to 1; layers and heads count from 1";
    const struct qkv_attention_report *report = job->report;
    cJSON *root = cJSON_CreateObject(), *maps = cJSON_CreateArray();
    bool complete = true;
    (void)error;
    add(root, "format", cJSON_CreateString("qkv attention 1"), &complete);
    add(root, "about", cJSON_CreateString(about), &complete);
    if (report->title) add(root, "title", cJSON_CreateString(report->title), &complete);
    if (report->model) add(root, "model", cJSON_CreateString(report->model), &complete);
    if (report->precision) add(root, "precision", cJSON_CreateString(report->precision), &complete);
    add(root, "value", cJSON_CreateString(qkv_report_value_name(report)), &complete);
    if (report->silent_count)
        add(root, "without", strings(report->silent_heads, report->silent_count), &complete);
    add(root, "source", strings(report->source, report->source_length), &complete);
    add(root, "target_input", strings(report->target_input, report->target_length), &complete);
    add(root, "target_output", strings(report->target_output, report->target_length), &complete);
    for (int64_t i = 0; i < report->map_count; i++)
        push(maps, map_object(report, &report->maps[i], &complete), &complete);
    add(root, "maps", maps, &complete);
    return finish(root, complete, out);
}

/* ---- explanations ---- */

static cJSON *strings_or_null(const char *const *names, int64_t count)
{
    return names ? strings(names, count) : cJSON_CreateNull();
}

static cJSON *matrix(const double *values, const struct qkv_step *step, bool *complete)
{
    cJSON *rows = cJSON_CreateArray();
    for (int64_t r = 0; r < step->rows; r++)
        push(rows, cJSON_CreateDoubleArray(values + r * step->columns, (int)step->columns), complete);
    return rows;
}

static cJSON *matrix_per_head(const struct qkv_step *step, bool *complete)
{
    cJSON *heads = cJSON_CreateArray();
    for (int64_t h = 0; h < step->heads; h++)
        push(heads, matrix(step->values + h * step->rows * step->columns, step, complete), complete);
    return heads;
}

static cJSON *step_object(const struct qkv_explanation *explanation, const struct qkv_step *step,
                          bool *complete)
{
    cJSON *object = cJSON_CreateObject(), *shape = cJSON_CreateArray();
    bool heads = qkv_step_has_heads(explanation, step);
    if (heads) push(shape, cJSON_CreateNumber((double)step->heads), complete);
    push(shape, cJSON_CreateNumber((double)step->rows), complete);
    push(shape, cJSON_CreateNumber((double)step->columns), complete);
    add(object, "name", cJSON_CreateString(step->name), complete);
    add(object, "title", cJSON_CreateString(step->title), complete);
    add(object, "formula", cJSON_CreateString(step->formula), complete);
    if (step->note) add(object, "note", cJSON_CreateString(step->note), complete);
    add(object, "shape", shape, complete);
    add(object, "rows", strings_or_null(step->row_names, step->rows), complete);
    add(object, "columns", strings_or_null(step->column_names, step->columns), complete);
    add(object, "values", heads ? matrix_per_head(step, complete) : matrix(step->values, step, complete),
        complete);
    return object;
}

static cJSON *explanation_object(const struct qkv_explanation *explanation, bool *complete)
{
    cJSON *object = cJSON_CreateObject(), *steps = cJSON_CreateArray();
    if (explanation->label) add(object, "label", cJSON_CreateString(explanation->label), complete);
    if (explanation->model) add(object, "model", cJSON_CreateString(explanation->model), complete);
    add(object, "kind", cJSON_CreateString(qkv_attention_kind_name(explanation->kind)), complete);
    if (explanation->layer) add(object, "layer", cJSON_CreateNumber(explanation->layer), complete);
    add(object, "first_head", cJSON_CreateNumber(explanation->first_head), complete);
    add(object, "heads", cJSON_CreateNumber((double)explanation->heads), complete);
    for (int64_t i = 0; i < explanation->step_count; i++)
        push(steps, step_object(explanation, &explanation->steps[i], complete), complete);
    add(object, "steps", steps, complete);
    return object;
}

static enum qkv_status write_explanations(const struct explanations_job *job, struct bytes *out,
                                          struct qkv_error *error)
{
    const struct qkv_explanation *first = &job->explanations[0];
    cJSON *root = cJSON_CreateObject(), *walks = cJSON_CreateArray();
    bool complete = true;
    (void)error;
    add(root, "format", cJSON_CreateString("qkv explain 1"), &complete);
    if (first->title) add(root, "title", cJSON_CreateString(first->title), &complete);
    if (first->about && *first->about) add(root, "about", cJSON_CreateString(first->about), &complete);
    for (int i = 0; i < job->count; i++)
        push(walks, explanation_object(&job->explanations[i], &complete), &complete);
    add(root, "walks", walks, &complete);
    return finish(root, complete, out);
}

const struct qkv_format_writer qkv_writer_json = {
    .format = {"json", "json", "all tokens and numbers as one JSON object", QKV_FORMAT_DATA,
               .sequence = QKV_FORMAT_LINES},
    .write_maps = write_maps,
    .write_explanations = write_explanations,
};
