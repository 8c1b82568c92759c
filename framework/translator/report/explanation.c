/* Explanations: finding steps, functions shared by their writers, and the terms of a number. */
#include "report/explanation.h"

#include "core/memory.h"
#include "core/numbers.h"

#include <math.h>

const struct qkv_step *qkv_explanation_step(const struct qkv_explanation *explanation, const char *name)
{
    for (int64_t i = 0; i < explanation->step_count; i++)
        if (!strcmp(explanation->steps[i].name, name)) return &explanation->steps[i];
    return NULL;
}

const struct qkv_step *qkv_explanation_content(const struct qkv_explanation *explanation,
                                               enum qkv_step_content content)
{
    for (int64_t i = 0; i < explanation->step_count; i++)
        if (explanation->steps[i].content == content) return &explanation->steps[i];
    return NULL;
}

enum qkv_status qkv_explanations_check(const struct qkv_explanation *explanations, int count,
                                       struct qkv_error *error)
{
    for (int64_t i = 0; i < count * explanations->step_count; i++) {
        const struct qkv_step *first = &explanations->steps[i % explanations->step_count],
                              *step = qkv_explanation_step(&explanations[i / explanations->step_count],
                                                           first->name);
        if (step && step->heads != first->heads)
            return qkv_error_set(error, "step %s has %lld heads in one explanation and %lld in another",
                                 first->name, (long long)first->heads, (long long)step->heads);
    }
    return QKV_OK;
}

/* ---- functions shared by the writers ---- */

const struct qkv_step *qkv_step_counterpart(const struct format_job *job, int index, int64_t at)
{
    return qkv_explanation_step(&job->explanations[index], job->explanations[0].steps[at].name);
}

int64_t qkv_step_repeated(const struct format_job *job, int64_t at)
{
    const struct qkv_explanation *first = &job->explanations[0];
    const char *name = first->steps[at].same_as;
    for (int64_t i = 0; name && !job->options.full && i < at; i++)
        if (!strcmp(first->steps[i].name, name)) return i + 1;
    return 0;
}

bool qkv_step_has_heads(const struct qkv_explanation *explanation, const struct qkv_step *step)
{
    return step->heads && explanation->heads > 1;
}

void qkv_step_shape(const struct qkv_explanation *explanation, const struct qkv_step *step, char text[64])
{
    if (qkv_step_has_heads(explanation, step))
        snprintf(text, 64, "[%lld, %lld, %lld]", (long long)step->heads, (long long)step->rows,
                 (long long)step->columns);
    else
        snprintf(text, 64, "[%lld, %lld]", (long long)step->rows, (long long)step->columns);
}

const char *qkv_step_label(const struct format_job *job, const char *const *names, int64_t i)
{
    const char *label = names ? qkv_display_token(job->arena, names[i])
                              : qkv_arena_format(job->arena, "%lld", (long long)i + 1);
    return label ? label : "?";
}

static int64_t heads_of(const struct qkv_step *step)
{
    return step->heads ? step->heads : 1;
}

static int64_t count_of(const struct qkv_step *step)
{
    return heads_of(step) * step->rows * step->columns;
}

double qkv_step_largest(const struct format_job *job, int64_t at)
{
    double largest = 0;
    for (int index = 0; index < job->count; index++) {
        const struct qkv_step *step = qkv_step_counterpart(job, index, at);
        for (int64_t i = 0; step && i < count_of(step); i++)
            if (isfinite(step->values[i])) largest = fmax(largest, fabs(step->values[i]));
    }
    return largest;
}

static bool all_integers(const struct format_job *job, int64_t at)
{
    for (int index = 0; index < job->count; index++) {
        const struct qkv_step *step = qkv_step_counterpart(job, index, at);
        for (int64_t i = 0; step && i < count_of(step); i++) {
            double value = step->values[i];
            if (isfinite(value) && value - floor(value) > 0) return false;
        }
    }
    return true;
}

struct number_style qkv_step_number_style(const struct format_job *job, int64_t at)
{
    double largest = qkv_step_largest(job, at);
    int digits = job->options.digits;
    if (all_integers(job, at)) return (struct number_style){0};
    return (struct number_style){digits, largest > 0 && largest < qkv_scalar_power(10, 1 - digits)};
}

