/* float32 against float64. */
#include "check/check.h"
#include "check/differences.h"

#include "qkv/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tensors of both graphs that are compared: what is apart most, in proportion and beyond what is allowed. */
struct comparison {
    struct qkv_check_row *row;
    const char *worst; /* its name */
    double bound;
};

static double largest(int64_t count, const double *numbers)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(numbers[i]));
    return most;
}

/* `floor`: differences are not held against anything smaller. `shaken`: how far rounding may move a number
 * beyond the bound. */
static void compare(struct comparison *c, const char *name, int64_t count, const float *single,
                    const double *whole, double floor, double shaken)
{
    double size = fmax(largest(count, whole), floor), beyond = size > 0 ? shaken / size : shaken;
    if (!isfinite(beyond)) beyond = 0; /* what is not a number excuses nothing */
    c->row->elements += count;
    c->row->checked += count;
    for (int64_t i = 0; i < count; i++) {
        double apart = fabs((double)single[i] - whole[i]), error = size > 0 ? apart / size : apart;
        if (!isfinite(apart)) error = INFINITY;
        double excess = fmax(error - fmax(beyond - c->bound, 0), 0);
        if (c->row->worst >= 0 && !(excess > c->row->excess)) continue;
        c->worst = name;
        c->row->worst = i;
        c->row->analytic = (double)single[i];
        c->row->numeric = whole[i];
        c->row->error = error;
        c->row->excess = excess;
    }
}

static const char *name_of(const struct qkv_tensor *x)
{
    return x->name ? x->name : "an input";
}

static double largest_gradient(const struct qkv_tensor *y)
{
    double most = 0;
    for (const struct qkv_tensor *x = y->graph->first; x; x = x->next)
        if (qkv_is_variable(x)) most = fmax(most, largest(x->count, x->gradient));
    return most;
}

/* `shaken` by variable, in order; NULL: 0. */
static void compare_gradients(struct comparison *c, struct qkv_tensor *single, struct qkv_tensor *whole,
                              double most, const double *shaken)
{
    struct qkv_tensor *s = single->graph->first;
    for (struct qkv_tensor *w = whole->graph->first; w; w = w->next, s = s->next) {
        QKV_BUG(!s || s->op != w->op || s->count != w->count, "the graphs of the two precisions differ");
        if (!qkv_is_variable(w)) continue;
        compare(c, name_of(w), w->count, s->gradient, w->gradient, most / 100, shaken ? *shaken++ : 0);
    }
}

/* Moves every number of every variable up or down by half a last place of float32, and raises `shaken`, by
 * variable, to how far its gradient moves at most. `values` and `gradients` are those of all variables as
 * they were. */
static void shake(struct qkv_tensor *whole, const double *cotangent, struct qkv_random random,
                  const double *values, const double *gradients, double *shaken)
{
    const double half = 0x1p-24;
    uint64_t at = 0;
    for (struct qkv_tensor *x = whole->graph->first; x; x = x->next)
        for (int64_t i = 0; qkv_is_variable(x) && i < x->count; i++, at++)
            ((double *)x->value)[i] =
                values[at] * (qkv_random_uniform(random, at) < 0.5 ? 1 - half : 1 + half);
    qkv_graph_rewind(whole->graph);
    qkv_forward(whole->graph);
    qkv_backward(whole->graph, whole, cotangent);
    for (struct qkv_tensor *x = whole->graph->first; x; x = x->next) {
        if (!qkv_is_variable(x)) continue;
        for (int64_t i = 0; i < x->count; i++)
            *shaken = fmax(*shaken, fabs(((double *)x->gradient)[i] - *gradients++));
        shaken++;
    }
}

/* What rounding does to gradients that hang by a thread - of a norm over four numbers that are nearly equal -
 * is no mistake. So it is measured, in double precision: a few times over, and ROUNDINGS times that may come
 * together where each op rounds. By variable, in order; values and gradients are as before afterwards. NULL
 * when memory is out. */
