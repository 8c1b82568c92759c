/* Parameters: one flat block, initial values, and their gradients in a graph. */
#include "parameters.h"

/* Three parameters of sizes that leave gaps. */
struct three {
    struct qkv_parameters parameters;
    const struct qkv_parameter *a, *b, *c;
};

static struct three make_three(enum qkv_dtype dtype)
{
    struct three t = {0};
    t.a = qkv_parameters_add(&t.parameters, QKV_SHAPE(3, 5), NORMAL, "layer.%d.weight", 1);
    t.b = qkv_parameters_add(&t.parameters, QKV_SHAPE(5), NORMAL, "layer.%d.bias", 1);
    t.c = qkv_parameters_add(&t.parameters, QKV_SHAPE(4, 8), NORMAL, "table");
    cr_assert(t.a && t.b && t.c);
    expect_done(qkv_parameters_allocate(&t.parameters, dtype, &error));
    return t;
}

static void release(struct three *t)
{
    qkv_parameters_release(&t->parameters);
}

static double element(const struct three *t, const void *block, int64_t i)
{
    return t->parameters.dtype == QKV_FLOAT32 ? (double)((const float *)block)[i]
                                              : ((const double *)block)[i];
}

/* ---- the block ---- */

Test(parameters, slices_are_aligned_named_and_do_not_overlap)
{
    struct three t = make_three(QKV_FLOAT32);
    cr_expect_eq(t.parameters.count, 3);
    cr_expect_eq(qkv_parameters_total(&t.parameters), 15 + 5 + 32);
    cr_expect_eq((uintptr_t)t.parameters.values % 64, 0);
    int64_t end = 0;
    for (int64_t i = 0; i < 3; i++) {
        const struct qkv_parameter *p = t.parameters.list[i];
        cr_expect_eq(p->index, i);
        cr_expect_eq((size_t)p->offset * sizeof(float) % 64, 0);
        cr_expect_eq(p->count, qkv_shape_count(p->shape));
        cr_expect_geq(p->offset, end);
        end = p->offset + p->count;
    }
    cr_expect_geq(t.parameters.elements, end);
    cr_expect_str_eq(t.a->name, "layer.1.weight");
    cr_expect_eq(qkv_parameters_find(&t.parameters, "layer.1.bias"), t.b);
    cr_expect_null(qkv_parameters_find(&t.parameters, "layer.1"));
    for (int64_t i = 0; i < t.parameters.elements; i++) cr_expect_eq(element(&t, t.parameters.values, i), 0);
    qkv_parameters_initialize(&t.parameters, 1);
    for (int64_t i = 0; i < t.parameters.elements; i++) {
        bool gap = true;
        for (int64_t p = 0; p < 3; p++) {
            const struct qkv_parameter *slice = t.parameters.list[p];
            gap = gap && !(i >= slice->offset && i < slice->offset + slice->count);
        }
        if (gap) cr_expect_eq(element(&t, t.parameters.values, i), 0, "gaps stay 0");
    }
    qkv_parameters_release(&t.parameters);
    cr_expect_null(t.parameters.values);
}

/* ---- initial values ---- */

enum { ROWS = 150, COLUMNS = 250, NUMBERS = ROWS * COLUMNS };

/* Mean, variance and largest size of what an initialiser draws for [ROWS, COLUMNS]; bounds are five standard
 * errors. */
static void expect_draws(enum qkv_initializer kind, double gain, double variance, double kurtosis, double max)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *p = last_parameter(&parameters, QKV_FLOAT64, QKV_SHAPE(ROWS, COLUMNS),
                                                   (struct qkv_initial){kind, gain}, "p");
    double sum = 0, squares = 0, largest = 0;
    for (int64_t i = 0; i < NUMBERS; i++) {
        double x = qkv_parameter_get(&parameters, p, i);
        sum += x;
        squares += x * x;
        if (fabs(x) > largest) largest = fabs(x);
    }
    cr_expect_float_eq(sum / NUMBERS, 0, 5 * sqrt(variance / NUMBERS));
    cr_expect_float_eq(squares / NUMBERS, variance, 5 * variance * sqrt((kurtosis - 1) / NUMBERS));
    cr_expect_leq(largest, max);
    cr_expect_geq(largest, max == HUGE_VAL ? 3.5 * sqrt(variance) : 0.999 * max);
}

