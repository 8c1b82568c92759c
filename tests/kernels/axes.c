/* What ops along an axis give: ties, NaN, repetition, sums, neighbours and convolution; with the kernels of every
 * instruction set. */
#include "qkv/ops.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const VARIANTS[] = {"portable", "avx2", "avx512"};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof *VARIANTS };

/* An op of one tensor x, whose result is y, with the gradient dx for gradients of y of 1, 2, 3 ... dx NULL: there is
 * none. */
struct example {
    enum qkv_op_id op;
    struct qkv_options options;
    struct qkv_shape x_shape, y_shape;
    const double *x, *y, *dx;
};

static bool is_same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void check(const struct example *e)
{
    const char *name = qkv_op_name(e->op);
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *x = qkv_variable(graph, e->x_shape);
        struct qkv_tensor *y = qkv_node(graph, e->op, (struct qkv_tensor *[QKV_MAX_INPUTS]){x}, &e->options);
        struct qkv_error error = {""};
        cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
        struct qkv_shape shape = qkv_tensor_shape(y);
        cr_assert_eq(shape.rank, e->y_shape.rank, "%s", name);
        for (int i = 0; i < shape.rank; i++) cr_assert_eq(shape.size[i], e->y_shape.size[i], "%s", name);
        double values[64], cotangent[64];
        for (int i = 0; i < 64; i++) cotangent[i] = i + 1;
        qkv_tensor_write(x, e->x);
        qkv_forward(graph);
        qkv_tensor_read(y, values);
        for (int64_t i = 0; i < qkv_tensor_count(y); i++)
            cr_expect(is_same(values[i], e->y[i]), "%s, %s [%d]: %g, not %g", name, VARIANTS[v], (int)i,
                      values[i], e->y[i]);
        if (e->dx) {
            qkv_backward(graph, y, cotangent);
            qkv_tensor_read_gradient(x, values);
        }
        for (int64_t i = 0; e->dx && i < qkv_tensor_count(x); i++)
            cr_expect_eq(values[i], e->dx[i], "gradient of %s, %s [%d]: %g, not %g", name, VARIANTS[v],
                         (int)i, values[i], e->dx[i]);
        qkv_graph_free(graph);
    }
}

Test(axes, the_first_of_equal_numbers_is_taken_and_nan_before_all)
{
    const double x[12] = {2, 5, 5, -1, 7, NAN, 8, NAN, -3, -3, -3, -3};
    const struct qkv_shape rows = QKV_SHAPE(3, 4), one = QKV_SHAPE(3), three = QKV_SHAPE(3, 3);
    const struct qkv_options along = {.axis = 1}, across = {.axis = 0}, all = {.axis = QKV_ALL},
                             top = {.length = 3};
    const struct example examples[] = {
        {QKV_OP_max, along, rows, one, x, (double[]){5, NAN, -3},
         (double[]){0, 1, 0, 0, 0, 2, 0, 0, 3, 0, 0, 0}},
        {QKV_OP_min, along, rows, one, x, (double[]){-1, NAN, -3},
         (double[]){0, 0, 0, 1, 0, 2, 0, 0, 3, 0, 0, 0}},
        {QKV_OP_argmax, along, rows, one, x, (double[]){1, 1, 0}, NULL},
        {QKV_OP_argmin, along, rows, one, x, (double[]){3, 1, 0}, NULL},
        {QKV_OP_argmax, across, rows, QKV_SHAPE(4), x, (double[]){1, 1, 1, 1}, NULL},
        {QKV_OP_argmin, all, rows, QKV_SHAPE(1), x, (double[]){5}, NULL},
        {QKV_OP_top_k, top, rows, three, x, (double[]){5, 5, 2, NAN, NAN, 8, -3, -3, -3},
         (double[]){3, 1, 2, 0, 0, 4, 6, 5, 7, 8, 9, 0}},
        {QKV_OP_top_k_indices, top, rows, three, x, (double[]){1, 2, 0, 1, 3, 2, 0, 1, 2}, NULL},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) check(&examples[i]);
}

