/* What ops on single numbers give where they have an edge: ties, zeros, NaN; with the kernels of every instruction
 * set. */
#include "qkv/ops.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { COUNT = 6 };

static const char *const VARIANTS[] = {"portable", "avx2", "avx512"};

static void expect_numbers(const char *what, const char *variant, const double *found, const double *expected)
{
    for (int i = 0; i < COUNT; i++)
        cr_expect(found[i] == expected[i] || (isnan(found[i]) && isnan(expected[i])),
                  "%s, %s [%d]: %g, not %g", what, variant, i, found[i], expected[i]);
}

typedef struct qkv_tensor *pair_op(struct qkv_graph *graph, struct qkv_tensor *a, struct qkv_tensor *b);

/* Expects y = op(a, b), and the gradients da and db for a gradient of y of 1; NULL: not looked at. */
static void check_pair(const char *what, pair_op *op, const double *a, const double *b, const double *y,
                       const double *da, const double *db)
{
    static const double ones[COUNT] = {1, 1, 1, 1, 1, 1};
    for (size_t v = 0; v < sizeof VARIANTS / sizeof *VARIANTS; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *first = qkv_variable(graph, QKV_SHAPE(COUNT)),
                          *second = qkv_variable(graph, QKV_SHAPE(COUNT));
        struct qkv_tensor *result = op(graph, first, second);
        qkv_tensor_write(first, a);
        qkv_tensor_write(second, b);
        qkv_forward(graph);
        double found[COUNT];
        qkv_tensor_read(result, found);
        expect_numbers(what, VARIANTS[v], found, y);
        qkv_backward(graph, result, ones);
        if (da) {
            qkv_tensor_read_gradient(first, found);
            expect_numbers(what, VARIANTS[v], found, da);
        }
        if (db) {
            qkv_tensor_read_gradient(second, found);
            expect_numbers(what, VARIANTS[v], found, db);
        }
        qkv_graph_free(graph);
    }
}

static struct qkv_tensor *first_abs(struct qkv_graph *graph, struct qkv_tensor *a, struct qkv_tensor *b)
{
    (void)b;
    return qkv_abs(graph, a);
}

static struct qkv_tensor *first_sqrt(struct qkv_graph *graph, struct qkv_tensor *a, struct qkv_tensor *b)
{
    (void)b;
    return qkv_sqrt(graph, a);
}

static const double LEFT[COUNT] = {1, 2, 3, NAN, 1, -INFINITY}, RIGHT[COUNT] = {2, 2, -1, 0, NAN, 5};

Test(edges, minimum)
{
    check_pair("minimum", qkv_minimum, LEFT, RIGHT, (double[]){1, 2, -1, NAN, NAN, -INFINITY},
               (double[]){1, 0.5, 0, 0, 0, 1}, (double[]){0, 0.5, 1, 0, 0, 0});
}

Test(edges, maximum)
{
    check_pair("maximum", qkv_maximum, LEFT, RIGHT, (double[]){2, 2, 3, NAN, NAN, 5},
               (double[]){0, 0.5, 1, 0, 0, 0}, (double[]){1, 0.5, 0, 0, 0, 1});
}

Test(edges, divide)
{
    check_pair("divide", qkv_divide, (double[]){1, -1, 0, 6, NAN, 1}, (double[]){0, 0, 0, 4, 1, INFINITY},
               (double[]){INFINITY, -INFINITY, NAN, 1.5, NAN, 0},
               (double[]){INFINITY, INFINITY, INFINITY, 0.25, 1, 0}, NULL);
}

Test(edges, abs)
{
    const double x[COUNT] = {-2, 0, 3, -INFINITY, -0.0, 0.5};
    check_pair("abs", first_abs, x, x, (double[]){2, 0, 3, INFINITY, 0, 0.5}, (double[]){-1, 0, 1, -1, 0, 1},
               NULL);
}

Test(edges, sqrt)
{
    const double x[COUNT] = {4, 0, -1, INFINITY, 0.25, NAN};
    check_pair("sqrt", first_sqrt, x, x, (double[]){2, 0, NAN, INFINITY, 0.5, NAN},
               (double[]){0.25, INFINITY, NAN, 0, 1, NAN}, NULL);
}

static struct qkv_tensor *first_log(struct qkv_graph *graph, struct qkv_tensor *a, struct qkv_tensor *b)
{
    (void)b;
    return qkv_log(graph, a);
}

Test(edges, log)
{
    const double x[COUNT] = {-0.0, 0, -1e-40, -1, INFINITY, 1};
    check_pair("log", first_log, x, x, (double[]){-INFINITY, -INFINITY, NAN, NAN, INFINITY, 0}, NULL, NULL);
}

static struct qkv_tensor *clamped(struct qkv_graph *graph, struct qkv_tensor *a, struct qkv_tensor *b)
{
    (void)b;
    return qkv_clamp(graph, a, -1, 2);
}

Test(edges, clamp)
{
    const double x[COUNT] = {-2, -1, 0.5, 2, INFINITY, NAN};
    check_pair("clamp", clamped, x, x, (double[]){-1, -1, 0.5, 2, 2, NAN}, (double[]){0, 1, 1, 1, 0, 0},
               NULL);
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_error error = {""};
    qkv_clamp(graph, qkv_variable(graph, QKV_SHAPE(2)), 1, NAN);
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "clamp: the range is 1 to nan, but its end must not lie below its start");
    qkv_graph_free(graph);
}

static double exponent; /* of powers */

static struct qkv_tensor *power(struct qkv_graph *graph, struct qkv_tensor *a, struct qkv_tensor *b)
{
    (void)b;
    return qkv_pow(graph, a, exponent);
}

Test(edges, pow)
{
    const double x[COUNT] = {-2, 0, 3, -1, NAN, 0.25};
    const struct {
        double exponent, y[COUNT], dx[COUNT];
    } CASES[] = {
        {2, {4, 0, 9, 1, NAN, 0.0625}, {-4, 0, 6, -2, NAN, 0.5}},
        {3, {-8, 0, 27, -1, NAN, 0.015625}, {12, 0, 27, 3, NAN, 0.1875}},
        {0, {1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}},
        {1, {-2, 0, 3, -1, NAN, 0.25}, {1, 1, 1, 1, 1, 1}},
        {-1,
         {-0.5, INFINITY, (double)(1.0f / 3), -1, NAN, 4},
         {-0.25, -INFINITY, (double)(-1.0f / 9), -1, NAN, -16}},
        {0.5,
         {NAN, 0, (double)1.7320508f, NAN, NAN, 0.5},
         {NAN, INFINITY, (double)(float)0.28867513459481, NAN, NAN, 1}},
        {9, {-512, 0, 19683, -1, NAN, 0x1p-18}, {2304, 0, 59049, 9, NAN, 9 * 0x1p-16}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        exponent = CASES[i].exponent;
        check_pair("pow", power, x, x, CASES[i].y, CASES[i].dx, NULL);
    }
}

static struct qkv_tensor *increased(struct qkv_graph *graph, struct qkv_tensor *a, struct qkv_tensor *b)
{
    (void)b;
    return qkv_add_scalar(graph, a, 2.5);
}

Test(edges, add_scalar)
{
    const double x[COUNT] = {-2, 0, 3, -INFINITY, NAN, 0.25};
    check_pair("add_scalar", increased, x, x, (double[]){0.5, 2.5, 5.5, -INFINITY, NAN, 2.75},
               (double[]){1, 1, 1, 1, 1, 1}, NULL);
}
