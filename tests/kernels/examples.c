/* What ops give in examples: at edges (ties, zeros, NaN), along an axis, and with convolution; with the kernels of every
 * instruction set. */
#include "numbers.h"

#include "framework/engine/graph/internal.h"

/* An op of a and b, whose result is y, with the gradients da and db for gradients of y of 1, or of 1, 2, 3 ...; NULL: not
 * looked at. A shape of rank 0 is [6], and that of y that of a. */
struct example {
    enum qkv_op_id op;
    struct qkv_options options;
    struct qkv_shape a_shape, y_shape;
    const double *a, *b, *y, *da, *db;
    bool counts_up; /* gradients of y are 1, 2, 3 ... */
};

static void expect_numbers(const struct example *e, const char *what, const struct qkv_tensor *x,
                           const double *found, const double *expected)
{
    for (int64_t i = 0; expected && i < qkv_tensor_count(x); i++)
        cr_expect(found[i] == expected[i] || (isnan(found[i]) && isnan(expected[i])),
                  "%s of %s, exponent %g, %s [%d]: %g, not %g", what, qkv_op_name(e->op), e->options.exponent,
                  getenv("QKV_KERNELS"), (int)i, found[i], expected[i]);
}

static void check(const struct example *e)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    const struct qkv_shape a_shape = e->a_shape.rank ? e->a_shape : QKV_SHAPE(6),
                           y_shape = e->y_shape.rank ? e->y_shape : a_shape;
    struct qkv_tensor *x[QKV_MAX_INPUTS] = {qkv_variable(graph, a_shape)};
    if (e->b) x[1] = qkv_variable(graph, a_shape);
    struct qkv_tensor *y = qkv_node(graph, e->op, x, &e->options);
    expect_done(qkv_graph_check(graph, &error));
    const struct qkv_shape shape = qkv_tensor_shape(y);
    cr_assert_eq(shape.rank, y_shape.rank, "%s", qkv_op_name(e->op));
    cr_assert_arr_eq(shape.size, y_shape.size, (size_t)shape.rank * sizeof *shape.size, "%s",
                     qkv_op_name(e->op));
    double values[64], cotangent[64];
    for (int i = 0; i < 64; i++) cotangent[i] = e->counts_up ? i + 1 : 1;
    qkv_tensor_write(x[0], e->a);
    if (e->b) qkv_tensor_write(x[1], e->b);
    qkv_forward(graph);
    qkv_tensor_read(y, values);
    expect_numbers(e, "the value", y, values, e->y);
    if (e->da || e->db) qkv_backward(graph, y, cotangent);
    if (e->da) qkv_tensor_read_gradient(x[0], values);
    expect_numbers(e, "the gradient", x[0], values, e->da);
    if (e->db) qkv_tensor_read_gradient(x[1], values);
    expect_numbers(e, "the second gradient", x[1], values, e->db);
}

static void check_all(size_t count, const struct example *examples)
{
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        for (size_t i = 0; i < count; i++) check(&examples[i]);
    }
}

#define N(...) ((const double[]){__VA_ARGS__})

