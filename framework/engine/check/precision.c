/* Compares a float32 graph with a float64 graph that has the same nodes. */
#include "check/check.h"
#include "check/differences.h"

#include <math.h>

/* The comparison of all tensors of both graphs. The row holds the number with the largest excess: the part of its relative
 * difference that the rounding of float32 does not explain. */
struct comparison {
    struct qkv_check_row *row;
    const char *worst; /* name of the tensor with the worst difference */
    double bound;
};

static double largest(int64_t count, const double *numbers)
{
    double max = 0;
    for (int64_t i = 0; i < count; i++) max = fmax(max, fabs(numbers[i]));
    return max;
}

/* Compares one tensor. Differences are relative to its largest number, or to `floor` if that is larger. rounding: the
 * absolute difference that rounding may cause; if it is above the bound, it replaces the bound for this tensor. */
static void compare(struct comparison *c, const char *name, int64_t count, const float *float32,
                    const double *float64, double floor, double rounding)
{
    double size = fmax(largest(count, float64), floor), allowed = size > 0 ? rounding / size : rounding;
    if (!(isfinite(allowed) && allowed > c->bound)) allowed = c->bound; /* NaN does not raise the bound */
    c->row->elements += count;
    c->row->checked += count;
    for (int64_t i = 0; i < count; i++) {
        double apart = fabs((double)float32[i] - float64[i]), error = size > 0 ? apart / size : apart;
        if (!isfinite(apart)) error = INFINITY;
        double excess = fmax(error - (allowed - c->bound), 0); /* at most the bound where error <= allowed */
        if (c->row->worst >= 0 && !(excess > c->row->excess)) continue;
        c->worst = name;
        c->row->worst = i;
        c->row->analytic = (double)float32[i];
        c->row->numeric = float64[i];
        c->row->error = error;
        c->row->excess = excess;
        c->row->bound = allowed;
    }
}

static double largest_gradient(const struct qkv_tensor *y)
{
    double max = 0;
    for (const struct qkv_tensor *x = y->graph->first; x; x = x->next)
        if (qkv_is_variable(x)) max = fmax(max, largest(x->count, x->gradient));
    return max;
}

/* Compares the gradients of all variables. max: the largest number of all gradients. rounding: the difference
 * that rounding may cause, one number for each variable, in order; NULL: only the bound applies. */
static void compare_gradients(struct comparison *c, const struct qkv_precision_pair *pair, double max,
                              const double *rounding)
{
    struct qkv_tensor *a = pair->float32->graph->first;
    for (struct qkv_tensor *b = pair->float64->graph->first; b; b = b->next, a = a->next) {
        if (!qkv_is_variable(b)) continue;
        compare(c, b->name ? b->name : "an input", b->count, a->gradient, b->gradient, max / 100,
                rounding ? *rounding++ : 0);
    }
}

/* Half a unit in the last place of float32, relative to the number. */
#define HALF_UNIT 0x1p-24

/* Runs the graph with other values of all variables: `values`, in order, moved up or down at random by `step` of their size.
 * `change` has one number for each variable: the largest difference so far of its gradient from `gradients`, which this call
 * may raise; NULL: none. */
static void run_moved(struct qkv_tensor *float64, const double *cotangent, struct qkv_random random,
                      double step, const double *values, const double *gradients, double *change)
{
    uint64_t at = 0;
    for (struct qkv_tensor *x = float64->graph->first; x; x = x->next)
        for (int64_t i = 0; qkv_is_variable(x) && i < x->count; i++, at++)
            ((double *)x->value)[i] =
                values[at] * (qkv_random_uniform(random, at) < 0.5 ? 1 - step : 1 + step);
    qkv_graph_rewind(float64->graph);
    qkv_forward(float64->graph);
    qkv_backward(float64->graph, float64, cotangent);
    for (struct qkv_tensor *x = float64->graph->first; change && x; x = x->next) {
        if (!qkv_is_variable(x)) continue;
        for (int64_t i = 0; i < x->count; i++)
            *change = fmax(*change, fabs(((double *)x->gradient)[i] - *gradients++));
        change++;
    }
}

/* Raises the rounding of each gradient that is zero for all values, such as that of a norm over one number, where
 * g - mean(g) = 0. It is a difference of equal terms, and float32 may round one of them before the subtraction, which
 * perturbing the values cannot show. The terms are assumed to be as large as `terms`, the largest number of the cotangent. */
static void allow_cancelled_terms(const struct qkv_tensor *float64, double terms, double *rounding)
{
    const double zero = 0x1p-40 * terms; /* far above the rounding of float64, far below that of float32 */
    for (const struct qkv_tensor *x = float64->graph->first; x; x = x->next) {
        if (!qkv_is_variable(x)) continue;
        if (largest(x->count, x->gradient) <= zero && *rounding <= zero) *rounding = HALF_UNIT * terms;
        rounding++;
    }
}

/* Measures the difference that rounding to float32 may cause in each gradient. It is far above the bound if a gradient is
 * ill-conditioned, such as that of a norm over four nearly equal numbers. Perturbs all values a few times in float64; the
 * result is ROUNDINGS times the largest change, because values are rounded not only once, but by every op. Returns one number
 * for each variable, in order, in the memory of the graph; NULL when memory runs out. Restores the values of the graph. */
