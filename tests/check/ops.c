/* Every op, through the samples that it carries. */
#include "framework/engine/check/check.h"

#include "support.h"

/* Faults are larger than 1e-4, or seen without differences: a small tolerance would only cost time. */
#define TOLERANCE_OF_FAULTS 1e-5

/* Checks an op; faults are planted into that op. */
static struct qkv_check_report report_on(enum qkv_op_id op, struct qkv_check_options options)
{
    struct qkv_check_report report = {0};
    options.fault_op = op;
    if (options.fault) options.tolerance = TOLERANCE_OF_FAULTS;
    if (!options.seed) options.seed = 1;
    expect_done(qkv_check_op(&report, op, &options, &error));
    return report;
}

/* tests/check/guard.c checks fewer elements with the kernels of every instruction set. */
Test(ops, gradients_agree_with_differences)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
        struct qkv_check_report report RELEASED(qkv_check_release) =
            report_on((enum qkv_op_id)op, (struct qkv_check_options){.sample = is_slow_build() ? 1 : 24});
        cr_expect_gt(report.count, 0);
        for (int64_t i = 0; i < report.count; i++)
            cr_expect_null(report.rows[i].failure, "%s, %s [%lld]: %s (analytic %.17g, numeric %.17g)",
                           report.rows[i].subject, report.rows[i].tensor, (long long)report.rows[i].worst,
                           report.rows[i].failure, report.rows[i].analytic, report.rows[i].numeric);
    }
}

/* Every fault that changes something is caught, in a sample of the elements, as in a check of a whole model. A fault
 * that changes nothing is not caught: it is one that the op has by nature. */
Test(ops, every_planted_fault_is_caught)
{
    int64_t changed[QKV_FAULT_COUNT] = {0};
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++)
        for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++) {
            if (is_left_out(op + fault)) continue;
            const struct qkv_check_options options = {
                .fault = (enum qkv_fault)fault,
                .sample = qkv_fault_is_declaration((enum qkv_fault)fault) ? 1 : 4,
                .first_failure = true,
            };
            struct qkv_check_report report RELEASED(qkv_check_release) =
                report_on((enum qkv_op_id)op, options);
            changed[fault] += report.fault_calls > 0;
            const char *advice = fault == QKV_FAULT_ELEMENTWISE
                                     ? ": if element i of input 1 affects only element i of the result, add "
                                       ".elementwise = INPUT(0)"
                                     : "";
            cr_expect_eq(report.failures > 0, report.fault_calls > 0, "%s with fault %s%s",
                         qkv_op_name((enum qkv_op_id)op), qkv_fault_name((enum qkv_fault)fault), advice);
        }
    if (is_slow_build()) return; /* too few for the counts below */
    const int64_t ops = QKV_OP_COUNT - 1;
    for (int fault = QKV_FAULT_NONE + 1; fault <= QKV_FAULT_OFFSET; fault++)
        cr_expect_geq(changed[fault], ops - 5,
                      "all ops but store_rows, detach, argmin, argmax and top_k_indices have a gradient");
    cr_expect_gt(changed[QKV_FAULT_SLIGHT], ops / 2, "linear in an input");
    cr_expect_gt(changed[QKV_FAULT_READS], 20);
    cr_expect_gt(changed[QKV_FAULT_ELEMENTWISE], ops / 2);
    cr_expect_eq(changed[QKV_FAULT_ALIAS], ops);
}

Test(ops, a_check_may_stop_at_its_first_failure)
{
    struct qkv_check_options options = {.fault = QKV_FAULT_SIGN, .sample = 1};
    struct qkv_check_report all RELEASED(qkv_check_release) = report_on(QKV_OP_softmax, options),
                                first RELEASED(qkv_check_release);
    options.first_failure = true;
    first = report_on(QKV_OP_softmax, options);
    cr_expect_gt(first.failures, 0);
    cr_expect_lt(first.failures, all.failures);
    cr_expect_lt(first.count, all.count);
    for (int64_t i = 0; i < first.count; i++)
        cr_expect_str_eq(first.rows[i].subject, all.rows[i].subject, "row %lld", (long long)i);
}

/* ---- the adjoint test ---- */

/* Number of rows of the adjoint test of an input, or of those that have failed. */
static int64_t adjoint_rows(const struct qkv_check_report *report, const char *input, bool failed)
{
    int64_t count = 0;
    for (int64_t i = 0; i < report->count; i++)
        count += !strcmp(report->rows[i].tensor, input) && (!failed || report->rows[i].failure);
    return count;
}

