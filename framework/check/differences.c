#include "check/differences.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A forward pass is a few hundred roundings deep, not one; this many units in the last place are put down to
 * them. */
static const double ROUNDINGS = 16;

/* The measured noise is that of one evaluation, a rule takes four: so many times it is above four standard
 * deviations. */
static const double NOISES = 8;

/* From 1e-2 to 1e-7. */
enum { STEPS = 6 };

/* Below this share of the derivative rounding hides nothing that matters. */
static const double NOISE_LIMIT = 1e-4;

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
        if (x->op != QKV_OP_leaf && !graph->ops[x->op]->alias) poison(x->count, x->value);
        poison(x->saved_count, x->saved);
    }
    graph->last_run = NULL;
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

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The standard deviation behind points that lie `stride` apart, from the median of their third differences: a
 * few of them may straddle a kink. False when most points are the same: steps so small show nothing. */
static bool noise_of(const double *point, int64_t stride, double *noise)
{
    const double median = 0.6745, variance = 20; /* of a normal variable; of third differences of such */
    double third[QKV_NOISE_POINTS - 3];
    int stuck = 0;
    for (int k = 0; k < QKV_NOISE_POINTS - 3; k++, point += stride) {
        third[k] = fabs(point[3 * stride] - 3 * point[2 * stride] + 3 * point[stride] - point[0]);
        stuck += !(point[stride] < point[0] || point[stride] > point[0]);
    }
    qsort(third, QKV_NOISE_POINTS - 3, sizeof *third, ascending);
    *noise = third[(QKV_NOISE_POINTS - 3) / 2] / (median * sqrt(variance));
    return 4 * stuck <= QKV_NOISE_POINTS;
}

void qkv_probe_measure_noise(struct qkv_probe *probe, const struct qkv_direction *direction)
{
    int64_t count = probe->y->count;
    double *point = probe->noise + count;
    bool shown = false;
    qkv_probe_follow(probe, NULL);
    for (double step = 1e-10; !shown && step < 2e-6; step *= 10) {
        for (int k = 0; k < QKV_NOISE_POINTS; k++) {
            move(probe, direction, (k - QKV_NOISE_POINTS / 2) * step);
            evaluate(probe, point + k * count);
        }
        shown = true;
        for (int64_t i = 0; i < count; i++) shown &= noise_of(point + i, count, &probe->noise[i]);
    }
    move(probe, direction, 0);
    qkv_probe_restore(probe);
}

/* Whether what relu reads has other signs than at the last call; those of now are kept. */
static bool change_sides(struct qkv_probe *probe)
{
    bool *positive = probe->positive, changed = false;
    for (int64_t i = 0; i < probe->path_count; i++) {
        const struct qkv_tensor *y = probe->path[i];
        for (int64_t j = 0; y->op == QKV_OP_relu && j < y->count; j++, positive++) {
            bool now = ((const double *)y->input[0]->value)[j] > 0;
            changed |= now != *positive;
            *positive = now;
        }
    }
    return changed;
}

/* L(+step) - L(-step), taken before summing over y so that what does not change cancels exactly. */
struct change {
    double value;
    double bend;       /* L(+step) - 2 L(0) + L(-step) */
    double moved, all; /* what rounding may do to the numbers of y that changed, and to all of them */
    bool crossed;
};

