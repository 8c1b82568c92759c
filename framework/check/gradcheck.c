#include "qkv/gradcheck.h"
#include "core/grow.h"

#include "check/check.h"
#include "check/differences.h"
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
    qkv_arena_release(&report->arena);
    free(report->rows);
    *report = (struct qkv_check_report){0};
}

/* ---- judging ---- */

/* An allowance above this share of the number would hide a fault of one in a thousand. */
static const double NOISE_LIMIT = 1e-3;

/* How far apart, relative to the larger, beyond an allowance; infinite where something is no number. */
static double relative_error(double analytic, struct qkv_derivative numeric, double allowance)
{
    double apart = fabs(analytic - numeric.value), size = fmax(fabs(analytic), fabs(numeric.value));
    if (!isfinite(apart) || !isfinite(numeric.rounding)) return INFINITY;
    if (apart <= allowance) return 0;
    return (apart - allowance) / size;
}

static bool is_below_noise(double analytic, struct qkv_derivative numeric)
{
    double size = fmax(fabs(analytic), fabs(numeric.value));
    return size > 0 && numeric.rounding > NOISE_LIMIT * size;
}

/* Keeps the worst element: by what matters; where rounding explains all, by the plain error of what is not
 * below_noise. */
static void record(struct qkv_check_row *row, int64_t element, double analytic, struct qkv_derivative numeric)
{
    double error = relative_error(analytic, numeric, 0),
           excess = relative_error(analytic, numeric, numeric.rounding);
    bool below_noise = is_below_noise(analytic, numeric), empty = row->checked++ == 0;
    bool all_below_noise = row->below_noise == row->checked - 1; /* those before */
    if (below_noise) row->below_noise++;
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
}

static void judge(struct qkv_check_report *report, struct qkv_check_row *row, double tolerance)
{
    if (row->excess <= tolerance) return;
    qkv_check_fail(report, row, "relative error %.3g is above %.3g", row->excess, tolerance);
}

/* ---- the three kinds of check ---- */

/* What the checks of one graph share. */
struct run {
    struct qkv_check_report *report;
    const char *subject;
    struct qkv_probe probe;
    const struct qkv_check_options *options;
    int64_t total;          /* elements of all leaves */
    double *analytic;       /* gradients of all leaves, one after the other */
    double *origin, *along; /* the same for values and for the direction that they move in */
    int64_t done, work;     /* derivatives taken and to be taken, for the progress */
};

static void measure(struct run *run, struct qkv_check_row *row, const struct qkv_direction *direction,
                    double scale, double analytic, double analytic_rounding)
{
    struct qkv_derivative numeric = qkv_differentiate(&run->probe, direction, scale);
    numeric.rounding += analytic_rounding;
    if (!(relative_error(analytic, numeric, numeric.rounding) <= run->options->tolerance)) {
        numeric = qkv_differentiate_again(&run->probe, direction, scale);
        numeric.rounding += analytic_rounding;
    }
    record(row, direction->element, analytic, numeric);
    run->done++;
    if (run->options->progress) run->options->progress(run->options->context, run->done, run->work);
}

/* All elements of a leaf (NULL: of all leaves) along one random direction of length about 1. `first` is the
 * place of the leaf among all. */
static void measure_together(struct run *run, struct qkv_check_row *row, struct qkv_tensor *leaf,
                             int64_t first, uint32_t family)
{
    int64_t count = leaf ? leaf->count : run->total;
    struct qkv_random random = {run->options->seed, QKV_STREAM_CHECK, family};
    struct qkv_direction direction = {leaf, -1, run->origin + first, run->along + first};
    double exact = 0, norm = 1 / sqrt((double)count), size = 0;
    for (int64_t i = 0; i < count; i++) {
        double along = norm * qkv_random_normal(random, (uint64_t)i), part = along * run->analytic[first + i];
        run->along[first + i] = along;
        exact += part;
        size += fabs(part);
    }
    /* The sum of the analytic side rounds too. */
    measure(run, row, &direction, 1, exact, 16 * DBL_EPSILON * size);
}

static const char *leaf_name(struct qkv_check_report *report, const struct qkv_tensor *leaf, int number)
{
    if (leaf->parameter) return leaf->parameter->name;
    if (leaf->name) return leaf->name;
    const char *name = qkv_arena_format(&report->arena, "input %d", number);
    return name ? name : "input";
}

