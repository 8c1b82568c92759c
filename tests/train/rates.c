/* Rates of parameters: slower ones and frozen ones, in the optimizer and in graphs. */
#include "parameters.h"

#include "framework/engine/graph/internal.h"

enum { PARTS = 4 };
static const char *const NAMES[PARTS] = {"encoder.0.weight", "encoder.0.bias", "decoder.weight",
                                         "decoder.bias"};
static const int64_t SIZES[PARTS] = {20000, 7, 16384, 3};

static struct qkv_parameters declared(void)
{
    struct qkv_parameters parameters = {0};
    for (int i = 0; i < PARTS; i++)
        qkv_parameters_add(&parameters, QKV_SHAPE(SIZES[i]), NORMAL, "%s", NAMES[i]);
    make_parameters(&parameters, QKV_FLOAT64, 3);
    return parameters;
}

static double gradient_of(int64_t i, int update)
{
    return (double)((i * 7 + update * 5) % 11 - 5) / 4;
}

/* Trains the parts of the mask for three updates with one learning rate; returns the norm of the last gradient. Others have
 * a gradient of 0. */
static double trained(struct qkv_parameters *parameters, const char *rates, double learning_rate,
                      unsigned mask)
{
    const struct qkv_optimizer_options settings = {
        .optimizer = QKV_OPTIMIZER_ADAM, .adam_betas = {0.9, 0.99}, .adam_epsilon = 1e-8, .ema = 0.5};
    struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release);
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(2, NULL);
    double *gradients RELEASED(free_memory) = calloc((size_t)parameters->elements, sizeof *gradients),
                      norm = 0;
    void *blocks[1] = {gradients};
    cr_assert_eq(qkv_parameters_set_rates(parameters, rates, NULL), QKV_OK);
    cr_assert_eq(qkv_optimizer_init(&optimizer, &settings, parameters, NULL), QKV_OK);
    for (int update = 1; update <= 3; update++) {
        for (int part = 0; part < PARTS; part++)
            for (int64_t i = 0; i < SIZES[part]; i++)
                gradients[parameters->list[part]->offset + i] = mask >> part & 1 ? gradient_of(i, update) : 0;
        norm = qkv_optimizer_step(&optimizer, parameters, workers, 1, blocks, 1, learning_rate);
    }
    return norm;
}

static bool has_values_of(const struct qkv_parameters *a, const struct qkv_parameters *b, int part)
{
    size_t offset = (size_t)a->list[part]->offset * sizeof(double);
    return !memcmp((char *)a->values + offset, (char *)b->values + offset,
                   (size_t)SIZES[part] * sizeof(double));
}

Test(rates, a_slower_parameter_is_one_trained_with_a_lower_learning_rate)
{
    struct qkv_parameters some RELEASED(qkv_parameters_release) = declared(),
                               slow RELEASED(qkv_parameters_release) = declared(),
                               fast RELEASED(qkv_parameters_release) = declared();
    trained(&some, "encoder.*=3 encoder.*=0.5 *.bias=2 encoder.0.bias=0.5", 0.01, 15);
    trained(&slow, "", 0.01 * 0.5, 15);
    trained(&fast, "", 0.01, 15);
    cr_expect(has_values_of(&some, &slow, 0) && has_values_of(&some, &slow, 1), "the last pattern counts");
    cr_expect(has_values_of(&some, &fast, 2));
    cr_expect(!has_values_of(&some, &fast, 3) && !has_values_of(&some, &slow, 3));
}

Test(rates, a_frozen_parameter_keeps_its_bytes_and_has_no_share_in_the_norm)
{
    struct qkv_parameters frozen RELEASED(qkv_parameters_release) = declared(),
                                 others RELEASED(qkv_parameters_release) = declared(),
                                 before RELEASED(qkv_parameters_release) = declared();
    double norm = trained(&frozen, "encoder.*=0", 0.01, 15), norm_of_others = trained(&others, "", 0.01, 12);
    cr_expect(has_values_of(&frozen, &before, 0) && has_values_of(&frozen, &before, 1));
    cr_expect(has_values_of(&frozen, &others, 2) && has_values_of(&frozen, &others, 3));
    cr_expect_eq(norm, norm_of_others);
    cr_expect_eq(qkv_parameters_frozen(&frozen), SIZES[0] + SIZES[1]);
}

