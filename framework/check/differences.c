#include "check/differences.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A forward pass is a few hundred roundings deep, not one; this many units in the last place are put down to
 * them. */
static const double ROUNDINGS = 16;

/* Below this share of the derivative rounding hides nothing that matters. */
static const double BLURRED = 1e-4;

bool qkv_is_variable(const struct qkv_tensor *x)
{
    return x->op == QKV_OP_leaf && x->needs_gradient;
}

/* ---- computing ---- */

static void poison(int64_t count, double *numbers)
{
    for (int64_t i = 0; i < count; i++) numbers[i] = NAN;
}

void qkv_probe_evaluate(struct qkv_probe *probe)
{
    struct qkv_graph *graph = probe->graph;
    poison(graph->scratch_count, graph->scratch);
    for (struct qkv_tensor *x = graph->first; x; x = x->next) {
        if (x->op != QKV_OP_leaf && !graph->ops[x->op]->in_place) poison(x->count, x->value);
        poison(x->saved_count, x->saved);
    }
    graph->computed = NULL;
    qkv_forward(graph);
}

void qkv_probe_follow(struct qkv_probe *probe, const struct qkv_tensor *leaf)
{
    probe->path_count = 0;
    /* Between two backward passes `touched` is free to use as a mark. */
    for (struct qkv_tensor *x = probe->graph->first; x; x = x->next) {
        x->touched = leaf ? x == leaf : qkv_is_variable(x);
        for (int i = 0; i < QKV_MAX_INPUTS; i++) x->touched |= x->input[i] && x->input[i]->touched;
        if (x->touched && x->op != QKV_OP_leaf) probe->path[probe->path_count++] = x;
        if (x == probe->y) break;
    }
}

void qkv_probe_restore(struct qkv_probe *probe)
{
    for (int64_t i = 0; i < probe->path_count; i++)
        probe->graph->ops[probe->path[i]->op]->forward(probe->path[i]);
}

static void evaluate(struct qkv_probe *probe, double *values)
{
    qkv_probe_restore(probe);
    memcpy(values, probe->y->value, (size_t)probe->y->count * sizeof *values);
}

/* ---- moving ---- */

static void move(struct qkv_probe *probe, const struct qkv_direction *direction, double step)
{
    if (direction->element >= 0) {
        ((double *)direction->leaf->value)[direction->element] = *direction->origin + step;
        return;
    }
    const double *origin = direction->origin, *along = direction->along;
    for (struct qkv_tensor *x = probe->graph->first; x; x = x->next) {
        if (!qkv_is_variable(x) || (direction->leaf && direction->leaf != x)) continue;
        double *value = x->value;
        for (int64_t i = 0; i < x->count; i++) value[i] = *origin++ + step * *along++;
    }
}

/* L(+step) - L(-step), taken before summing over y so that what does not change cancels exactly. */
struct change {
    double value;
    double moved,
        all; /* magnitudes behind the rounding error: of the numbers of y that changed, and of all */
};

static struct change difference(struct qkv_probe *probe, const struct qkv_direction *direction, double step)
{
    move(probe, direction, step);
    evaluate(probe, probe->plus);
    move(probe, direction, -step);
    evaluate(probe, probe->minus);
    move(probe, direction, 0);
    struct change change = {0};
    /* Saturated functions such as gelu add numbers of the size of x that cancel: x counts like the result. */
    double moved = direction->element >= 0 ? fabs(*direction->origin) : 0;
    for (int64_t i = 0; i < probe->y->count; i++) {
        double plus = probe->plus[i], minus = probe->minus[i], c = probe->cotangent[i];
        double size = fabs(c) * (fabs(plus) + fabs(minus));
        change.value += c * (plus - minus);
        change.all += size;
        if (plus > minus || plus < minus)
            change.moved += size + fabs(c) * moved;
        else if (plus - minus != 0.0)
            change.value = NAN; /* not comparable: some value is no number */
    }
    return change;
}

/* ---- the rules ---- */

static struct qkv_derivative five_points(struct qkv_probe *probe, const struct qkv_direction *direction,
                                         double h)
{
    struct change whole = difference(probe, direction, h), half = difference(probe, direction, h / 2);
    double three = 0.5 * whole.value / h, five = (4.0 / 3.0 * half.value - 1.0 / 6.0 * whole.value) / h;
    double moved = whole.moved + 2 * half.moved;
    /* Where nothing changed at all, the derivative is less than one rounding of y would make of it. */
    double rounding = moved > 0 ? ROUNDINGS * moved : whole.all;
    return (struct qkv_derivative){
        .value = five,
        .rounding = DBL_EPSILON * rounding / h,
        .truncation = fabs(five - three),
    };
}

static bool rules_agree(struct qkv_derivative d)
{
    return d.truncation <= 1e-6 * fabs(d.value) + d.rounding;
}

/* Rounding shrinks as the step grows: takes larger ones as long as the rules agree. */
static struct qkv_derivative sharpen(struct qkv_probe *probe, const struct qkv_direction *direction,
                                     double scale, struct qkv_derivative d)
{
    for (double h = 1e-2 * scale; h < 0.2 * scale && d.rounding > BLURRED * fabs(d.value); h *= 10) {
        struct qkv_derivative larger = five_points(probe, direction, h);
        if (!(larger.truncation <= BLURRED * fabs(larger.value) + larger.rounding)) break;
        larger.rounding +=
            larger.truncation; /* steps that large are not trusted further than their rules agree */
        if (larger.rounding < d.rounding) d = larger;
    }
    return d;
}

struct qkv_derivative qkv_differentiate(struct qkv_probe *probe, const struct qkv_direction *direction,
                                        double scale)
{
    struct qkv_derivative best = {.value = NAN, .truncation = INFINITY};
    for (double h = 1e-3 * scale; h > 3e-7 * scale; h /= 10) {
        struct qkv_derivative d = five_points(probe, direction, h);
        if (rules_agree(d)) {
            best = d;
            break;
        }
        if (!(best.truncation + best.rounding <= d.truncation + d.rounding)) best = d;
    }
    bool something = best.value < 0 || best.value > 0;
    return something ? sharpen(probe, direction, scale, best) : best;
}

struct qkv_derivative qkv_differentiate_again(struct qkv_probe *probe, const struct qkv_direction *direction,
                                              double scale)
{
    struct qkv_derivative best = {.value = NAN, .rounding = INFINITY},
                          last = five_points(probe, direction, 1e-2 * scale);
    for (double h = 1e-3 * scale; h > 3e-7 * scale; h /= 10) {
        struct qkv_derivative d = five_points(probe, direction, h);
        /* The smaller step is further from kinks and deeper in rounding: what it says otherwise is the doubt;
         * twice, because its own error may have cancelled a part. */
        last.rounding += 2 * fabs(d.value - last.value);
        if (last.rounding < best.rounding) best = last;
        last = d;
    }
    return best;
}
