/* The gradient check of ops, on the samples that every op has (op_samples/): the adjoint test, and all checks of one op. */
#include "check/check.h"
#include "check/op_samples/op_samples.h"
#include "core/memory.h"

#include <float.h>
#include <math.h>

enum qkv_op_id qkv_op_find(const char *name)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++)
        if (name && !strcmp(qkv_op_name((enum qkv_op_id)op), name)) return (enum qkv_op_id)op;
    return QKV_OP_COUNT;
}

/* The check of an op on one sample. */
struct op_check {
    struct qkv_check_report *report;
    const struct qkv_check_options *options;
    struct qkv_error *error;
    struct qkv_sample_setting setting;
    const char *subject; /* NULL: memory has run out */
};

static enum qkv_status out_of_memory(const struct op_check *check)
{
    return qkv_error_set(check->error, "out of memory for op %s", qkv_op_name(check->setting.op));
}

/* ---- graphs of samples ---- */

/* A graph built from one sample. */
struct sample_graph {
    struct qkv_graph *graph; /* NULL: memory has run out */
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
    qkv_sample_inputs(built.graph, setting, built.input);
    built.result = built.y = qkv_sample_node(built.graph, setting, built.input);
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

/* ---- the adjoint test ---- */

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
    row->bound = row->rounding / fmax(fabs(row->analytic), fabs(row->numeric));
    if (apart <= row->rounding) return;
    row->excess = row->error;
    qkv_check_fail(report, row, "<J^T c, d> and <c, J d> differ by %.3g, rounding explains %.3g", apart,
                   row->rounding);
}

/* Checks one varied input of the sample. */
static enum qkv_status check_input(const struct op_check *check, int input)
{
    struct qkv_sample_setting setting = check->setting;
    setting.varied = 1u << input;
    struct sample_graph built = build_sample(QKV_FLOAT64, &setting);
    struct qkv_check_report *report = check->report;
    enum qkv_fault fault = check->options->fault;
    enum qkv_status status = QKV_INVALID;
    if (!built.y) goto end;
    int64_t nx = built.input[input]->count, ny = built.y->count;
    double *memory = qkv_graph_memory(built.graph, (size_t)(2 * nx + 4 * ny) * sizeof *memory);
    if (!memory) goto end;
    struct function f = {.graph = built.graph,
                         .x = built.input[input],
                         .y = built.y,
                         .origin = memory,
                         .change = memory + nx,
                         .cotangent = memory + 2 * nx};
    for (int i = 0; i < 3; i++) f.value[i] = f.cotangent + (i + 1) * ny;
    memcpy(f.origin, f.x->value, (size_t)nx * sizeof *f.origin);
    qkv_check_cotangent(setting.seed + 1, nx, f.change);
    qkv_check_cotangent(setting.seed, ny, f.cotangent);
    if (is_linear(&f)) {
        const char *name = qkv_arena_format(&report->arena, "adjoint of input %d", input + 1);
        struct qkv_check_row *row = name ? qkv_check_add(report, check->subject, name) : NULL;
        bool is_planted = fault && check->options->fault_op == setting.op &&
                          !qkv_fault_is_declaration(fault) && qkv_plant(f.graph, setting.op, fault);
        qkv_backward(f.graph, f.y, f.cotangent);
        if (is_planted) report->fault_calls += qkv_unplant(f.graph, setting.op);
        if (!row) goto end;
        compare(report, row, &f);
    }
    status = qkv_graph_check(built.graph, NULL);
end:
    qkv_graph_free(built.graph);
    return status ? out_of_memory(check) : QKV_OK;
}

/* ---- the checks of a sample ---- */

static enum qkv_status check_float32(const struct op_check *check)
{
    struct sample_graph float32 = build_sample(QKV_FLOAT32, &check->setting),
                        float64 = build_sample(QKV_FLOAT64, &check->setting);
    const struct qkv_precision_pair pair = {float32.y, float64.y, NULL, QKV_FLOAT32_BOUND};
    enum qkv_status status = QKV_INVALID;
    if (!float32.graph || !float64.graph)
        out_of_memory(check);
    else if (!qkv_graph_check(float32.graph, check->error) && !qkv_graph_check(float64.graph, check->error))
        status = qkv_check_precision(check->report, check->subject, &pair, check->setting.seed, check->error);
    qkv_graph_free(float32.graph);
    qkv_graph_free(float64.graph);
    return status;
}

static enum qkv_status check_gradients(const struct op_check *check, const char *subject,
                                       const struct qkv_check_options *options)
{
    struct sample_graph built = build_sample(QKV_FLOAT64, &check->setting);
    enum qkv_status status = built.graph && subject ? qkv_check_graph(check->report, subject, built.graph,
                                                                      built.result, options, check->error)
                                                    : out_of_memory(check);
    qkv_graph_free(built.graph);
    return status;
}

static bool can_be_one_tensor(const struct qkv_sample *sample, unsigned varied, int i, int j)
{
    const struct qkv_shape *a = &sample->input[i], *b = &sample->input[j];
    return varied >> i & 1 && varied >> j & 1 && a->rank == b->rank &&
           !memcmp(a->size, b->size, sizeof a->size);
}