static double *measure_shaking(struct qkv_tensor *whole, const double *cotangent, uint64_t seed)
{
    enum { TIMES = 4, ROUNDINGS = 4 };
    struct qkv_graph *graph = whole->graph;
    int64_t variables = 0, numbers = 0, at = 0;
    for (const struct qkv_tensor *x = graph->first; x; x = x->next) {
        variables += qkv_is_variable(x);
        numbers += qkv_is_variable(x) ? x->count : 0;
    }
    double *shaken = calloc((size_t)variables, sizeof *shaken);
    double *values = malloc(2 * (size_t)numbers * sizeof *values), *gradients = values + numbers;
    if (!shaken || !values) {
        free(shaken);
        free(values);
        return NULL;
    }
    for (const struct qkv_tensor *x = graph->first; x; x = x->next) {
        if (!qkv_is_variable(x)) continue;
        memcpy(values + at, x->value, (size_t)x->count * sizeof *values);
        memcpy(gradients + at, x->gradient, (size_t)x->count * sizeof *values);
        at += x->count;
    }
    for (uint32_t time = 1; time <= TIMES; time++)
        shake(whole, cotangent, (struct qkv_random){seed, QKV_STREAM_CHECK, time}, values, gradients, shaken);
    for (int64_t i = 0; i < variables; i++) shaken[i] *= ROUNDINGS;
    at = 0;
    for (struct qkv_tensor *x = graph->first; x; x = x->next) {
        if (!qkv_is_variable(x)) continue;
        memcpy(x->value, values + at, (size_t)x->count * sizeof *values);
        memcpy(x->gradient, gradients + at, (size_t)x->count * sizeof *values);
        at += x->count;
    }
    qkv_graph_rewind(graph);
    qkv_forward(graph);
    free(values);
    return shaken;
}

/* The largest number of the result, or of all gradients, of two graphs of which one may be NULL. */
static double largest_of(const struct qkv_tensor *whole, const struct qkv_tensor *reference, bool gradients)
{
    double most = gradients ? largest_gradient(whole) : 0, other = 0;
    if (reference)
        other = gradients ? largest_gradient(reference) : largest(reference->count, reference->value);
    return fmax(most, other);
}

enum qkv_status qkv_check_precision(struct qkv_check_report *report, const char *subject,
                                    struct qkv_tensor *single, struct qkv_tensor *whole,
                                    struct qkv_tensor *reference, double bound, uint64_t seed,
                                    struct qkv_error *error)
{
    struct qkv_check_row *row = qkv_check_add(report, subject, "float32 against float64");
    double *cotangent = row ? malloc((size_t)whole->count * sizeof *cotangent) : NULL, *shaken = NULL;
    if (!cotangent) return qkv_error_set(error, "out of memory for the check of %s", subject);
    struct comparison c = {row, "the result", bound};
    qkv_forward(single->graph);
    qkv_forward(whole->graph);
    if (reference) qkv_forward(reference->graph);
    compare(&c, "the result", whole->count, single->value, whole->value, largest_of(whole, reference, false),
            0);
    if (whole->needs_gradient) {
        /* Both precisions get the same cotangent. */
        qkv_check_cotangent(seed, whole->count, cotangent);
        for (int64_t i = 0; i < whole->count; i++) cotangent[i] = (double)(float)cotangent[i];
        qkv_backward(single->graph, single, cotangent);
        qkv_backward(whole->graph, whole, cotangent);
        if (reference) {
            QKV_BUG(reference->count != whole->count, "the graph without cancellation has another result");
            qkv_backward(reference->graph, reference, cotangent);
        }
        double most = largest_of(whole, reference, true);
        const struct qkv_check_row result = *row;
        compare_gradients(&c, single, whole, most, NULL);
        if (result.excess <= bound && row->excess > bound) {
            shaken = measure_shaking(whole, cotangent, seed);
            if (!shaken) {
                free(cotangent);
                return qkv_error_set(error, "out of memory for the check of %s", subject);
            }
            *row = result;
            compare_gradients(&c, single, whole, most, shaken);
        }
    }
    free(cotangent);
    free(shaken);
    row->worst = -1; /* the row is about many tensors */
    if (!(row->excess <= bound))
        qkv_check_fail(report, row, "float32 is %.3g away from float64 in %s, above %.3g", row->error,
                       c.worst, bound);
    return QKV_OK;
}