Test(rates, what_cannot_be_is_refused)
{
    static const char *const cases[][2] = {
        {"encodr.0.bias=0", "no parameter is named encodr.0.bias; did you mean encoder.0.bias"},
        {"encoder.*", "'encoder.*' is not PATTERN=FACTOR with a factor from 0 on, such as encoder.*=0.1"},
        {"encoder.*=-1", "'encoder.*=-1' is not PATTERN=FACTOR"},
        {"*=nan", "'*=nan' is not PATTERN=FACTOR"},
        {"=1", "'=1' is not PATTERN=FACTOR"},
        {"*=0", "every parameter is frozen, so there is nothing to train"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = declared();
        cr_assert_eq(qkv_parameters_set_rates(&parameters, "encoder.*=0.5", NULL), QKV_OK);
        for (int after_others = 0; after_others < 2; after_others++) {
            char rates[64];
            snprintf(rates, sizeof rates, "%s%s", after_others ? "*=3 " : "", cases[i][0]);
            expect_refusal_with(qkv_parameters_set_rates(&parameters, rates, &error), cases[i][1]);
            for (int part = 0; part < PARTS; part++)
                cr_expect_eq(parameters.list[part]->rate, part < 2 ? 0.5 : 1, "%s changes %s", rates,
                             NAMES[part]);
        }
    }
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = declared();
    cr_expect_eq(qkv_parameters_set_rates(&parameters, NULL, NULL), QKV_OK);
}

/* ---- graphs ---- */

static int64_t backward_nodes;

static void count_node(void *context, const struct qkv_tensor *tensor, bool backward)
{
    (void)context, (void)tensor;
    backward_nodes += backward;
}

/* Two layers; the gradients of a pass begin with garbage. */
static int64_t run_with(const char *rates, double *gradients, int64_t *elements)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *first = qkv_parameters_add(&parameters, QKV_SHAPE(3, 3), ONES, "first"),
                               *second =
                                   last_parameter(&parameters, QKV_FLOAT64, QKV_SHAPE(3, 3), ONES, "second");
    cr_assert_eq(qkv_parameters_set_rates(&parameters, rates, NULL), QKV_OK);
    for (int64_t i = 0; i < parameters.elements; i++) gradients[i] = 99;
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    const struct qkv_observer observer = {count_node, NULL};
    qkv_graph_observe(graph, &observer);
    qkv_graph_bind(graph, &parameters, gradients, false);
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(2, 3));
    qkv_tensor_write(x, (double[]){1, 2, 3, 4, 5, 6});
    struct qkv_tensor *hidden =
        qkv_tanh(graph, qkv_linear(graph, x, qkv_graph_parameter(graph, first), NULL, false));
    struct qkv_tensor *loss =
        qkv_sum(graph, qkv_linear(graph, hidden, qkv_graph_parameter(graph, second), NULL, false), QKV_ALL);
    backward_nodes = 0;
    qkv_forward(graph);
    qkv_backward(graph, loss, NULL);
    *elements = second->offset;
    return backward_nodes;
}

Test(rates, no_gradient_is_computed_below_frozen_parameters)
{
    double all[64], some[64];
    int64_t second;
    int64_t of_all = run_with("", all, &second), of_some = run_with("first=0", some, &second);
    cr_expect_lt(of_some, of_all, "%d nodes of %d", (int)of_some, (int)of_all);
    for (int64_t i = 0; i < 9; i++) {
        cr_expect_eq(some[i], 0, "a frozen parameter has the gradient 0");
        cr_expect_neq(all[i], 0);
        cr_expect_eq(some[second + i], all[second + i]);
    }
}