Test(parameters, initialisers_have_their_moments_and_bounds)
{
    const double glorot = sqrt(6.0 / (ROWS + COLUMNS)), gain = 0.7;
    expect_draws(QKV_INITIALIZER_XAVIER_UNIFORM, 1, glorot * glorot / 3, 1.8, glorot);
    expect_draws(QKV_INITIALIZER_XAVIER_UNIFORM, gain, gain * gain * glorot * glorot / 3, 1.8, gain * glorot);
    expect_draws(QKV_INITIALIZER_XAVIER_NORMAL, gain, gain * gain * 2 / (ROWS + COLUMNS), 3, HUGE_VAL);
    expect_draws(QKV_INITIALIZER_UNIFORM, gain, gain * gain / 3, 1.8, gain);
    expect_draws(QKV_INITIALIZER_NORMAL, gain, gain * gain, 3, HUGE_VAL);
}

/* Pointers stay when many are declared. */
Test(parameters, zeros_and_ones)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *of[2] = {NULL};
    for (int k = 0; k < 300; k++) {
        const struct qkv_initial initial = {k % 2 ? QKV_INITIALIZER_ONES : QKV_INITIALIZER_ZEROS, 0};
        const struct qkv_parameter *added = qkv_parameters_add(&parameters, QKV_SHAPE(9), initial, "p.%d", k);
        if (k < 2) of[k] = added;
    }
    cr_assert_eq(qkv_parameters_allocate(&parameters, QKV_FLOAT32, NULL), QKV_OK);
    cr_expect(parameters.list[0] == of[0] && qkv_parameters_find(&parameters, "p.1") == of[1]);
    for (int64_t i = 0; i < 9; i++) qkv_parameter_set(&parameters, of[0], i, 5);
    qkv_parameters_initialize(&parameters, 3);
    for (int64_t i = 0; i < 18; i++)
        cr_expect_eq(qkv_parameter_get(&parameters, of[i / 9], i % 9), (double)(i / 9));
}

Test(parameters, both_precisions_start_the_same_but_for_rounding)
{
    struct three single RELEASED(release) = make_three(QKV_FLOAT32),
                        full RELEASED(release) = make_three(QKV_FLOAT64);
    qkv_parameters_initialize(&single.parameters, 8);
    qkv_parameters_initialize(&full.parameters, 8);
    for (int64_t i = 0; i < full.parameters.elements; i++)
        cr_expect_eq(((float *)single.parameters.values)[i], (float)((double *)full.parameters.values)[i]);
}

Test(parameters, values_follow_from_seed_and_index_alone)
{
    struct three t RELEASED(release) = make_three(QKV_FLOAT64);
    qkv_parameters_initialize(&t.parameters, 8);
    /* Another shape in front and another name: the second parameter draws from the same family. */
    struct qkv_parameters other RELEASED(qkv_parameters_release) = {0};
    qkv_parameters_add(&other, QKV_SHAPE(77), NORMAL, "x");
    const struct qkv_parameter *second = qkv_parameters_add(&other, QKV_SHAPE(5), NORMAL, "y");
    const struct qkv_parameter *third = qkv_parameters_add(&other, QKV_SHAPE(5), NORMAL, "z");
    make_parameters(&other, QKV_FLOAT64, 8);
    for (int64_t i = 0; i < 5; i++) {
        double drawn = qkv_parameter_get(&other, second, i);
        cr_expect_eq(drawn, qkv_parameter_get(&t.parameters, t.b, i));
        cr_expect_neq(drawn, qkv_parameter_get(&other, third, i), "another index");
    }
    qkv_parameters_initialize(&other, 9);
    cr_expect_neq(qkv_parameter_get(&other, second, 0), qkv_parameter_get(&t.parameters, t.b, 0),
                  "another seed");
}

/* ---- in a graph ---- */

struct bound {
    struct three three;
    double gradients[128];
    struct qkv_graph *graph;
};

