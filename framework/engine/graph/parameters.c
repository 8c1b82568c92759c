#include "core/choices.h"
#include "core/memory.h"
#include "core/text.h"
#include "graph/internal.h"

#include "graph/graph.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNED_ELEMENTS = 16, LONGEST_NAME = 255 };

void qkv_parameters_refuse(struct qkv_parameters *parameters, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!parameters->failed)
        vsnprintf(parameters->error.message, sizeof parameters->error.message, format, arguments);
    va_end(arguments);
    parameters->failed = true;
}

void qkv_parameters_replaced(struct qkv_parameters *parameters)
{
    parameters->changes++;
    if (parameters->products == QKV_PRECISION_INT8) parameters->products = QKV_PRECISION_FLOAT32;
}

/* Whether a parameter can be declared; else the parameters fail. */
static bool may_declare(struct qkv_parameters *parameters, struct qkv_shape shape, struct qkv_initial initial,
                        const char *name)
{
    if (!*name || strlen(name) > LONGEST_NAME)
        qkv_parameters_refuse(parameters, "a parameter's name has %zu bytes, but must have 1 to %d",
                              strlen(name), LONGEST_NAME);
    else if (!qkv_is_utf8(name))
        qkv_parameters_refuse(
            parameters, "the parameter %s: its name is not valid UTF-8, so that no checkpoint could be read",
            name);
    else if (!strncmp(name, "__", 2) || !strncmp(name, "optimizer.", 10))
        qkv_parameters_refuse(parameters,
                              "%s: names that begin with `__` or `optimizer.` belong to checkpoints", name);
    else if (parameters->values)
        qkv_parameters_refuse(parameters, "%s: parameters are declared before qkv_parameters_allocate", name);
    else if (qkv_parameters_find(parameters, name))
        qkv_parameters_refuse(parameters,
                              "%s: two parameters have this name; give each layer a name of its own", name);
    else if (shape.rank < 1 || !qkv_shape_count(shape))
        qkv_parameters_refuse(parameters, "%s: a parameter cannot have shape %s: it must have %s", name,
                              qkv_shape_text(shape), qkv_shape_fault(shape));
    else if (parameters->elements > QKV_MAX_ELEMENTS - qkv_shape_count(shape))
        qkv_parameters_refuse(parameters, "%s: with it the parameters have more than 2^40 elements", name);
    else if (!qkv_value_exists(&qkv_initializer_names, (int)initial.kind))
        qkv_parameters_refuse(parameters, "%s: there is no initializer %d", name, (int)initial.kind);
    else if (!isfinite(initial.gain))
        qkv_parameters_refuse(parameters, "%s: the gain of its initial values is %g, but must be finite",
                              name, initial.gain);
    else if (initial.kind == QKV_INITIALIZER_ORTHOGONAL && (shape.rank != 2 || shape.size[1] % shape.size[0]))
        qkv_parameters_refuse(parameters,
                              "%s: %s is not a row of square matrices, so it cannot be orthogonal", name,
                              qkv_shape_text(shape));
    else
        return true;
    return false;
}

const struct qkv_parameter *qkv_parameters_add(struct qkv_parameters *parameters, struct qkv_shape shape,
                                               struct qkv_initial initial, const char *name, ...)
{
    char text[LONGEST_NAME + 2] = ""; /* one byte too long shows that a name was cut */
    va_list arguments;
    va_start(arguments, name);
    if (name) vsnprintf(text, sizeof text, name, arguments);
    va_end(arguments);
    if (!may_declare(parameters, shape, initial, text)) return NULL;
    struct qkv_parameter *parameter = qkv_arena_allocate(&parameters->arena, sizeof *parameter);
    const char *kept = qkv_arena_string(&parameters->arena, text);
    if (!parameter || !kept || !QKV_RESERVE(parameters->list, parameters->capacity, parameters->count + 1)) {
        if (!parameters->list) parameters->count = 0;
        qkv_parameters_refuse(parameters, "out of memory for the parameter %s", text);
        return NULL;
    }
    *parameter = (struct qkv_parameter){
        .name = kept,
        .shape = shape,
        .initial = initial,
        .index = parameters->count,
        .offset = parameters->elements,
        .count = qkv_shape_count(shape),
        .rate = 1,
    };
    parameters->elements += (parameter->count + ALIGNED_ELEMENTS - 1) / ALIGNED_ELEMENTS * ALIGNED_ELEMENTS;
    parameters->list[parameters->count++] = parameter;
    return parameter;
}

/* Whether the block declares the parameter. */
static bool declares(const struct qkv_parameters *parameters, const struct qkv_parameter *parameter)
{
    return parameter && parameter->index >= 0 && parameter->index < parameters->count &&
           parameters->list[parameter->index] == parameter;
}

