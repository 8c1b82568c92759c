/* Wrong calls of a graph: each ends in the graph's error and touches no memory that it must not. */
#include "framework/engine/graph/internal.h"
#include "one_graph.h"
#include "parameters.h"

#include <limits.h>

TestSuite(misuse, .init = make_graph, .fini = end_graph);

/* ---- detach ---- */

Test(misuse, detach_stops_the_gradient_also_where_tensors_share_memory)
{
    for (int share = 0; share < 2; share++) {
        qkv_graph_reset(graph);
        qkv_graph_share_memory(graph, share);
        struct qkv_tensor *x = variable_of(2, (double[]){3, 4}), *square = qkv_multiply(graph, x, x);
        struct qkv_tensor *factor = qkv_detach(graph, square);
        struct qkv_tensor *y =
            qkv_multiply(graph, factor, qkv_scale(graph, square, 10)); /* 10 x^2 detached(x^2) */
        qkv_graph_plan(graph, y);
        run_graph(y);
        expect_no_graph_error(graph);
        expect_values(y, (double[]){810, 2560});
        expect_gradient(x, (double[]){10 * 9 * 2 * 3, 10 * 16 * 2 * 4});
        cr_expect_null(qkv_tensor_gradient(factor));
    }
}

/* ---- the order of calls ---- */

Test(misuse, dropout_stays_as_it_was_when_the_graph_was_built)
{
    const struct qkv_random random = {.seed = 1}, other = {.seed = 2};
    struct qkv_tensor *y = qkv_dropout(graph, variable_of(2, (double[]){1, 1}), 0.5);
    qkv_graph_set_dropout(graph, NULL); /* as it is */
    expect_no_graph_error(graph);
    qkv_graph_set_dropout(graph, &random);
    run_graph(y);
    expect_graph_error(graph, "dropout cannot be turned on");

    qkv_graph_set_dropout(graph, &random);
    y = qkv_dropout(graph, variable_of(2, (double[]){1, 1}), 0.5);
    qkv_graph_set_dropout(graph, &other); /* nothing has run */
    run_graph(y);
    expect_no_graph_error(graph);
    qkv_graph_set_dropout(graph, &random);
    qkv_backward(graph, y, NULL);
    expect_graph_error(graph, "the seed of dropout cannot change after qkv_forward");
    qkv_variable(graph, QKV_SHAPE(2));
    qkv_graph_set_dropout(graph, NULL);
    expect_graph_error(graph, "dropout cannot be turned off");
}

Test(misuse, a_graph_that_shares_memory_is_planned_once_and_at_its_end)
{
    double values[2] = {7, 7};
    qkv_graph_share_memory(graph, true);
    struct qkv_tensor *x = variable_of(2, (double[]){1, 2}), *y = qkv_relu(graph, x);
    run_graph(y);
    qkv_tensor_read(y, values);
    cr_expect(isnan(values[0]) && isnan(values[1]));
    cr_expect(isnan(qkv_tensor_scalar(y)));
    qkv_tensor_write(y, values);
    cr_expect_null(qkv_graph_find_not_finite(graph));
    expect_graph_error(graph, "needs qkv_graph_plan first");

    y = qkv_relu(graph, qkv_variable(graph, QKV_SHAPE(2)));
    qkv_tensor_read_gradient(y, values);
    cr_expect(isnan(values[0]));
    expect_graph_error(graph, "relu (relu) keeps no gradient");

    x = qkv_relu(graph, qkv_variable(graph, QKV_SHAPE(2)));
    y = qkv_relu(graph, x);
    qkv_graph_plan(graph, y);
    run_graph(x);
    expect_graph_error(graph, "start from the tensor that qkv_graph_plan was called for");

    y = qkv_relu(graph, qkv_variable(graph, QKV_SHAPE(2)));
    qkv_graph_plan(graph, y);
    qkv_graph_plan(graph, y);
    expect_graph_error(graph, "qkv_graph_plan: it was called already");

    y = qkv_relu(graph, qkv_variable(graph, QKV_SHAPE(2)));
    qkv_graph_plan(graph, y);
    expect_no_node(qkv_softmax(graph, y), "softmax: no tensor can be added after qkv_graph_plan");

    qkv_variable(graph, QKV_SHAPE(2));
    qkv_graph_share_memory(graph, false);
    expect_graph_error(graph, "qkv_graph_share_memory: the graph already holds tensors");
}

