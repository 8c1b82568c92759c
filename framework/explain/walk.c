#include "explain/walk.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct walk *qkv_walk_new(struct qkv_arena *arena, struct qkv_error *error)
{
    struct walk *walk = qkv_arena_zeroed(arena, sizeof *walk);
    if (walk) walk->graph = qkv_graph_new(QKV_FLOAT64);
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

/* ---- adding steps ---- */

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

struct words qkv_walk_counted(struct walk *walk, int64_t count)
{
    const char **names = qkv_walk_memory(walk, count, sizeof *names);
    for (int64_t i = 0; names && i < count; i++) names[i] = qkv_walk_text(walk, "%lld", (long long)i);
    return (struct words){count, names};
}

struct qkv_step *qkv_walk_add_step(struct walk *walk, const char *name, const char *title,
                                   const char *formula, struct words rows, struct words columns)
{
    QKV_BUG(walk->count == WALK_MOST_STEPS, "a walk has more than %d steps", WALK_MOST_STEPS);
    struct qkv_step *step = &walk->step[walk->count];
    walk->noted[walk->count++] = (struct noted){0};
    *step = (struct qkv_step){
        .name = name,
        .title = title,
        .formula = formula,
        .rows = rows.count,
        .columns = columns.count,
        .row_names = rows.text,
        .column_names = columns.text,
    };
    return step;
}

void qkv_walk_add_tensor(struct walk *walk, const char *name, const char *title, const char *formula,
                         const struct qkv_tensor *tensor, int64_t heads, bool beside, struct words rows,
                         struct words columns)
{
    struct qkv_step *step = qkv_walk_add_step(walk, name, title, formula, rows, columns);
    step->heads = heads;
    walk->noted[walk->count - 1] = (struct noted){tensor, beside};
}

/* With heads, the columns of the matrix are those of head beside head. */
void qkv_walk_add_matrix(struct walk *walk, const char *name, const char *title, const char *formula,
                         struct qkv_matrix matrix, int64_t heads, struct words rows)
{
    int64_t columns = matrix.columns / (heads ? heads : 1);
    double *values = qkv_walk_memory(walk, matrix.rows * matrix.columns, sizeof *values);
    struct words numbered = {columns, NULL};
    if (!rows.count) rows.count = matrix.rows;
    struct qkv_step *step = qkv_walk_add_step(walk, name, title, formula, rows, numbered);
    step->heads = heads;
    step->values = values;
    for (int64_t r = 0; values && r < matrix.rows; r++)
        for (int64_t c = 0; c < matrix.columns; c++)
            values[(c / columns * matrix.rows + r) * columns + c % columns] =
                matrix.value[r * matrix.columns + c];
}

struct qkv_tensor *qkv_walk_constant(struct walk *walk, struct qkv_matrix matrix)
{
    struct qkv_tensor *tensor = qkv_constant(walk->graph, QKV_SHAPE(matrix.rows, matrix.columns));
    if (tensor) qkv_tensor_write(tensor, matrix.value);
    return tensor;
}

/* Reads a noted tensor; heads that stand beside each other are taken apart. */
static void read_tensor(struct walk *walk, struct qkv_step *step, const struct noted *noted)
{
    int64_t count = qkv_tensor_count(noted->tensor), heads = step->heads ? step->heads : 1;
    double *whole = qkv_walk_memory(walk, count, sizeof *whole), *apart = whole;
    if (!whole) return;
    QKV_BUG(count != heads * step->rows * step->columns, "step %s has %lld numbers for %lld x %lld x %lld",
            step->name, (long long)count, (long long)heads, (long long)step->rows, (long long)step->columns);
    qkv_tensor_read(noted->tensor, whole);
    step->values = whole;
    if (!noted->beside || heads == 1) return;
    apart = qkv_walk_memory(walk, count, sizeof *apart);
    for (int64_t i = 0; apart && i < count; i++) {
        int64_t column = i % step->columns, head = i / step->columns % heads, row = i / step->columns / heads;
        apart[(head * step->rows + row) * step->columns + column] = whole[i];
    }
    step->values = apart;
}

/* Scores that the mask hides become -infinity: what they are to the softmax. */
static void hide_scores(const struct walk *walk, const struct qkv_step *step)
{
    double *values = (double *)(uintptr_t)step->values; /* of read_tensor */
    int64_t cells = step->rows * step->columns;
    for (int64_t i = 0; i < cells * step->heads; i++)
        if (walk->visible && !(walk->visible[i % cells] > 0)) values[i] = -HUGE_VAL;
}

enum qkv_status qkv_walk_finish(struct walk *walk, struct qkv_explanation *explanation,
                                struct qkv_error *error)
{
    if (qkv_graph_check(walk->graph, error)) return QKV_INVALID;
    qkv_forward(walk->graph);
    for (int64_t i = 0; i < walk->count && !walk->failed; i++)
        if (walk->noted[i].tensor) {
            read_tensor(walk, &walk->step[i], &walk->noted[i]);
            if (!walk->failed && !strcmp(walk->step[i].name, "masked_scores"))
                hide_scores(walk, &walk->step[i]);
        }
    struct qkv_step *steps = qkv_walk_memory(walk, walk->count, sizeof *steps);
    if (walk->failed) return qkv_error_set(error, "out of memory for a walk through attention");
    memcpy(steps, walk->step, (size_t)walk->count * sizeof *steps);
    explanation->steps = steps;
    explanation->step_count = walk->count;
    return QKV_OK;
}