Test(axes, repetition_and_sums)
{
    const struct example examples[] = {
        {QKV_OP_broadcast,
         {.shape = QKV_SHAPE(2, 3, 2)},
         QKV_SHAPE(3, 1),
         QKV_SHAPE(2, 3, 2),
         (double[]){1, 2, 3},
         (double[]){1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3},
         (double[]){1 + 2 + 7 + 8, 3 + 4 + 9 + 10, 5 + 6 + 11 + 12}},
        {QKV_OP_cumulative_sum,
         {.axis = 1},
         QKV_SHAPE(2, 3),
         QKV_SHAPE(2, 3),
         (double[]){1, 2, 3, -1, 0.5, 4},
         (double[]){1, 3, 6, -1, -0.5, 3.5},
         (double[]){6, 5, 3, 15, 11, 6}},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) check(&examples[i]);
}

Test(axes, where_takes_a_unless_the_condition_is_0)
{
    const double condition[] = {2, 0, -0.0, NAN}, y[] = {1, 20, 30, 4};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *input[3];
    for (int i = 0; i < 3; i++) input[i] = qkv_constant(graph, QKV_SHAPE(4));
    struct qkv_tensor *chosen = qkv_where(graph, input[0], input[1], input[2]);
    qkv_tensor_write(input[0], condition);
    qkv_tensor_write(input[1], (double[]){1, 2, 3, 4});
    qkv_tensor_write(input[2], (double[]){10, 20, 30, 40});
    qkv_forward(graph);
    double values[4];
    qkv_tensor_read(chosen, values);
    for (int i = 0; i < 4; i++) cr_expect_eq(values[i], y[i], "[%d]: %g", i, values[i]);
    qkv_graph_free(graph);
}

/* Sums of a million numbers keep their digits. */
Test(axes, long_sums_are_exact_to_float32)
{
    enum { COUNT = 1000000 };
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(1)),
                      *many = qkv_broadcast(graph, x, QKV_SHAPE(COUNT)),
                      *sums = qkv_cumulative_sum(graph, many, 0);
    const float tenth = 0.1f;
    qkv_tensor_write(x, (double[]){(double)tenth});
    qkv_forward(graph);
    float last = ((const float *)qkv_tensor_value(sums))[COUNT - 1];
    cr_expect_float_eq((double)last, COUNT * (double)tenth, 0.01);
    double *cotangent = calloc(COUNT, sizeof *cotangent), dx;
    cotangent[COUNT - 1] = (double)tenth;
    qkv_backward(graph, sums, cotangent);
    qkv_tensor_read_gradient(x, &dx);
    cr_expect_float_eq(dx, COUNT * (double)tenth, 0.01);
    free(cotangent);
    qkv_graph_free(graph);
}

/* ---- convolution, against its definition ---- */

enum { SENTENCES = 3, TOKENS = 9, INPUTS = 3, OUTPUTS = 2, WIDTH = 4 };
static const int64_t START[SENTENCES] = {4, 0, 8},
                     LENGTH[SENTENCES] = {4, 3, 1}; /* row 3 is in no sentence */

static double number_of(int64_t i)
{
    return (double)(i * 37 % 19 - 9) / 8;
}

static double convolved(int64_t row, int64_t output, int64_t first)
{
    for (int s = 0; s < SENTENCES; s++) {
        if (row < START[s] || row >= START[s] + LENGTH[s]) continue;
        double sum = number_of(1000 + output);
        for (int64_t w = 0; w < WIDTH; w++) {
            int64_t from = row + first + w;
            if (from < START[s] || from >= START[s] + LENGTH[s]) continue;
            for (int64_t i = 0; i < INPUTS; i++)
                sum += number_of(from * INPUTS + i) * number_of(500 + (w * INPUTS + i) * OUTPUTS + output);
        }
        return sum;
    }
    return number_of(1000 + output); /* zeros times the weight */
}

