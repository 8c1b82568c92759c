/* Every op, through the samples that it carries. */
#include "qkv/gradcheck.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static void run_check(enum qkv_op_id op, enum qkv_fault fault, int64_t sample,
                      struct qkv_check_report *report)
{
    struct qkv_error error = {""};
    struct qkv_check_options options = {.seed = 1, .fault = fault, .fault_op = op, .sample = sample};
    cr_assert_eq(qkv_check_op(report, op, &options, &error), QKV_OK, "%s", error.message);
}

static void expect_agreement(int64_t sample)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
        struct qkv_check_report report = {0};
        run_check((enum qkv_op_id)op, QKV_FAULT_NONE, sample, &report);
        cr_expect_gt(report.count, 0);
        for (int64_t i = 0; i < report.count; i++)
            cr_expect_null(report.rows[i].failure, "%s, %s [%lld]: %s (analytic %.17g, numeric %.17g)",
                           report.rows[i].subject, report.rows[i].tensor, (long long)report.rows[i].worst,
                           report.rows[i].failure, report.rows[i].analytic, report.rows[i].numeric);
        qkv_check_release(&report);
    }
}

Test(ops, gradients_agree_with_differences)
{
    expect_agreement(0);
}

Test(ops, gradients_agree_with_the_kernels_of_every_instruction_set)
{
    static const char *const variants[] = {"portable", "avx2", "avx512"};
    for (int i = 0; i < 3; i++) {
        setenv("QKV_KERNELS", variants[i], 1);
        expect_agreement(32);
    }
    unsetenv("QKV_KERNELS");
}

/* Looked for in a sample of the elements, as in a check of a whole model. */
Test(ops, every_planted_fault_is_caught)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
        if (op == QKV_OP_store_rows) continue; /* has no backward function */
        for (int fault = QKV_FAULT_NONE + 1; fault <= QKV_FAULT_OFFSET; fault++) {
            struct qkv_check_report report = {0};
            run_check((enum qkv_op_id)op, (enum qkv_fault)fault, 16, &report);
            cr_expect_gt(report.failures, 0, "%s with fault %s passes", qkv_op_name((enum qkv_op_id)op),
                         qkv_fault_name((enum qkv_fault)fault));
            qkv_check_release(&report);
        }
    }
}

static bool declaration_fault_is_caught(enum qkv_op_id op, enum qkv_fault fault, bool *planted)
{
    struct qkv_check_report report = {0};
    run_check(op, fault, 1, &report);
    bool caught = report.failures > 0;
    *planted = report.fault_calls > 0;
    qkv_check_release(&report);
    return caught;
}

/* Every op whose backward reads values must declare them, and say truly where its result is stored. */
Test(ops, wrong_declarations_are_caught)
{
    static const enum qkv_fault faults[] = {QKV_FAULT_READS, QKV_FAULT_ALIAS};
    int planted[2] = {0};
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++)
        for (int f = 0; f < 2; f++) {
            bool changed, caught = declaration_fault_is_caught((enum qkv_op_id)op, faults[f], &changed);
            planted[f] += changed;
            cr_expect_eq(caught, changed, "%s with fault %s", qkv_op_name((enum qkv_op_id)op),
                         qkv_fault_name(faults[f]));
        }
    cr_expect_gt(planted[0], 20);
    cr_expect_eq(planted[1], QKV_OP_COUNT - 1);
}

/* Ops that do not work in place; others than these may, without being elementwise. */
Test(ops, false_elementwise_is_caught)
{
    static const enum qkv_op_id ops[] = {QKV_OP_softmax, QKV_OP_log_softmax, QKV_OP_permute, QKV_OP_embedding,
                                         QKV_OP_attention};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        bool changed;
        cr_expect(declaration_fault_is_caught(ops[i], QKV_FAULT_ELEMENTWISE, &changed), "%s",
                  qkv_op_name(ops[i]));
        cr_expect(changed);
    }
}

/* A gradient that is off by a thousandth in float32 alone, while all values agree: rounding is no excuse. */
Test(ops, float32_that_differs_is_refused)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        struct qkv_check_report report = {0};
        struct qkv_graph *float32 = qkv_graph_new(QKV_FLOAT32), *float64 = qkv_graph_new(QKV_FLOAT64);
        struct qkv_tensor *a = qkv_scale(float32, qkv_variable(float32, QKV_SHAPE(3)), wrong ? 1.001 : 1),
                          *b = qkv_scale(float64, qkv_variable(float64, QKV_SHAPE(3)), 1);
        const struct qkv_precision_pair pair = {a, b, NULL, QKV_FLOAT32_BOUND};
        cr_assert_eq(qkv_check_precision(&report, "scale", &pair, 1, NULL), QKV_OK);
        cr_expect_eq(report.failures, wrong);
        qkv_check_release(&report);
        qkv_graph_free(float32);
        qkv_graph_free(float64);
    }
}

/* Rows of y = x + relu(x - a) - relu(b - x) that fail at an x between a and b, so near to both that only the
 * smallest steps stay there; further out the slope is 2, and the two bends cancel. */
static int64_t failures_between_kinks(enum qkv_fault fault)
{
    const double x0 = 0.25, near = 3e-7;
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(1)), *above = qkv_constant(graph, QKV_SHAPE(1)),
                      *below = qkv_constant(graph, QKV_SHAPE(1));
    qkv_tensor_write(x, &x0);
    qkv_tensor_write(above, (double[]){x0 + near});
    qkv_tensor_write(below, (double[]){x0 - near});
    struct qkv_tensor *bent = qkv_subtract(graph, qkv_relu(graph, qkv_subtract(graph, x, above)),
                                           qkv_relu(graph, qkv_subtract(graph, below, x)));
    struct qkv_tensor *y = qkv_add(graph, qkv_scale(graph, x, 1), bent);
    const struct qkv_check_options options = {.seed = 1, .fault = fault, .fault_op = QKV_OP_scale};
    struct qkv_check_report report = {0};
    struct qkv_error error = {""};
    cr_assert_eq(qkv_check_graph(&report, "kinks", graph, y, &options, &error), QKV_OK, "%s", error.message);
    int64_t failures = report.failures;
    qkv_check_release(&report);
    qkv_graph_free(graph);
    return failures;
}

Test(ops, kinks_on_both_sides_are_not_taken_for_the_slope)
{
    cr_expect_eq(failures_between_kinks(QKV_FAULT_NONE), 0);
    cr_expect_gt(failures_between_kinks(QKV_FAULT_FACTOR), 0);
}