Test(examples, at_edges)
{
    const double left[] = {1, 2, 3, NAN, 1, -INFINITY}, right[] = {2, 2, -1, 0, NAN, 5},
                 x[] = {-2, 0, 3, -1, NAN, 0.25}, third = (double)(1.0f / 3), ninth = (double)(1.0f / 9);
    const struct example examples[] = {
        {QKV_OP_minimum, .a = left, .b = right, .y = N(1, 2, -1, NAN, NAN, -INFINITY),
         .da = N(1, 0.5, 0, NAN, NAN, 1), .db = N(0, 0.5, 1, NAN, NAN, 0)},
        {QKV_OP_maximum, .a = left, .b = right, .y = N(2, 2, 3, NAN, NAN, 5), .da = N(0, 0.5, 1, NAN, NAN, 0),
         .db = N(1, 0.5, 0, NAN, NAN, 1)},
        {QKV_OP_relu, .a = N(-2, 0, 3, NAN, INFINITY, -INFINITY), .y = N(0, 0, 3, NAN, INFINITY, 0),
         .da = N(0, 0, 1, NAN, 1, 0)},
        {QKV_OP_log_sum_exp, .a_shape = QKV_SHAPE(2, 3), .y_shape = QKV_SHAPE(2, 1),
         .a = N(INFINITY, 0, 1, INFINITY, INFINITY, 0), .y = N(INFINITY, INFINITY),
         .da = N(1, 0, 0, 0.5, 0.5, 0)},
        {QKV_OP_log_sum_exp, .a_shape = QKV_SHAPE(2, 3), .y_shape = QKV_SHAPE(2, 1),
         .a = N(-INFINITY, 0, -INFINITY, 1e30, 1, 1e30), .y = N(0, (double)1e30f),
         .da = N(0, 1, 0, 0.5, 0, 0.5)},
        {QKV_OP_log_sum_exp, .a_shape = QKV_SHAPE(2, 3), .y_shape = QKV_SHAPE(2, 1),
         .a = N(INFINITY, NAN, 1, NAN, 0, 1), .y = N(NAN, NAN), .da = N(NAN, NAN, NAN, NAN, NAN, NAN)},
        {QKV_OP_group_max, .a_shape = QKV_SHAPE(2, 3), .y_shape = QKV_SHAPE(2, 1),
         .a = N(1, NAN, 2, -INFINITY, -INFINITY, -INFINITY), .y = N(NAN, -INFINITY),
         .da = N(0, 1, 0, 1, 0, 0)},
        {QKV_OP_divide, .a = N(1, -1, 0, 6, NAN, 1), .b = N(0, 0, 0, 4, 1, INFINITY),
         .y = N(INFINITY, -INFINITY, NAN, 1.5, NAN, 0), .da = N(INFINITY, INFINITY, INFINITY, 0.25, 1, 0)},
        {QKV_OP_abs, .a = N(-2, 0, 3, -INFINITY, -0.0, NAN), .y = N(2, 0, 3, INFINITY, 0, NAN),
         .da = N(-1, 0, 1, -1, 0, NAN)},
        {QKV_OP_sqrt, .a = N(4, 0, -1, INFINITY, 0.25, NAN), .y = N(2, 0, NAN, INFINITY, 0.5, NAN),
         .da = N(0.25, INFINITY, NAN, 0, 1, NAN)},
        {QKV_OP_log, .a = N(-0.0, 0, -1e-40, -1, INFINITY, 1),
         .y = N(-INFINITY, -INFINITY, NAN, NAN, INFINITY, 0)},
        {QKV_OP_clamp, .options.lowest = -1, .options.highest = 2, .a = N(-2, -1, 0.5, 2, INFINITY, NAN),
         .y = N(-1, -1, 0.5, 2, 2, NAN), .da = N(0, 1, 1, 1, 0, NAN)},
        {QKV_OP_add_scalar, .options.addend = 2.5, .a = x, .y = N(0.5, 2.5, 5.5, 1.5, NAN, 2.75),
         .da = N(1, 1, 1, 1, 1, 1)},
        {QKV_OP_pow, .options.exponent = 2, .a = x, .y = N(4, 0, 9, 1, NAN, 0.0625),
         .da = N(-4, 0, 6, -2, NAN, 0.5)},
        {QKV_OP_pow, .options.exponent = 3, .a = x, .y = N(-8, 0, 27, -1, NAN, 0.015625),
         .da = N(12, 0, 27, 3, NAN, 0.1875)},
        {QKV_OP_pow, .options.exponent = 0, .a = x, .y = N(1, 1, 1, 1, 1, 1), .da = N(0, 0, 0, 0, 0, 0)},
        {QKV_OP_pow, .options.exponent = 1, .a = x, .y = x, .da = N(1, 1, 1, 1, 1, 1)},
        {QKV_OP_pow, .options.exponent = -1, .a = x, .y = N(-0.5, INFINITY, third, -1, NAN, 4),
         .da = N(-0.25, -INFINITY, -ninth, -1, NAN, -16)},
        {QKV_OP_pow, .options.exponent = 0.5, .a = x, .y = N(NAN, 0, (double)1.7320508f, NAN, NAN, 0.5),
         .da = N(NAN, INFINITY, (double)(float)0.28867513459481, NAN, NAN, 1)},
        {QKV_OP_pow, .options.exponent = 9, .a = x, .y = N(-512, 0, 19683, -1, NAN, 0x1p-18),
         .da = N(2304, 0, 59049, 9, NAN, 9 * 0x1p-16)},
    };
    check_all(sizeof examples / sizeof *examples, examples);
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    qkv_clamp(graph, qkv_variable(graph, QKV_SHAPE(2)), 1, NAN);
    expect_refusal(qkv_graph_check(graph, &error),
                   "clamp: the range is 1 to nan, but its end must not lie below its start");
}

