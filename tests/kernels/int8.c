/* Products in int8 against their definition, to the bit, with every variant of the kernels. */
#include "qkv/graph.h"
#include "qkv/ops.h"
#include "qkv/parameters.h"
#include "qkv/workers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One product: x [m, k] times a weight [k, n], or a table [n, k]. */
struct product {
    int64_t m, n, k;
    bool is_table, has_bias;
    struct qkv_parameters parameters;
    const struct qkv_parameter *weight, *bias;
    float *x;
};

static float random_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1;
}

static void product_init(struct product *p)
{
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 1};
    uint32_t state = (uint32_t)(p->m * 31 + p->n * 7 + p->k);
    p->parameters = (struct qkv_parameters){0};
    p->weight = qkv_parameters_add(
        &p->parameters, p->is_table ? QKV_SHAPE(p->n, p->k) : QKV_SHAPE(p->k, p->n), zeros, "weight");
    p->bias = qkv_parameters_add(&p->parameters, QKV_SHAPE(p->n), zeros, "bias");
    if (p->is_table) qkv_parameters_mark_table(&p->parameters, p->weight);
    cr_assert_eq(qkv_parameters_allocate(&p->parameters, QKV_FLOAT32, NULL), QKV_OK);
    for (int64_t i = 0; i < p->weight->count; i++)
        qkv_parameter_set(&p->parameters, p->weight, i, (double)random_number(&state));
    for (int64_t i = 0; i < p->n; i++)
        qkv_parameter_set(&p->parameters, p->bias, i, (double)random_number(&state));
    p->x = calloc((size_t)(p->m * p->k), sizeof *p->x);
    for (int64_t i = 0; i < p->m * p->k; i++) p->x[i] = 3 * random_number(&state);
    if (p->m > 2) memset(p->x + p->k, 0, (size_t)p->k * sizeof *p->x); /* a row of zeros */
    cr_assert_eq(qkv_parameters_set_precision(&p->parameters, QKV_PRECISION_INT8, NULL), QKV_OK);
}

static void product_release(struct product *p)
{
    qkv_parameters_release(&p->parameters);
    free(p->x);
}

static float weight_at(const struct product *p, int64_t l, int64_t j)
{
    const float *values = (const float *)p->parameters.values + p->weight->offset;
    return p->is_table ? values[j * p->k + l] : values[l * p->n + j];
}

/* The definition in qkv/precision.h: scale = largest / 127 for each row of x and each output. */
static float defined(const struct product *p, int64_t i, int64_t j)
{
    const float *x = p->x + i * p->k;
    float largest_x = 0, largest_w = 0;
    for (int64_t l = 0; l < p->k; l++) {
        largest_x = fmaxf(largest_x, fabsf(x[l]));
        largest_w = fmaxf(largest_w, fabsf(weight_at(p, l, j)));
    }
    int64_t sum = 0;
    float factor = 127 / largest_x, scale = largest_w / 127;
    for (int64_t l = 0; l < p->k && largest_x > 0; l++)
        sum += (int64_t)rintf(x[l] * factor) * (int64_t)rintf(weight_at(p, l, j) / scale);
    float y = (float)sum * (largest_x / 127 * scale);
    return p->has_bias ? y + (float)qkv_parameter_get(&p->parameters, p->bias, j) : y;
}

static void check(const struct product *p, const float *y, const char *what)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) wrong += y[i * p->n + j] != defined(p, i, j);
    cr_expect_eq(wrong, 0, "%s, [%d, %d] times [%d, %d]: %d numbers are wrong", what, (int)p->m, (int)p->k,
                 (int)p->k, (int)p->n, (int)wrong);
}

