#include "explain/walk.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct walk *qkv_walk_new(enum qkv_dtype dtype, struct qkv_arena *arena, struct qkv_error *error)
{
    struct walk *walk = qkv_arena_zeroed(arena, sizeof *walk);
    if (walk) walk->graph = qkv_graph_new(dtype);
    if (!walk || !walk->graph) {
        qkv_error_set(error, "out of memory for a walk through attention");
        return NULL;
    }
    walk->arena = arena;
    qkv_graph_set_gradients(walk->graph, false);
    return walk;
}

void qkv_walk_free(struct walk *walk)
{
    qkv_graph_free(walk->graph);
    walk->graph = NULL;
}

void *qkv_walk_memory(struct walk *walk, int64_t count, size_t size)
{
    void *memory = qkv_arena_zeroed(walk->arena, (size_t)count * size);
    if (!memory) walk->failed = true;
    return memory;
}

const char *qkv_walk_text(struct walk *walk, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *copy = qkv_arena_string(walk->arena, text);
    if (!copy) walk->failed = true;
    return copy ? copy : "";
}

struct qkv_texts qkv_walk_positions(struct walk *walk, int64_t count)
{
    const char **names = qkv_walk_memory(walk, count, sizeof *names);
    for (int64_t i = 0; names && i < count; i++) names[i] = qkv_walk_text(walk, "%lld", (long long)i);
    return (struct qkv_texts){count, names};
}

int64_t qkv_walk_find_rows(struct qkv_texts words, const char *word, int32_t *rows)
{
    int64_t count = 0;
    for (int64_t i = 0; i < words.count; i++)
        if (!strcmp(words.text[i], word)) rows[count++] = (int32_t)i;
    char *end;
    long number = strtol(word, &end, 10);
    if (!count && end > word && !*end && number >= 1 && number <= words.count)
        rows[count++] = (int32_t)(number - 1);
    return count;
}

struct qkv_tensor *qkv_walk_constant(struct walk *walk, struct qkv_matrix matrix)
{
    struct qkv_tensor *tensor = qkv_constant(walk->graph, QKV_SHAPE(matrix.rows, matrix.columns));
    if (tensor) qkv_tensor_write(tensor, matrix.value);
    return tensor;
}

struct qkv_tensor *qkv_walk_project(struct walk *walk, struct qkv_tensor *input,
                                    const struct projection *projection)
{
    if (!projection->weight.rows) return input;
    struct qkv_tensor *bias = NULL;
    if (projection->bias.rows) {
        bias = qkv_constant(walk->graph, QKV_SHAPE(projection->bias.columns));
        if (bias) qkv_tensor_write(bias, projection->bias.value);
    }
    return qkv_linear(walk->graph, input, qkv_walk_constant(walk, projection->weight), bias, false);
}

/* ---- adding steps ---- */

/* [rows, heads columns] -> [heads, rows, columns], in the arena. */
static const double *split_heads(struct walk *walk, const double *joined, int64_t heads, int64_t rows,
                                 int64_t columns)
{
    double *split = qkv_walk_memory(walk, heads * rows * columns, sizeof *split);
    for (int64_t i = 0; split && i < heads * rows * columns; i++) {
        int64_t column = i % columns, head = i / columns % heads, row = i / columns / heads;
        split[(head * rows + row) * columns + column] = joined[i];
    }
    return split;
}

void qkv_walk_add(struct walk *walk, const struct new_step *new)
{
    QKV_BUG(walk->count == WALK_MAX_STEPS, "a walk has more than %d steps", WALK_MAX_STEPS);
    int64_t heads = new->heads ? new->heads : 1;
    int64_t rows = new->rows.count ? new->rows.count : new->matrix.rows, columns = new->columns.count;
    const double *values = new->values;
    if (new->matrix.rows) {
        columns = new->matrix.columns / heads;
        values = split_heads(walk, new->matrix.value, heads, rows, columns);
    } else if (new->tensor && !columns && rows) {
        columns = qkv_tensor_count(new->tensor) / (rows * heads);
    }
    walk->pending[walk->count] = (struct pending){new->tensor, new->side_by_side, new->visible};
    walk->step[walk->count++] = (struct qkv_step){
        .name = new->name,
        .title = new->title,
        .formula = new->formula,
        .same_as = new->same_as,
        .content = new->content,
        .heads = new->heads,
        .rows = rows,
        .columns = columns,
        .values = values,
        .row_names = new->rows.text,
        .column_names = new->columns.text,
    };
}

void qkv_walk_add_matrix(struct walk *walk, const char *name, const char *title, const char *formula,
                         struct qkv_matrix matrix, int64_t heads)
{
    qkv_walk_add(walk,
                 &(struct new_step){
                     .name = name, .title = title, .formula = formula, .matrix = matrix, .heads = heads});
}

void qkv_walk_add_tensor(struct walk *walk, const char *name, const char *title, const char *formula,
                         const struct qkv_tensor *tensor, struct qkv_texts rows)
{
    qkv_walk_add(walk, &(struct new_step){
                           .name = name, .title = title, .formula = formula, .tensor = tensor, .rows = rows});
}

void qkv_walk_note(struct walk *walk, const char *note)
{
    walk->step[walk->count - 1].note = note;
}

void qkv_walk_rule(struct walk *walk, enum qkv_step_rule rule, const char *x, const char *y, const char *z)
{
    struct qkv_step *step = &walk->step[walk->count - 1];
    step->rule = rule;
    step->from[0] = x;
    step->from[1] = y;
    step->from[2] = z;
}

/* ---- reading tensors ---- */

static const double *read_tensor(struct walk *walk, const struct qkv_step *step,
                                 const struct pending *pending)
{
    int64_t count = qkv_tensor_count(pending->tensor), heads = step->heads ? step->heads : 1,
            cells = step->rows * step->columns;
    double *values = qkv_walk_memory(walk, count, sizeof *values);
    if (!values) return NULL;
    QKV_BUG(count != heads * cells, "step %s has %lld numbers for %lld x %lld x %lld", step->name,
            (long long)count, (long long)heads, (long long)step->rows, (long long)step->columns);
    qkv_tensor_read(pending->tensor, values);
    for (int64_t i = 0; pending->visible && i < count; i++)
        if (!(pending->visible[i % cells] > 0)) values[i] = -HUGE_VAL;
    return pending->side_by_side && heads > 1 ? split_heads(walk, values, heads, step->rows, step->columns)
                                              : values;
}

enum qkv_status qkv_walk_finish(struct walk *walk, struct qkv_explanation *explanation,
                                struct qkv_error *error)
{
    if (qkv_graph_check(walk->graph, error)) return QKV_INVALID;
    qkv_forward(walk->graph);
    if (qkv_graph_check(walk->graph, error)) return QKV_INVALID;
    for (int64_t i = 0; i < walk->count && !walk->failed; i++)
        if (walk->pending[i].tensor)
            walk->step[i].values = read_tensor(walk, &walk->step[i], &walk->pending[i]);
    struct qkv_step *steps = qkv_walk_memory(walk, walk->count, sizeof *steps);
    if (walk->failed) return qkv_error_set(error, "out of memory for a walk through attention");
    memcpy(steps, walk->step, (size_t)walk->count * sizeof *steps);
    explanation->steps = steps;
    explanation->step_count = walk->count;
    return QKV_OK;
}
