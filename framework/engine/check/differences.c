/* Numeric derivatives of a tensor of a graph, by finite differences. */
#include "check/differences.h"

#include "core/memory.h"
#include "core/numbers.h"

#include <float.h>
#include <math.h>

/* Rounding error allowed per number of y, in units in the last place: each number is the result of
 * hundreds of rounded operations. */
static const double ROUNDING_UNITS = 16;

/* Noise allowed per number of y, in measured standard deviations. The noise is that of one
 * evaluation, and the five-point rule uses four: the allowance is above four standard deviations of
 * their sum. */
static const double NOISE_DEVIATIONS = 8;

/* Step sizes that qkv_differentiate_all_steps tries: 1e-2 .. 1e-7 times the scale. */
enum { STEPS = 6 };

bool qkv_is_variable(const struct qkv_tensor *x)
{
    return x->op == QKV_OP_leaf && x->needs_gradient;
}

int64_t qkv_count_variables(const struct qkv_graph *graph)
{
    int64_t count = 0;
    for (const struct qkv_tensor *x = graph->first; x; x = x->next)
        count += qkv_is_variable(x) ? x->count : 0;
    return count;
}

void qkv_read_variables(const struct qkv_graph *graph, double *values, double *gradients)
{
    int64_t at = 0;
    for (const struct qkv_tensor *x = graph->first; x; x = x->next) {
        if (!qkv_is_variable(x)) continue;
        size_t bytes = (size_t)x->count * sizeof(double);
        if (values) memcpy(values + at, x->value, bytes);
        if (gradients) memcpy(gradients + at, x->gradient, bytes);
        at += x->count;
    }
}

/* ---- evaluating the graph ---- */

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
        const struct qkv_tensor *early = qkv_early_input(x);
        if (early) poison(early->count, x->forward_gradient);
    }
    graph->last_run = NULL;
    qkv_forward(graph);
}

void qkv_probe_select(struct qkv_probe *probe, const struct qkv_tensor *leaf)
{
    probe->affected_count = 0;
    /* `touched` marks the nodes that depend on the leaf; only a backward pass uses it otherwise. */
    for (struct qkv_tensor *x = probe->graph->first; x; x = x->next) {
        x->touched = leaf ? x == leaf : qkv_is_variable(x);
        for (int i = 0; i < QKV_MAX_INPUTS; i++) x->touched |= x->input[i] && x->input[i]->touched;
        if (x->touched && x->op != QKV_OP_leaf) probe->affected[probe->affected_count++] = x;
        if (x == probe->y) break;
    }
}

void qkv_probe_recompute(struct qkv_probe *probe)
{
    for (int64_t i = 0; i < probe->affected_count; i++)
        probe->graph->ops[probe->affected[i]->op]->forward(probe->affected[i]);
}

static void evaluate(struct qkv_probe *probe, double *values)
{
    qkv_probe_recompute(probe);
    memcpy(values, probe->y->value, (size_t)probe->y->count * sizeof *values);
}

/* ---- moving leaves, measuring noise ---- */

/* Sets the selected elements to origin + step * direction. */
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

/* Estimates the standard deviation of the noise in QKV_NOISE_POINTS numbers, point[0],
 * point[stride], ..., from the median of their third differences; the median ignores the few
 * differences across a kink. Returns false when more than a quarter of the points equal the next
 * one: then the steps are too small to show the noise. */
static bool estimate_noise(const double *point, int64_t stride, double *noise)
{
    /* Median of |x| for a standard normal x; variance of the third differences of standard normal
     * numbers. */
    const double median = 0.6745, variance = 20;
    double third[QKV_NOISE_POINTS - 3];
    int equal = 0;
    for (int k = 0; k < QKV_NOISE_POINTS - 3; k++, point += stride) {
        third[k] = fabs(point[3 * stride] - 3 * point[2 * stride] + 3 * point[stride] - point[0]);
        if (isnan(third[k])) third[k] = INFINITY; /* NaN cannot be sorted */
        equal += !(point[stride] < point[0] || point[stride] > point[0]);
    }
    qsort(third, QKV_NOISE_POINTS - 3, sizeof *third, qkv_by_value);
    *noise = third[(QKV_NOISE_POINTS - 3) / 2] / (median * sqrt(variance));
    return 4 * equal <= QKV_NOISE_POINTS;
}

