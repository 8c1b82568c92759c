#include "checkpoint/weights.h"

#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

/* Whether a tensor belongs to the optimizer state of a checkpoint. */
static bool is_of_optimizer(const struct qkv_safetensor *tensor)
{
    return !strncmp(tensor->name, "optimizer.", 10);
}

static const struct qkv_safetensor *find(int64_t count, const struct qkv_safetensor *tensors,
                                         const char *name)
{
    for (int64_t i = 0; i < count; i++)
        if (!strcmp(tensors[i].name, name)) return &tensors[i];
    return NULL;
}

static void add(struct qkv_names *names, const char **list, const char *name)
{
    list[names->count++] = name;
    names->name = list;
}

bool qkv_weights_match(int64_t count, const struct qkv_safetensor *tensors,
                       const struct qkv_parameters *parameters, const bool *may_differ,
                       const struct qkv_safetensor **source, struct qkv_load_report *report)
{
    size_t max = (size_t)(parameters->count + 1) * sizeof(char *);
    const char **missing = qkv_arena_allocate(&report->arena, max),
               **reshaped = qkv_arena_allocate(&report->arena, max),
               **superfluous = qkv_arena_allocate(&report->arena, (size_t)(count + 1) * sizeof(char *));
    if (!missing || !reshaped || !superfluous) return false;
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        const struct qkv_safetensor *tensor = find(count, tensors, parameter->name);
        bool compares = !may_differ || !may_differ[p];
        bool is_reshaped = tensor && compares && !qkv_shapes_equal(tensor->shape, parameter->shape);
        source[p] = is_reshaped ? NULL : tensor;
        report->loaded += source[p] != NULL;
        if (source[p]) continue;
        const char *name = qkv_arena_string(&report->arena, parameter->name);
        if (!name) return false;
        add(tensor ? &report->reshaped : &report->missing, tensor ? reshaped : missing, name);
    }
    for (int64_t i = 0; i < count; i++) {
        if (is_of_optimizer(&tensors[i]) || qkv_parameters_find(parameters, tensors[i].name)) continue;
        const char *name = qkv_arena_string(&report->arena, tensors[i].name);
        if (!name) return false;
        add(&report->superfluous, superfluous, name);
    }
    return true;
}

/* ---- the differences, as a sentence ---- */

enum { TEXT_SIZE = 600, SHOWN = 3 };

static void append(char text[static TEXT_SIZE], const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, TEXT_SIZE - used, "%s", more);
}

/* Appends `; 5 <what> (a, b, c and 2 more)`. */
static void append_names(char text[static TEXT_SIZE], const struct qkv_names *names, const char *one,
                         const char *many)
{
    char number[48];
    if (!names->count) return;
    snprintf(number, sizeof number, "%s%lld ", *text ? "; " : "", (long long)names->count);
    append(text, number);
    append(text, names->count == 1 ? one : many);
    for (int64_t i = 0; i < names->count && i < SHOWN; i++) {
        append(text, i ? ", " : " (");
        append(text, names->name[i]);
    }
    snprintf(number, sizeof number, " and %lld more", (long long)(names->count - SHOWN));
    append(text, names->count > SHOWN ? number : "");
    append(text, ")");
}

enum qkv_status qkv_weights_check(const char *path, int64_t count, const struct qkv_safetensor *tensors,
                                  const struct qkv_parameters *parameters,
                                  const struct qkv_load_report *report, struct qkv_error *error)
{
    char text[TEXT_SIZE] = "";
    append_names(text, &report->missing, "parameter of the model is missing",
                 "parameters of the model are missing");
    append_names(text, &report->superfluous, "tensor is not in the model", "tensors are not in the model");
    append_names(text, &report->reshaped, "parameter has another shape", "parameters have other shapes");
    if (report->reshaped.count) {
        const char *name = report->reshaped.name[0];
        append(text, ": ");
        append(text, name);
        append(text, " is ");
        append(text, qkv_shape_text(find(count, tensors, name)->shape));
        append(text, ", but the model has ");
        append(text, qkv_shape_text(qkv_parameters_find(parameters, name)->shape));
    }
    return *text ? qkv_error_set(error, "%s: %s", path, text) : QKV_OK;
}

/* ---- loading ---- */

static void copy(struct qkv_parameters *parameters, const struct qkv_safetensor *const *source)
{
    bool is_any = false;
    for (int64_t p = 0; p < parameters->count; p++) {
        size_t offset = (size_t)parameters->list[p]->offset * qkv_dtype_size(parameters->dtype);
        if (source[p]) qkv_safetensor_copy(source[p], parameters->dtype, (char *)parameters->values + offset);
        is_any |= source[p] != NULL;
    }
    if (is_any) qkv_parameters_replaced(parameters);
}

/* Refuses int8, because its scales are separate tensors, and only checkpoints of qkv define which. */
static enum qkv_status check_types(const char *path, const struct qkv_safetensors *file,
                                   struct qkv_error *error)
{
    for (int64_t i = 0; i < file->count; i++)
        if (file->tensors[i].type == QKV_STORED_I8)
            return qkv_error_set(error, "%s: %s is quantised (I8): load the file that it was made of", path,
                                 file->tensors[i].name);
    return QKV_OK;
}

enum qkv_status qkv_parameters_load(const char *path, struct qkv_parameters *parameters, bool is_partial,
                                    struct qkv_load_report *report, struct qkv_error *error)
{
    struct qkv_load_report ignored;
    struct qkv_load_report *found = report ? report : &ignored;
    struct qkv_safetensors file;
    *found = (struct qkv_load_report){0};
    if (!parameters->values) return qkv_error_set(error, "%s: the parameters are not allocated", path);
    if (qkv_safetensors_read(&file, path, true, error)) return QKV_INVALID;
    const struct qkv_safetensor **source =
        qkv_arena_zeroed(&file.arena, (size_t)(parameters->count + 1) * sizeof(void *));
    enum qkv_status status = check_types(path, &file, error);
    if (!status && (!source || !qkv_weights_match(file.count, file.tensors, parameters, NULL, source, found)))
        status = qkv_error_set(error, "%s: out of memory", path);
    if (!status && !is_partial)
        status = qkv_weights_check(path, file.count, file.tensors, parameters, found, error);
    if (!status) copy(parameters, source);
    qkv_safetensors_release(&file);
    if (!report) qkv_load_report_release(&ignored);
    return status;
}

void qkv_load_report_release(struct qkv_load_report *report)
{
    qkv_arena_release(&report->arena);
    *report = (struct qkv_load_report){0};
}