static void bind(struct bound *b, bool accumulate)
{
    b->three = make_three(QKV_FLOAT64);
    cr_assert_leq(b->three.parameters.elements, 128);
    for (int i = 0; i < 128; i++) b->gradients[i] = 1000;
    b->graph = qkv_graph_new(QKV_FLOAT64);
    qkv_graph_bind(b->graph, &b->three.parameters, b->gradients, accumulate);
}

static void unbind(struct bound *b)
{
    qkv_graph_free(b->graph);
    release(&b->three);
}

static void expect_slice(const struct bound *b, const struct qkv_parameter *p, double expected)
{
    double gradient[128];
    cr_assert_eq(qkv_parameters_read_gradient(&b->three.parameters, b->gradients, p->name, gradient, NULL),
                 QKV_OK);
    for (int64_t i = 0; i < p->count; i++) {
        cr_expect_eq(b->gradients[p->offset + i], expected, "%s[%lld]: %g, not %g", p->name, (long long)i,
                     b->gradients[p->offset + i], expected);
        cr_expect_eq(gradient[i], expected, "%s[%lld] by name: %g", p->name, (long long)i, gradient[i]);
    }
}

Test(parameters, a_gradient_needs_the_name_of_a_parameter)
{
    struct bound b RELEASED(unbind);
    bind(&b, false);
    expect_refusal(qkv_parameters_read_gradient(&b.three.parameters, b.gradients, "nobody", NULL, &error),
                   "nobody: there is no parameter of this name");
}

Test(parameters, a_parameter_is_one_tensor_over_the_block)
{
    struct bound b RELEASED(unbind);
    bind(&b, false);
    struct qkv_tensor *a = qkv_graph_parameter(b.graph, b.three.a);
    cr_expect_eq(qkv_graph_parameter(b.graph, b.three.a), a);
    cr_expect_eq(qkv_tensor_value(a), (void *)((double *)b.three.parameters.values + b.three.a->offset));
    cr_expect_eq(qkv_tensor_gradient(a), (void *)(b.gradients + b.three.a->offset));
    cr_expect_str_eq(qkv_tensor_name(a), "layer.1.weight");
    cr_expect_null(qkv_graph_parameter(b.graph, NULL),
                   "no parameter, no tensor; the op decides whether that is an error");
    cr_expect_eq(qkv_graph_check(b.graph, NULL), QKV_OK);
    qkv_graph_reset(b.graph);
    cr_expect_eq(qkv_tensor_value(qkv_graph_parameter(b.graph, b.three.a)), qkv_tensor_value(a),
                 "still bound after a reset");
    qkv_graph_bind(b.graph, &b.three.parameters, NULL, false);
    qkv_graph_reset(b.graph);
    cr_expect_null(qkv_tensor_gradient(qkv_graph_parameter(b.graph, b.three.a)),
                   "without a block: constants");
}

Test(parameters, gradients_are_set_and_unused_ones_are_zero)
{
    struct bound b RELEASED(unbind);
    bind(&b, false);
    struct qkv_tensor *y = qkv_scale(b.graph, qkv_graph_parameter(b.graph, b.three.a), 3);
    qkv_graph_parameter(b.graph, b.three.b); /* a tensor that nothing is made of */
    qkv_forward(b.graph);
    for (int round = 0; round < 2; round++) {
        qkv_backward(b.graph, y, NULL);
        expect_slice(&b, b.three.a, 3);
        expect_slice(&b, b.three.b, 0);
        expect_slice(&b, b.three.c, 0);
    }
}

Test(parameters, gradients_are_added_where_they_accumulate)
{
    struct bound b RELEASED(unbind);
    bind(&b, true);
    struct qkv_tensor *a = qkv_graph_parameter(b.graph, b.three.a),
                      *y = qkv_add(b.graph, qkv_scale(b.graph, a, 3), a);
    qkv_graph_parameter(b.graph, b.three.b);
    qkv_forward(b.graph);
    qkv_backward(b.graph, y, NULL);
    expect_slice(&b, b.three.a, 1004);
    qkv_backward(b.graph, y, NULL);
    expect_slice(&b, b.three.a, 1008);
    expect_slice(&b, b.three.b, 1000);
    expect_slice(&b, b.three.c, 1000);
    qkv_backward(b.graph, a, NULL); /* the parameter itself */
    expect_slice(&b, b.three.a, 1009);
}
