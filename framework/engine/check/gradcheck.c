/* The report of checks, and the gradient check of a graph. */
#include "core/memory.h"

#include "check/check.h"
#include "check/differences.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>

/* ---- the report ---- */

struct qkv_check_row *qkv_check_add(struct qkv_check_report *report, const char *subject, const char *tensor)
{
    if (!QKV_RESERVE(report->rows, report->capacity, report->count + 1)) {
        report->count = 0;
        return NULL;
    }
    struct qkv_check_row row = {
        .subject = qkv_arena_string(&report->arena, subject),
        .tensor = qkv_arena_string(&report->arena, tensor),
        .worst = -1,
    };
    if (!row.subject || !row.tensor) return NULL;
    report->rows[report->count] = row;
    return &report->rows[report->count++];
}

void qkv_check_fail(struct qkv_check_report *report, struct qkv_check_row *row, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!row->failure) report->failures++;
    const char *kept = qkv_arena_string(&report->arena, text);
    row->failure = kept ? kept : "failed";
}

void qkv_check_release(struct qkv_check_report *report)
{
    if (!report) return;
    qkv_arena_release(&report->arena);
    free(report->rows);
    *report = (struct qkv_check_report){0};
}

/* ---- comparing one derivative ---- */

/* An element is below the noise if its rounding error exceeds this share of the gradient: it would hide an error of 0.1 %. */
static const double NOISE_LIMIT = 1e-3;

static double larger_of(double analytic, struct qkv_derivative numeric)
{
    return fmax(fabs(analytic), fabs(numeric.value));
}

/* The difference of both derivatives, relative to the larger one; 0 if it is at most `allowed`; infinite if a
 * number is NaN or infinite. */
static double relative_error(double analytic, struct qkv_derivative numeric, double allowed)
{
    double apart = fabs(analytic - numeric.value);
    if (!isfinite(apart) || !isfinite(numeric.rounding)) return INFINITY;
    return apart <= allowed ? 0 : apart / larger_of(analytic, numeric);
}

/* Counts an element and keeps it in the row if it is the worst so far: the one with the largest
 * excess or, while no element has an excess, the one with the largest error among elements above
 * the noise. */
static void record(struct qkv_check_row *row, int64_t element, double analytic, struct qkv_derivative numeric,
                   double tolerance)
{
    double error = relative_error(analytic, numeric, 0),
           excess = relative_error(analytic, numeric, numeric.rounding), size = larger_of(analytic, numeric);
    bool below_noise = size > 0 && numeric.rounding > NOISE_LIMIT * size, empty = row->checked++ == 0;
    bool all_below_noise = row->below_noise == row->checked - 1; /* so far, without this element */
    row->below_noise += below_noise;
    /* Held to the tolerance, because the rounding error is not above it; so is a gradient that is 0 by both derivatives. */
    row->held += numeric.rounding <= tolerance * size || !(size > 0);
    bool worse = excess > row->excess;
    if (row->excess <= 0 && !worse)
        worse = all_below_noise == below_noise ? error > row->error : all_below_noise;
    if (!empty && !worse) return;
    row->worst = element;
    row->analytic = analytic;
    row->numeric = numeric.value;
    row->error = error;
    row->excess = excess;
    row->rounding = numeric.rounding;
    row->bound = size > 0 ? fmax(tolerance, numeric.rounding / size) : tolerance;
}

static void judge(struct qkv_check_report *report, struct qkv_check_row *row, double tolerance)
{
    if (row->excess <= tolerance) return;
    qkv_check_fail(report, row, "relative error %.3g is above %.3g", row->excess, tolerance);
}

/* ---- the checks: element by element, along directions, repeated ---- */

/* The check of one graph. */
struct graph_check {
    struct qkv_check_report *report;
    const char *subject;
    struct qkv_probe probe;
    const struct qkv_check_options *options;
    int64_t total;          /* elements of all leaves that are checked */
    double *analytic;       /* [total]: gradients, one leaf after the other */
    double *origin, *along; /* [total]: values and a direction, in the same order */
    int64_t done, work;     /* derivatives computed so far, and in all: for the progress function */
};

/* Compares one analytic derivative with its numeric one and records the result in the row. */
static void measure(struct graph_check *check, struct qkv_check_row *row,
                    const struct qkv_direction *direction, double scale, double analytic,
                    double analytic_rounding)
{
    struct qkv_derivative numeric = qkv_differentiate(&check->probe, direction, scale);
    numeric.rounding += analytic_rounding;
    if (!(relative_error(analytic, numeric, numeric.rounding) <= check->options->tolerance)) {
        numeric = qkv_differentiate_all_steps(&check->probe, direction, scale);
        numeric.rounding += analytic_rounding;
    }
    record(row, direction->element, analytic, numeric, check->options->tolerance);
    check->done++;
    if (check->options->progress) check->options->progress(check->options->context, check->done, check->work);
}

/* Checks the derivative along a random direction of length about 1, in which all elements of a leaf
 * (NULL: of all leaves) move. `first` is the offset of the leaf in check->analytic; `random_step`
 * selects the random numbers. */