Test(misuse, backward_needs_a_tensor_of_the_graph_that_forward_has_computed)
{
    struct qkv_graph *other RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    struct qkv_tensor *foreign = qkv_relu(other, qkv_variable(other, QKV_SHAPE(2)));
    qkv_backward(graph, foreign, NULL);
    expect_graph_error(graph, "belongs to another graph");
    qkv_graph_share_memory(graph, true);
    qkv_graph_plan(graph, foreign);
    expect_graph_error(graph, "belongs to another graph");
    qkv_graph_plan(graph, NULL);
    expect_graph_error(graph, "qkv_graph_plan: y is NULL");
    qkv_graph_share_memory(graph, false);
    qkv_backward(graph, NULL, NULL);
    expect_graph_error(graph, "qkv_backward: y is NULL");

    struct qkv_tensor *x = variable_of(2, (double[]){1, 2}), *square = qkv_multiply(graph, x, x);
    for (int update = 0; update < 3; update++) { /* the last one forgets to rewind */
        qkv_tensor_write(x, (double[]){update, 2});
        if (update == 1) qkv_graph_rewind(graph);
        qkv_forward(graph);
        qkv_tensor_write(qkv_variable(graph, QKV_SHAPE(1)), (double[]){7}); /* which no forward has read */
        qkv_backward(graph, square, NULL);
        if (update == 2) break;
        expect_no_graph_error(graph);
        expect_gradient(x, (double[]){2 * update, 4});
    }
    expect_graph_error(
        graph, "a leaf has been written since qkv_forward: reset the graph, or call qkv_graph_rewind");

    struct qkv_tensor *y = qkv_relu(graph, variable_of(2, (double[]){1, 2}));
    qkv_backward(graph, y, NULL);
    expect_graph_error(graph, "qkv_forward has not computed the tensor");
    y = qkv_relu(graph, variable_of(2, (double[]){1, 2}));
    qkv_forward(graph);
    struct qkv_tensor *z = qkv_scale(graph, y, 2);
    qkv_backward(graph, y, NULL);
    expect_no_graph_error(graph);
    qkv_backward(graph, z, NULL);
    expect_graph_error(graph, "qkv_forward has not computed the tensor");
    y = qkv_relu(graph, variable_of(2, (double[]){1, 2}));
    qkv_forward(graph);
    qkv_graph_rewind(graph);
    qkv_backward(graph, y, NULL);
    expect_graph_error(graph, "qkv_forward has not computed the tensor");
}

/* ---- arrays of the caller ---- */

Test(misuse, arrays_that_change_after_the_call_change_nothing_until_the_graph_is_rewound)
{
    int32_t ids[3] = {0, 1, 1};
    struct qkv_tensor *table = qkv_variable(graph, QKV_SHAPE(2, 1));
    qkv_tensor_write(table, (double[]){10, 20});
    struct qkv_tensor *y = qkv_embedding(graph, table, ids, 3, 1);
    ids[0] = 1000000;
    qkv_forward(graph);
    expect_values(y, (double[]){10, 20, 20});
    qkv_backward(graph, y, NULL);
    expect_gradient(table, (double[]){1, 2});
    expect_no_graph_error(graph);
    ids[0] = 1;
    qkv_graph_rewind(graph);
    qkv_forward(graph);
    ids[0] = -1000000;
    expect_values(y, (double[]){20, 20, 20});
    qkv_backward(graph, y, NULL);
    expect_gradient(table, (double[]){0, 3});
    expect_no_graph_error(graph);
    qkv_graph_rewind(graph);
    run_graph(y);
    expect_graph_error(graph, "embedding: id 0 is -1000000, but must lie in 0 to 1");
}

/* The arrays of two sentences, which a graph that is rewound reads again. */
static struct rewound {
    int64_t start[2], length[2], first[2];
    int32_t numbers[13];
} arrays;

enum built { EXACT, FLASH, WINDOW, SCORES, MIXED, ARRANGED, RECURRENT, PLACED };

