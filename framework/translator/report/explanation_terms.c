/* Shows how a number of a step was computed: the terms of its sum. */
#include "qkv/scalar_math.h"
#include "report/explanation.h"

#include <math.h>
#include <stdlib.h>

/* A step with one of its matrices. */
struct matrix {
    const struct qkv_step *step;
    const double *values; /* [rows, columns] */
};

/* The matrix of a step that belongs to head `head` of `heads`. Several query heads may share a head of keys and values. */
static struct matrix matrix_of(const struct qkv_explanation *explanation, const char *name, int64_t head,
                               int64_t heads)
{
    const struct qkv_step *step = name ? qkv_explanation_step(explanation, name) : NULL;
    if (!step) return (struct matrix){0};
    int64_t i = step->heads > 1 ? head * step->heads / heads : 0;
    return (struct matrix){step, step->values + i * step->rows * step->columns};
}

/* One number of the matrix; 0 outside of it, which no rule of a walk reads. */
static double cell(struct matrix matrix, int64_t row, int64_t column)
{
    if (!matrix.step || row >= matrix.step->rows || column >= matrix.step->columns) return 0;
    return matrix.values[row * matrix.step->columns + column];
}

/* The terms under construction. */
struct sum {
    struct qkv_arena *arena;
    struct qkv_term *terms;
    int64_t count;
    bool failed; /* out of memory */
};

/* The name of column i of a step: a word, or its number from 1. */
static const char *column_name(struct sum *sum, const struct qkv_step *step, int64_t i)
{
    if (step->column_names) return step->column_names[i];
    const char *name = qkv_arena_format(sum->arena, "%lld", (long long)(i + 1));
    if (!name) sum->failed = true;
    return name ? name : "";
}

static void add(struct sum *sum, const char *name, double x, double y)
{
    sum->terms[sum->count++] = (struct qkv_term){name, x, y, x * y};
}

/* A number, and the matrices from which its step was made. */
struct origin {
    const struct qkv_step *step;
    int64_t row, column;
    struct matrix x, y, z;
};

static void add_products(struct sum *sum, const struct origin *o)
{
    bool by_rows = o->step->rule == QKV_STEP_RULE_ROW_PRODUCT;
    for (int64_t k = 0; k < o->x.step->columns; k++)
        add(sum, column_name(sum, o->x.step, k), cell(o->x, o->row, k),
            by_rows ? cell(o->y, o->column, k) : cell(o->y, k, o->column));
    if (o->z.step) add(sum, o->z.step->title, cell(o->z, 0, o->column), 1);
}

/* The head and the column of its context that a column of the joined heads comes from. */
struct joined_head {
    int64_t number; /* of the layer, from 1 */
    int64_t index;  /* of its matrix in step X; outside 0 .. heads - 1 if the steps do not have this head */
    int64_t column; /* of that matrix */
};

/* X must have columns. If heads were removed (qkv_explanation_select_head), X begins with head `first_head` of the
 * layer, but the joined heads are still complete. */
static struct joined_head joined_head(const struct qkv_explanation *explanation, const struct origin *o)
{
    const struct qkv_step *x = o->x.step;
    int64_t first = explanation->first_head > 1 ? explanation->first_head : 1,
            heads = x->heads ? x->heads : 1;
    bool joins_x_alone = o->step->columns == heads * x->columns;
    int64_t part = o->column / x->columns, number = joins_x_alone ? part + first : part + 1;
    return (struct joined_head){number, number - first, o->column % x->columns};
}

/* Adds exp(x - max) for each number x of the row, where max is the largest of them, as softmax computes it. */
static void add_exponentials(struct sum *sum, const struct origin *o)
{
    double greatest = -HUGE_VAL;
    for (int64_t j = 0; j < o->x.step->columns; j++) greatest = fmax(greatest, cell(o->x, o->row, j));
    for (int64_t j = 0; j < o->x.step->columns; j++) {
        double x = cell(o->x, o->row, j);
        if (isinf(x)) continue;
        sum->terms[sum->count++] =
            (struct qkv_term){column_name(sum, o->step, j), x, 1, qkv_scalar_exp(x - greatest)};
    }
}

static void add_context(struct sum *sum, const struct origin *o, struct joined_head head, double value)
{
    const struct qkv_step *context = o->x.step;
    const struct matrix z = {context, context->values + head.index * context->rows * context->columns};
    double x = cell(z, o->row, head.column);
    const char *name = qkv_arena_format(sum->arena, "Z_%lld", (long long)head.number);
    if (!name) sum->failed = true;
    add(sum, name ? name : "", x, fabs(value) > 0 || !(fabs(x) > 0) ? 1 : 0); /* 0: the head is silent */
}

