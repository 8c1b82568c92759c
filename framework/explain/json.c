#include "report/json.h"
#include "explain/write.h"

static cJSON *names(const char *const *words, int64_t count)
{
    return words ? cJSON_CreateStringArray(words, (int)count) : cJSON_CreateNull();
}

static cJSON *matrix(const double *values, int64_t rows, int64_t columns, bool *complete)
{
    cJSON *list = cJSON_CreateArray();
    for (int64_t r = 0; list && r < rows; r++)
        json_push(list, cJSON_CreateDoubleArray(values + r * columns, (int)columns), complete);
    return list;
}

static cJSON *step_object(const struct qkv_explanation *walk, const struct qkv_step *step, bool *complete)
{
    cJSON *object = cJSON_CreateObject(), *shape = cJSON_CreateArray(), *values = NULL;
    bool apart = step->heads && walk->heads > 1;
    if (!object || !shape) {
        cJSON_Delete(object);
        cJSON_Delete(shape);
        return NULL;
    }
    if (apart) json_push(shape, cJSON_CreateNumber((double)step->heads), complete);
    json_push(shape, cJSON_CreateNumber((double)step->rows), complete);
    json_push(shape, cJSON_CreateNumber((double)step->columns), complete);
    json_add(object, "name", cJSON_CreateString(step->name), complete);
    json_add(object, "title", cJSON_CreateString(step->title), complete);
    json_add(object, "formula", cJSON_CreateString(step->formula), complete);
    if (step->note) json_add(object, "note", cJSON_CreateString(step->note), complete);
    json_add(object, "shape", shape, complete);
    json_add(object, "rows", names(step->row_names, step->rows), complete);
    json_add(object, "columns", names(step->column_names, step->columns), complete);
    if (!apart) {
        values = matrix(step->values, step->rows, step->columns, complete);
    } else {
        values = cJSON_CreateArray();
        for (int64_t h = 0; values && h < step->heads; h++)
            json_push(
                values,
                matrix(step->values + h * step->rows * step->columns, step->rows, step->columns, complete),
                complete);
    }
    json_add(object, "values", values, complete);
    return object;
}

static cJSON *walk_object(const struct qkv_explanation *walk, bool *complete)
{
    cJSON *object = cJSON_CreateObject(), *steps = cJSON_CreateArray();
    if (!object || !steps) {
        cJSON_Delete(object);
        cJSON_Delete(steps);
        return NULL;
    }
    if (walk->label) json_add(object, "label", cJSON_CreateString(walk->label), complete);
    if (walk->model) json_add(object, "model", cJSON_CreateString(walk->model), complete);
    json_add(object, "kind", cJSON_CreateString(qkv_attention_kind_name(walk->kind)), complete);
    if (walk->layer) json_add(object, "layer", cJSON_CreateNumber(walk->layer), complete);
    json_add(object, "first_head", cJSON_CreateNumber(walk->first_head), complete);
    json_add(object, "heads", cJSON_CreateNumber((double)walk->heads), complete);
    for (int64_t i = 0; i < walk->step_count; i++)
        json_push(steps, step_object(walk, &walk->steps[i], complete), complete);
    json_add(object, "steps", steps, complete);
    return object;
}

enum qkv_status qkv_explain_json(const struct explain_job *job, struct bytes *out, struct qkv_error *error)
{
    cJSON *root = cJSON_CreateObject(), *walks = cJSON_CreateArray();
    bool complete = root && walks;
    (void)error;
    if (complete) {
        json_add(root, "format", cJSON_CreateString("qkv explain 1"), &complete);
        if (job->walks[0].title) json_add(root, "title", cJSON_CreateString(job->walks[0].title), &complete);
        if (job->walks[0].about && *job->walks[0].about)
            json_add(root, "about", cJSON_CreateString(job->walks[0].about), &complete);
        for (int w = 0; w < job->count; w++)
            json_push(walks, walk_object(&job->walks[w], &complete), &complete);
        json_add(root, "walks", walks, &complete);
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
