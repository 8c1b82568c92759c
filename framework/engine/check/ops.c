/* The gradient check of ops: the adjoint test, and all checks of one op. */
#include "check/check.h"
#include "check/op_samples/op_samples.h"
#include "core/memory.h"
#include "graph/graph.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The adjoint test of ops that are linear in an input x: <c, J d> = <J^T c, d>, where J is the derivative of the result y
 * with respect to x, c a random cotangent and d a random change of x.
 *
 * If y is a linear function of x plus a constant, J d = y(x + d) - y(x) for a change of any size. So, unlike finite
 * differences, the test has no truncation error, and rounding affects only the last digits. J^T c is what backward adds to the
 * gradient of x. */

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

/* The gradient check of ops, on the samples that every op has (op_samples/). */

enum qkv_op_id qkv_op_find(const char *name)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++)
        if (name && !strcmp(qkv_op_name((enum qkv_op_id)op), name)) return (enum qkv_op_id)op;
    return QKV_OP_COUNT;
}

/* A graph built from one sample. */
struct sample_graph {
    struct qkv_graph *graph;
    struct qkv_tensor *input[QKV_MAX_INPUTS];
    struct qkv_tensor *y;      /* the node of the tested op */
    struct qkv_tensor *result; /* the tensor whose gradients are checked */
};

/* Builds the op. With `used_again`, a second op uses each varied input and writes its gradient
 * first: this reveals an op that overwrites gradients instead of adding to them. Without it, the op
 * itself must write them first. */
static struct sample_graph build_sample(enum qkv_dtype dtype, const struct qkv_sample_setting *setting)
{
    struct sample_graph built = {.graph = qkv_graph_new(dtype)};
    if (!built.graph) return built;
    built.result = built.y = qkv_sample_apply(built.graph, setting, built.input);
    if (!built.y || !setting->used_again) return built;
    struct qkv_tensor *flat = qkv_reshape(built.graph, built.y, QKV_SHAPE(built.y->count));
    for (int k = 0; k < QKV_MAX_INPUTS; k++) {
        if (!(setting->varied >> k & 1)) continue;
        struct qkv_tensor *again = qkv_scale(built.graph, built.input[k], 0.5 + k);
        flat =
            again ? qkv_concat(built.graph, flat, qkv_reshape(built.graph, again, QKV_SHAPE(again->count)), 0)
                  : NULL;
    }
    built.result = flat;
    return built;
}

/* ---- samples ---- */

static enum qkv_status check_float32(struct qkv_check_report *report, const char *subject,
                                     const struct qkv_sample_setting *setting, struct qkv_error *error)
{
    struct sample_graph float32 = build_sample(QKV_FLOAT32, setting),
                        float64 = build_sample(QKV_FLOAT64, setting);
    enum qkv_status status = QKV_INVALID;
    if (!float32.graph || !float64.graph)
        qkv_error_set(error, "out of memory for %s", subject);
    else if (!qkv_graph_check(float32.graph, error) && !qkv_graph_check(float64.graph, error))
        status = qkv_check_precision(
            report, subject, &(struct qkv_precision_pair){float32.y, float64.y, NULL, QKV_FLOAT32_BOUND},
            setting->seed, error);
    qkv_graph_free(float32.graph);
    qkv_graph_free(float64.graph);
    return status;
}

static enum qkv_status check_gradients(struct qkv_check_report *report, const char *subject,
                                       const struct qkv_sample_setting *setting,
                                       const struct qkv_check_options *options, struct qkv_error *error)
{
    struct sample_graph built = build_sample(QKV_FLOAT64, setting);
    enum qkv_status status =
        !built.graph || !subject
            ? qkv_error_set(error, "out of memory for op %s", qkv_op_name(setting->op))
            : qkv_check_graph(report, subject, built.graph, built.result, options, error);
    qkv_graph_free(built.graph);
    return status;
}

static bool can_be_one_tensor(const struct qkv_sample *sample, unsigned varied, int i, int j)
{
    const struct qkv_sample_input *a = &sample->input[i], *b = &sample->input[j];
    return varied >> i & 1 && varied >> j & 1 && a->rank == b->rank &&
           !memcmp(a->size, b->size, sizeof a->size);
}

static bool is_over(const struct qkv_check_report *report, const struct qkv_check_options *options)
{
    return options->first_failure && report->failures > 0;
}

/* Options for the gradients of a sample once those of all its inputs together are checked: the same code computes them, so
 * that a few elements of each tensor, and the tensor as a whole, show what changes. */
static struct qkv_check_options few_elements(const struct qkv_check_options *options)
{
    enum { FEW = 8 };
    struct qkv_check_options few = *options;
    if (!few.sample || few.sample > FEW) few.sample = FEW;
    return few;
}