/* The first of equal numbers is taken, and NaN before all. */
Test(examples, along_an_axis)
{
    const double x[12] = {2, 5, 5, -1, 7, NAN, 8, NAN, -3, -3, -3, -3};
    const struct qkv_shape rows = QKV_SHAPE(3, 4), one = QKV_SHAPE(3), three = QKV_SHAPE(3, 3),
                           two_rows = QKV_SHAPE(2, 3), box = QKV_SHAPE(2, 3, 2);
    const struct qkv_options along = {.axis = 1}, across = {.axis = 0}, all = {.axis = QKV_ALL},
                             top = {.length = 3};
    const struct example examples[] = {
        {QKV_OP_max, along, rows, one, .a = x, .y = N(5, NAN, -3),
         .da = N(0, 1, 0, 0, 0, 2, 0, 0, 3, 0, 0, 0), .counts_up = true},
        {QKV_OP_min, along, rows, one, .a = x, .y = N(-1, NAN, -3),
         .da = N(0, 0, 0, 1, 0, 2, 0, 0, 3, 0, 0, 0), .counts_up = true},
        {QKV_OP_argmax, along, rows, one, .a = x, .y = N(1, 1, 0)},
        {QKV_OP_argmin, along, rows, one, .a = x, .y = N(3, 1, 0)},
        {QKV_OP_argmax, across, rows, QKV_SHAPE(4), .a = x, .y = N(1, 1, 1, 1)},
        {QKV_OP_argmin, all, rows, QKV_SHAPE(1), .a = x, .y = N(5)},
        {QKV_OP_top_k, top, rows, three, .a = x, .y = N(5, 5, 2, NAN, NAN, 8, -3, -3, -3),
         .da = N(3, 1, 2, 0, 0, 4, 6, 5, 7, 8, 9, 0), .counts_up = true},
        {QKV_OP_top_k_indices, top, rows, three, .a = x, .y = N(1, 2, 0, 1, 3, 2, 0, 1, 2)},
        {QKV_OP_broadcast, .options.shape = box, .a_shape = QKV_SHAPE(3, 1), .y_shape = box, .a = N(1, 2, 3),
         .y = N(1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3), .da = N(1 + 2 + 7 + 8, 3 + 4 + 9 + 10, 5 + 6 + 11 + 12),
         .counts_up = true},
        {QKV_OP_cumulative_sum, along, two_rows, two_rows, .a = N(1, 2, 3, -1, 0.5, 4),
         .y = N(1, 3, 6, -1, -0.5, 3.5), .da = N(6, 5, 3, 15, 11, 6), .counts_up = true},
    };
    check_all(sizeof examples / sizeof *examples, examples);
}

/* Sums of a million numbers keep their digits. */
Test(examples, long_sums_are_exact_to_float32)
{
    enum { COUNT = 1000000 };
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(1)),
                      *many = qkv_broadcast(graph, x, QKV_SHAPE(COUNT)),
                      *sums = qkv_cumulative_sum(graph, many, 0);
    const float tenth = 0.1f;
    qkv_tensor_write(x, (double[]){(double)tenth});
    qkv_forward(graph);
    float last = ((const float *)qkv_tensor_value(sums))[COUNT - 1];
    cr_expect_float_eq((double)last, COUNT * (double)tenth, 0.01);
    double *cotangent RELEASED(free_memory) = calloc(COUNT, sizeof *cotangent), dx;
    cotangent[COUNT - 1] = (double)tenth;
    qkv_backward(graph, sums, cotangent);
    qkv_tensor_read_gradient(x, &dx);
    cr_expect_float_eq(dx, COUNT * (double)tenth, 0.01);
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

Test(examples, convolution_stays_within_sentences)
{
    for (int64_t first = -5; first <= 2; first++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
        struct qkv_tensor *y = qkv_convolution(graph, filled(graph, QKV_SHAPE(TOKENS, INPUTS), 0),
                                               filled(graph, QKV_SHAPE(WIDTH * INPUTS, OUTPUTS), 500),
                                               filled(graph, QKV_SHAPE(OUTPUTS), 1000),
                                               (struct qkv_segments){SENTENCES, START, LENGTH}, first);
        expect_done(qkv_graph_check(graph, &error));
        qkv_forward(graph);
        double values[TOKENS * OUTPUTS];
        qkv_tensor_read(y, values);
        for (int64_t i = 0; i < TOKENS * OUTPUTS; i++)
            cr_expect_float_eq(values[i], convolved(i / OUTPUTS, i % OUTPUTS, first), 1e-12, "first %d, [%d]",
                               (int)first, (int)i);
    }
}