static bool is_over(const struct op_check *check)
{
    return check->options->first_failure && check->report->failures > 0;
}

/* Checks a good sample: declarations; float32; gradients of all varied inputs together; the adjoint test; gradients of
 * each input alone, and of pairs of inputs that are the same tensor, as query and key are in self-attention. */
static enum qkv_status check_sample(struct op_check *check)
{
    struct qkv_sample_setting *setting = &check->setting;
    struct qkv_arena *arena = &check->report->arena;
    /* Once the gradients of all inputs together are checked, a few elements of each tensor, and the tensor as a whole, show what
     * changes, because the same code computes them. */
    enum { FEW = 8 };
    struct qkv_check_options few = *check->options;
    if (!few.sample || few.sample > FEW) few.sample = FEW;
    const unsigned all = setting->varied;
    const char *subject = check->subject;
    enum qkv_status status =
        qkv_check_declarations(check->report, subject, setting, check->options, check->error);
    if (!status) status = check_float32(check);
    if (status || !all || is_over(check))
        return status; /* without gradients there are only values to check */
    setting->used_again = true;
    status = check_gradients(check, subject, check->options);
    setting->used_again = false;
    bool is_adjoint_tested = !status && !is_over(check);
    for (int k = 0; is_adjoint_tested && !status && k < QKV_MAX_INPUTS; k++)
        if (all >> k & 1) status = check_input(check, k);
    for (int k = 0; !status && k < QKV_MAX_INPUTS; k++) {
        setting->varied = all & 1u << k;
        if (setting->varied && !is_over(check))
            status =
                check_gradients(check, qkv_arena_format(arena, "%s, input %d alone", subject, k + 1), &few);
    }
    setting->varied = all;
    for (int j = 1; !status && j < QKV_MAX_INPUTS; j++)
        for (int i = 0; !status && i < j; i++) {
            if (!can_be_one_tensor(setting->sample, all, i, j) || is_over(check)) continue;
            setting->alias[0] = i, setting->alias[1] = j;
            status = check_gradients(
                check, qkv_arena_format(arena, "%s, inputs %d and %d are one tensor", subject, i + 1, j + 1),
                &few);
        }
    return status;
}

/* A bad sample must be refused, with its message. */
static enum qkv_status check_refusal(struct op_check *check)
{
    struct qkv_error given = {""};
    const char *message = check->setting.sample->message;
    check->setting.used_again = true;
    struct sample_graph built = build_sample(QKV_FLOAT64, &check->setting);
    struct qkv_check_row *row = built.graph ? qkv_check_add(check->report, check->subject, "message") : NULL;
    if (row && !qkv_graph_check(built.graph, &given))
        qkv_check_fail(check->report, row, "the op accepts it");
    else if (row && !strstr(given.message, message))
        qkv_check_fail(check->report, row, "the message is '%s', but should contain '%s'", given.message,
                       message);
    qkv_graph_free(built.graph);
    return row ? QKV_OK : out_of_memory(check);
}

/* Checks the samples of a list; `format` makes the subject of op and sample. */
static enum qkv_status check_samples(const struct op_check *start, const struct qkv_sample *sample,
                                     const char *format, enum qkv_status (*check_one)(struct op_check *check))
{
    enum qkv_status status = QKV_OK;
    for (; !status && sample && sample->name && !is_over(start); sample++) {
        struct op_check check = *start;
        check.setting.sample = sample;
        for (int k = 0; k < QKV_MAX_INPUTS; k++)
            check.setting.varied |= (unsigned)(sample->input[k].rank && !(sample->constant >> k & 1)) << k;
        check.subject =
            qkv_arena_format(&check.report->arena, format, qkv_op_name(check.setting.op), sample->name);
        status = check.subject ? check_one(&check) : out_of_memory(&check);
    }
    return status;
}

enum qkv_status qkv_check_op(struct qkv_check_report *report, enum qkv_op_id op,
                             const struct qkv_check_options *options, struct qkv_error *error)
{
    if (qkv_check_arguments(report, options, "qkv_check_op", error)) return QKV_INVALID;
    if ((int)op <= QKV_OP_leaf || (int)op >= QKV_OP_COUNT)
        return qkv_error_set(error, "there is no op %d to check", (int)op);
    const struct qkv_op_samples *samples = qkv_samples_of(op);
    const struct op_check check = {report, options, error, {.op = op, .seed = options->seed}, NULL};
    if (!samples->good || !samples->good[0].name) {
        struct qkv_check_row *row = qkv_check_add(report, qkv_op_name(op), "samples");
        if (!row) return out_of_memory(&check);
        qkv_check_fail(report, row, "the op has no samples");
        return QKV_OK;
    }
    enum qkv_status status = check_samples(&check, samples->good, "op %s (%s)", check_sample);
    return status ? status : check_samples(&check, samples->bad, "op %s (refuses %s)", check_refusal);
}