/* Which inputs of an op are linear is seen from its results. */
Test(adjoint, is_tested_for_the_inputs_in_which_an_op_is_linear)
{
    static const struct {
        enum qkv_op_id op;
        bool linear[3];
    } cases[] = {
        {QKV_OP_matmul, {true, true}},
        {QKV_OP_linear, {true, true, true}},
        {QKV_OP_add, {true, true}},
        {QKV_OP_multiply, {true, true}},
        {QKV_OP_dropout, {true}},
        {QKV_OP_embedding, {true}},
        {QKV_OP_permute, {true}},
        {QKV_OP_mean, {true}},
        {QKV_OP_layer_norm, {false, true, true}},
        {QKV_OP_attention, {false, false, true}},
        {QKV_OP_attention_mix, {true, true}},
        {QKV_OP_softmax, {false}},
        {QKV_OP_relu, {false}},
        {QKV_OP_cross_entropy, {false}},
        {QKV_OP_gru, {false, false, false}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct qkv_check_report report RELEASED(qkv_check_release) =
            report_on(cases[i].op, (struct qkv_check_options){.sample = 1});
        static const char *const names[] = {"adjoint of input 1", "adjoint of input 2", "adjoint of input 3"};
        for (int k = 0; k < 3; k++)
            cr_expect_eq(adjoint_rows(&report, names[k], false) > 0, cases[i].linear[k], "%s, %s",
                         qkv_op_name(cases[i].op), names[k]);
    }
}

/* The fault is 1e-10 of the gradient, and differences are held to 1e-9 at best. */
Test(adjoint, finds_a_fault_that_differences_cannot_see)
{
    static const enum qkv_op_id ops[] = {QKV_OP_matmul, QKV_OP_scale, QKV_OP_gather_rows};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct qkv_check_report report RELEASED(qkv_check_release) =
            report_on(ops[i], (struct qkv_check_options){.fault = QKV_FAULT_SLIGHT, .sample = 4});
        cr_expect_gt(report.failures, 0);
        cr_expect_eq(adjoint_rows(&report, "adjoint of input 1", true),
                     adjoint_rows(&report, "adjoint of input 1", false));
    }
}

/* ---- both precisions, kinks ---- */

/* y = (x - k x, z / 10) with k = 1 in float64: the gradient of x is zero, the difference of two terms; or y = k x alone.
 * Returns whether float32 passes with another k. */
static bool passes_with_factor(double k, bool cancels)
{
    struct qkv_check_report report = {0};
    struct qkv_graph *graph[2] = {qkv_graph_new(QKV_FLOAT32), qkv_graph_new(QKV_FLOAT64)};
    struct qkv_tensor *y[2];
    for (int g = 0; g < 2; g++) {
        struct qkv_tensor *x = qkv_variable(graph[g], QKV_SHAPE(3));
        y[g] = qkv_scale(graph[g], x, g ? 1 : k);
        if (!cancels) continue;
        struct qkv_tensor *z = qkv_scale(graph[g], qkv_variable(graph[g], QKV_SHAPE(3)), 0.1);
        y[g] = qkv_concat(graph[g], qkv_subtract(graph[g], x, y[g]), z, 0);
    }
    const struct qkv_precision_pair pair = {y[0], y[1], NULL, QKV_FLOAT32_BOUND};
    cr_assert_eq(qkv_check_precision(&report, "k", &pair, 1, NULL), QKV_OK);
    bool passed = report.failures == 0;
    qkv_check_release(&report);
    for (int g = 0; g < 2; g++) qkv_graph_free(graph[g]);
    return passed;
}

/* A gradient that is off by a thousandth in float32 alone: rounding is no excuse. */
Test(ops, float32_that_differs_is_refused)
{
    cr_expect(passes_with_factor(1, false));
    cr_expect_not(passes_with_factor(1.001, false));
}

/* A term of a gradient that is zero may be off by a rounding of float32, not by much more. */
Test(ops, float32_may_round_terms_that_cancel)
{
    cr_expect(passes_with_factor(1 + 0x1p-23, true));
    cr_expect_not(passes_with_factor(1 + 0x1p-20, true));
}

/* These seeds draw cotangents whose sum, the gradient of the bias, is small beside the rounding of each. */
Test(ops, layer_norm_of_one_column_passes_with_every_seed)
{
    static const uint64_t seeds[] = {3, 9, 10, 12, 15, 33, 89, 92};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        struct qkv_check_report report RELEASED(qkv_check_release) =
            report_on(QKV_OP_layer_norm, (struct qkv_check_options){.seed = seeds[i], .sample = 1});
        cr_expect_eq(report.failures, 0, "seed %d", (int)seeds[i]);
    }
}

/* Rows of y = x + relu(x - a) - relu(b - x) that fail at an x between a and b, so near to both that only the
 * smallest steps stay there; further out the slope is 2, and the two bends cancel. */
static int64_t failures_between_kinks(enum qkv_fault fault)
{
    const double x0 = 0.25, near = 3e-7;
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(1)), *above = qkv_constant(graph, QKV_SHAPE(1)),
                      *below = qkv_constant(graph, QKV_SHAPE(1));
    qkv_tensor_write(x, &x0);
    qkv_tensor_write(above, (double[]){x0 + near});
    qkv_tensor_write(below, (double[]){x0 - near});
    struct qkv_tensor *bent = qkv_subtract(graph, qkv_relu(graph, qkv_subtract(graph, x, above)),
                                           qkv_relu(graph, qkv_subtract(graph, below, x)));
    struct qkv_tensor *y = qkv_add(graph, qkv_scale(graph, x, 1), bent);
    const struct qkv_check_options options = {.seed = 1, .fault = fault, .fault_op = QKV_OP_scale};
    struct qkv_check_report report RELEASED(qkv_check_release) = {0};
    expect_done(qkv_check_graph(&report, "kinks", graph, y, &options, &error));
    int64_t failures = report.failures;
    return failures;
}

Test(ops, kinks_on_both_sides_are_not_taken_for_the_slope)
{
    cr_expect_eq(failures_between_kinks(QKV_FAULT_NONE), 0);
    cr_expect_gt(failures_between_kinks(QKV_FAULT_FACTOR), 0);
}