static void measure_direction(struct graph_check *check, struct qkv_check_row *row, struct qkv_tensor *leaf,
                              int64_t first, uint32_t random_step)
{
    int64_t count = leaf ? leaf->count : check->total;
    struct qkv_random random = {check->options->seed, QKV_STREAM_CHECK, random_step};
    struct qkv_direction direction = {leaf, -1, check->origin + first, check->along + first};
    double analytic = 0, norm = 1 / sqrt((double)count), size = 0;
    for (int64_t i = 0; i < count; i++) {
        double along = norm * qkv_random_normal(random, (uint64_t)i),
               part = along * check->analytic[first + i];
        check->along[first + i] = along;
        analytic += part;
        size += fabs(part);
    }
    /* The sum of the analytic gradient has a rounding error too. */
    measure(check, row, &direction, 1, analytic, 16 * DBL_EPSILON * size);
}

static const char *leaf_name(struct qkv_check_report *report, const struct qkv_tensor *leaf, int number)
{
    if (leaf->parameter) return leaf->parameter->name;
    if (leaf->name) return leaf->name;
    const char *name = qkv_arena_format(&report->arena, "input %d", number);
    return name ? name : "input";
}

static int64_t sample_size(const struct qkv_tensor *x, int64_t sample)
{
    return sample > 0 && sample < x->count ? sample : x->count;
}

/* Checks a leaf element by element; if only a sample is checked, also all elements together along a
 * direction. */
static void check_leaf(struct graph_check *check, struct qkv_check_row *row, struct qkv_tensor *x,
                       int64_t first)
{
    int64_t wanted = sample_size(x, check->options->sample);
    uint32_t random_step = (uint32_t)check->report->count;
    struct qkv_random random = {check->options->seed, QKV_STREAM_CHECK, random_step};
    qkv_probe_select(&check->probe, x);
    for (int64_t k = 0; k < wanted && !qkv_check_interrupt(NULL); k++) {
        /* One element at a random place in each of `wanted` equal parts of the tensor. */
        int64_t start = k * x->count / wanted, end = (k + 1) * x->count / wanted;
        int64_t element = start + (int64_t)qkv_random_below(random, (uint64_t)k, (uint64_t)(end - start));
        const struct qkv_direction direction = {x, element, check->origin + first + element, NULL};
        double scale = fmax(1, fabs(check->origin[first + element]));
        measure(check, row, &direction, scale, check->analytic[first + element], 0);
    }
    if (wanted < x->count) {
        const int64_t checked = row->checked, held = row->held, below_noise = row->below_noise;
        measure_direction(check, row, x, first, random_step | 1u << 31);
        row->checked = checked, row->held = held, row->below_noise = below_noise; /* without the direction */
    }
    qkv_probe_recompute(&check->probe);
}

static bool check_elements(struct graph_check *check)
{
    int number = 0;
    int64_t first = 0;
    for (struct qkv_tensor *x = check->probe.graph->first; x; x = x->next) {
        number += x->op == QKV_OP_leaf && !x->parameter;
        if (!qkv_is_variable(x)) continue;
        struct qkv_check_row *row =
            qkv_check_add(check->report, check->subject, leaf_name(check->report, x, number));
        if (!row) return false;
        row->elements = x->count;
        row->shape = x->shape;
        check_leaf(check, row, x, first);
        if (qkv_check_interrupt(NULL)) return false;
        judge(check->report, row, check->options->tolerance);
        first += x->count;
    }
    return true;
}

static bool check_direction(struct graph_check *check)
{
    struct qkv_check_row *row = qkv_check_add(check->report, check->subject, "all inputs together");
    if (!row) return false;
    qkv_probe_select(&check->probe, NULL);
    measure_direction(check, row, NULL, 0, UINT32_MAX);
    qkv_probe_recompute(&check->probe);
    row->elements = row->checked = check->total;
    judge(check->report, row, check->options->tolerance);
    return true;
}

/* Runs backward and copies the gradients of all leaves. All gradients are NaN before: an element
 * that backward does not write, or reads too early, makes the result NaN. */
static void compute_gradients(struct graph_check *check, const double *cotangent, double *gradients)
{
    for (struct qkv_tensor *x = check->probe.graph->first; x; x = x->next)
        for (int64_t i = 0; x->needs_gradient && i < x->count; i++) ((double *)x->gradient)[i] = NAN;
    qkv_backward(check->probe.graph, check->probe.y, cotangent);
    qkv_read_variables(check->probe.graph, NULL, gradients);
}

/* A second run must give the same bits, and a zero cotangent must give zero gradients. */
static bool check_repeats(struct graph_check *check)
{
    struct qkv_check_row *row = qkv_check_add(check->report, check->subject, "repeat, zero cotangent");
    if (!row) return false;
    double *again = check->along, *zeros = check->probe.plus;
    row->elements = row->checked = check->total;
    qkv_probe_evaluate(&check->probe);
    compute_gradients(check, check->probe.cotangent, again);
    if (memcmp(again, check->analytic, (size_t)check->total * sizeof *again) != 0)
        qkv_check_fail(check->report, row, "a second run gives other gradients");
    memset(zeros, 0, (size_t)check->probe.y->count * sizeof *zeros);
    compute_gradients(check, zeros, again);
    for (int64_t i = 0; i < check->total; i++)
        if (again[i] != 0.0 && !row->failure) {
            row->worst = i;
            row->analytic = again[i];
            qkv_check_fail(check->report, row, "a zero cotangent gives a gradient of %g", again[i]);
        }
    return true;
}

