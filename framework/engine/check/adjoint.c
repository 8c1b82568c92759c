/* The adjoint test of ops that are linear in an input x: <c, J d> = <J^T c, d>, where J is the derivative of the result y
 * with respect to x, c a random cotangent and d a random change of x.
 *
 * If y is a linear function of x plus a constant, J d = y(x + d) - y(x) for a change of any size. So, unlike finite
 * differences, the test has no truncation error, and rounding affects only the last digits. J^T c is what backward adds to the
 * gradient of x. */
#include "check/check.h"
#include "check/op_samples/op_samples.h"
#include "core/memory.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Allowed rounding error, in units in the last place of the sum of the absolute values of all terms. */
static const double ROUNDING_UNITS = 64;

/* The op on one sample, as a function of one input. */
struct function {
    struct qkv_graph *graph;
    struct qkv_tensor *x, *y;
    double *origin, *change; /* [x->count]: values of x, and the change d */
    double *cotangent;       /* [y->count] */
    double *value[3];        /* [y->count] each: y(x), y(x + d), y(x + 2 d) */
};

static void evaluate(struct function *f, int step)
{
    for (int64_t i = 0; i < f->x->count; i++) ((double *)f->x->value)[i] = f->origin[i] + step * f->change[i];
    qkv_graph_rewind(f->graph);
    qkv_forward(f->graph);
    memcpy(f->value[step], f->y->value, (size_t)f->y->count * sizeof(double));
}

/* Evaluates y at x, x + d and x + 2 d. Returns whether y depends on x and its three values lie on a straight line. */
static bool is_linear(struct function *f)
{
    double size = 0, bend = 0, slope = 0;
    for (int step = 2; step >= 0; step--) evaluate(f, step); /* the last step restores x */
    for (int64_t i = 0; i < f->y->count; i++) {
        double at_0 = f->value[0][i], at_1 = f->value[1][i], at_2 = f->value[2][i];
        if (!isfinite(at_0 + at_1 + at_2)) return false;
        size = fmax(size, fmax(fabs(at_0), fabs(at_2)));
        slope = fmax(slope, fabs(at_1 - at_0));
        bend = fmax(bend, fabs(at_2 - at_1 - (at_1 - at_0)));
    }
    return bend <= ROUNDING_UNITS * DBL_EPSILON * size && slope > 1e-6 * size;
}

/* Compares both dot products and records them in the row. */
static void compare(struct qkv_check_report *report, struct qkv_check_row *row, const struct function *f)
{
    const double *gradient = f->x->gradient;
    double size = 0;
    for (int64_t i = 0; i < f->y->count; i++) {
        row->numeric += f->cotangent[i] * (f->value[1][i] - f->value[0][i]);
        size += fabs(f->cotangent[i]) * (fabs(f->value[1][i]) + fabs(f->value[0][i]));
    }
    for (int64_t i = 0; i < f->x->count; i++) {
        row->analytic += gradient[i] * f->change[i];
        size += fabs(gradient[i] * f->change[i]);
    }
    double apart = fabs(row->analytic - row->numeric);
    row->elements = row->checked = f->x->count;
    row->rounding = ROUNDING_UNITS * DBL_EPSILON * size;
    row->error = apart / fmax(fabs(row->analytic), fabs(row->numeric));
    if (apart <= row->rounding) return;
    row->excess = row->error;
    qkv_check_fail(report, row, "<J^T c, d> and <c, J d> differ by %.3g, rounding explains %.3g", apart,
                   row->rounding);
}

static bool check_linear_input(struct qkv_check_report *report, const char *subject,
                               const struct qkv_sample_setting *setting,
                               const struct qkv_check_options *options, int input, struct function *f)
{
    const char *name = qkv_arena_format(&report->arena, "adjoint of input %d", input + 1);
    struct qkv_check_row *row = name ? qkv_check_add(report, subject, name) : NULL;
    if (!row) return false;
    bool is_planted =
        options->fault && options->fault_op == setting->op && !qkv_fault_is_declaration(options->fault);
    if (is_planted) qkv_plant(f->graph, setting->op, options->fault);
    qkv_backward(f->graph, f->y, f->cotangent);
    if (is_planted && !qkv_unplant(f->graph, &report->fault_calls)) return false;
    compare(report, row, f);
    return true;
}

/* Checks a single input of the sample; false when memory runs out. */
static bool check_input(struct qkv_check_report *report, const char *subject,
                        const struct qkv_sample_setting *setting, const struct qkv_check_options *options,
                        int input)
{
    struct qkv_tensor *inputs[QKV_MAX_INPUTS] = {NULL};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    struct qkv_tensor *y = graph ? qkv_sample_apply(graph, setting, inputs) : NULL;
    if (!y) {
        qkv_graph_free(graph);
        return false;
    }
    struct qkv_tensor *x = inputs[input];
    double *memory = malloc((size_t)(2 * x->count + 4 * y->count) * sizeof *memory);
    bool done = memory != NULL;
    if (done) {
        double *of_y = memory + 2 * x->count;
        struct function f = {.graph = graph,
                             .x = x,
                             .y = y,
                             .origin = memory,
                             .change = memory + x->count,
                             .cotangent = of_y,
                             .value = {of_y + y->count, of_y + 2 * y->count, of_y + 3 * y->count}};
        memcpy(f.origin, x->value, (size_t)x->count * sizeof *f.origin);
        qkv_check_cotangent(setting->seed + 1, x->count, f.change);
        qkv_check_cotangent(setting->seed, y->count, f.cotangent);
        if (is_linear(&f)) done = check_linear_input(report, subject, setting, options, input, &f);
    }
    free(memory);
    qkv_graph_free(graph);
    return done;
}

enum qkv_status qkv_check_adjoint(struct qkv_check_report *report, const char *subject,
                                  const struct qkv_sample_setting *setting,
                                  const struct qkv_check_options *options, struct qkv_error *error)
{
    for (int k = 0; k < QKV_MAX_INPUTS; k++) {
        struct qkv_sample_setting alone = *setting;
        alone.varied &= 1u << k;
        if (alone.varied && !check_input(report, subject, &alone, options, k))
            return qkv_error_set(error, "out of memory for %s", subject);
    }
    return QKV_OK;
}