static int64_t wanted_of(const struct qkv_tensor *x, int64_t sample)
{
    return sample > 0 && sample < x->count ? sample : x->count;
}

/* Element by element; where only some elements are, also the whole leaf along a direction. */
static void check_leaf(struct run *run, struct qkv_check_row *row, struct qkv_tensor *x, int64_t first)
{
    int64_t wanted = wanted_of(x, run->options->sample);
    uint32_t family = (uint32_t)run->report->count;
    struct qkv_random random = {run->options->seed, QKV_STREAM_CHECK, family};
    qkv_probe_follow(&run->probe, x);
    for (int64_t k = 0; k < wanted; k++) {
        /* Spread over the tensor, with an offset within each stretch that differs from stretch to stretch. */
        int64_t start = k * x->count / wanted, end = (k + 1) * x->count / wanted;
        int64_t element = start + (int64_t)qkv_random_below(random, (uint64_t)k, (uint64_t)(end - start));
        const struct qkv_direction direction = {x, element, run->origin + first + element, NULL};
        double scale = fmax(1, fabs(run->origin[first + element]));
        measure(run, row, &direction, scale, run->analytic[first + element], 0);
    }
    if (wanted < x->count) {
        measure_together(run, row, x, first, family | 1u << 31);
        row->checked--; /* counts elements */
    }
    qkv_probe_restore(&run->probe);
}

static bool check_elements(struct run *run)
{
    int number = 0;
    int64_t first = 0;
    for (struct qkv_tensor *x = run->probe.graph->first; x; x = x->next) {
        number += x->op == QKV_OP_leaf && !x->parameter;
        if (!qkv_is_variable(x)) continue;
        struct qkv_check_row *row =
            qkv_check_add(run->report, run->subject, leaf_name(run->report, x, number));
        if (!row) return false;
        row->elements = x->count;
        row->shape = x->shape;
        check_leaf(run, row, x, first);
        judge(run->report, row, run->options->tolerance);
        first += x->count;
    }
    return true;
}

static bool check_direction(struct run *run)
{
    struct qkv_check_row *row = qkv_check_add(run->report, run->subject, "all inputs together");
    if (!row) return false;
    qkv_probe_follow(&run->probe, NULL);
    measure_together(run, row, NULL, 0, UINT32_MAX);
    qkv_probe_restore(&run->probe);
    row->elements = row->checked = run->total;
    judge(run->report, row, run->options->tolerance);
    return true;
}

/* Gradients for a cotangent. What backward leaves unwritten, or reads before it is written, is NaN. */
static void gradients_of(struct run *run, const double *cotangent, double *gradients)
{
    for (struct qkv_tensor *x = run->probe.graph->first; x; x = x->next)
        for (int64_t i = 0; x->needs_gradient && i < x->count; i++) ((double *)x->gradient)[i] = NAN;
    qkv_backward(run->probe.graph, run->probe.y, cotangent);
    for (struct qkv_tensor *x = run->probe.graph->first; x; x = x->next) {
        if (!qkv_is_variable(x)) continue;
        memcpy(gradients, x->gradient, (size_t)x->count * sizeof *gradients);
        gradients += x->count;
    }
}

/* The same call twice gives the same bits, and nothing in gives nothing out. */
static bool check_repeats(struct run *run)
{
    struct qkv_check_row *row = qkv_check_add(run->report, run->subject, "repeat, zero cotangent");
    if (!row) return false;
    double *again = run->along, *nothing = run->probe.plus;
    row->elements = row->checked = run->total;
    qkv_probe_evaluate(&run->probe);
    gradients_of(run, run->probe.cotangent, again);
    if (memcmp(again, run->analytic, (size_t)run->total * sizeof *again) != 0)
        qkv_check_fail(run->report, row, "a second run gives other gradients");
    memset(nothing, 0, (size_t)run->probe.y->count * sizeof *nothing);
    gradients_of(run, nothing, again);
    for (int64_t i = 0; i < run->total; i++)
        if (again[i] != 0.0 && !row->failure) {
            row->worst = i;
            row->analytic = again[i];
            qkv_check_fail(run->report, row, "a zero cotangent gives a gradient of %g", again[i]);
        }
    return true;
}

