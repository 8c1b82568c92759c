/* All samples of all ops and layers, with an inaccessible page behind every allocation of the graphs: an access behind
 * a tensor, what a node saves or its workspace ends the program. QKV_KERNELS chooses the instruction set (nightly.sh
 * runs all). */
#include "qkv/gradcheck.h"

#include "support.h"

#include <criterion/criterion.h>
#include <signal.h>

enum { SAMPLE = 1 }; /* elements per tensor whose gradient is checked: the accesses are the same for all */

static void expect_no_failure(struct qkv_check_report *report)
{
    cr_expect_gt(report->count, 0);
    for (int64_t i = 0; i < report->count; i++)
        cr_expect_null(report->rows[i].failure, "%s, %s: %s", report->rows[i].subject, report->rows[i].tensor,
                       report->rows[i].failure);
    qkv_check_release(report);
}

Test(guard, ops_stay_within_their_memory)
{
    const struct qkv_check_options options = {.seed = 1, .sample = SAMPLE};
    struct qkv_error error = {""};
    qkv_arena_guard(true);
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
        if (is_left_out(op)) continue;
        struct qkv_check_report report = {0};
        cr_assert_eq(qkv_check_op(&report, (enum qkv_op_id)op, &options, &error), QKV_OK, "%s",
                     error.message);
        expect_no_failure(&report);
    }
}

Test(guard, layers_stay_within_their_memory)
{
    const struct qkv_check_options options = {.seed = 1, .sample = SAMPLE};
    struct qkv_error error = {""};
    qkv_arena_guard(true);
    for (int layer = 0; layer < QKV_LAYER_COUNT; layer++) {
        if (is_left_out(layer)) continue;
        struct qkv_check_report report = {0};
        cr_assert_eq(qkv_check_layer(&report, (enum qkv_layer_id)layer, &options, &error), QKV_OK, "%s",
                     error.message);
        expect_no_failure(&report);
    }
}

/* What the guard is for: a tensor read one number too far. */
Test(guard, a_read_behind_a_tensor_ends_the_program, .signal = SIGSEGV)
{
    signal(SIGSEGV, SIG_DFL); /* sanitizers would report the crash as their own finding */
    qkv_arena_guard(true);
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *y = qkv_relu(graph, qkv_constant(graph, QKV_SHAPE(3, 5)));
    qkv_forward(graph);
    volatile const float *value = qkv_tensor_value(y);
    cr_assert_eq(value[14], 0);
    (void)value[15];
}