static void add_terms(struct sum *sum, const struct qkv_explanation *explanation, const struct origin *o,
                      double value)
{
    switch (o->step->rule) {
    case QKV_STEP_RULE_NONE:
        return;
    case QKV_STEP_RULE_PRODUCT:
    case QKV_STEP_RULE_ROW_PRODUCT:
        add_products(sum, o);
        return;
    case QKV_STEP_RULE_SUM:
        add(sum, o->x.step->title, cell(o->x, o->row, o->column), 1);
        if (o->y.step) add(sum, o->y.step->title, cell(o->y, o->row, o->column), 1);
        return;
    case QKV_STEP_RULE_SCALE:
        add(sum, o->x.step->title, cell(o->x, o->row, o->column), o->step->factor);
        return;
    case QKV_STEP_RULE_SOFTMAX:
        add_exponentials(sum, o);
        return;
    case QKV_STEP_RULE_JOIN:
        add_context(sum, o, joined_head(explanation, o), value);
        return;
    }
}

static bool is_there(const struct qkv_step *step, const struct qkv_number *number, int64_t heads)
{
    return number->head >= 0 && number->head < heads && number->row >= 0 && number->row < step->rows &&
           number->column >= 0 && number->column < step->columns;
}

/* Fails when X does not have the columns or the head that the rule of the step reads. */
static enum qkv_status check_origin(const struct qkv_explanation *explanation, const struct origin *o,
                                    struct qkv_error *error)
{
    const struct qkv_step *step = o->step, *x = o->x.step;
    bool is_join = step->rule == QKV_STEP_RULE_JOIN;
    if (step->rule == QKV_STEP_RULE_SOFTMAX ? x->columns != step->columns : is_join && !x->columns)
        return qkv_error_set(error, "step %s has %lld columns, but step %s, from which it is made, has %lld",
                             step->name, (long long)step->columns, x->name, (long long)x->columns);
    if (!is_join) return QKV_OK;
    const struct joined_head head = joined_head(explanation, o);
    if (head.index >= 0 && head.index < (x->heads ? x->heads : 1)) return QKV_OK;
    return qkv_error_set(error, "column %lld of step %s is of head %lld, which step %s does not have",
                         (long long)o->column, step->name, (long long)head.number, x->name);
}

enum qkv_status qkv_explanation_terms(const struct qkv_explanation *explanation,
                                      const struct qkv_number *number, struct qkv_arena *arena,
                                      struct qkv_terms *terms, struct qkv_error *error)
{
    *terms = (struct qkv_terms){0};
    if (qkv_explanations_check(explanation, 1, error)) return QKV_INVALID;
    const char *name = number->step->name ? number->step->name : "";
    const struct qkv_step *step = qkv_explanation_step(explanation, name);
    if (!step) return qkv_error_set(error, "the explanation has no step %s", name);
    int64_t heads = step->heads ? step->heads : 1;
    if (!is_there(step, number, heads))
        return qkv_error_set(error, "step %s has no number at row %lld, column %lld of matrix %lld",
                             step->name, (long long)number->row, (long long)number->column,
                             (long long)number->head);
    terms->value = step->values[(number->head * step->rows + number->row) * step->columns + number->column];
    const struct origin origin = {.step = step,
                                  .row = number->row,
                                  .column = number->column,
                                  .x = matrix_of(explanation, step->from[0], number->head, heads),
                                  .y = matrix_of(explanation, step->from[1], number->head, heads),
                                  .z = matrix_of(explanation, step->from[2], number->head, heads)};
    if (isinf(terms->value) || !origin.x.step) return QKV_OK;
    if (check_origin(explanation, &origin, error)) return QKV_INVALID;
    struct sum sum = {.arena = arena};
    sum.terms = qkv_arena_allocate(arena, (size_t)(origin.x.step->columns + 2) * sizeof *sum.terms);
    if (sum.terms) add_terms(&sum, explanation, &origin, terms->value);
    if (!sum.terms || sum.failed) return qkv_error_set(error, "out of memory for the terms of a number");
    terms->terms = sum.count ? sum.terms : NULL;
    terms->count = sum.count;
    for (int64_t i = 0; i < sum.count; i++) terms->sum += sum.terms[i].value;
    return QKV_OK;
}
