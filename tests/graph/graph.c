/* The graph: errors that stick, scopes, gradients and where they flow, and dropout. */
#include "framework/engine/core/numbers.h"
#include "framework/engine/graph/internal.h"
#include "one_graph.h"

TestSuite(graph, .init = make_graph, .fini = end_graph);

/* ---- errors ---- */

Test(graph, the_first_error_sticks_with_op_scope_and_both_shapes)
{
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(2, 3)), *y = qkv_variable(graph, QKV_SHAPE(4, 3));
    const char *outer = qkv_graph_scope(graph, "encoder.1.self");
    cr_expect_eq(qkv_graph_check(graph, NULL), QKV_OK);
    cr_expect_null(qkv_add(graph, x, y));
    qkv_graph_scope(graph, outer);
    cr_expect_eq(qkv_graph_check(graph, NULL), QKV_INVALID);
    char first[sizeof(struct qkv_error)];
    strcpy(first, graph_error());
    cr_expect(shows(first, "add (encoder.1.self): ") && shows(first, "[2, 3]") && shows(first, "[4, 3]"));

    /* From now on everything gives NULL and accepts NULL, and the sentence stays. */
    cr_expect_null(qkv_matmul(graph, x, y, false, false));
    cr_expect_null(qkv_relu(graph, NULL));
    cr_expect_null(qkv_relu(graph, x));
    cr_expect_null(qkv_constant(graph, QKV_SHAPE(2)));
    cr_expect_null(qkv_variable(graph, QKV_SHAPE(0)));
    cr_expect_null(qkv_graph_fail(graph, "something else"));
    run_graph(NULL);
    cr_expect_str_eq(graph_error(), first);

    qkv_graph_reset(graph);
    cr_expect_eq(qkv_graph_check(graph, NULL), QKV_OK);
    cr_expect_not_null(qkv_variable(graph, QKV_SHAPE(2, 3)));
}

Test(graph, what_cannot_be_is_refused_by_name)
{
    struct qkv_graph *other RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    struct qkv_tensor *foreign = qkv_variable(other, QKV_SHAPE(2));
    cr_expect_null(qkv_relu(graph, NULL));
    cr_expect_str_eq(graph_error(), "relu: x is NULL");

    qkv_graph_reset(graph);
    cr_expect_null(qkv_add(graph, qkv_variable(graph, QKV_SHAPE(2)), foreign));
    cr_expect_str_eq(graph_error(), "add: b belongs to another graph");

    qkv_graph_reset(graph);
    cr_expect_null(qkv_graph_fail(graph, "a layer says %d", 3));
    cr_expect_str_eq(graph_error(), "a layer says 3");
}

/* ---- names ---- */

Test(graph, scopes_name_the_nodes_made_within)
{
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(2)), *bare = qkv_relu(graph, x);
    cr_expect_null(qkv_graph_scope(graph, "outer"));
    struct qkv_tensor *first = qkv_relu(graph, x);
    const char *before = qkv_graph_scope(graph, "inner");
    cr_expect_str_eq(before, "outer");
    struct qkv_tensor *second = qkv_tanh(graph, x);
    cr_expect_str_eq(qkv_graph_scope(graph, before), "inner");
    struct qkv_tensor *third = qkv_relu(graph, x);
    cr_expect_str_eq(qkv_tensor_name(bare), "relu", "without a scope: the op");
    cr_expect_str_eq(qkv_tensor_name(first), "outer");
    cr_expect_str_eq(qkv_tensor_name(second), "inner");
    cr_expect_str_eq(qkv_tensor_op(second), "tanh");
    cr_expect_str_eq(qkv_tensor_name(third), "outer");
    cr_expect_str_eq(qkv_tensor_op(x), "leaf");
}

/* ---- values ---- */