static struct qkv_tensor *build_of_arrays(enum built built)
{
    const struct qkv_segments segments = {2, arrays.start, arrays.length};
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(8, 2)),
                      *square = qkv_variable(graph, QKV_SHAPE(2, 2)),
                      *table = qkv_variable(graph, QKV_SHAPE(5, 2)), *y = NULL;
    struct qkv_attention attention = {.rule.heads = 1, .queries = segments, .keys = segments};
    if (built == EXACT || built == FLASH || built == WINDOW) {
        attention.rule.kernel = built == FLASH ? QKV_KERNEL_FLASH : QKV_KERNEL_EXACT;
        attention.rule.window = built == WINDOW;
        y = qkv_attention(graph, x, x, x, NULL, attention);
    }
    if (built == SCORES || built == MIXED) y = qkv_attention_scores(graph, x, x, attention);
    if (built == MIXED)
        y = qkv_attention_mix(graph, qkv_attention_weights(graph, y, NULL, attention), x, attention);
    if (built == ARRANGED)
        y = qkv_attention_arrange(graph, qkv_variable(graph, QKV_SHAPE(13)), arrays.numbers, attention);
    if (built == RECURRENT) y = qkv_rnn(graph, x, square, NULL, segments, false);
    if (built == PLACED) y = qkv_add_positions(graph, x, table, segments, arrays.first);
    return y;
}

/* Results keep their shapes, as their readers expect, and need no more memory. A graph that has failed costs nothing, also
 * where the pairs of a window are counted one by one. */
Test(misuse, a_rewound_graph_checks_its_arrays_again)
{
    static const struct rewound BEFORE = {{0, 3}, {3, 2}, {0}, {0}};
    static const struct {
        enum built built;
        struct rewound after;
        const char *message; /* NULL: it runs */
    } CASES[] = {
        {EXACT, {{0, 4}, {1, 2}}, NULL},
        {EXACT, {{0, 3}, {3, 1 << 30}}, "segment 1 of "},
        {EXACT, {{0, 0}, {0, 8}}, "the segments need more memory than those that the op was called with"},
        {FLASH, {{0, 4}, {1, 2}}, NULL},
        {FLASH, {{0, 3}, {3, 1 << 30}}, "segment 1 of "},
        {FLASH, {{0, 0}, {0, 8}}, "the segments need more memory than those that the op was called with"},
        {WINDOW, {{0, 3}, {3, INT64_MAX / 2}}, "segment 1 of "},
        {SCORES, {{0, 3}, {3, 1}}, "another shape than when the op was called"},
        {SCORES, {{0, 3}, {3, INT64_MAX / 2}}, "segment 1 of "},
        {MIXED, {{0, 2}, {2, 3}}, NULL},
        {MIXED, {{0, 3}, {3, 4}}, "another shape than"},
        {MIXED, {{0, 3}, {3, 1}}, "another shape than"},
        {ARRANGED, LIST({0, 3}, {3, 1}, .numbers = {[12] = 100000000}),
         "another shape than when the op was called"},
        {RECURRENT, {{0, 3}, {3, 100000}}, "segment 1 of gates"},
        {PLACED, {{0, 3}, {3, 2}, {0, 3}}, NULL},
        {PLACED, {{0, 3}, {3, 2}, {0, 100000}}, "but the table has 5"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        arrays = BEFORE;
        struct qkv_tensor *y = build_of_arrays(CASES[i].built);
        arrays = (struct rewound){{0, 1 << 30}, {3, 1 << 30}, {100000}, {0}}; /* which nobody reads yet */
        run_graph(y);
        expect_no_graph_error(graph);
        arrays = CASES[i].after;
        qkv_graph_rewind(graph);
        run_graph(y);
        if (!CASES[i].message) {
            expect_no_graph_error(graph);
            qkv_graph_reset(graph);
            continue;
        }
        cr_expect_eq(qkv_tensor_cost(y, false).operations, 0, "case %d", (int)i);
        expect_graph_error(graph, CASES[i].message);
    }
}

/* ---- arguments ---- */

Test(misuse, shapes_ops_and_precisions_that_do_not_exist_are_refused)
{
    const struct qkv_shape none = {0}, many = {.rank = 1000, .size = {1}}, negative = {.rank = INT_MIN};
    const struct qkv_shape shapes[] = {none, many, negative};
    const struct qkv_shape sizes[] = {QKV_SHAPE(0), QKV_SHAPE(3, 0), QKV_SHAPE(-2, -2), QKV_SHAPE(INT64_MAX),
                                      QKV_SHAPE((int64_t)1 << 32, (int64_t)1 << 32)};
    for (int i = 0; i < 5; i++) expect_no_node(qkv_variable(graph, sizes[i]), "a tensor cannot have shape [");
    cr_expect_null(qkv_graph_new((enum qkv_dtype)9));
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(qkv_shape_count(shapes[i]), i == 0 ? 1 : 0);
        expect_no_node(qkv_constant(graph, shapes[i]), "a tensor cannot have shape");
        expect_no_node(qkv_reshape(graph, qkv_variable(graph, QKV_SHAPE(1)), shapes[i]), "reshape: ");
        expect_no_node(qkv_broadcast(graph, qkv_variable(graph, QKV_SHAPE(1)), shapes[i]), "broadcast: ");
    }
    expect_no_node(qkv_variable(graph, QKV_SHAPE((int64_t)1 << 41)),
                   "a tensor cannot have shape [2199023255552]: it must have at most 2^40 elements");
    const int64_t huge = (int64_t)1 << 62;
    cr_expect_eq(qkv_shape_count(QKV_SHAPE(huge, huge, huge)), 0);
    struct qkv_tensor *inputs[QKV_MAX_INPUTS] = {NULL};
    static const int OPS[] = {-1, QKV_OP_leaf, QKV_OP_COUNT, INT_MAX, INT_MIN};
    for (int i = 0; i < 5; i++)
        expect_no_node(qkv_node(graph, (enum qkv_op_id)OPS[i], inputs, &(struct qkv_options){0}),
                       "there is no op");
    expect_no_node(qkv_node(graph, QKV_OP_relu, NULL, NULL), "the list of inputs or the options are NULL");
    cr_expect_str_eq(qkv_op_name((enum qkv_op_id)QKV_OP_COUNT), "unknown op");
    expect_no_node(qkv_wrap(graph, QKV_SHAPE(2), NULL), "qkv_wrap: the memory is NULL");
    const char *volatile no_format = NULL;
    error = (struct qkv_error){"an older message"};
    cr_expect_null(qkv_graph_fail(graph, no_format, 0));
    expect_refusal(qkv_graph_check(graph, &error), "");
    qkv_graph_reset(graph);
    cr_expect_null(qkv_graph_memory(graph, SIZE_MAX));
    expect_graph_error(graph, "out of memory");
}