/* Checks a good sample: declarations; float32; gradients of all varied inputs together; the adjoint test; gradients of
 * each input alone, and of pairs of inputs that are the same tensor, as query and key are in self-attention. */
static enum qkv_status check_sample(struct qkv_check_report *report, enum qkv_op_id op,
                                    const struct qkv_sample *sample, const struct qkv_check_options *options,
                                    struct qkv_error *error)
{
    const struct qkv_op *rule = qkv_op_rule(op);
    struct qkv_arena *arena = &report->arena;
    const char *subject = qkv_arena_format(arena, "op %s (%s)", rule->name, sample->name);
    struct qkv_sample_setting setting = {.op = op, .sample = sample, .seed = options->seed};
    for (int k = 0; k < rule->inputs; k++)
        if (sample->input[k].rank && !(sample->constant >> k & 1)) setting.varied |= 1u << k;
    unsigned all = setting.varied;
    if (!subject) return qkv_error_set(error, "out of memory");
    enum qkv_status status = qkv_check_declarations(report, subject, &setting, options, error);
    if (!status) status = check_float32(report, subject, &setting, error);
    if (status || !all || is_over(report, options))
        return status; /* without gradients there are only values to check */
    setting.used_again = true;
    status = check_gradients(report, subject, &setting, options, error);
    setting.used_again = false;
    if (!status && !is_over(report, options))
        status = qkv_check_adjoint(report, subject, &setting, options, error);
    const struct qkv_check_options few = few_elements(options);
    for (int k = 0; !status && k < rule->inputs; k++) {
        if (!(all >> k & 1) || is_over(report, options)) continue;
        setting.varied = 1u << k;
        status = check_gradients(
            report, qkv_arena_format(arena, "op %s (%s), input %d alone", rule->name, sample->name, k + 1),
            &setting, &few, error);
    }
    setting.varied = all;
    for (int j = 1; !status && j < rule->inputs; j++)
        for (int i = 0; !status && i < j; i++) {
            if (!can_be_one_tensor(sample, all, i, j) || is_over(report, options)) continue;
            setting.alias[0] = i, setting.alias[1] = j;
            status = check_gradients(report,
                                     qkv_arena_format(arena, "op %s (%s), inputs %d and %d are one tensor",
                                                      rule->name, sample->name, i + 1, j + 1),
                                     &setting, &few, error);
        }
    return status;
}

/* A bad sample must be refused, with its message. */
static enum qkv_status check_refusal(struct qkv_check_report *report, enum qkv_op_id op,
                                     const struct qkv_sample *sample, struct qkv_error *error)
{
    const struct qkv_op *rule = qkv_op_rule(op);
    const struct qkv_sample_setting setting = {.op = op,
                                               .sample = sample,
                                               .varied =
                                                   ~(unsigned)sample->constant & ((1u << rule->inputs) - 1),
                                               .used_again = true};
    struct sample_graph built = build_sample(QKV_FLOAT64, &setting);
    const char *subject = qkv_arena_format(&report->arena, "op %s (refuses %s)", rule->name, sample->name);
    struct qkv_check_row *row = subject && built.graph ? qkv_check_add(report, subject, "message") : NULL;
    if (!row) {
        qkv_graph_free(built.graph);
        return qkv_error_set(error, "out of memory for the samples of %s", rule->name);
    }
    struct qkv_error given = {""};
    if (!qkv_graph_check(built.graph, &given))
        qkv_check_fail(report, row, "the op accepts it");
    else if (!strstr(given.message, sample->message))
        qkv_check_fail(report, row, "the message is '%s', but should contain '%s'", given.message,
                       sample->message);
    qkv_graph_free(built.graph);
    return QKV_OK;
}

enum qkv_status qkv_check_op(struct qkv_check_report *report, enum qkv_op_id op,
                             const struct qkv_check_options *options, struct qkv_error *error)
{
    if (qkv_check_arguments(report, options, "qkv_check_op", error)) return QKV_INVALID;
    if ((int)op <= QKV_OP_leaf || (int)op >= QKV_OP_COUNT)
        return qkv_error_set(error, "there is no op %d to check", (int)op);
    const struct qkv_op_samples *samples = qkv_samples_of(op);
    if (!samples->good || !samples->good[0].name) {
        struct qkv_check_row *row = qkv_check_add(report, qkv_op_name(op), "samples");
        if (!row) return qkv_error_set(error, "out of memory");
        qkv_check_fail(report, row, "the op has no samples");
        return QKV_OK;
    }
    enum qkv_status status = QKV_OK;
    for (const struct qkv_sample *s = samples->good; !status && s->name && !is_over(report, options); s++)
        status = check_sample(report, op, s, options, error);
    for (const struct qkv_sample *s = samples->bad; !status && s && s->name && !is_over(report, options); s++)
        status = check_refusal(report, op, s, error);
    return status;
}