void qkv_probe_measure_noise(struct qkv_probe *probe, const struct qkv_direction *direction)
{
    int64_t count = probe->y->count;
    double *point = probe->noise + count;
    bool is_visible = false;
    qkv_probe_select(probe, NULL);
    for (double step = 1e-10; !is_visible && step < 2e-6; step *= 10) {
        for (int k = 0; k < QKV_NOISE_POINTS && !qkv_check_interrupt(NULL); k++) {
            move(probe, direction, (k - QKV_NOISE_POINTS / 2) * step);
            evaluate(probe, point + k * count);
        }
        is_visible = true;
        for (int64_t i = 0; i < count; i++) is_visible &= estimate_noise(point + i, count, &probe->noise[i]);
    }
    move(probe, direction, 0);
    qkv_probe_recompute(probe);
}

/* Stores which inputs of relu are positive. Returns true if any of them was not so at the last
 * call: then a kink lies between the two points. */
static bool update_relu_signs(struct qkv_probe *probe)
{
    bool *positive = probe->positive, changed = false;
    for (int64_t i = 0; i < probe->affected_count; i++) {
        const struct qkv_tensor *y = probe->affected[i];
        for (int64_t j = 0; y->op == QKV_OP_relu && j < y->count; j++, positive++) {
            bool now = ((const double *)y->input[0]->value)[j] > 0;
            changed |= now != *positive;
            *positive = now;
        }
    }
    return changed;
}

/* Central differences of L. The numbers of y are subtracted before they are summed, so that those
 * that do not change cancel exactly. */
struct change {
    double first;        /* L(+step) - L(-step) */
    double second;       /* L(+step) - 2 L(0) + L(-step) */
    double rounding;     /* rounding error of L from the numbers of y that differ between the two points */
    double rounding_all; /* rounding error of L from all numbers of y */
    bool crossed;        /* an input of relu has different signs at the two points */
};

static struct change difference(struct qkv_probe *probe, const struct qkv_direction *direction, double step)
{
    move(probe, direction, step);
    evaluate(probe, probe->plus);
    update_relu_signs(probe);
    move(probe, direction, -step);
    evaluate(probe, probe->minus);
    struct change change = {.crossed = update_relu_signs(probe)};
    move(probe, direction, 0);
    /* Functions such as gelu add numbers of the size of x that cancel: x rounds as well as the
     * result. */
    double origin = direction->element >= 0 ? fabs(*direction->origin) : 0;
    for (int64_t i = 0; i < probe->y->count; i++) {
        double plus = probe->plus[i], minus = probe->minus[i], c = probe->cotangent[i];
        double size = DBL_EPSILON * (fabs(plus) + fabs(minus)), noise = NOISE_DEVIATIONS * probe->noise[i];
        change.first += c * (plus - minus);
        change.second += c * (plus - probe->base[i] + (minus - probe->base[i]));
        change.rounding_all += fabs(c) * fmax(size, noise);
        if (plus > minus || plus < minus)
            change.rounding += fabs(c) * fmax(ROUNDING_UNITS * (size + DBL_EPSILON * origin), noise);
        else if (plus - minus != 0.0)
            change.first = NAN; /* plus or minus is NaN */
    }
    return change;
}

/* ---- difference rules ---- */

/* The derivative by the five-point rule, from points at +-h and +-h/2. */
static struct qkv_derivative five_points(struct qkv_probe *probe, const struct qkv_direction *direction,
                                         double h)
{
    struct change full = difference(probe, direction, h), half = difference(probe, direction, h / 2);
    double three = 0.5 * full.first / h, five = (4.0 / 3.0 * half.first - 1.0 / 6.0 * full.first) / h;
    double rounding = full.rounding + 2 * half.rounding;
    /* If no number of y changed, the derivative is 0 up to one rounding of every number. */
    return (struct qkv_derivative){
        .value = five,
        .rounding = (rounding > 0 ? rounding : full.rounding_all) / h,
        .truncation = fabs(five - three),
        /* At half the step, the second difference of a smooth function is a quarter, and that of a
         * kink at 0 is half. So 4 half - full is 0 for a smooth function; for a kink it is h times
         * the jump of the slope. The derivative is the slope on one side and the rules give the
         * mean: half the jump is the error. */
        .kink = fabs(4 * half.second - full.second) / (2 * h),
        .crossed = full.crossed,
    };
}

/* The derivative by the seven-point rule, from points at +-h, +-h/2 and +-h/4: the three-point rule with Richardson
 * extrapolation applied twice. `rounding` includes the truncation error: from three to five to seven points the error falls by
 * about the same ratio each time, and ten times the error that this predicts for seven points is allowed. */
