#include "qkv/parameters.h"

#include "core/grow.h"

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

const struct qkv_parameter *qkv_parameters_add(struct qkv_parameters *parameters, struct qkv_shape shape,
                                               struct qkv_initial initial, const char *name, ...)
{
    QKV_BUG(parameters->values, "qkv_parameters_add after qkv_parameters_allocate");
    struct qkv_parameter *parameter = qkv_arena_allocate(&parameters->arena, sizeof *parameter);
    va_list arguments;
    va_start(arguments, name);
    const char *text = format_name(&parameters->arena, name, arguments);
    va_end(arguments);
    if (!parameter || !text || !QKV_RESERVE(parameters->list, parameters->capacity, parameters->count + 1)) {
        parameters->failed = true;
        if (!parameters->list) parameters->count = 0;
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

/* Rows of the largest parameter with orthogonal initial values; 0: none. */
static int64_t largest_orthogonal(const struct qkv_parameters *parameters)
{
    int64_t side = 0;
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        if (parameter->initial.kind == QKV_INITIALIZER_ORTHOGONAL && parameter->shape.size[0] > side)
            side = parameter->shape.size[0];
    }
    return side;
}

enum qkv_status qkv_parameters_allocate(struct qkv_parameters *parameters, enum qkv_dtype dtype,
                                        struct qkv_error *error)
{
    size_t size = (size_t)parameters->elements * qkv_dtype_size(dtype);
    int64_t side = largest_orthogonal(parameters);
    parameters->dtype = dtype;
    if (side)
        parameters->square = qkv_arena_allocate(&parameters->arena, (size_t)(side * side) * sizeof(double));
    if (side && !parameters->square) parameters->failed = true;
    parameters->values = parameters->failed ? NULL : qkv_arena_zeroed(&parameters->arena, size);
    if (parameters->values) return QKV_OK;
    return qkv_error_set(error, "out of memory for %lld parameters", (long long)parameters->elements);
}

/* Initial value of element i. */
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
    case QKV_INITIALIZER_FORGET:
        return 4 * i / parameter->count == 1 ? gain : 0.0;
    case QKV_INITIALIZER_ORTHOGONAL:
    case QKV_INITIALIZER_UNIFORM:
        break;
    case QKV_INITIALIZER_XAVIER_UNIFORM:
        gain *= sqrt(6.0 / fans);
        break;
    }
    return gain * (2.0 * qkv_random_uniform(random, (uint64_t)i) - 1.0);
}

/* Makes the rows of q [n, n] orthonormal (Gram-Schmidt). Two passes remove the rounding error of
 * one. */
static void orthonormalise(int64_t n, double *q)
{
    for (int64_t i = 0; i < n; i++) {
        double *row = q + i * n;
        for (int64_t k = 0; k < 2 * i; k++) {
            const double *other = q + k % i * n;
            double dot = 0;
            for (int64_t j = 0; j < n; j++) dot += row[j] * other[j];
            for (int64_t j = 0; j < n; j++) row[j] -= dot * other[j];
        }
        double length = 0;
        for (int64_t j = 0; j < n; j++) length += row[j] * row[j];
        for (int64_t j = 0; j < n; j++) row[j] /= sqrt(length);
    }
}

/* Sets a parameter [n, G n] to G random orthogonal matrices side by side. */
static void set_orthogonal(struct qkv_parameters *parameters, const struct qkv_parameter *parameter,
                           struct qkv_random random)
{
    int64_t n = parameter->shape.size[0], columns = parameter->shape.size[1];
    double *q = parameters->square;
    QKV_BUG(columns % n, "%s: [%lld, %lld] is not a row of square matrices", parameter->name, (long long)n,
            (long long)columns);
    for (int64_t left = 0; left < columns; left += n) {
        for (int64_t i = 0; i < n * n; i++) q[i] = qkv_random_normal(random, (uint64_t)(left * n + i));
        orthonormalise(n, q);
        for (int64_t i = 0; i < n * n; i++)
            qkv_parameter_set(parameters, parameter, i / n * columns + left + i % n,
                              parameter->initial.gain * q[i]);
    }
}

void qkv_parameters_initialize(struct qkv_parameters *parameters, uint64_t seed)
{
    for (int64_t p = 0; p < parameters->count; p++) {
        struct qkv_random random = {seed, QKV_STREAM_INITIAL_VALUES, (uint32_t)p};
        const struct qkv_parameter *parameter = parameters->list[p];
        if (parameter->initial.kind == QKV_INITIALIZER_ORTHOGONAL) {
            set_orthogonal(parameters, parameter, random);
            continue;
        }
        for (int64_t i = 0; i < parameter->count; i++)
            qkv_parameter_set(parameters, parameter, i, draw(parameter, random, i));
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
    return qkv_dtype_get(parameters->dtype, parameters->values, parameter->offset + i);
}

void qkv_parameter_set(struct qkv_parameters *parameters, const struct qkv_parameter *parameter, int64_t i,
                       double value)
{
    parameters->changes++;
    qkv_dtype_set(parameters->dtype, parameters->values, parameter->offset + i, value);
}

void qkv_parameters_release(struct qkv_parameters *parameters)
{
    qkv_arena_release(&parameters->arena);
    free(parameters->list);
    *parameters = (struct qkv_parameters){0};
}