static void multiply(const struct product *p, struct qkv_panels *panels, struct qkv_workers *workers,
                     const char *what)
{
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_set_gradients(graph, false);
    qkv_graph_set_panels(graph, panels);
    qkv_graph_set_workers(graph, workers);
    qkv_graph_bind(graph, &p->parameters, NULL, false);
    struct qkv_tensor *y =
        qkv_linear(graph, qkv_wrap(graph, QKV_SHAPE(p->m, p->k), p->x), qkv_graph_parameter(graph, p->weight),
                   p->has_bias ? qkv_graph_parameter(graph, p->bias) : NULL, p->is_table);
    struct qkv_error error = {""};
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
    qkv_forward(graph);
    check(p, qkv_tensor_value(y), what);
    qkv_graph_free(graph);
}

Test(int8, products_have_the_bits_of_their_definition)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 33, 5},   {2, 64, 64},  {3, 31, 66},
                                       {4, 100, 7},   {5, 32, 128}, {6, 70, 33},  {12, 65, 20},
                                       {13, 17, 130}, {20, 64, 48}, {26, 96, 36}, {1, 1100, 300}};
    static const char *const kernels[] = {"portable", "avx2", "avx512"};
    struct qkv_workers *workers = qkv_workers_new(3, NULL);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int is_table = 0; is_table < 2; is_table++) {
            struct product p = {.m = sizes[s][0],
                                .n = sizes[s][1],
                                .k = sizes[s][2],
                                .is_table = is_table != 0,
                                .has_bias = (s + (size_t)is_table) % 2 == 0};
            product_init(&p);
            for (size_t v = 0; v < sizeof kernels / sizeof kernels[0]; v++) {
                setenv("QKV_KERNELS", kernels[v], 1);
                struct qkv_panels *panels = qkv_panels_new(&p.parameters);
                multiply(&p, NULL, NULL, kernels[v]);
                multiply(&p, panels, workers, kernels[v]);
                multiply(&p, panels, NULL, kernels[v]);
                qkv_panels_free(panels);
            }
            product_release(&p);
        }
    qkv_workers_free(workers);
}

Test(int8, infinity_and_nan_are_not_hidden)
{
    struct product p = {.m = 3, .n = 4, .k = 6};
    product_init(&p);
    p.x[0] = (float)INFINITY;
    p.x[2 * p.k] = (float)NAN;
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_bind(graph, &p.parameters, NULL, false);
    struct qkv_tensor *y = qkv_linear(graph, qkv_wrap(graph, QKV_SHAPE(3, 6), p.x),
                                      qkv_graph_parameter(graph, p.weight), NULL, false);
    qkv_forward(graph);
    const float *value = qkv_tensor_value(y);
    cr_expect(isnan(value[0]) && isnan(value[8]) && value[4] == 0, "%g %g %g", (double)value[0],
              (double)value[8], (double)value[4]);
    qkv_graph_free(graph);
    product_release(&p);
}

/* Number j of row 0 of x W', in float32. */
static double exact(const struct product *p, int64_t j, bool transposed)
{
    double sum = 0;
    for (int64_t l = 0; l < p->k; l++)
        sum += (double)p->x[l] * (double)(transposed ? weight_at(p, j, l) : weight_at(p, l, j));
    return sum;
}

/* Copies in int8 are smaller: those in float32 must not be put into their memory. */
Test(int8, panels_of_another_precision_are_packed_again)
{
    struct product p = {.m = 4, .n = 50, .k = 50};
    product_init(&p);
    struct qkv_panels *panels = qkv_panels_new(&p.parameters);
    for (int precision = QKV_PRECISION_INT8; precision >= QKV_PRECISION_FLOAT32; precision--) {
        cr_assert_eq(qkv_parameters_set_precision(&p.parameters, (enum qkv_precision)precision, NULL),
                     QKV_OK);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_set_panels(graph, panels);
        qkv_graph_bind(graph, &p.parameters, NULL, false);
        struct qkv_tensor *weight = qkv_graph_parameter(graph, p.weight),
                          *x = qkv_wrap(graph, QKV_SHAPE(p.m, p.k), p.x),
                          *plain = qkv_linear(graph, x, weight, NULL, false),
                          *transposed = qkv_linear(graph, x, weight, NULL, true);
        static const double tolerances[] = {
            [QKV_PRECISION_FLOAT32] = 1e-4, [QKV_PRECISION_BFLOAT16] = 0.05, [QKV_PRECISION_INT8] = 0.2};
        const double tolerance = tolerances[precision];
        for (int run = 0; run < 2; run++) {
            qkv_graph_rewind(graph);
            qkv_forward(graph);
        }
        for (int64_t j = 0; j < p.n; j++) {
            cr_expect_float_eq((double)((const float *)qkv_tensor_value(plain))[j], exact(&p, j, false),
                               tolerance);
            cr_expect_float_eq((double)((const float *)qkv_tensor_value(transposed))[j], exact(&p, j, true),
                               tolerance);
        }
        qkv_graph_free(graph);
    }
    qkv_panels_free(panels);
    product_release(&p);
}

