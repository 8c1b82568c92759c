#include "qkv/parameters.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNED_ELEMENTS = 16 };

static char *format_name(struct qkv_arena *arena, const char *format, va_list arguments)
{
    char name[256];
    vsnprintf(name, sizeof name, format, arguments);
    return qkv_arena_string(arena, name);
}

static bool make_room(struct qkv_parameters *parameters)
{
    if (parameters->count < parameters->room) return true;
    int64_t room = parameters->room ? 2 * parameters->room : 64;
    void *list = realloc(parameters->list, (size_t)room * sizeof *parameters->list);
    if (!list) return false;
    parameters->list = list;
    parameters->room = room;
    return true;
}

const struct qkv_parameter *qkv_parameters_add(struct qkv_parameters *parameters, struct qkv_shape shape,
                                               struct qkv_initial initial, const char *name, ...)
{
    QKV_BUG(parameters->values, "a parameter is declared after the allocation");
    struct qkv_parameter *parameter = qkv_arena_allocate(&parameters->arena, sizeof *parameter);
    va_list arguments;
    va_start(arguments, name);
    const char *text = format_name(&parameters->arena, name, arguments);
    va_end(arguments);
    if (!parameter || !text || !make_room(parameters)) {
        parameters->failed = true;
        return NULL;
    }
    *parameter = (struct qkv_parameter){
        .name = text,
        .shape = shape,
        .initial = initial,
        .index = parameters->count,
        .offset = parameters->elements,
        .count = qkv_shape_count(shape),
    };
    parameters->elements += (parameter->count + ALIGNED_ELEMENTS - 1) / ALIGNED_ELEMENTS * ALIGNED_ELEMENTS;
    parameters->list[parameters->count++] = parameter;
    return parameter;
}

enum qkv_status qkv_parameters_allocate(struct qkv_parameters *parameters, enum qkv_dtype dtype,
                                        struct qkv_error *error)
{
    size_t size = (size_t)parameters->elements * (dtype == QKV_FLOAT32 ? sizeof(float) : sizeof(double));
    parameters->dtype = dtype;
    parameters->values = parameters->failed ? NULL : qkv_arena_zeroed(&parameters->arena, size);
    if (parameters->values) return QKV_OK;
    return qkv_error_set(error, "out of memory for %lld parameters", (long long)parameters->elements);
}

/* Number `i` of a family, as the initialiser draws it. */
static double draw(const struct qkv_parameter *parameter, struct qkv_random random, int64_t i)
{
    double gain = parameter->initial.gain;
    int64_t last = parameter->shape.size[parameter->shape.rank - 1];
    double fans = (double)(parameter->count / last + last);
    switch (parameter->initial.kind) {
    case QKV_INITIALIZER_ZEROS:
        return 0.0;
    case QKV_INITIALIZER_ONES:
        return 1.0;
    case QKV_INITIALIZER_NORMAL:
        return gain * qkv_random_normal(random, (uint64_t)i);
    case QKV_INITIALIZER_XAVIER_NORMAL:
        return gain * sqrt(2.0 / fans) * qkv_random_normal(random, (uint64_t)i);
    case QKV_INITIALIZER_UNIFORM:
        break;
    case QKV_INITIALIZER_XAVIER_UNIFORM:
        gain *= sqrt(6.0 / fans);
        break;
    }
    return gain * (2.0 * qkv_random_uniform(random, (uint64_t)i) - 1.0);
}

void qkv_parameters_initialize(struct qkv_parameters *parameters, uint64_t seed)
{
    for (int64_t p = 0; p < parameters->count; p++) {
        struct qkv_random random = {seed, QKV_STREAM_INITIAL_VALUES, (uint32_t)p};
        for (int64_t i = 0; i < parameters->list[p]->count; i++)
            qkv_parameter_set(parameters, parameters->list[p], i, draw(parameters->list[p], random, i));
    }
}

int64_t qkv_parameters_total(const struct qkv_parameters *parameters)
{
    int64_t total = 0;
    for (int64_t i = 0; i < parameters->count; i++) total += parameters->list[i]->count;
    return total;
}

const struct qkv_parameter *qkv_parameters_find(const struct qkv_parameters *parameters, const char *name)
{
    for (int64_t i = 0; i < parameters->count; i++)
        if (!strcmp(parameters->list[i]->name, name)) return parameters->list[i];
    return NULL;
}

double qkv_parameter_get(const struct qkv_parameters *parameters, const struct qkv_parameter *parameter,
                         int64_t i)
{
    int64_t at = parameter->offset + i;
    return parameters->dtype == QKV_FLOAT32 ? (double)((const float *)parameters->values)[at]
                                            : ((const double *)parameters->values)[at];
}

void qkv_parameter_set(struct qkv_parameters *parameters, const struct qkv_parameter *parameter, int64_t i,
                       double value)
{
    int64_t at = parameter->offset + i;
    if (parameters->dtype == QKV_FLOAT32)
        ((float *)parameters->values)[at] = (float)value;
    else
        ((double *)parameters->values)[at] = value;
}

void qkv_parameters_release(struct qkv_parameters *parameters)
{
    qkv_arena_release(&parameters->arena);
    free(parameters->list);
    *parameters = (struct qkv_parameters){0};
}
