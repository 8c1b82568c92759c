/* The gradient check of every layer, with all its samples, the values of sinusoids, and options that do not exist. */
#include "support.h"

Test(layers, gradients_agree_with_finite_differences)
{
    for (int layer = 0; layer < QKV_LAYER_COUNT; layer++) {
        struct qkv_check_report report RELEASED(qkv_check_release) = {0};
        struct qkv_check_options options = {.seed = 1};
        expect_done(qkv_check_layer(&report, (enum qkv_layer_id)layer, &options, &error));
        cr_expect_gt(report.count, 2);
        for (int64_t i = 0; i < report.count; i++)
            cr_expect_null(report.rows[i].failure, "%s, %s: %s", report.rows[i].subject,
                           report.rows[i].tensor, report.rows[i].failure);
    }
}

Test(layers, sinusoids_follow_vaswani_2017)
{
    cr_assert_float_eq(qkv_sinusoid(3, 0, 4, 10000), sin(3.0), 1e-15);
    cr_assert_float_eq(qkv_sinusoid(3, 1, 4, 10000), cos(3.0), 1e-15);
    cr_assert_float_eq(qkv_sinusoid(3, 2, 4, 10000), sin(0.03), 1e-15);
    cr_assert_float_eq(qkv_sinusoid(3, 3, 4, 10000), cos(0.03), 1e-15);
    cr_assert_eq(qkv_sinusoid(3, 2, 3, 10000), 0.0, "the last column of an odd width has no partner");
}

/* Equal tables of sinusoids are one, in the precision of the parameters. */
Test(layers, sinusoids_have_the_precision_of_the_parameters)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    struct qkv_positions positions[3];
    for (int i = 0; i < 3; i++) {
        const struct qkv_positions_options options = {QKV_POSITION_SINUSOIDAL, 5, 3, i < 2 ? 100 : 10, {0}};
        qkv_positions_init(&positions[i], &parameters, &options, "x");
    }
    cr_expect_eq(positions[0].sinusoids, positions[1].sinusoids);
    cr_expect_neq(positions[0].sinusoids, positions[2].sinusoids);
    cr_assert_eq(qkv_parameters_allocate(&parameters, QKV_FLOAT32, NULL), QKV_OK);
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new((enum qkv_dtype)dtype);
        struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(5, 3)),
                          *y = qkv_positions_apply(&positions[2], graph, x, (struct qkv_segments){0}, NULL);
        qkv_forward(graph);
        if (dtype == QKV_FLOAT32) {
            expect_done(qkv_graph_check(graph, &error));
            float *value = qkv_tensor_value(y);
            for (int i = 0; i < 15; i++) cr_expect_eq(value[i], (float)qkv_sinusoid(i / 3, i % 3, 3, 10));
        } else {
            expect_refusal(qkv_graph_check(graph, &error),
                           "positions x: the precision of the graph is not that of the parameters");
        }
    }
}

/* ---- options that cannot be ---- */

enum { NONE = 99 };

/* Declares a layer that cannot be, and returns what must be said of it; NULL: there is no such number. */
static const char *declare(int number, struct qkv_parameters *p)
{
    union {
        struct qkv_dense dense;
        struct qkv_feed_forward feed_forward;
        struct qkv_norm norm;
        struct qkv_residual residual;
        struct qkv_positions positions;
        struct qkv_recurrent recurrent;
        struct qkv_single_head_attention attention;
    } layer;
    const struct qkv_dense_options activation = {3, 2, true, (enum qkv_activation)NONE, {0}},
                                   weight = {3, 2, .initial = {(enum qkv_initializer)NONE, 1}};
    const struct qkv_feed_forward_options inner = {3, 2, (enum qkv_activation)NONE, 0, {0}, {0}};
    const struct qkv_norm_options kind = {(enum qkv_norm_kind)NONE, 3, 1e-6}, rms = {QKV_NORM_RMS, 3, 1e-6};
    const struct qkv_positions_options positions[] = {{(enum qkv_position_kind)NONE, 5, 3, 100, {0}},
                                                      {QKV_POSITION_ROTARY, 5, 4, 0, {0}},
                                                      {QKV_POSITION_ROTARY, 5, 4, (double)INFINITY, {0}}};
    const struct qkv_recurrent_options cells[] = {
        {.cell = (enum qkv_cell)NONE, .inputs = 3, .width = 2},
        {.cell = QKV_CELL_LSTM, .inputs = 3, .width = -1},
        {.cell = QKV_CELL_LSTM, .inputs = 3, .width = (int64_t)1 << 39}};
    const struct qkv_single_head_attention_options scores[] = {
        {.score = (enum qkv_attention_score)NONE, .query_width = 3, .memory_width = 3},
        {.score = QKV_ATTENTION_SCORE_NONE, .query_width = 3, .memory_width = 3},
        {QKV_ATTENTION_SCORE_CONCAT, .query_width = INT64_MAX, .memory_width = INT64_MAX, .key_width = 1}};
    static const char *const MESSAGES[] = {
        "x: there is no activation 99",
        "x.weight: there is no initializer 99",
        "x: there is no activation 99",
        "x: there is no norm 99",
        "x: there is no place of a norm 99",
        "x: there is no score 99",
        "x: attention needs a score, but has none",
        "x.joint.weight: a parameter cannot have shape [9223372036854775807, 1]: it must have at most 2^40 "
        "elements",
        "x: there is no kind of positions 99",
        "positions x: the base is 0, but must be above 0, and finite",
        "positions x: the base is inf, but must be above 0, and finite",
        "x: there is no cell 99",
        "x.input.weight: a parameter cannot have shape [3, -1]: it must have 1 to 4 axes, each of size 1 or "
        "more",
        "x.input.weight: a parameter cannot have shape [3, 2199023255552]: it must have at most 2^40 "
        "elements",
    };
    if (number >= (int)(sizeof MESSAGES / sizeof *MESSAGES)) return NULL;
    if (number < 2) qkv_dense_init(&layer.dense, p, number ? &weight : &activation, "x");
    if (number == 2) qkv_feed_forward_init(&layer.feed_forward, p, &inner, "x");
    if (number == 3) qkv_norm_init(&layer.norm, p, &kind, "x");
    if (number == 4) qkv_residual_init(&layer.residual, p, &rms, (enum qkv_norm_place)NONE, 0, "x");
    if (number >= 5 && number < 8)
        qkv_single_head_attention_init(&layer.attention, p, &scores[number - 5], "x");
    if (number >= 8 && number < 11) qkv_positions_init(&layer.positions, p, &positions[number - 8], "x");
    if (number >= 11) qkv_recurrent_init(&layer.recurrent, p, &cells[number - 11], "x");
    return MESSAGES[number];
}