Test(int8, gradients_are_refused)
{
    struct product p = {.m = 1, .n = 4, .k = 6};
    product_init(&p);
    float gradients[64] = {0};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_bind(graph, &p.parameters, gradients, false);
    struct qkv_error error = {""};
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
    cr_expect_not_null(strstr(error.message, "int8 parameters have no gradients"), "%s", error.message);
    qkv_graph_free(graph);
    product_release(&p);
    struct qkv_parameters wide = {0};
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 1};
    qkv_parameters_add(&wide, QKV_SHAPE(2, 2), zeros, "weight");
    cr_expect_eq(qkv_parameters_set_precision(&wide, QKV_PRECISION_INT8, &error), QKV_INVALID,
                 "not allocated");
    cr_assert_eq(qkv_parameters_allocate(&wide, QKV_FLOAT64, NULL), QKV_OK);
    cr_expect_eq(qkv_parameters_set_precision(&wide, QKV_PRECISION_INT8, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "products in int8 need parameters in float32");
    qkv_parameters_release(&wide);
    struct qkv_parameters broken = {0};
    const struct qkv_parameter *weight = qkv_parameters_add(&broken, QKV_SHAPE(2, 2), zeros, "weight");
    cr_assert_eq(qkv_parameters_allocate(&broken, QKV_FLOAT32, NULL), QKV_OK);
    qkv_parameter_set(&broken, weight, 3, (double)NAN);
    cr_expect_eq(qkv_parameters_set_precision(&broken, QKV_PRECISION_INT8, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "weight has numbers that are not finite");
    cr_expect_eq(broken.products, QKV_PRECISION_FLOAT32, "nothing has changed");
    qkv_parameters_release(&broken);
}

/* The binding was made before; int8 products have no backward that is right. */
Test(int8, gradients_are_refused_of_parameters_that_are_bound_already)
{
    struct qkv_parameters parameters = {0};
    const struct qkv_parameter *weight = qkv_parameters_add(
        &parameters, QKV_SHAPE(2, 2), (struct qkv_initial){QKV_INITIALIZER_NORMAL, 1}, "weight");
    cr_assert_eq(qkv_parameters_allocate(&parameters, QKV_FLOAT32, NULL), QKV_OK);
    qkv_parameters_initialize(&parameters, 1);
    float gradients[64] = {0};
    struct qkv_error error = {""};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_bind(graph, &parameters, gradients, false);
    cr_expect_not_null(qkv_graph_parameter(graph, weight));
    cr_assert_eq(qkv_parameters_set_precision(&parameters, QKV_PRECISION_INT8, &error), QKV_OK, "%s",
                 error.message);
    qkv_graph_reset(graph);
    cr_expect_null(qkv_graph_parameter(graph, weight));
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "weight: int8 parameters have no gradients: bind them anew, without");
    qkv_graph_reset(graph);
    qkv_graph_bind(graph, &parameters, NULL, false);
    cr_expect_not_null(qkv_graph_parameter(graph, weight));
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_OK);
    qkv_graph_free(graph);
    qkv_parameters_release(&parameters);
}