Test(examples, what_does_not_fit_is_refused)
{
    static const char *const messages[] = {
        ("convolution: input is [9, 3], but weight is [4, 2], whose rows must be a multiple of the input's "
         "columns"),
        "convolution: the input is NULL",
        "concat_all: there are 0 tensors",
        "neighbours: 3 rows from the row -9223372036854775808 on are wanted, but input is [9, 3]",
    };
    for (int i = 0; i < 4; i++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(9, 3)),
                          *weight = qkv_variable(graph, QKV_SHAPE(4, 2));
        if (i < 2) qkv_convolution(graph, i ? NULL : x, weight, NULL, (struct qkv_segments){0}, 0);
        if (i == 2) qkv_concat_all(graph, NULL, 0, 1);
        if (i == 3) qkv_neighbours(graph, x, (struct qkv_segments){0}, INT64_MIN, 3);
        expect_refusal(qkv_graph_check(graph, &error), messages[i]);
    }
}

Test(examples, many_tensors_are_concatenated_in_order)
{
    enum { MANY = 7 };
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
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
}

/* The functions of qkv/ops.def that other tests call by the number of the op, so that a swapped argument would not be seen. */
Test(examples, functions_pass_their_arguments)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *a = qkv_variable(graph, QKV_SHAPE(2, 2)), *b = qkv_variable(graph, QKV_SHAPE(2, 2)),
                      *column = qkv_variable(graph, QKV_SHAPE(2, 1)),
                      *condition = qkv_constant(graph, QKV_SHAPE(2, 2));
    const int32_t rows[] = {2, 0};
    const struct {
        struct qkv_tensor *y;
        const double *expected;
    } results[] = {
        {qkv_divide(graph, a, b), N(8, 2, 0.5, 0.25)},
        {qkv_minimum(graph, a, b), N(2, 2, 4, 1)},
        {qkv_maximum(graph, a, b), N(16, 4, 8, 4)},
        {qkv_multiply_column(graph, a, column), N(48, 12, 20, 5)},
        {qkv_sqrt(graph, a), N(4, 2, 2, 1)},
        {qkv_abs(graph, qkv_scale(graph, a, -1)), N(16, 4, 4, 1)},
        {qkv_add_scalar(graph, a, 0.5), N(16.5, 4.5, 4.5, 1.5)},
        {qkv_pow(graph, a, 2), N(256, 16, 16, 1)},
        {qkv_scatter_rows(graph, a, rows, 3), N(4, 1, 0, 0, 16, 4)},
        {qkv_permute(graph, column, QKV_AXES(1, 0)), N(3, 5)},
        {qkv_min(graph, a, 1), N(4, 1)},
        {qkv_max(graph, a, 0), N(16, 4)},
        {qkv_argmin(graph, a, 1), N(1, 1)},
        {qkv_argmax(graph, a, 1), N(0, 0)},
        {qkv_top_k(graph, a, 1), N(16, 4)},
        {qkv_top_k_indices(graph, b, 1), N(0, 0)},
        {qkv_where(graph, condition, a, b), N(16, 2, 8, 1)}, /* b where the condition is 0 */
    };
    qkv_tensor_write(a, N(16, 4, 4, 1));
    qkv_tensor_write(b, N(2, 2, 8, 4));
    qkv_tensor_write(column, N(3, 5));
    qkv_tensor_write(condition, N(2, 0, -0.0, NAN));
    qkv_forward(graph);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        double found[6];
        cr_assert_not_null(results[i].y, "%d", (int)i);
        qkv_tensor_read(results[i].y, found);
        cr_expect_arr_eq(found, results[i].expected, (size_t)qkv_tensor_count(results[i].y) * sizeof *found,
                         "%d", (int)i);
    }
}

/* The overview in qkv/graph.h has every op. */
Test(examples, of_no_op_are_missing_in_the_overview)
{
    char *text = strstr(read_file(QKV_SOURCE_DIR "/framework/engine/include/qkv/graph.h", NULL), "== ops ==");
    *strstr(text, "Example:") = '\0';
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
        const char *name = qkv_op_name((enum qkv_op_id)op), *at = strstr(text, name);
        while (at && (at[-1] != ' ' || !strchr(",(", at[strlen(name)]))) at = strstr(at + 1, name);
        cr_expect_not_null(at, "%s is not in the overview of ops in qkv/graph.h", name);
    }
}