void qkv_parameters_mark_table(struct qkv_parameters *parameters, const struct qkv_parameter *table)
{
    if (declares(parameters, table)) parameters->list[table->index]->is_table = true;
}

static bool fill_table(struct qkv_parameters *parameters, struct qkv_table *table)
{
    table->dtype = parameters->dtype;
    size_t bytes = (size_t)(table->rows * table->columns) * qkv_dtype_size(table->dtype);
    table->values = qkv_arena_allocate(&parameters->arena, bytes);
    if (table->values) table->fill(table);
    return table->values;
}

const struct qkv_table *qkv_parameters_add_table(struct qkv_parameters *parameters, struct qkv_table table)
{
    for (const struct qkv_table *other = parameters->tables; other; other = other->next)
        if (other->rows == table.rows && other->columns == table.columns && other->fill == table.fill &&
            !memcmp(&other->base, &table.base, sizeof table.base))
            return other;
    struct qkv_table *added = qkv_arena_allocate(&parameters->arena, sizeof *added);
    if (added) {
        *added = table;
        added->next = parameters->tables;
        if (!parameters->values || fill_table(parameters, added)) return parameters->tables = added;
    }
    parameters->failed = true;
    return NULL;
}

/* Rows of the largest parameter with orthogonal initial values; 0: none. */
static int64_t largest_orthogonal(const struct qkv_parameters *parameters)
{
    int64_t rows = 0;
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        if (parameter->initial.kind == QKV_INITIALIZER_ORTHOGONAL && parameter->shape.size[0] > rows)
            rows = parameter->shape.size[0];
    }
    return rows;
}

enum qkv_status qkv_parameters_allocate(struct qkv_parameters *parameters, enum qkv_dtype dtype,
                                        struct qkv_error *error)
{
    if (parameters->values) return qkv_error_set(error, "the parameters are allocated already");
    if (dtype != QKV_FLOAT32 && dtype != QKV_FLOAT64)
        return qkv_error_set(error, "there is no precision %d", (int)dtype);
    if (parameters->failed)
        return qkv_error_set(error, "%s",
                             *parameters->error.message ? parameters->error.message
                                                        : "out of memory for the declaration of parameters");
    size_t size = (size_t)parameters->elements * qkv_dtype_size(dtype);
    int64_t rows = largest_orthogonal(parameters);
    parameters->dtype = dtype;
    bool has_memory = true;
    for (struct qkv_table *table = parameters->tables; table && has_memory; table = table->next)
        has_memory = fill_table(parameters, table);
    if (rows && has_memory)
        parameters->square = qkv_arena_allocate(&parameters->arena, (size_t)(rows * rows) * sizeof(double));
    if (has_memory && (!rows || parameters->square))
        parameters->values = qkv_arena_zeroed(&parameters->arena, size);
    if (parameters->values) return QKV_OK;
    parameters->failed = true;
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
    for (int64_t p = 0; parameters->values && p < parameters->count; p++) {
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

static bool is_finite(enum qkv_dtype dtype, const void *block, int64_t first, int64_t count)
{
    bool finite = true; /* no early exit, so that compilers vectorise the loops */
    if (dtype == QKV_FLOAT32)
        for (int64_t i = first; i < first + count; i++) finite &= isfinite(((const float *)block)[i]) != 0;
    else
        for (int64_t i = first; i < first + count; i++) finite &= isfinite(((const double *)block)[i]) != 0;
    return finite;
}

const struct qkv_parameter *qkv_parameters_find_not_finite(const struct qkv_parameters *parameters,
                                                           const void *block)
{
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        if (!is_finite(parameters->dtype, block, parameter->offset, parameter->count)) return parameter;
    }
    return NULL;
}

/* Whether element i of the parameter is in the block. */
static bool holds(const struct qkv_parameters *parameters, const struct qkv_parameter *parameter, int64_t i)
{
    return parameters->values && declares(parameters, parameter) && i >= 0 && i < parameter->count;
}

double qkv_parameter_get(const struct qkv_parameters *parameters, const struct qkv_parameter *parameter,
                         int64_t i)
{
    if (!holds(parameters, parameter, i)) return (double)NAN;
    return qkv_dtype_get(parameters->dtype, parameters->values, parameter->offset + i);
}

void qkv_parameter_set(struct qkv_parameters *parameters, const struct qkv_parameter *parameter, int64_t i,
                       double value)
{
    if (!holds(parameters, parameter, i)) return;
    parameters->changes++;
    qkv_dtype_set(parameters->dtype, parameters->values, parameter->offset + i, value);
}

void qkv_parameters_release(struct qkv_parameters *parameters)
{
    qkv_arena_release(&parameters->arena);
    free(parameters->list);
    *parameters = (struct qkv_parameters){0};
}
