/* Explanations: finding steps and heads, and functions shared by their writers. */
#include "report/explanation.h"

#include "draw/text.h"
#include "qkv/scalar_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- explanations that are refused ---- */

enum {
    MAX_HEADS = 1 << 12,   /* number of heads of an explanation, and highest number of a head */
    MAX_NUMBERS = 1 << 30, /* of a step */
};

/* Whether the shape is valid and the numbers are not missing. */
static bool is_step(const struct qkv_step *step)
{
    if (!step->name || !step->title || !step->formula) return false;
    if (step->heads < 0 || step->heads > MAX_HEADS || step->rows < 0 || step->columns < 0) return false;
    if (step->rows > MAX_NUMBERS || step->columns > MAX_NUMBERS) return false;
    int64_t cells = step->rows * step->columns;
    return cells <= MAX_NUMBERS / (step->heads ? step->heads : 1) && (!cells || step->values);
}

static enum qkv_status check_explanation(const struct qkv_explanation *explanation,
                                         const struct qkv_explanation *first, struct qkv_error *error)
{
    if (explanation->step_count < 0 || explanation->first_head < 0 || explanation->first_head > MAX_HEADS ||
        explanation->heads < 0 || explanation->heads > MAX_HEADS || explanation->layer < 0)
        return qkv_error_set(error, "invalid explanation: %lld steps, layer %d, and %lld heads from %d",
                             (long long)explanation->step_count, explanation->layer,
                             (long long)explanation->heads, explanation->first_head);
    for (int64_t i = 0; i < explanation->step_count; i++) {
        const struct qkv_step *step = &explanation->steps[i];
        if (!is_step(step))
            return qkv_error_set(error,
                                 "step %lld of an explanation has no name, title, formula or numbers, or its "
                                 "shape cannot be: [%lld, %lld, %lld]",
                                 (long long)i + 1, (long long)step->heads, (long long)step->rows,
                                 (long long)step->columns);
        const struct qkv_step *other = qkv_explanation_step(first, step->name);
        if (other && other->heads != step->heads)
            return qkv_error_set(error, "step %s has %lld heads in one explanation and %lld in another",
                                 step->name, (long long)other->heads, (long long)step->heads);
    }
    return QKV_OK;
}

enum qkv_status qkv_explanations_check(const struct qkv_explanation *explanations, int count,
                                       struct qkv_error *error)
{
    if (!explanations || count < 1)
        return qkv_error_set(error, "there are %d explanations, but at least one is needed", count);
    for (int i = 0; i < count; i++)
        if (check_explanation(&explanations[i], &explanations[0], error)) return QKV_INVALID;
    return QKV_OK;
}

/* ---- functions shared by the writers ---- */

const struct qkv_step *qkv_step_counterpart(const struct explanations_job *job, int index, int64_t at)
{
    return qkv_explanation_step(&job->explanations[index], job->explanations[0].steps[at].name);
}

int64_t qkv_step_repeated(const struct explanations_job *job, int64_t at)
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

const char *qkv_step_label(const struct explanations_job *job, const char *const *names, int64_t i)
{
    const char *label = names ? qkv_display_token(job->arena, names[i])
                              : qkv_arena_format(job->arena, "%lld", (long long)i + 1);
    return label ? label : "?";
}

static int64_t count_of(const struct qkv_step *step)
{
    return (step->heads ? step->heads : 1) * step->rows * step->columns;
}

double qkv_step_largest(const struct explanations_job *job, int64_t at)
{
    double largest = 0;
    for (int index = 0; index < job->count; index++) {
        const struct qkv_step *step = qkv_step_counterpart(job, index, at);
        for (int64_t i = 0; step && i < count_of(step); i++)
            if (isfinite(step->values[i])) largest = fmax(largest, fabs(step->values[i]));
    }
    return largest;
}

static bool all_integers(const struct explanations_job *job, int64_t at)
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

struct number_style qkv_step_number_style(const struct explanations_job *job, int64_t at)
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

const char *qkv_step_caption(const struct explanations_job *job, int index, const struct qkv_step *step,
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