Test(graph, tensors_start_at_zero_and_convert)
{
    struct qkv_graph *single RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    double values[3] = {1.0 / 3, -2, 1e300}, found[3];
    struct qkv_tensor *x = qkv_constant(single, QKV_SHAPE(3)), *y = qkv_variable(graph, QKV_SHAPE(3));
    expect_values(x, (double[]){0, 0, 0});
    qkv_tensor_write(x, values);
    qkv_tensor_read(x, found);
    cr_expect_eq(found[0], (double)(1.0f / 3));
    cr_expect_eq(found[1], -2);
    cr_expect(isinf(found[2]));
    cr_expect_eq(qkv_tensor_scalar(x), (double)(1.0f / 3));
    qkv_tensor_write(y, values);
    qkv_tensor_read(y, found);
    cr_expect_arr_eq(found, values, sizeof values);
    cr_expect_eq(qkv_graph_dtype(single), QKV_FLOAT32);
    cr_expect_eq(qkv_tensor_shape(y).rank, 1);
    cr_expect_eq(qkv_tensor_shape(y).size[0], 3);
}

Test(graph, forward_computes_what_was_recorded_since)
{
    struct qkv_tensor *x = variable_of(1, (double[]){3}), *y = qkv_scale(graph, x, 2);
    qkv_forward(graph);
    cr_expect_eq(qkv_tensor_scalar(y), 6);
    qkv_tensor_write(x, (double[]){100});
    struct qkv_tensor *z = qkv_scale(graph, y, 10);
    qkv_forward(graph);
    cr_expect_eq(qkv_tensor_scalar(y), 6, "computed once");
    cr_expect_eq(qkv_tensor_scalar(z), 60);
    qkv_forward(graph);
    cr_expect_eq(qkv_tensor_scalar(z), 60);
}

Test(graph, the_first_tensor_that_is_not_finite_is_found)
{
    struct qkv_tensor *x = variable_of(3, (double[]){1, 0, 2});
    qkv_graph_scope(graph, "fine");
    struct qkv_tensor *fine = qkv_exp(graph, x);
    qkv_graph_scope(graph, "broken");
    struct qkv_tensor *broken = qkv_log(graph, x);
    qkv_graph_scope(graph, "later");
    qkv_add(graph, fine, broken);
    cr_expect_null(qkv_graph_find_not_finite(graph), "nothing is computed yet");
    qkv_forward(graph);
    cr_expect_eq(qkv_graph_find_not_finite(graph), broken);
    qkv_graph_reset(graph);
    x = variable_of(2, (double[]){1, NAN});
    qkv_scale(graph, x, 2);
    qkv_forward(graph);
    cr_expect_eq(qkv_graph_find_not_finite(graph), x);
    qkv_tensor_write(x, (double[]){1, 2});
    qkv_graph_reset(graph);
    x = variable_of(2, (double[]){1, 2});
    qkv_forward(graph);
    cr_expect_null(qkv_graph_find_not_finite(graph));
}

/* ---- gradients ---- */

Test(graph, backward_starts_at_any_node)
{
    struct qkv_tensor *x = variable_of(2, (double[]){1, 2}), *other = variable_of(2, (double[]){5, 7});
    struct qkv_tensor *y = qkv_scale(graph, x, 3), *z = qkv_multiply(graph, y, other);
    run_graph(z);
    expect_gradient(x, (double[]){15, 21});
    expect_gradient(other, (double[]){3, 6});
    expect_gradient(y, (double[]){5, 7});
    expect_gradient(z, (double[]){1, 1});
    qkv_backward(graph, y, NULL);
    expect_gradient(x, (double[]){3, 3});
    expect_gradient(other, (double[]){0, 0}); /* nothing flows there */
    expect_gradient(z, (double[]){0, 0});
    qkv_backward(graph, x, (double[]){4, 5});
    expect_gradient(x, (double[]){4, 5});
    expect_gradient(y, (double[]){0, 0});
}

Test(graph, constants_and_graphs_without_gradients_keep_none)
{
    struct qkv_tensor *c = qkv_constant(graph, QKV_SHAPE(2)), *x = qkv_variable(graph, QKV_SHAPE(2));
    cr_expect_null(qkv_tensor_gradient(c));
    cr_expect_null(qkv_tensor_gradient(qkv_relu(graph, c)));
    cr_expect_not_null(qkv_tensor_gradient(x));
    cr_expect_not_null(qkv_tensor_gradient(qkv_add(graph, c, x)));
    qkv_graph_set_gradients(graph, false);
    struct qkv_tensor *still = qkv_variable(graph, QKV_SHAPE(2)), *y = qkv_relu(graph, still);
    cr_expect_null(qkv_tensor_gradient(still));
    cr_expect_null(qkv_tensor_gradient(y));
    run_graph(y); /* goes nowhere */
    expect_gradient(x, (double[]){0, 0});
    qkv_graph_reset(graph);
    cr_expect_null(qkv_tensor_gradient(qkv_variable(graph, QKV_SHAPE(2))), "settings survive a reset");
}

