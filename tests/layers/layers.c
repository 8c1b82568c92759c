/* The gradient check of every layer, with all its samples, the values of sinusoids, and options that do not exist. */
#include "qkv/gradcheck.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(layers, gradients_agree_with_finite_differences)
{
    for (int layer = 0; layer < QKV_LAYER_COUNT; layer++) {
        struct qkv_check_report report = {0};
        struct qkv_error error = {""};
        struct qkv_check_options options = {.seed = 1};
        cr_assert_eq(qkv_check_layer(&report, (enum qkv_layer_id)layer, &options, &error), QKV_OK, "%s",
                     error.message);
        cr_expect_gt(report.count, 2);
        for (int64_t i = 0; i < report.count; i++)
            cr_expect_null(report.rows[i].failure, "%s, %s: %s", report.rows[i].subject,
                           report.rows[i].tensor, report.rows[i].failure);
        qkv_check_release(&report);
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
    struct qkv_parameters parameters = {0};
    struct qkv_positions positions[3];
    for (int i = 0; i < 3; i++) {
        const struct qkv_positions_options options = {QKV_POSITION_SINUSOIDAL, 5, 3, i < 2 ? 100 : 10, {0}};
        qkv_positions_init(&positions[i], &parameters, &options, "x");
    }
    cr_expect_eq(positions[0].sinusoids, positions[1].sinusoids);
    cr_expect_neq(positions[0].sinusoids, positions[2].sinusoids);
    cr_assert_eq(qkv_parameters_allocate(&parameters, QKV_FLOAT32, NULL), QKV_OK);
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
        struct qkv_error error = {""};
        struct qkv_graph *graph = qkv_graph_new((enum qkv_dtype)dtype);
        struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(5, 3)),
                          *y = qkv_positions_apply(&positions[2], graph, x, (struct qkv_segments){0}, NULL);
        qkv_forward(graph);
        if (dtype == QKV_FLOAT32) {
            cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
            float *value = qkv_tensor_value(y);
            for (int i = 0; i < 15; i++) cr_expect_eq(value[i], (float)qkv_sinusoid(i / 3, i % 3, 3, 10));
        } else {
            cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
            cr_expect_str_eq(error.message,
                             "positions x: the precision of the graph is not that of the parameters");
        }
        qkv_graph_free(graph);
    }
    qkv_parameters_release(&parameters);
}

/* ---- enums without such a value ---- */

enum { NONE = 99 };

static void init_dense(struct qkv_parameters *parameters)
{
    struct qkv_dense layer;
    qkv_dense_init(&layer, parameters,
                   &(struct qkv_dense_options){3, 2, true, (enum qkv_activation)NONE, {0}}, "x");
}

static void init_feed_forward(struct qkv_parameters *parameters)
{
    struct qkv_feed_forward layer;
    qkv_feed_forward_init(&layer, parameters,
                          &(struct qkv_feed_forward_options){3, 2, (enum qkv_activation)NONE, 0, {0}, {0}},
                          "x");
}

static void init_norm(struct qkv_parameters *parameters)
{
    struct qkv_norm layer;
    qkv_norm_init(&layer, parameters, &(struct qkv_norm_options){(enum qkv_norm_kind)NONE, 3, 1e-6}, "x");
}

static void init_residual(struct qkv_parameters *parameters)
{
    struct qkv_residual layer;
    const struct qkv_norm_options norm = {QKV_NORM_RMS, 3, 1e-6};
    qkv_residual_init(&layer, parameters, &norm, (enum qkv_norm_place)NONE, 0, "x");
}

static void init_positions(struct qkv_parameters *parameters)
{
    struct qkv_positions layer;
    const struct qkv_positions_options options = {(enum qkv_position_kind)NONE, 5, 3, 100, {0}};
    qkv_positions_init(&layer, parameters, &options, "x");
}

static void init_recurrent(struct qkv_parameters *parameters)
{
    struct qkv_recurrent layer;
    const struct qkv_recurrent_options options = {.cell = (enum qkv_cell)NONE, .inputs = 3, .width = 2};
    qkv_recurrent_init(&layer, parameters, &options, "x");
}

static void init_attention(struct qkv_parameters *parameters)
{
    struct qkv_single_head_attention layer;
    const struct qkv_single_head_attention_options options = {
        .score = (enum qkv_attention_score)NONE, .query_width = 3, .memory_width = 3};
    qkv_single_head_attention_init(&layer, parameters, &options, "x");
}

static void init_attention_without_score(struct qkv_parameters *parameters)
{
    struct qkv_single_head_attention layer;
    const struct qkv_single_head_attention_options options = {
        .score = QKV_ATTENTION_SCORE_NONE, .query_width = 3, .memory_width = 3};
    qkv_single_head_attention_init(&layer, parameters, &options, "x");
}

static void init_weight(struct qkv_parameters *parameters)
{
    struct qkv_dense layer;
    const struct qkv_dense_options options = {
        .inputs = 3, .outputs = 2, .initial = {(enum qkv_initializer)NONE, 1}};
    qkv_dense_init(&layer, parameters, &options, "x");
}

Test(layers, options_that_do_not_exist_are_refused)
{
    static const struct {
        void (*init)(struct qkv_parameters *parameters);
        const char *message;
    } CASES[] = {
        {init_dense, "x: there is no activation 99"},
        {init_feed_forward, "x: there is no activation 99"},
        {init_norm, "x: there is no norm 99"},
        {init_residual, "x: there is no place of a norm 99"},
        {init_positions, "x: there is no kind of positions 99"},
        {init_recurrent, "x: there is no cell 99"},
        {init_attention, "x: there is no score 99"},
        {init_attention_without_score, "x: attention needs a score, but has none"},
        {init_weight, "x.weight: there is no initializer 99"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct qkv_parameters parameters = {0};
        struct qkv_error error = {""};
        CASES[i].init(&parameters);
        cr_expect_eq(qkv_parameters_allocate(&parameters, QKV_FLOAT32, &error), QKV_INVALID, "%s",
                     CASES[i].message);
        cr_expect_str_eq(error.message, CASES[i].message);
        qkv_parameters_release(&parameters);
    }
}

/* A layer without parameters of its own, or one whose fields were changed, meets the graph first. */
Test(layers, activations_and_cells_that_do_not_exist_make_the_graph_fail)
{
    struct qkv_error error = {""};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(3, 2));
    cr_expect_eq(qkv_activation_apply(graph, x, QKV_ACTIVATION_NONE), x);
    cr_expect_null(qkv_activation_apply(graph, x, (enum qkv_activation)NONE));
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "there is no activation 99");
    qkv_graph_reset(graph);
    const struct qkv_recurrent layer = {.name = "x", .cell = (enum qkv_cell)NONE, .width = 2};
    x = qkv_variable(graph, QKV_SHAPE(3, 2));
    cr_expect_null(qkv_recurrent_run(&layer, graph, x, NULL, (struct qkv_segments){0}, false));
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "x: there is no cell 99");
    cr_expect_eq(qkv_recurrent_state_width((enum qkv_cell)NONE, 2), 0);
    qkv_graph_free(graph);
}
    const struct qkv_dense uninitialised = {0};
    cr_expect_null(qkv_dense_apply(&uninitialised, graph, qkv_variable(graph, QKV_SHAPE(3, 2))));
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "linear: weight is NULL");
    qkv_graph_reset(graph);