/* Larger numbers, such as the -1e9 of a mask, are printed with three digits and do not widen their column. */
static const double LARGE = 1e7;

void qkv_number_text(char text[40], struct number_style style, double value)
{
    if (isinf(value)) {
        snprintf(text, 40, value < 0 ? "-inf" : "inf");
        return;
    }
    if (fabs(value) >= LARGE)
        snprintf(text, 40, "%.3g", value);
    else
        snprintf(text, 40, style.scientific ? "%.*e" : "%.*f", style.digits, value);
    qkv_decimal_point(text);
    if (text[0] == '-' && !strpbrk(text, "123456789")) memmove(text, text + 1, strlen(text)); /* no -0.00 */
}

struct elision qkv_elide(int64_t count, int64_t max, int64_t tail)
{
    if (count <= max) return (struct elision){count, 0};
    if (tail > max - 2) tail = max > 2 ? 1 : 0;
    return (struct elision){max - tail - 1 > 0 ? max - tail - 1 : 1, tail};
}

int64_t qkv_elision_at(struct elision elision, int64_t count, int64_t i)
{
    if (i < elision.head || elision.head + elision.tail == count) return i;
    return i == elision.head ? -1 : count - elision.tail + (i - elision.head - 1);
}

const char *qkv_step_caption(const struct format_job *job, int index, const struct qkv_step *step,
                             int64_t head)
{
    const struct qkv_explanation *explanation = &job->explanations[index];
    bool heads = step->heads && explanation->layer_heads > 1;
    const char *label = job->count > 1 && explanation->label ? explanation->label : "";
    int number = explanation->first_head + (int)head;
    const char *text = heads && *label ? qkv_arena_format(job->arena, "%s, head %d", label, number)
                       : heads         ? qkv_arena_format(job->arena, "head %d", number)
                                       : label;
    return text ? text : "";
}

/* ---- the terms of a number ---- */

/* A step with one of its matrices. */
struct matrix {
    const struct qkv_step *step; /* NULL: there is no such step */
    const double *values;        /* [rows, columns] */
};