/* ---- the check of a graph ---- */

void qkv_check_cotangent(uint64_t seed, int64_t count, double *cotangent)
{
    struct qkv_random random = {seed, QKV_STREAM_CHECK, 0};
    for (int64_t i = 0; i < count; i++) {
        double drawn = qkv_random_uniform(random, (uint64_t)i);
        cotangent[i] = (drawn < 0.5 ? -1 : 1) * (0.5 + fabs(2 * drawn - 1));
    }
}

/* Measures the rounding noise of y along a random direction in which every element moves. */
static void measure_noise(struct graph_check *check)
{
    struct qkv_random random = {check->options->seed, QKV_STREAM_CHECK, UINT32_MAX};
    const struct qkv_direction direction = {NULL, -1, check->origin, check->along};
    for (int64_t i = 0; i < check->total; i++) check->along[i] = qkv_random_normal(random, (uint64_t)i);
    qkv_probe_measure_noise(&check->probe, &direction);
}

static bool run_checks(struct graph_check *check)
{
    struct qkv_graph *graph = check->probe.graph;
    const struct qkv_check_options *options = check->options;
    qkv_check_cotangent(options->seed, check->probe.y->count, check->probe.cotangent);
    qkv_probe_evaluate(&check->probe);
    qkv_read_variables(graph, check->origin, NULL);
    check->work = 1;
    for (struct qkv_tensor *x = graph->first; x; x = x->next) {
        int64_t wanted = sample_size(x, options->sample);
        if (qkv_is_variable(x)) check->work += wanted + (wanted < x->count);
    }
    memcpy(check->probe.base, check->probe.y->value,
           (size_t)check->probe.y->count * sizeof *check->probe.base);
    measure_noise(check);
    bool planted = options->fault && options->fault != QKV_FAULT_SLIGHT &&
                   !qkv_fault_is_declaration(options->fault) &&
                   qkv_plant(graph, options->fault_op, options->fault);
    compute_gradients(check, check->probe.cotangent, check->analytic);
    bool done = check_elements(check) && check_direction(check) && check_repeats(check);
    if (planted) check->report->fault_calls += qkv_unplant(graph, options->fault_op);
    qkv_probe_evaluate(&check->probe);
    return done && !qkv_graph_check(graph, NULL);
}

enum qkv_status qkv_check_graph(struct qkv_check_report *report, const char *subject, struct qkv_graph *graph,
                                struct qkv_tensor *y, const struct qkv_check_options *options,
                                struct qkv_error *error)
{
    if (qkv_check_arguments(report, options, "qkv_check_graph", error)) return QKV_INVALID;
    if (!graph || !subject) return qkv_error_set(error, "qkv_check_graph needs a graph and a subject");
    if (qkv_graph_check(graph, error) || qkv_check_tensor(y, QKV_FLOAT64, subject, error)) return QKV_INVALID;
    if (y->graph != graph)
        return qkv_error_set(error, "%s: the tensor to check belongs to another graph", subject);
    struct qkv_check_options used = *options;
    if (!(used.tolerance > 0)) used.tolerance = QKV_CHECK_TOLERANCE;
    const int64_t total = qkv_count_variables(graph), count = y->count;
    if (total == 0 || !y->needs_gradient)
        return qkv_error_set(error,
                             "%s: the result depends on no variable and on no bound parameter, so that there "
                             "is no gradient to check",
                             subject);
    size_t nodes = 0, relu_inputs = 0;
    for (struct qkv_tensor *x = graph->first; x; x = x->next, nodes++)
        relu_inputs += x->op == QKV_OP_relu ? (size_t)x->count : 0;
    struct graph_check check = {
        .report = report,
        .subject = subject,
        .probe = {.graph = graph,
                  .y = y,
                  .affected = qkv_graph_memory(graph, nodes * sizeof(struct qkv_tensor *)),
                  .precision = used.tolerance,
                  .positive = qkv_graph_memory(graph, relu_inputs * sizeof(bool))},
        .options = &used,
        .total = total,
    };
    double *memory =
        qkv_graph_memory(graph, (size_t)((QKV_NOISE_POINTS + 5) * count + 3 * total) * sizeof *memory);
    double **const array[] = {&check.analytic,        &check.origin,     &check.along,
                              &check.probe.cotangent, &check.probe.plus, &check.probe.minus,
                              &check.probe.base,      &check.probe.noise};
    for (int i = 0; memory && i < (int)(sizeof array / sizeof *array); i++) {
        *array[i] = memory;
        memory += i < 3 ? total : count;
    }
    if (memory && run_checks(&check)) return QKV_OK;
    if (qkv_check_interrupt(error)) return QKV_INVALID;
    return qkv_error_set(error, "out of memory for the check of %s", subject);
}
