/* All samples of all ops and layers, with the kernels of every instruction set, float32 against float64, and with an
 * inaccessible page behind every allocation of the graphs: an access behind a tensor, what a node saves or its workspace
 * ends the program. */

#include "numbers.h"

#include <signal.h>

/* One element of each tensor: accesses are the same for all, and derivatives are in float64, of which there is one variant. */
static const struct qkv_check_options OPTIONS = {.seed = 1, .sample = 1};

/* Checks the ops, or the layers, from the first to the last one. */
static void check_all(bool layers, int first, int last)
{
    qkv_arena_guard(true);
    for (int i = first * VARIANT_COUNT; i < (last + 1) * VARIANT_COUNT; i++) {
        if (is_left_out(i)) continue;
        const char *variant = VARIANTS[i % VARIANT_COUNT];
        const int subject = i / VARIANT_COUNT;
        struct qkv_check_report report RELEASED(qkv_check_release) = {0};
        setenv("QKV_KERNELS", variant, 1);
        expect_done(layers ? qkv_check_layer(&report, (enum qkv_layer_id)subject, &OPTIONS, &error)
                           : qkv_check_op(&report, (enum qkv_op_id)subject, &OPTIONS, &error));
        cr_expect_gt(report.count, 0);
        for (int64_t row = 0; row < report.count; row++)
            cr_expect_null(report.rows[row].failure, "%s, %s, %s: %s", variant, report.rows[row].subject,
                           report.rows[row].tensor, report.rows[row].failure);
    }
}

Test(guard, ops_stay_within_their_memory)
{
    check_all(false, QKV_OP_leaf + 1, QKV_OP_COUNT - 1);
}

Test(guard, layers_stay_within_their_memory)
{
    check_all(true, 0, QKV_LAYER_COUNT - 1);
}

/* A variable of family 1. */
static struct qkv_tensor *variable(struct qkv_graph *graph, int64_t rows, int64_t columns)
{
    return fill(qkv_variable(graph, QKV_SHAPE(rows, columns)), 1);
}

/* Losses whose rows and classes are cut into several blocks and tiles, which is too slow for differences. */
Test(guard, blocks_of_losses_stay_within_their_memory)
{
    enum { ROWS = 19, CLASSES = 32700 };
    static const int32_t labels[ROWS] = {2, 0, CLASSES - 1, 511, 512};
    qkv_arena_guard(true);
    for (int i = 0; i < 4 * VARIANT_COUNT; i++) { /* each in a graph of its own, as nodes share workspace */
        setenv("QKV_KERNELS", VARIANTS[i / 4], 1);
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(i / 2 % 2 ? QKV_FLOAT64 : QKV_FLOAT32);
        struct qkv_tensor *x = variable(graph, ROWS, 1), *w = variable(graph, 1, CLASSES);
        struct qkv_tensor *y = i % 2 ? qkv_paired_cross_entropy(graph, x, variable(graph, ROWS, 1), w, NULL,
                                                                false, labels, 0.1, 3, false, 0.1)
                                     : qkv_linear_cross_entropy(graph, x, w, NULL, false, labels, 0.1, 0.1);
        double loss;
        qkv_forward(graph);
        qkv_backward(graph, y, NULL);
        qkv_tensor_read(y, &loss);
        cr_expect(isfinite(loss), "%g", loss);
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
