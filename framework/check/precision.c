/* float32 against float64. */
#include "check/check.h"
#include "check/differences.h"

#include <math.h>
#include <stdlib.h>

/* Tensors of both graphs that are compared: what is apart most, in proportion. */
struct comparison {
    struct qkv_check_row *row;
    const char *worst; /* its name */
};

static double largest(int64_t count, const double *numbers)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(numbers[i]));
    return most;
}

/* `floor`: differences are not held against anything smaller. */
static void compare(struct comparison *c, const char *name, int64_t count, const float *single,
                    const double *whole, double floor)
{
    double size = fmax(largest(count, whole), floor);
    c->row->elements += count;
    c->row->checked += count;
    for (int64_t i = 0; i < count; i++) {
        double apart = fabs((double)single[i] - whole[i]), error = size > 0 ? apart / size : apart;
        if (!isfinite(apart)) error = INFINITY;
        if (c->row->worst >= 0 && !(error > c->row->error)) continue;
        c->worst = name;
        c->row->worst = i;
        c->row->analytic = (double)single[i];
        c->row->numeric = whole[i];
        c->row->error = c->row->excess = error;
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

static void compare_gradients(struct comparison *c, struct qkv_tensor *single, struct qkv_tensor *whole,
                              double most)
{
    struct qkv_tensor *s = single->graph->first;
    for (struct qkv_tensor *w = whole->graph->first; w; w = w->next, s = s->next) {
        QKV_BUG(!s || s->op != w->op || s->count != w->count, "the graphs of the two precisions differ");
        if (qkv_is_variable(w)) compare(c, name_of(w), w->count, s->gradient, w->gradient, most / 100);
    }
}

enum qkv_status qkv_check_precision(struct qkv_check_report *report, const char *subject,
                                    struct qkv_tensor *single, struct qkv_tensor *whole,
                                    struct qkv_tensor *uncancelled, double bound, uint64_t seed,
                                    struct qkv_error *error)
{
    struct qkv_check_row *row = qkv_check_add(report, subject, "float32 against float64");
    double *cotangent = row ? malloc((size_t)whole->count * sizeof *cotangent) : NULL;
    if (!cotangent) return qkv_error_set(error, "out of memory for the check of %s", subject);
    struct comparison c = {row, "the result"};
    qkv_forward(single->graph);
    qkv_forward(whole->graph);
    if (uncancelled) qkv_forward(uncancelled->graph);
    compare(&c, "the result", whole->count, single->value, whole->value,
            uncancelled ? largest(uncancelled->count, uncancelled->value) : 0);
    if (whole->needs_gradient) {
        /* Both precisions get the same cotangent. */
        qkv_check_cotangent(seed, whole->count, cotangent);
        for (int64_t i = 0; i < whole->count; i++) cotangent[i] = (double)(float)cotangent[i];
        qkv_backward(single->graph, single, cotangent);
        qkv_backward(whole->graph, whole, cotangent);
        double most = largest_gradient(whole);
        if (uncancelled) {
            QKV_BUG(uncancelled->count != whole->count, "the graph without cancellation has another result");
            qkv_backward(uncancelled->graph, uncancelled, cotangent);
            most = fmax(most, largest_gradient(uncancelled));
        }
        compare_gradients(&c, single, whole, most);
    }
    free(cotangent);
    row->worst = -1; /* the row is about many tensors */
    if (!(row->error <= bound))
        qkv_check_fail(report, row, "float32 is %.3g away from float64 in %s, above %.3g", row->error,
                       c.worst, bound);
    return QKV_OK;
}