/* A number, the matrices X, Y and Z from which its step was made, and its terms under construction. */
struct origin {
    const struct qkv_explanation *explanation;
    const struct qkv_step *step;
    int64_t row, column;
    double value;
    struct matrix x, y, z;
    struct qkv_arena *arena;
    struct qkv_term *terms;
    int64_t count;
    bool failed; /* out of memory */
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

/* The text; "" when memory ran out for it. */
static const char *made(struct origin *o, const char *text)
{
    if (!text) o->failed = true;
    return text ? text : "";
}

/* The name of column i of X: a word, or its number from 1. */
static const char *column_name(struct origin *o, int64_t i)
{
    if (o->x.step->column_names) return o->x.step->column_names[i];
    return made(o, qkv_arena_format(o->arena, "%lld", (long long)(i + 1)));
}

static void add(struct origin *o, const char *name, double x, double y)
{
    o->terms[o->count++] = (struct qkv_term){name, x, y, x * y};
}

/* The head and the column of its context that a column of the joined heads comes from. */
struct joined_head {
    int64_t number; /* of the layer, from 1 */
    int64_t index;  /* of its matrix in step X; outside 0 .. heads - 1 if the steps do not have this head */
    int64_t column; /* of that matrix */
};

/* X must have columns. If heads were removed (qkv_explanation_select_head), X begins with head `first_head` of the layer, but
 * the joined heads are still complete. */
static struct joined_head joined_head(const struct origin *o)
{
    const struct qkv_step *x = o->x.step;
    int64_t first = o->explanation->first_head > 1 ? o->explanation->first_head : 1;
    bool joins_x_alone = o->step->columns == heads_of(x) * x->columns;
    int64_t part = o->column / x->columns, number = joins_x_alone ? part + first : part + 1;
    return (struct joined_head){number, number - first, o->column % x->columns};
}

static void add_joined(struct origin *o)
{
    const struct joined_head head = joined_head(o);
    const struct qkv_step *context = o->x.step;
    const struct matrix z = {context, context->values + head.index * context->rows * context->columns};
    double x = cell(z, o->row, head.column);
    bool is_ablated = fabs(x) > 0 && !(fabs(o->value) > 0);
    add(o, made(o, qkv_arena_format(o->arena, "Z_%lld", (long long)head.number)), x, is_ablated ? 0 : 1);
}

/* Adds exp(x - max) for each number x of the row, where max is the largest of them, as softmax computes it. */
static void add_exponentials(struct origin *o)
{
    double greatest = -HUGE_VAL;
    for (int64_t j = 0; j < o->x.step->columns; j++) greatest = fmax(greatest, cell(o->x, o->row, j));
    for (int64_t j = 0; j < o->x.step->columns; j++) {
        double x = cell(o->x, o->row, j);
        if (isinf(x)) continue;
        o->terms[o->count++] = (struct qkv_term){column_name(o, j), x, 1, qkv_scalar_exp(x - greatest)};
    }
}

static void add_terms(struct origin *o)
{
    const struct qkv_step *x = o->x.step;
    bool by_rows = o->step->rule == QKV_STEP_RULE_ROW_PRODUCT;
    switch (o->step->rule) {
    case QKV_STEP_RULE_NONE:
        return;
    case QKV_STEP_RULE_PRODUCT:
    case QKV_STEP_RULE_ROW_PRODUCT:
        for (int64_t k = 0; k < x->columns; k++)
            add(o, column_name(o, k), cell(o->x, o->row, k),
                by_rows ? cell(o->y, o->column, k) : cell(o->y, k, o->column));
        if (o->z.step) add(o, o->z.step->title, cell(o->z, 0, o->column), 1);
        return;
    case QKV_STEP_RULE_SUM:
        add(o, x->title, cell(o->x, o->row, o->column), 1);
        if (o->y.step) add(o, o->y.step->title, cell(o->y, o->row, o->column), 1);
        return;
    case QKV_STEP_RULE_SCALE:
        add(o, x->title, cell(o->x, o->row, o->column), o->step->factor);
        return;
    case QKV_STEP_RULE_SOFTMAX:
        add_exponentials(o);
        return;
    case QKV_STEP_RULE_JOIN:
        add_joined(o);
        return;
    }
}

enum qkv_status qkv_explanation_terms(const struct qkv_explanation *explanation,
                                      const struct qkv_number *number, struct qkv_arena *arena,
                                      struct qkv_terms *terms, struct qkv_error *error)
{
    *terms = (struct qkv_terms){0};
    const struct qkv_step *step = qkv_explanation_step(explanation, number->step->name);
    int64_t head = number->head, row = number->row, column = number->column;
    if (head < 0 || head >= heads_of(step) || row < 0 || row >= step->rows || column < 0 ||
        column >= step->columns)
        return qkv_error_set(error, "step %s has no number at row %lld, column %lld of matrix %lld",
                             step->name, (long long)row, (long long)column, (long long)head);
    terms->value = step->values[(head * step->rows + row) * step->columns + column];
    struct origin o = {.explanation = explanation,
                       .step = step,
                       .row = row,
                       .column = column,
                       .value = terms->value,
                       .x = matrix_of(explanation, step->from[0], head, heads_of(step)),
                       .y = matrix_of(explanation, step->from[1], head, heads_of(step)),
                       .z = matrix_of(explanation, step->from[2], head, heads_of(step)),
                       .arena = arena};
    if (isinf(terms->value) || !o.x.step) return QKV_OK;
    const struct joined_head joined =
        step->rule == QKV_STEP_RULE_JOIN ? joined_head(&o) : (struct joined_head){0};
    if (joined.index < 0 ||
        joined.index >= heads_of(o.x.step)) /* qkv_explanation_select_head has removed it */
        return qkv_error_set(error, "column %lld of step %s is of head %lld, which step %s does not have",
                             (long long)column, step->name, (long long)joined.number, o.x.step->name);
    o.terms = qkv_arena_array(arena, o.x.step->columns + 2, sizeof *o.terms);
    if (o.terms) add_terms(&o);
    if (!o.terms || o.failed) return qkv_no_memory(error);
    terms->terms = o.count ? o.terms : NULL;
    terms->count = o.count;
    for (int64_t i = 0; i < o.count; i++) terms->sum += o.terms[i].value;
    return QKV_OK;
}