static struct qkv_derivative seven_points(struct qkv_probe *probe, const struct qkv_direction *direction,
                                          double h)
{
    struct change full = difference(probe, direction, h), half = difference(probe, direction, h / 2),
                  quarter = difference(probe, direction, h / 4);
    double three[] = {full.first / (2 * h), half.first / h, quarter.first / (h / 2)};
    double five[] = {(4 * three[1] - three[0]) / 3, (4 * three[2] - three[1]) / 3};
    double seven = (16 * five[1] - five[0]) / 15;
    double error_of_three = fabs(five[1] - three[2]), error_of_five = fabs(seven - five[1]);
    double ratio = error_of_three > 10 * error_of_five ? 10 * error_of_five / error_of_three : 1;
    double rounding = (128 * quarter.rounding + 20 * half.rounding + 0.5 * full.rounding) / (45 * h);
    return (struct qkv_derivative){
        .value = seven,
        .rounding = rounding + ratio * error_of_five,
        .truncation = error_of_five,
        .crossed = full.crossed || half.crossed || quarter.crossed,
    };
}

/* Whether the rounding error of the derivative is at most `factor` times the wanted precision. */
static bool is_precise(const struct qkv_probe *probe, struct qkv_derivative d, double factor)
{
    return d.rounding <= factor * probe->precision * fabs(d.value);
}

/* If the rounding error of `d` is above the wanted precision, tries larger steps with the seven-point rule, because the
 * rounding error is inversely proportional to the step. Returns the derivative with the smallest error. */
static struct qkv_derivative enlarge_step(struct qkv_probe *probe, const struct qkv_direction *direction,
                                          double scale, struct qkv_derivative d)
{
    const struct qkv_derivative small = d;
    double h = is_precise(probe, d, 10) ? 1e-2 : 1e-1;
    for (; h > 5e-3 && !is_precise(probe, d, 1); h /= 10) {
        struct qkv_derivative larger = seven_points(probe, direction, h * scale);
        bool agrees = fabs(larger.value - small.value) <= larger.rounding + small.rounding;
        if (!larger.crossed && agrees && larger.rounding < d.rounding) d = larger;
    }
    return d;
}

struct qkv_derivative qkv_differentiate(struct qkv_probe *probe, const struct qkv_direction *direction,
                                        double scale)
{
    struct qkv_derivative best = {.value = NAN, .truncation = INFINITY};
    for (double h = 1e-3 * scale; h > 3e-7 * scale; h /= 10) {
        struct qkv_derivative d = five_points(probe, direction, h);
        if (d.truncation <= 1e-6 * fabs(d.value) + d.rounding) { /* both rules agree */
            best = d;
            break;
        }
        if (!(best.truncation + best.rounding <= d.truncation + d.rounding)) best = d;
    }
    bool is_nonzero = best.value < 0 || best.value > 0;
    return is_nonzero ? enlarge_step(probe, direction, scale, best) : best;
}

/* The error of the derivative at step `i`, estimated from all smaller steps: they are further from
 * kinks, but their rounding errors are larger. The disagreement counts twice, because errors may
 * cancel a part of it. */
static double error_of_step(const struct qkv_derivative *step, int i)
{
    const struct qkv_derivative *here = &step[i];
    double kink = here->kink;
    double sum = here->rounding + step[i + 1].rounding + 2 * fabs(here->value - step[i + 1].value);
    for (int k = i + 1; k < STEPS; k++) {
        if (k > i + 1) sum += 2 * fmax(0, fabs(here->value - step[k].value) - step[k].rounding);
        kink = fmax(kink, step[k].kink - step[k].rounding);
    }
    /* A kink at 0 lies within all steps and shows in their second differences; a kink near 0 also
     * makes the two rules differ. */
    return sum + kink + here->truncation;
}

struct qkv_derivative qkv_differentiate_all_steps(struct qkv_probe *probe,
                                                  const struct qkv_direction *direction, double scale)
{
    struct qkv_derivative best = {.value = NAN, .rounding = INFINITY}, step[STEPS];
    double h = 1e-2 * scale;
    for (int i = 0; i < STEPS; i++, h /= 10) step[i] = five_points(probe, direction, h);
    /* A kink that even the smallest step crosses is at 0. Other steps that cross a kink do not
     * count: their points beyond the kink belong to another slope, and the second differences do
     * not bound the error, because those of two kinks, one on each side, may cancel. */
    bool at_zero = step[STEPS - 1].crossed;
    for (int i = 0; i + 1 < STEPS; i++) {
        double rounding = error_of_step(step, i);
        if ((step[i].crossed && !at_zero) || !(rounding < best.rounding)) continue;
        best = step[i];
        best.rounding = rounding;
    }
    if (isfinite(best.rounding)) return best;
    best = step[STEPS - 1]; /* every larger step crosses a kink; this one has a large rounding error */
    best.rounding += best.truncation;
    return best;
}
