/* The table of formats, and what the writers share. */
#include "explain/write.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum qkv_status render_function(const struct explain_job *, struct bytes *, struct qkv_error *);

#define FORMAT(name, extension, binary, help) {#name, extension, help, binary},
static const struct qkv_explain_format formats[] = {
#include "explain/formats.def"
};
#undef FORMAT
#define FORMAT(name, extension, binary, help) qkv_explain_##name,
static render_function *const functions[] = {
#include "explain/formats.def"
};
#undef FORMAT

enum { COUNT = sizeof formats / sizeof *formats };

const struct qkv_explain_format *qkv_explain_format(int64_t index)
{
    return index >= 0 && index < COUNT ? &formats[index] : NULL;
}

const struct qkv_explain_format *qkv_explain_format_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(formats[i].name, name) || !strcmp(formats[i].extension, name)) return &formats[i];
    return NULL;
}

const struct qkv_explain_format *qkv_explain_format_of_path(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? qkv_explain_format_find(dot + 1) : NULL;
}

enum qkv_status qkv_explain_render(const struct qkv_explanation *explanations, int count,
                                   const struct qkv_explain_format *format,
                                   const struct qkv_explain_options *options, char **bytes, size_t *size,
                                   struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct explain_job job = {.walks = explanations, .count = count, .arena = &arena};
    struct bytes out = {0};
    if (options) job.options = *options;
    if (job.options.digits <= 0) job.options.digits = 4;
    if (job.options.width <= 0) job.options.width = 80;
    *bytes = NULL;
    *size = 0;
    enum qkv_status status = functions[format - formats](&job, &out, error);
    qkv_arena_release(&arena);
    if (!status && out.failed) status = qkv_error_set(error, "no memory to write a walk as %s", format->name);
    if (status) {
        free(out.data);
        return status;
    }
    *bytes = out.data;
    *size = out.size;
    return QKV_OK;
}

/* ---- what the writers share ---- */

const struct qkv_step *qkv_explain_counterpart(const struct explain_job *job, int walk, int64_t at)
{
    return qkv_explain_step(&job->walks[walk], job->walks[0].steps[at].name);
}

int64_t qkv_explain_repeated(const struct explain_job *job, int64_t at)
{
    const struct qkv_explanation *walk = &job->walks[0];
    const char *same = walk->steps[at].same;
    for (int64_t i = 0; same && !job->options.full && i < at; i++)
        if (!strcmp(walk->steps[i].name, same)) return i + 1;
    return 0;
}

void qkv_explain_shape(const struct qkv_explanation *walk, const struct qkv_step *step, char text[64])
{
    if (step->heads && walk->heads > 1)
        snprintf(text, 64, "[%lld, %lld, %lld]", (long long)step->heads, (long long)step->rows,
                 (long long)step->columns);
    else
        snprintf(text, 64, "[%lld, %lld]", (long long)step->rows, (long long)step->columns);
}

static int64_t count_of(const struct qkv_step *step)
{
    return (step->heads ? step->heads : 1) * step->rows * step->columns;
}

double qkv_explain_largest(const struct explain_job *job, int64_t at)
{
    double largest = 0;
    for (int w = 0; w < job->count; w++) {
        const struct qkv_step *step = qkv_explain_counterpart(job, w, at);
        for (int64_t i = 0; step && i < count_of(step); i++)
            if (isfinite(step->values[i])) largest = fmax(largest, fabs(step->values[i]));
    }
    return largest;
}

static bool all_whole(const struct explain_job *job, int64_t at)
{
    for (int w = 0; w < job->count; w++) {
        const struct qkv_step *step = qkv_explain_counterpart(job, w, at);
        for (int64_t i = 0; step && i < count_of(step); i++) {
            double value = step->values[i], part = value - floor(value);
            if (isfinite(value) && (part > 0 || part < 0)) return false;
        }
    }
    return true;
}

struct number_style qkv_explain_number_style(const struct explain_job *job, int64_t at)
{
    double largest = qkv_explain_largest(job, at);
    int digits = job->options.digits;
    if (all_whole(job, at)) return (struct number_style){0};
    return (struct number_style){digits, largest > 0 && largest < pow(10, 1 - digits)};
}

/* Larger numbers, as the -1e9 of a mask, do not make the others of their column wide. */
static const double LARGE = 1e7;

void qkv_explain_number(char text[40], struct number_style style, double value)
{
    if (isinf(value)) {
        snprintf(text, 40, value < 0 ? "-inf" : "inf");
        return;
    }
    if (fabs(value) >= LARGE)
        snprintf(text, 40, "%.3g", value);
    else
        snprintf(text, 40, style.scientific ? "%.*e" : "%.*f", style.digits, value);
    char *point = strstr(text, localeconv()->decimal_point);
    if (point) *point = '.';
    if (text[0] == '-' && !strpbrk(text, "123456789")) memmove(text, text + 1, strlen(text)); /* no -0.00 */
}

struct elision qkv_explain_elide(int64_t count, int64_t most, int64_t tail)
{
    if (count <= most) return (struct elision){count, 0};
    if (tail > most - 2) tail = most > 2 ? 1 : 0;
    return (struct elision){most - tail - 1 > 0 ? most - tail - 1 : 1, tail};
}

int64_t qkv_explain_shown(struct elision elision, int64_t count, int64_t i)
{
    if (i < elision.head || elision.head + elision.tail == count) return i;
    return i == elision.head ? -1 : count - elision.tail + (i - elision.head - 1);
}

const char *qkv_explain_caption(const struct explain_job *job, int walk, const struct qkv_step *step,
                                int64_t head)
{
    const struct qkv_explanation *explanation = &job->walks[walk];
    bool heads = step->heads && explanation->of > 1;
    const char *label = job->count > 1 && explanation->label ? explanation->label : "";
    int number = explanation->first_head + (int)head;
    const char *text = heads && *label ? qkv_arena_format(job->arena, "%s, head %d", label, number)
                       : heads         ? qkv_arena_format(job->arena, "head %d", number)
                                       : label;
    return text ? text : "";
}