/* ---- entry ---- */

void qkv_check_cotangent(uint64_t seed, int64_t count, double *cotangent)
{
    struct qkv_random random = {seed, QKV_STREAM_CHECK, 0};
    for (int64_t i = 0; i < count; i++) {
        double drawn = qkv_random_uniform(random, (uint64_t)i);
        cotangent[i] = (drawn < 0.5 ? -1 : 1) * (0.5 + fabs(2 * drawn - 1));
    }
}

/* Along a direction in which every element moves. */
static void measure_noise(struct run *run)
{
    struct qkv_random random = {run->options->seed, QKV_STREAM_CHECK, UINT32_MAX};
    const struct qkv_direction direction = {NULL, -1, run->origin, run->along};
    for (int64_t i = 0; i < run->total; i++) run->along[i] = qkv_random_normal(random, (uint64_t)i);
    qkv_probe_measure_noise(&run->probe, &direction);
}

static bool run_checks(struct run *run)
{
    struct qkv_graph *graph = run->probe.graph;
    qkv_check_cotangent(run->options->seed, run->probe.y->count, run->probe.cotangent);
    qkv_probe_evaluate(&run->probe);
    double *origin = run->origin;
    for (struct qkv_tensor *x = graph->first; x; x = x->next) {
        if (!qkv_is_variable(x)) continue;
        int64_t wanted = wanted_of(x, run->options->sample);
        memcpy(origin, x->value, (size_t)x->count * sizeof *origin);
        origin += x->count;
        run->work += wanted + (wanted < x->count);
    }
    run->work++;
    memcpy(run->probe.base, run->probe.y->value, (size_t)run->probe.y->count * sizeof *run->probe.base);
    measure_noise(run);
    bool planted = run->options->fault && !qkv_fault_is_declaration(run->options->fault);
    if (planted) qkv_plant(graph, run->options->fault_op, run->options->fault);
    gradients_of(run, run->probe.cotangent, run->analytic);
    bool done = check_elements(run) && check_direction(run) && check_repeats(run);
    if (planted) run->report->fault_calls += qkv_unplant(graph);
    qkv_probe_evaluate(&run->probe);
    return done;
}

enum qkv_status qkv_check_graph(struct qkv_check_report *report, const char *subject, struct qkv_graph *graph,
                                struct qkv_tensor *y, const struct qkv_check_options *options,
                                struct qkv_error *error)
{
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    if (graph->dtype != QKV_FLOAT64) return qkv_error_set(error, "gradients are checked in float64 only");
    struct qkv_check_options used = *options;
    if (used.tolerance <= 0) used.tolerance = 1e-7;
    int64_t total = 0, nodes = 0, bent = 1; /* room for none is not asked for */
    for (struct qkv_tensor *x = graph->first; x; x = x->next, nodes++) {
        total += qkv_is_variable(x) ? x->count : 0;
        bent += x->op == QKV_OP_relu ? x->count : 0;
    }
    if (total == 0 || !y->needs_gradient)
        return qkv_error_set(error, "%s has no variable or parameter to check", subject);
    size_t count = (size_t)y->count;
    double *memory = malloc(((QKV_NOISE_POINTS + 5) * count + 3 * (size_t)total) * sizeof *memory);
    struct qkv_tensor **path = malloc((size_t)nodes * sizeof *path);
    bool *positive = malloc((size_t)bent * sizeof *positive);
    if (!memory || !path || !positive) {
        free(memory);
        free(path);
        free(positive);
        return qkv_error_set(error, "out of memory for the check of %s", subject);
    }
    double *behind = memory + (QKV_NOISE_POINTS + 5) * count;
    struct run run = {
        .report = report,
        .subject = subject,
        .probe = {graph, y, memory, memory + count, memory + 2 * count, memory + 3 * count,
                  memory + 4 * count, path, 0, positive},
        .options = &used,
        .total = total,
        .analytic = behind,
        .origin = behind + total,
        .along = behind + 2 * total,
    };
    memset(positive, 0, (size_t)bent * sizeof *positive);
    bool done = run_checks(&run);
    free(positive);
    free(path);
    free(memory);
    return done ? QKV_OK : qkv_error_set(error, "out of memory for the check of %s", subject);
}