static double *measure_rounding(struct qkv_tensor *float64, const double *cotangent, uint64_t seed)
{
    enum { TIMES = 4, ROUNDINGS = 4 };
    struct qkv_graph *graph = float64->graph;
    int64_t variables = 0, numbers = qkv_count_variables(graph);
    for (const struct qkv_tensor *x = graph->first; x; x = x->next) variables += qkv_is_variable(x);
    double *rounding = qkv_graph_memory(graph, (size_t)variables * sizeof *rounding);
    double *values = qkv_graph_memory(graph, 2 * (size_t)numbers * sizeof *values);
    if (!rounding || !values) return NULL;
    qkv_read_variables(graph, values, values + numbers);
    for (uint32_t time = 1; time <= TIMES; time++)
        run_moved(float64, cotangent, (struct qkv_random){seed, QKV_STREAM_CHECK, time}, HALF_UNIT, values,
                  values + numbers, rounding);
    run_moved(float64, cotangent, (struct qkv_random){0}, 0, values, NULL, NULL);
    allow_cancelled_terms(float64, largest(float64->count, cotangent), rounding);
    for (int64_t i = 0; i < variables; i++) rounding[i] *= ROUNDINGS;
    return rounding;
}

/* The largest number of all gradients of both graphs if `gradients`, otherwise of the value of `reference`, which may be
 * NULL. */
static double largest_of(const struct qkv_tensor *float64, const struct qkv_tensor *reference, bool gradients)
{
    double max = gradients ? largest_gradient(float64) : 0, other = 0;
    if (reference)
        other = gradients ? largest_gradient(reference) : largest(reference->count, reference->value);
    return fmax(max, other);
}

/* Compares gradients for a random cotangent; false when memory runs out. */
static bool compare_backward(struct comparison *c, const struct qkv_precision_pair *pair, uint64_t seed,
                             double *cotangent)
{
    struct qkv_tensor *y = pair->float64, *reference = pair->reference;
    qkv_check_cotangent(seed, y->count, cotangent);
    for (int64_t i = 0; i < y->count; i++) cotangent[i] = (double)(float)cotangent[i]; /* the same in both */
    qkv_backward(pair->float32->graph, pair->float32, cotangent);
    qkv_backward(y->graph, y, cotangent);
    if (reference) qkv_backward(reference->graph, reference, cotangent);
    double max = largest_of(y, reference, true);
    const struct qkv_check_row result = *c->row; /* the comparison so far, of values only */
    compare_gradients(c, pair, max, NULL);
    if (result.excess > c->bound || c->row->excess <= c->bound) return true;
    /* Some gradient differs by more than the bound: compare again, with the measured effect of rounding. */
    double *rounding = measure_rounding(y, cotangent, seed);
    if (!rounding) return false;
    *c->row = result;
    compare_gradients(c, pair, max, rounding);
    return true;
}

/* Whether both graphs have the same nodes, except for their precision. */
static bool same_nodes(const struct qkv_tensor *float32, const struct qkv_tensor *float64)
{
    const struct qkv_tensor *a = float32->graph->first, *b = float64->graph->first;
    for (; a && b; a = a->next, b = b->next) {
        if (a->op != b->op || !qkv_same_shape(a, b) || a->needs_gradient != b->needs_gradient) return false;
        if ((a == float32) != (b == float64)) return false;
    }
    return !a && !b;
}

static enum qkv_status check_pair(const struct qkv_check_report *report, const char *subject,
                                  const struct qkv_precision_pair *pair, struct qkv_error *error)
{
    if (!report || !subject || !pair)
        return qkv_error_set(error, "qkv_check_precision needs a report, a subject and a pair");
    if (qkv_check_tensor(pair->float32, QKV_FLOAT32, subject, error) ||
        qkv_check_tensor(pair->float64, QKV_FLOAT64, subject, error))
        return QKV_INVALID;
    if (!same_nodes(pair->float32, pair->float64))
        return qkv_error_set(error, "%s: the graphs of the two precisions have other nodes or shapes",
                             subject);
    if (!pair->reference) return QKV_OK;
    if (qkv_check_tensor(pair->reference, QKV_FLOAT64, subject, error)) return QKV_INVALID;
    if (pair->reference->count != pair->float64->count ||
        pair->reference->needs_gradient != pair->float64->needs_gradient)
        return qkv_error_set(error, "%s: the reference is a result of another size, or without gradient",
                             subject);
    return QKV_OK;
}

enum qkv_status qkv_check_precision(struct qkv_check_report *report, const char *subject,
                                    const struct qkv_precision_pair *pair, uint64_t seed,
                                    struct qkv_error *error)
{
    if (check_pair(report, subject, pair, error)) return QKV_INVALID;
    struct qkv_tensor *y = pair->float64;
    struct qkv_check_row *row = qkv_check_add(report, subject, "float32 against float64");
    double *cotangent = row ? qkv_graph_memory(y->graph, (size_t)y->count * sizeof *cotangent) : NULL;
    if (!cotangent) return qkv_error_set(error, "out of memory for the check of %s", subject);
    struct comparison c = {row, "the result", pair->bound};
    qkv_forward(pair->float32->graph);
    qkv_forward(y->graph);
    if (pair->reference) qkv_forward(pair->reference->graph);
    compare(&c, "the result", y->count, pair->float32->value, y->value, largest_of(y, pair->reference, false),
            0);
    bool done = !y->needs_gradient || compare_backward(&c, pair, seed, cotangent);
    if (!done) return qkv_error_set(error, "out of memory for the check of %s", subject);
    row->worst = -1; /* the row is about many tensors */
    if (!(row->excess <= pair->bound))
        qkv_check_fail(report, row, "float32 is %.3g away from float64 in %s, above %.3g", row->error,
                       c.worst, pair->bound);
    return QKV_OK;
}
