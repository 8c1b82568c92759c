/* Parameters: declaration, initial values, rates, precision of products, and panels. */
#include "core/choices.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "core/text.h"
#include "graph/graph.h"

#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>

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
    if (parameters->arena.failed)
        return qkv_error_set(error, "out of memory for the declaration of parameters");
    if (parameters->failed) return qkv_error_set(error, "%s", parameters->error.message);
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

enum qkv_status qkv_parameters_read_gradient(const struct qkv_parameters *parameters, const void *gradients,
                                             const char *name, double *gradient, struct qkv_error *error)
{
    const struct qkv_parameter *parameter = qkv_parameters_find(parameters, name);
    if (!parameter || !parameters->values || !gradients)
        return qkv_error_set(error, "%s: there is no %s of this name", name,
                             parameter ? "allocated gradient" : "parameter");
    for (int64_t i = 0; i < parameter->count; i++)
        gradient[i] = qkv_dtype_get(parameters->dtype, gradients, parameter->offset + i);
    return QKV_OK;
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

/* The rates of parameters: training some of them more slowly than others, or not at all. */

enum { LONGEST = 255 };

int64_t qkv_parameters_frozen(const struct qkv_parameters *parameters)
{
    int64_t frozen = 0;
    for (int64_t i = 0; i < parameters->count; i++)
        if (!(parameters->list[i]->rate > 0)) frozen += parameters->list[i]->count;
    return frozen;
}

static const char *name_at(const void *context, int64_t index)
{
    const struct qkv_parameters *parameters = context;
    return index < parameters->count ? parameters->list[index]->name : NULL;
}

/* Sets rate [parameters->count] of all parameters whose names the pattern fits. */
static enum qkv_status set_rate(struct qkv_parameters *parameters, const char *pattern, double value,
                                double *rate, struct qkv_error *error)
{
    char near[3 * LONGEST + 16];
    bool fits = false;
    for (int64_t i = 0; i < parameters->count; i++) {
        if (fnmatch(pattern, parameters->list[i]->name, 0) != 0) continue;
        rate[i] = value;
        fits = true;
    }
    if (fits) return QKV_OK;
    qkv_suggest_names(near, sizeof near, pattern, "", name_at, parameters);
    return qkv_error_set(error, "no parameter is named %s%s%s; `qkv inspect RUN` lists the names of a run",
                         pattern, *near ? "; did you mean " : "", near);
}

/* Reads one PATTERN=FACTOR of `length` bytes. */
static enum qkv_status read_rate(struct qkv_parameters *parameters, const char *text, size_t length,
                                 double *rate, struct qkv_error *error)
{
    char pair[LONGEST + 1];
    snprintf(pair, sizeof pair, "%.*s", (int)length, text);
    char *equals = strrchr(pair, '=');
    double value = -1;
    bool is_number = equals && qkv_number_kind(equals + 1) && qkv_number_read(equals + 1, &value);
    if (length > LONGEST || !is_number || equals == pair || !(value >= 0) || !isfinite(value))
        return qkv_error_set(
            error, "'%s' is not PATTERN=FACTOR with a factor from 0 on, such as encoder.*=0.1", pair);
    *equals = 0;
    return set_rate(parameters, pair, value, rate, error);
}

enum qkv_status qkv_parameters_set_rates(struct qkv_parameters *parameters, const char *rates,
                                         struct qkv_error *error)
{
    static const char SPACE[] = " \t\n";
    if (!rates) return QKV_OK;
    double *rate = malloc(((size_t)parameters->count + 1) * sizeof *rate);
    if (!rate) return qkv_error_set(error, "out of memory for the rates of parameters");
    enum qkv_status status = QKV_OK;
    bool is_any = !parameters->count;
    for (int64_t i = 0; i < parameters->count; i++) rate[i] = parameters->list[i]->rate;
    for (const char *at = rates + strspn(rates, SPACE); *at && !status; at += strspn(at, SPACE)) {
        size_t length = strcspn(at, SPACE);
        status = read_rate(parameters, at, length, rate, error);
        at += length;
    }
    for (int64_t i = 0; i < parameters->count; i++) is_any |= rate[i] > 0;
    if (!status && !is_any)
        status = qkv_error_set(error, "every parameter is frozen, so there is nothing to train");
    for (int64_t i = 0; !status && i < parameters->count; i++) parameters->list[i]->rate = rate[i];
    free(rate);
    return status;
}

static void round_to_int8(const struct qkv_parameter *parameter, float *values)
{
    struct qkv_int8_layout layout = qkv_int8_layout_of(parameter);
    for (int64_t i = 0; i < layout.scales; i++) {
        float *first = values + i * layout.scale_step;
        float scale = qkv_int8_scale(layout.count, first, layout.step);
        for (int64_t j = 0; j < layout.count; j++) {
            float *x = first + j * layout.step;
            *x = (float)qkv_int8_of(*x, scale) * scale;
        }
    }
}

enum qkv_status qkv_parameters_set_precision(struct qkv_parameters *parameters, enum qkv_precision precision,
                                             struct qkv_error *error)
{
    if (!qkv_precision_name(precision))
        return qkv_error_set(error, "there is no precision %d", (int)precision);
    if (!parameters->values) return qkv_error_set(error, "the parameters are not allocated");
    if (precision != QKV_PRECISION_FLOAT32 && parameters->dtype != QKV_FLOAT32)
        return qkv_error_set(error, "products in %s need parameters in float32",
                             qkv_precision_name(precision));
    const struct qkv_parameter *broken = precision == QKV_PRECISION_INT8
                                             ? qkv_parameters_find_not_finite(parameters, parameters->values)
                                             : NULL;
    if (broken) return qkv_error_set(error, "%s has numbers that are not finite", broken->name);
    parameters->products = precision;
    parameters->changes++;
    if (precision != QKV_PRECISION_INT8) return QKV_OK;
    for (int64_t i = 0; i < parameters->count; i++) {
        const struct qkv_parameter *parameter = parameters->list[i];
        if (parameter->shape.rank == 2)
            round_to_int8(parameter, (float *)parameters->values + parameter->offset);
    }
    return QKV_OK;
}

/* Panels: copies of parameter matrices in the order in which products read them. A panel is a strip of a few
 * neighbouring columns, stored row after row. Without these copies a product of a few dozen rows, as in a step of
 * decoding, would spend a tenth of its time on copying the same matrix again. */

/* A packed matrix, transposed or not. */
struct copy {
    atomic_uint_fast64_t version; /* parameters->changes + 1 when it was packed; 0: never */
    void *memory;
    size_t size; /* of the memory, bytes */
};

struct qkv_panels {
    const struct qkv_parameters *parameters;
    pthread_mutex_t mutex; /* held while packing */
    char *block;           /* memory of all copies: one block, so that it can use huge pages */
    size_t size, used;     /* of the block, bytes */
    struct copy copy[][2]; /* [parameter][transposed] */
};

/* Bytes for one copy of each matrix, for any panel width: panels are padded with zeros. */
static size_t bytes_for(const struct qkv_parameters *parameters)
{
    enum { WIDEST_PANEL = 32, ALIGNMENT = 64 };
    size_t bytes = 0, number = qkv_dtype_size(parameters->dtype);
    for (int64_t i = 0; i < parameters->count; i++) {
        const struct qkv_shape *shape = &parameters->list[i]->shape;
        if (shape->rank == 2)
            bytes += (size_t)((shape->size[0] + WIDEST_PANEL) * (shape->size[1] + WIDEST_PANEL)) * number +
                     ALIGNMENT;
    }
    return bytes;
}

struct qkv_panels *qkv_panels_new(const struct qkv_parameters *parameters)
{
    if (!parameters->values) return NULL; /* more parameters may still be declared */
    struct qkv_panels *panels =
        calloc(1, sizeof *panels + (size_t)parameters->count * sizeof panels->copy[0]);
    if (!panels) return NULL;
    panels->parameters = parameters;
    panels->size = bytes_for(parameters);
    panels->block = qkv_block_new(panels->size, panels->size);
    if (!panels->block) {
        free(panels);
        return NULL;
    }
    pthread_mutex_init(&panels->mutex, NULL);
    return panels;
}

void qkv_panels_free(struct qkv_panels *panels)
{
    if (!panels) return;
    pthread_mutex_destroy(&panels->mutex);
    qkv_block_free(panels->block, panels->size);
    free(panels);
}

void qkv_graph_set_panels(struct qkv_graph *graph, struct qkv_panels *panels)
{
    graph->panels = panels;
}

/* Memory for a copy; NULL when the block is full. It has room for one copy of each matrix, so it
 * fills up when many matrices are used both transposed and not. */
static void *allocate_copy(struct qkv_panels *panels, size_t bytes)
{
    size_t aligned = (bytes + 63) / 64 * 64;
    if (aligned > panels->size - panels->used) return NULL;
    panels->used += aligned;
    return panels->block + panels->used - aligned;
}

const void *qkv_panels_of(const struct qkv_tensor *weight, bool transposed, size_t bytes,
                          void (*pack)(const struct qkv_tensor *weight, bool transposed, void *panels))
{
    struct qkv_panels *panels = weight->graph->panels;
    if (!panels || !weight->binding || weight->binding->parameters != panels->parameters) return NULL;
    struct copy *copy = &panels->copy[weight->parameter->index][transposed];
    uint64_t version = panels->parameters->changes + 1;
    if (atomic_load_explicit(&copy->version, memory_order_acquire) == version) return copy->memory;
    pthread_mutex_lock(&panels->mutex);
    if (copy->size < bytes) { /* the precision of products may have changed */
        copy->memory = allocate_copy(panels, bytes);
        copy->size = copy->memory ? bytes : 0;
    }
    if (copy->memory && atomic_load_explicit(&copy->version, memory_order_relaxed) != version) {
        pack(weight, transposed, copy->memory);
        atomic_store_explicit(&copy->version, version, memory_order_release);
    }
    pthread_mutex_unlock(&panels->mutex);
    return copy->memory;
}