static struct qkv_tensor *filled(struct qkv_graph *graph, struct qkv_shape shape, int64_t first)
{
    struct qkv_tensor *x = qkv_variable(graph, shape);
    double values[64];
    for (int64_t i = 0; i < qkv_shape_count(shape); i++) values[i] = number_of(first + i);
    qkv_tensor_write(x, values);
    return x;
}

Test(axes, convolution_stays_within_sentences)
{
    for (int64_t first = -5; first <= 2; first++) {
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
        struct qkv_tensor *y = qkv_convolution(graph, filled(graph, QKV_SHAPE(TOKENS, INPUTS), 0),
                                               filled(graph, QKV_SHAPE(WIDTH * INPUTS, OUTPUTS), 500),
                                               filled(graph, QKV_SHAPE(OUTPUTS), 1000),
                                               (struct qkv_segments){SENTENCES, START, LENGTH}, first);
        struct qkv_error error = {""};
        cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
        qkv_forward(graph);
        double values[TOKENS * OUTPUTS];
        qkv_tensor_read(y, values);
        for (int64_t i = 0; i < TOKENS * OUTPUTS; i++)
            cr_expect_float_eq(values[i], convolved(i / OUTPUTS, i % OUTPUTS, first), 1e-12, "first %d, [%d]",
                               (int)first, (int)i);
        qkv_graph_free(graph);
    }
}

/* As in the first step of decoding. */
Test(axes, convolution_of_one_row_looks_back)
{
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    const double x = 3, weight[] = {5, 7, 11};
    struct qkv_tensor *input = qkv_variable(graph, QKV_SHAPE(1, 1)),
                      *weights = qkv_variable(graph, QKV_SHAPE(3, 1));
    qkv_tensor_write(input, &x);
    qkv_tensor_write(weights, weight);
    struct qkv_tensor *y = qkv_convolution(graph, input, weights, NULL, (struct qkv_segments){0}, -2);
    struct qkv_error error = {""};
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
    qkv_forward(graph);
    cr_expect_eq(*(const double *)qkv_tensor_value(y), 33);
    qkv_graph_free(graph);
}

Test(axes, what_does_not_fit_is_refused)
{
    static const char *const messages[] = {
        ("convolution: input is [9, 3], but weight is [4, 2], whose rows must be a multiple of the input's "
         "columns"),
        "convolution: the input is NULL",
        "concat_all: there are 0 tensors",
        "neighbours: 3 rows from the row -9223372036854775808 on are wanted, but input is [9, 3]",
    };
    for (int i = 0; i < 4; i++) {
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(9, 3)),
                          *weight = qkv_variable(graph, QKV_SHAPE(4, 2));
        if (i < 2) qkv_convolution(graph, i ? NULL : x, weight, NULL, (struct qkv_segments){0}, 0);
        if (i == 2) qkv_concat_all(graph, NULL, 0, 1);
        if (i == 3) qkv_neighbours(graph, x, (struct qkv_segments){0}, INT64_MIN, 3);
        struct qkv_error error = {""};
        cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
        cr_expect_str_eq(error.message, messages[i]);
        qkv_graph_free(graph);
    }
}

Test(axes, many_tensors_are_concatenated_in_order)
{
    enum { MANY = 7 };
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *parts[MANY];
    for (int i = 0; i < MANY; i++) parts[i] = filled(graph, QKV_SHAPE(2, i % 3 + 1), 10 * i);
    struct qkv_tensor *all = qkv_concat_all(graph, parts, MANY, 1);
    qkv_forward(graph);
    double values[64];
    qkv_tensor_read(all, values);
    int64_t column = 0, columns = qkv_tensor_shape(all).size[1];
    for (int i = 0; i < MANY; i++)
        for (int j = 0; j < i % 3 + 1; j++, column++)
            for (int row = 0; row < 2; row++)
                cr_expect_eq(values[row * columns + column], number_of(10 * i + row * (i % 3 + 1) + j));
    cr_expect_eq(column, columns);
    cr_expect_eq(qkv_concat_all(graph, parts, 1, 1), parts[0]);
    qkv_graph_free(graph);
}