Test(misuse, no_tensor_reads_as_nothing)
{
    double value = 5, other = 5;
    int64_t rows, columns;
    cr_expect_eq(qkv_tensor_count(NULL), 0);
    cr_expect_eq(qkv_tensor_shape(NULL).rank, 0);
    cr_expect_str_eq(qkv_tensor_name(NULL), "no tensor");
    cr_expect_str_eq(qkv_tensor_op(NULL), "no tensor");
    cr_expect_null(qkv_tensor_value(NULL));
    cr_expect_null(qkv_tensor_gradient(NULL));
    qkv_tensor_read(NULL, &value);
    qkv_tensor_read_gradient(NULL, &value);
    qkv_tensor_write(NULL, &value);
    cr_expect_eq(value, 5);
    cr_expect(isnan(qkv_tensor_scalar(NULL)));
    cr_expect_null(qkv_attention_weights_of(NULL, 0, 0, &rows, &columns));
    qkv_cross_entropy_sums(NULL, &value, &other);
    cr_expect(isnan(value) && isnan(other));
    qkv_cross_entropy_row(NULL, 0, &value, &other);
    cr_expect(isnan(value));
    cr_expect_eq(qkv_tensor_cost(NULL, false).bytes, 0);
}

Test(misuse, results_that_a_node_does_not_have_are_not_a_number)
{
    static const int32_t LABELS[] = {0, 1};
    double likelihood, correct;
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(2, 2));
    qkv_cross_entropy_sums(x, &likelihood, &correct);
    cr_expect(isnan(likelihood) && isnan(correct));
    expect_graph_error(graph, "leaf (leaf) is no cross entropy");
    struct qkv_tensor *loss = qkv_cross_entropy(graph, qkv_variable(graph, QKV_SHAPE(2, 2)), LABELS, 0, 1);
    qkv_cross_entropy_sums(loss, &likelihood, &correct);
    cr_expect(isnan(likelihood) && isnan(correct));
    expect_graph_error(graph, "qkv_forward has not computed its sums");
    loss = qkv_cross_entropy(graph, qkv_variable(graph, QKV_SHAPE(2, 2)), LABELS, 0, 1);
    qkv_forward(graph);
    qkv_cross_entropy_row(loss, 0, &likelihood, &correct);
    expect_graph_error(graph, "keeps no sums of this row");
    for (int row = -1; row < 5; row += 3) {
        loss = qkv_cross_entropy(graph, qkv_constant(graph, QKV_SHAPE(2, 2)), LABELS, 0, 1);
        qkv_forward(graph);
        qkv_cross_entropy_row(loss, row, &likelihood, &correct);
        cr_expect(isnan(likelihood));
        expect_graph_error(graph, "keeps no sums of this row");
    }
    struct qkv_tensor *query = qkv_variable(graph, QKV_SHAPE(2, 2));
    struct qkv_tensor *y =
        qkv_attention(graph, query, query, query, NULL, (struct qkv_attention){.rule.heads = 1});
    int64_t rows, columns;
    cr_expect_null(qkv_attention_weights_of(y, 0, 0, &rows, &columns), "before qkv_forward");
    qkv_forward(graph);
    cr_expect_not_null(qkv_attention_weights_of(y, 0, 0, &rows, &columns));
    struct qkv_tensor *later =
        qkv_attention(graph, query, query, query, NULL, (struct qkv_attention){.rule.heads = 1});
    cr_expect_null(qkv_attention_weights_of(later, 0, 0, &rows, &columns), "recorded after qkv_forward");
    cr_expect_null(qkv_attention_weights_of(y, -1, 0, &rows, &columns));
    cr_expect_null(qkv_attention_weights_of(y, 0, 1, &rows, &columns));
}

