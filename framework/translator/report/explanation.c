/* Explanations: finding steps, and functions shared by their writers. */
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