/* ---- dropout ---- */

enum { MANY = 40000 };

/* What dropout of the given node (from 0) leaves of ones. */
static void drop(const struct qkv_random *random, int node, double rate, double *values)
{
    static double ones[MANY];
    for (int i = 0; i < MANY; i++) ones[i] = 1;
    qkv_graph_reset(graph);
    qkv_graph_set_dropout(graph, random);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(MANY)), *y = NULL;
    qkv_tensor_write(x, ones);
    for (int i = 0; i <= node; i++) y = qkv_dropout(graph, x, rate);
    qkv_forward(graph);
    qkv_tensor_read(y, values);
}

Test(graph, inference_has_no_dropout)
{
    static double mask[MANY];
    drop(NULL, 0, 0.4, mask);
    cr_expect(!qkv_graph_has_dropout(graph));
    for (int i = 0; i < MANY; i++) cr_assert_eq(mask[i], 1);
}

/* Masks depend on seed, step and number of the node alone, and not on the stream of the caller. */
Test(graph, dropout_masks_are_those_of_the_generator_in_every_instruction_set)
{
    static double mask[MANY];
    static const char *const variants[] = {"portable", "avx2", "avx512"};
    static const double rates[] = {0, 0.1, 0.3, 0.9};
    const struct qkv_random random = {.seed = 0x123456789abcdef, .step = 3, .stream = 9};
    for (int c = 0; c < 24; c++) {
        const double rate = rates[c / 6];
        const uint32_t node = (uint32_t)c / 3 % 2;
        setenv("QKV_KERNELS", variants[c % 3], 1);
        qkv_graph_free(graph);
        graph = qkv_graph_new(QKV_FLOAT64);
        drop(&random, (int)node, rate, mask);
        cr_expect(qkv_graph_has_dropout(graph));
        for (int64_t i = 0; i < MANY; i++) {
            /* Element i is a word of block i / 128 * 16 + i % 16: see framework/engine/kernels/kernel.h. */
            uint32_t words[4];
            struct qkv_random stream = random;
            stream.stream = QKV_STREAM_DROPOUT | node << 8;
            qkv_random_block(stream, (uint64_t)(i / 128 * 16 + i % 16), words);
            int64_t word = i % 128 / 16;
            bool kept = (words[word / 2] >> (word % 2 ? 16 : 0) & 0xFFFF) >= (uint32_t)round(rate * 65536);
            cr_assert_eq(mask[i] > 0, kept, "%s, rate %g, element %d", variants[c % 3], rate, (int)i);
            cr_assert(!kept || fabs(mask[i] * (1 - rate) - 1) < 2e-4, "rate %g: %.17g", rate, mask[i]);
        }
    }
    unsetenv("QKV_KERNELS");
}

enum { WIDE = 5, WIDE_ROWS = 8000 };

/* The mask of rows is that of as many elements. */
Test(graph, dropout_of_rows_drops_complete_rows)
{
    static double mask[MANY], ones[MANY], values[WIDE_ROWS * WIDE], gradient[WIDE_ROWS * WIDE];
    const struct qkv_random random = {.seed = 5, .step = 1};
    drop(&random, 0, 0.4, mask);
    for (int i = 0; i < MANY; i++) ones[i] = 1;
    for (int drops = 0; drops < 2; drops++) {
        qkv_graph_reset(graph);
        qkv_graph_set_dropout(graph, drops ? &random : NULL);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(WIDE_ROWS / 4, 4, WIDE)),
                          *y = qkv_dropout_rows(graph, x, 0.4);
        qkv_tensor_write(x, ones);
        run_graph(y);
        qkv_tensor_read(y, values);
        qkv_tensor_read_gradient(x, gradient);
        for (int i = 0; i < WIDE_ROWS * WIDE; i++)
            cr_assert(values[i] == (drops ? mask[i / WIDE] : 1) && gradient[i] == values[i],
                      "row %d: %g, gradient %g", i / WIDE, values[i], gradient[i]);
    }
}