Test(layers, options_that_cannot_be_are_refused)
{
    for (int number = 0;; number++) {
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
        const char *message = declare(number, &parameters);
        if (!message) break;
        expect_refusal(qkv_parameters_allocate(&parameters, QKV_FLOAT32, &error), message);
    }
}

Test(layers, attention_with_an_impossible_rule_is_refused_when_it_is_declared)
{
    static const struct {
        struct qkv_attention_rule rule;
        int64_t key_width;
        const char *message;
    } CASES[] = {
        {{0}, 2, "x: heads is 0, but must be at least 1"},
        {{.heads = -1}, 2, "x: heads is -1, but must be at least 1"},
        {{.heads = INT64_MAX}, 2, "x: 9223372036854775807 heads of 2 columns are too many"},
        {{.heads = 3, .key_value_heads = 2}, 2, "x: key_value_heads is 2, but must divide 3 heads"},
        {{.heads = 1, .kernel = (enum qkv_attention_kernel)NONE}, 2, "x: kernel is 99, which is no value of"},
        {{.heads = 1, .dropout = 1}, 2, "x: the dropout rate is 1, but must be at least 0 and below 1"},
        {{.heads = 2}, -3, "x.query.weight: a parameter cannot have shape [2, -3]"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
        struct qkv_multi_head layer;
        const struct qkv_multi_head_options options = {
            .rule = CASES[i].rule, .width = 2, .key_width = CASES[i].key_width, .value_width = 2};
        qkv_multi_head_init(&layer, &parameters, &options, "x");
        expect_refusal_with(qkv_parameters_allocate(&parameters, QKV_FLOAT32, &error), CASES[i].message);
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_bind(graph, &parameters, NULL, false);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(3, 2));
        const struct qkv_attention_inputs inputs = {.x = x, .memory = x};
        cr_expect_null(qkv_multi_head_apply(&layer, graph, &inputs, NULL));
        cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
    }
}

/* A layer without parameters of its own, or one whose fields were changed, meets the graph first. */
Test(layers, layers_that_were_not_initialised_and_unknown_enums_make_the_graph_fail)
{
    static const char *const MESSAGES[] = {"there is no activation 99", "linear: weight is NULL",
                                           "positions x: there is no table of shape [0, 2]",
                                           "x: there is no cell 99"};
    const struct qkv_dense dense = {0};
    const struct qkv_positions positions = {.name = "x", .kind = QKV_POSITION_SINUSOIDAL, .width = 2};
    const struct qkv_recurrent cell = {.name = "x", .cell = (enum qkv_cell)NONE, .width = 2};
    const struct qkv_segments none = {0};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    for (int i = 0; i < 4; i++) {
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(3, 2));
        if (i == 0) cr_expect_eq(qkv_activation_apply(graph, x, QKV_ACTIVATION_NONE), x);
        cr_expect_null(i == 0   ? qkv_activation_apply(graph, x, (enum qkv_activation)NONE)
                       : i == 1 ? qkv_dense_apply(&dense, graph, x)
                       : i == 2 ? qkv_positions_apply(&positions, graph, x, none, NULL)
                                : qkv_recurrent_run(&cell, graph, x, NULL, none, false));
        expect_refusal_with(qkv_graph_check(graph, &error), MESSAGES[i]);
        qkv_graph_reset(graph);
    }
    cr_expect_eq(qkv_recurrent_state_width((enum qkv_cell)NONE, 2), 0);
}