/* Weights that the kernel did not keep cannot be computed from the queries of one pass and the bias of another. */
Test(misuse, weights_are_not_computed_once_an_operand_has_been_written)
{
    static const struct {
        const char *what;
        enum qkv_attention_kernel kernel;
        bool has_parameter; /* the bias is a parameter, not a variable */
        bool writes_value;  /* there is no bias; the value is written, which the weights do not depend on */
        bool is_read_before, is_read;
    } cases[] = {
        {"weights that are kept", QKV_KERNEL_EXACT, .is_read = true},
        {"a variable", QKV_KERNEL_FLASH},
        {"a parameter", QKV_KERNEL_FLASH, .has_parameter = true},
        {"the value", QKV_KERNEL_FLASH, .writes_value = true, .is_read = true},
        {"weights that were read before", QKV_KERNEL_FLASH, .is_read_before = true, .is_read = true},
    };
    static const double X[] = {1, 2, 3, 4, 5, 6}, OTHER_X[6] = {0}, BIAS[] = {-5, 5, 0, 0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
        const struct qkv_parameter *parameter =
            last_parameter(&parameters, QKV_FLOAT64, QKV_SHAPE(4, 1), ONES, "bias");
        qkv_graph_bind(graph, &parameters, NULL, false);
        struct qkv_tensor *value = qkv_variable(graph, QKV_SHAPE(3, 2)), *x = qkv_scale(graph, value, 0.1);
        struct qkv_tensor *bias = cases[c].has_parameter ? qkv_graph_parameter(graph, parameter)
                                                         : qkv_variable(graph, QKV_SHAPE(4, 1));
        struct qkv_attention attention = {.rule = {.heads = 1, .kernel = cases[c].kernel}};
        if (!cases[c].writes_value)
            attention.rule.buckets = 4, attention.rule.max_distance = 8, attention.bias = bias;
        struct qkv_tensor *y = qkv_attention(graph, x, x, value, NULL, attention);
        qkv_tensor_write(value, X);
        qkv_forward(graph);
        int64_t rows, columns;
        if (cases[c].is_read_before) cr_expect_not_null(qkv_attention_weights_of(y, 0, 0, &rows, &columns));
        if (cases[c].writes_value)
            qkv_tensor_write(value, OTHER_X);
        else if (cases[c].has_parameter)
            qkv_parameter_set(&parameters, parameter, 0, -5);
        else
            qkv_tensor_write(bias, BIAS);
        const double *weights = qkv_attention_weights_of(y, 0, 0, &rows, &columns);
        cr_expect_eq(weights != NULL, cases[c].is_read, "%s", cases[c].what);
        /* Query (0.1, 0.2), keys (0.1, 0.2) and (0.3, 0.4), a bias that is the same for all keys. */
        if (weights) cr_expect_float_eq(log(weights[1] / weights[0]), 0.06 / sqrt(2), 1e-12);
        expect_no_graph_error(graph);
        qkv_graph_reset(graph);
    }
}
