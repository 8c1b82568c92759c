#include "qkv/gradcheck.h"

#include "check/check.h"
#include "graph/graph.h"
#include "qkv/parameters.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the report ---- */

struct qkv_check_row *qkv_check_add(struct qkv_check_report *report, const char *subject, const char *tensor)
{
    if (report->count == report->room) {
        int64_t room = report->room ? 2 * report->room : 64;
        void *rows = realloc(report->rows, (size_t)room * sizeof *report->rows);
        if (!rows) return NULL;
        report->rows = rows;
        report->room = room;
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
    qkv_arena_release(&report->arena);
    free(report->rows);
    *report = (struct qkv_check_report){0};
}

/* ---- one function of many variables ---- */

/* L = sum(cotangent * y) as a function of the leaves, and room for its values at the points of the stencil. */
struct probe {
    struct qkv_graph *graph;
    struct qkv_tensor *y;
    double *cotangent, *plus, *minus;
};

/* A derivative with the error that rounding may have caused, and the one that the step may have. */
struct derivative {
    double value, rounding, truncation;
};

static void evaluate(struct probe *probe, double *values)
{
    probe->graph->computed = NULL;
    qkv_forward(probe->graph);
    memcpy(values, probe->y->value, (size_t)probe->y->count * sizeof *values);
}

/* Moves along a direction by `step`: one element of one leaf, or (leaf NULL) all leaves along their direction. */
struct direction {
    struct qkv_tensor *leaf;
    int64_t element;
    double *origin, *along; /* all leaves: concatenated values and directions */
};

static bool is_variable(const struct qkv_tensor *x)
{
    return x->op == QKV_OP_leaf && x->needs_gradient;
}

static void move(struct probe *probe, const struct direction *direction, double step)
{
    if (direction->leaf) {
        ((double *)direction->leaf->value)[direction->element] = *direction->origin + step;
        return;
    }
    const double *origin = direction->origin, *along = direction->along;
    for (struct qkv_tensor *x = probe->graph->first; x; x = x->next) {
        if (!is_variable(x)) continue;
        double *value = x->value;
        for (int64_t i = 0; i < x->count; i++) value[i] = *origin++ + step * *along++;
    }
}

/* L(+step) - L(-step), taken before summing over y so that what does not change cancels exactly; `size` collects the
 * magnitudes behind the rounding error. */
static double difference(struct probe *probe, const struct direction *direction, double step, double *size)
{
    move(probe, direction, step);
    evaluate(probe, probe->plus);
    move(probe, direction, -step);
    evaluate(probe, probe->minus);
    move(probe, direction, 0);
    double sum = 0;
    *size = 0;
    for (int64_t i = 0; i < probe->y->count; i++) {
        double plus = probe->plus[i], minus = probe->minus[i], c = probe->cotangent[i];
        sum += c * (plus - minus);
        if (plus > minus || plus < minus) *size += fabs(c) * (fabs(plus) + fabs(minus));
        else if (plus - minus != 0.0) sum = NAN; /* not comparable: some value is no number */
    }
    return sum;
}

/* A forward pass is a few hundred roundings deep, not one; this many units in the last place are put down to them. */
static const double ROUNDINGS = 16;

static struct derivative five_points(struct probe *probe, const struct direction *direction, double h)
{
    double size_whole, size_half;
    double whole = 0.5 * difference(probe, direction, h, &size_whole);
    double half = difference(probe, direction, h / 2, &size_half);
    double three = whole / h, five = (4.0 / 3.0 * half - 1.0 / 3.0 * whole) / h;
    return (struct derivative){
        .value = five,
        .rounding = ROUNDINGS * DBL_EPSILON * (size_whole + 2 * size_half) / h,
        .truncation = fabs(five - three),
    };
}

/* Shrinks the step until the two rules agree, or takes the step with the smallest error. */
static struct derivative differentiate(struct probe *probe, const struct direction *direction, double scale)
{
    struct derivative best = {.value = NAN, .truncation = INFINITY};
    for (double h = 1e-3 * scale; h > 3e-7 * scale; h /= 10) {
        struct derivative d = five_points(probe, direction, h);
        double bound = 1e-6 * fabs(d.value) + d.rounding;
        if (d.truncation <= bound) return d;
        if (!(best.truncation + best.rounding <= d.truncation + d.rounding)) best = d;
    }
    return best;
}

/* How far apart, relative to the larger, beyond an allowance; infinite where something is no number. */
static double relative_error(double analytic, struct derivative numeric, double allowance)
{
    double apart = fabs(analytic - numeric.value), size = fmax(fabs(analytic), fabs(numeric.value));
    if (!isfinite(apart) || !isfinite(numeric.rounding)) return INFINITY;
    if (apart <= allowance) return 0;
    return (apart - allowance) / size;
}

/* Keeps the worst element: by what matters, and among those that are within rounding by the plain error. */
static void record(struct qkv_check_row *row, int64_t element, double analytic, struct derivative numeric)
{
    double error = relative_error(analytic, numeric, 0), excess = relative_error(analytic, numeric, numeric.rounding);
    bool first = row->worst < 0;
    if (!first && !(excess > row->excess) && !(row->excess <= 0 && error > row->error)) return;
    row->worst = element;
    row->analytic = analytic;
    row->numeric = numeric.value;
    row->error = error;
    row->excess = excess;
}

static void judge(struct qkv_check_report *report, struct qkv_check_row *row, double tolerance)
{
    if (row->excess <= tolerance) return;
    qkv_check_fail(report, row, "relative error %.3g is above %.3g", row->excess, tolerance);
}

/* ---- the three kinds of check ---- */

static const char *leaf_name(struct qkv_check_report *report, const struct qkv_tensor *leaf, int number)
{
    if (leaf->parameter) return leaf->parameter->name;
    if (leaf->name) return leaf->name;
    const char *name = qkv_arena_format(&report->arena, "input %d", number);
    return name ? name : "input";
}

/* Element by element, each leaf a row. `analytic` holds the gradients of all leaves, one after the other. */
static bool check_elements(struct qkv_check_report *report, const char *subject, struct probe *probe,
                           const double *analytic, const struct qkv_check_options *options)
{
    int number = 0;
    for (struct qkv_tensor *x = probe->graph->first; x; x = x->next) {
        number += x->op == QKV_OP_leaf && !x->parameter;
        if (!is_variable(x)) continue;
        struct qkv_check_row *row = qkv_check_add(report, subject, leaf_name(report, x, number));
        if (!row) return false;
        row->elements = x->count;
        int64_t wanted = options->sample && options->sample < x->count ? options->sample : x->count;
        for (int64_t k = 0; k < wanted; k++) {
            /* Spread over the tensor, with an offset within each stretch that differs from stretch to stretch. */
            int64_t first = k * x->count / wanted, end = (k + 1) * x->count / wanted;
            struct qkv_random random = {options->seed, QKV_STREAM_CHECK, (uint32_t)report->count};
            int64_t element = first + (int64_t)qkv_random_below(random, (uint64_t)k, (uint64_t)(end - first));
            double origin = ((double *)x->value)[element];
            struct direction direction = {.leaf = x, .element = element, .origin = &origin};
            record(row, element, analytic[element], differentiate(probe, &direction, fmax(1, fabs(origin))));
        }
        row->checked = wanted;
        judge(report, row, options->tolerance);
        analytic += x->count;
    }
    return true;
}

/* All leaves along one random direction. */
static bool check_direction(struct qkv_check_report *report, const char *subject, struct probe *probe,
                            const double *analytic, int64_t total, const struct qkv_check_options *options)
{
    struct qkv_check_row *row = qkv_check_add(report, subject, "all inputs together");
    double *memory = malloc(2 * (size_t)total * sizeof *memory);
    if (!row || !memory) {
        free(memory);
        return false;
    }
    struct direction direction = {.origin = memory, .along = memory + total};
    int64_t at = 0;
    for (struct qkv_tensor *x = probe->graph->first; x; x = x->next) {
        if (!is_variable(x)) continue;
        memcpy(direction.origin + at, x->value, (size_t)x->count * sizeof(double));
        at += x->count;
    }
    /* Every step moves all leaves; scaled so that the whole move is of length h. */
    struct qkv_random random = {options->seed, QKV_STREAM_CHECK, UINT32_MAX};
    double exact = 0, norm = 1 / sqrt((double)total), size = 0;
    for (int64_t i = 0; i < total; i++) {
        direction.along[i] = norm * qkv_random_normal(random, (uint64_t)i);
        exact += direction.along[i] * analytic[i];
        size += fabs(direction.along[i] * analytic[i]);
    }
    struct derivative numeric = differentiate(probe, &direction, 1);
    /* The sum of the analytic side rounds too. */
    numeric.rounding += ROUNDINGS * DBL_EPSILON * size;
    record(row, -1, exact, numeric);
    row->elements = row->checked = total;
    row->worst = -1;
    judge(report, row, options->tolerance);
    free(memory);
    return true;
}

static void read_gradients(const struct probe *probe, double *gradients)
{
    for (struct qkv_tensor *x = probe->graph->first; x; x = x->next) {
        if (!is_variable(x)) continue;
        memcpy(gradients, x->gradient, (size_t)x->count * sizeof *gradients);
        gradients += x->count;
    }
}

/* The same call twice gives the same bits, and nothing in gives nothing out. */
static bool check_repeats(struct qkv_check_report *report, const char *subject, struct probe *probe,
                          const double *analytic, int64_t total)
{
    double *again = malloc((size_t)total * sizeof *again), *nothing = calloc((size_t)probe->y->count, sizeof *nothing);
    struct qkv_check_row *row = again && nothing ? qkv_check_add(report, subject, "second run and zero cotangent") : NULL;
    if (row) {
        row->elements = row->checked = total;
        evaluate(probe, probe->plus);
        qkv_backward(probe->graph, probe->y, probe->cotangent);
        read_gradients(probe, again);
        if (memcmp(again, analytic, (size_t)total * sizeof *again) != 0)
            qkv_check_fail(report, row, "a second run gives other gradients");
        qkv_backward(probe->graph, probe->y, nothing);
        read_gradients(probe, again);
        for (int64_t i = 0; i < total; i++)
            if (again[i] != 0.0 && !row->failure) {
                row->worst = i;
                row->analytic = again[i];
                qkv_check_fail(report, row, "a zero cotangent gives a gradient of %g", again[i]);
            }
    }
    free(again);
    free(nothing);
    return row != NULL;
}

/* ---- entry ---- */

static bool run_checks(struct qkv_check_report *report, const char *subject, struct probe *probe, double *analytic,
                       int64_t total, const struct qkv_check_options *options)
{
    /* A fixed share of the cotangents is not random: a loss has one number, whose sign must not matter. */
    struct qkv_random random = {options->seed, QKV_STREAM_CHECK, 0};
    for (int64_t i = 0; i < probe->y->count; i++) {
        double drawn = qkv_random_uniform(random, (uint64_t)i);
        probe->cotangent[i] = (drawn < 0.5 ? -1 : 1) * (0.5 + fabs(2 * drawn - 1));
    }
    evaluate(probe, probe->plus);
    if (options->fault) qkv_plant(probe->graph, options->fault_op, options->fault);
    qkv_backward(probe->graph, probe->y, probe->cotangent);
    read_gradients(probe, analytic);
    bool done = check_elements(report, subject, probe, analytic, options) &&
                check_direction(report, subject, probe, analytic, total, options) &&
                check_repeats(report, subject, probe, analytic, total);
    if (options->fault) qkv_unplant(probe->graph);
    evaluate(probe, probe->plus);
    return done;
}

enum qkv_status qkv_check_graph(struct qkv_check_report *report, const char *subject, struct qkv_graph *graph,
                                struct qkv_tensor *y, const struct qkv_check_options *options, struct qkv_error *error)
{
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    if (graph->dtype != QKV_FLOAT64) return qkv_error_set(error, "gradients are checked in float64 only");
    struct qkv_check_options used = *options;
    if (used.tolerance <= 0) used.tolerance = 1e-7;
    int64_t total = 0;
    for (struct qkv_tensor *x = graph->first; x; x = x->next) total += is_variable(x) ? x->count : 0;
    if (total == 0 || !y->needs_gradient)
        return qkv_error_set(error, "%s has no variable or parameter to check", subject);
    size_t count = (size_t)y->count;
    double *memory = malloc((3 * count + (size_t)total) * sizeof *memory);
    if (!memory) return qkv_error_set(error, "out of memory for the check of %s", subject);
    struct probe probe = {graph, y, memory, memory + count, memory + 2 * count};
    bool done = run_checks(report, subject, &probe, memory + 3 * count, total, &used);
    free(memory);
    return done ? QKV_OK : qkv_error_set(error, "out of memory for the check of %s", subject);
}