static struct change difference(struct qkv_probe *probe, const struct qkv_direction *direction, double step)
{
    move(probe, direction, step);
    evaluate(probe, probe->plus);
    change_sides(probe);
    move(probe, direction, -step);
    evaluate(probe, probe->minus);
    struct change change = {.crossed = change_sides(probe)};
    move(probe, direction, 0);
    /* Saturated functions such as gelu add numbers of the size of x that cancel: x counts like the result. */
    double moved = direction->element >= 0 ? fabs(*direction->origin) : 0;
    for (int64_t i = 0; i < probe->y->count; i++) {
        double plus = probe->plus[i], minus = probe->minus[i], c = probe->cotangent[i];
        double size = DBL_EPSILON * (fabs(plus) + fabs(minus)), noise = NOISES * probe->noise[i];
        change.value += c * (plus - minus);
        change.bend += c * (plus - probe->base[i] + (minus - probe->base[i]));
        change.all += fabs(c) * fmax(size, noise);
        if (plus > minus || plus < minus)
            change.moved += fabs(c) * fmax(ROUNDINGS * (size + DBL_EPSILON * moved), noise);
        else if (plus - minus != 0.0)
            change.value = NAN; /* not comparable: some value is no number */
    }
    return change;
}

/* ---- the rules ---- */

static struct qkv_derivative five_points(struct qkv_probe *probe, const struct qkv_direction *direction,
                                         double h)
{
    struct change full = difference(probe, direction, h), half = difference(probe, direction, h / 2);
    double three = 0.5 * full.value / h, five = (4.0 / 3.0 * half.value - 1.0 / 6.0 * full.value) / h;
    double moved = full.moved + 2 * half.moved;
    /* Where nothing changed at all, the derivative is less than one rounding of y would make of it. */
    return (struct qkv_derivative){
        .value = five,
        .rounding = (moved > 0 ? moved : full.all) / h,
        .truncation = fabs(five - three),
        /* A smooth bend is a quarter at half the step, one of a kink at 0 is half: what is not smooth in it
         * is the difference of the slopes on both sides, of which the derivative is one and the rules give
         * the mean. */
        .kink = fabs(4 * half.bend - full.bend) / (2 * h),
        .crossed = full.crossed,
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
    for (double h = 1e-2 * scale; h < 0.2 * scale && d.rounding > NOISE_LIMIT * fabs(d.value); h *= 10) {
        struct qkv_derivative larger = five_points(probe, direction, h);
        if (!(larger.truncation <= NOISE_LIMIT * fabs(larger.value) + larger.rounding)) break;
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

/* How much the steps that are smaller than step `i` make it doubtful. They are further from kinks and deeper
 * in rounding: what they say otherwise is the doubt; twice, because its own error may have cancelled a part.
 */
static double doubt(const struct qkv_derivative *step, int i)
{
    const struct qkv_derivative *here = &step[i];
    double kink = here->kink;
    double sum = here->rounding + step[i + 1].rounding + 2 * fabs(here->value - step[i + 1].value);
    for (int k = i + 1; k < STEPS; k++) {
        if (k > i + 1) sum += 2 * fmax(0, fabs(here->value - step[k].value) - step[k].rounding);
        kink = fmax(kink, step[k].kink - step[k].rounding);
    }
    /* A kink at 0 is in all steps, and shows in how their points bend; where it is not quite at 0, the two
     * rules differ as well. */
    return sum + kink + here->truncation;
}

struct qkv_derivative qkv_differentiate_again(struct qkv_probe *probe, const struct qkv_direction *direction,
                                              double scale)
{
    struct qkv_derivative best = {.value = NAN, .rounding = INFINITY}, step[STEPS];
    double h = 1e-2 * scale;
    for (int i = 0; i < STEPS; i++, h /= 10) step[i] = five_points(probe, direction, h);
    /* What all steps cross is at 0. Else those that cross a kink say what is beyond it, and how they bend
     * does not show how much that is: of two kinks on both sides the bends may cancel. */
    bool at_zero = step[STEPS - 1].crossed;
    for (int i = 0; i + 1 < STEPS; i++) {
        double rounding = doubt(step, i);
        if ((step[i].crossed && !at_zero) || !(rounding < best.rounding)) continue;
        best = step[i];
        best.rounding = rounding;
    }
    if (isfinite(best.rounding)) return best;
    best = step[STEPS - 1]; /* the only one before the kink, deep in rounding */
    best.rounding += best.truncation;
    return best;
}
