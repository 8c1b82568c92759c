/* Every op, through the samples that it carries. */
#include "qkv/gradcheck.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

/* Faults are looked for in a sample of the elements, as in a check of a whole model. */
static void run_check(enum qkv_op_id op, enum qkv_fault fault, struct qkv_check_report *report)
{
    struct qkv_error error = {""};
    struct qkv_check_options options = {.seed = 1, .fault = fault, .fault_op = op, .sample = fault ? 16 : 0};
    cr_assert_eq(qkv_check_op(report, op, &options, &error), QKV_OK, "%s", error.message);
}

Test(ops, gradients_agree_with_differences)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
        struct qkv_check_report report = {0};
        run_check((enum qkv_op_id)op, QKV_FAULT_NONE, &report);
        cr_expect_gt(report.count, 0);
        for (int64_t i = 0; i < report.count; i++)
            cr_expect_null(report.rows[i].failure, "%s, %s [%lld]: %s (analytic %.17g, numeric %.17g)",
                           report.rows[i].subject, report.rows[i].tensor, (long long)report.rows[i].worst,
                           report.rows[i].failure, report.rows[i].analytic, report.rows[i].numeric);
        qkv_check_release(&report);
    }
}

Test(ops, every_planted_fault_is_caught)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
        if (op == QKV_OP_store_rows) continue; /* has no gradient to spoil */
        for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++) {
            struct qkv_check_report report = {0};
            run_check((enum qkv_op_id)op, (enum qkv_fault)fault, &report);
            cr_expect_gt(report.failures, 0, "%s with fault %s passes", qkv_op_name((enum qkv_op_id)op),
                         qkv_fault_name((enum qkv_fault)fault));
            qkv_check_release(&report);
        }
    }
}
