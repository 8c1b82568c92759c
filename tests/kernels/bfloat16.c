/* Products in bfloat16 against their definition, to the bit, with every variant of the kernels. */
#include "qkv/graph.h"
#include "qkv/ops.h"
#include "qkv/parameters.h"
#include "qkv/workers.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const KERNELS[] = {"portable", "avx2", "avx512"};
enum { KERNEL_COUNT = sizeof KERNELS / sizeof KERNELS[0] };

/* y [m, n] = x [m, k] W' [k, n] + bias; W' is W or its transpose. */
struct layer {
    int64_t m, n, k;
    bool is_transposed;
    struct qkv_parameters parameters;
    const struct qkv_parameter *weight, *bias;
    float *x, *dy;
};

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- the definition in qkv/precision.h and kernels/bfloat16.h ---- */

static float without_small(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

static float nearest(float x)
{
    uint32_t bits = bits_of(without_small(x));
    if (isnan(x)) return x;
    return float_of((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

/* One product of rows x and w, `x_step` and `w_step` numbers apart: in blocks of 256, of which the later are added. */
static float defined(int64_t k, const float *x, int64_t x_step, const float *w, int64_t w_step, float added)
{
    float total = 0;
    for (int64_t first = 0; first < k; first += 256) {
        float sum = 0;
        for (int64_t l = first; l < k && l < first + 256; l += 2) {
            bool is_last = l + 1 == k;
            float x1 = is_last ? 0 : nearest(x[(l + 1) * x_step]),
                  w1 = is_last ? 0 : nearest(w[(l + 1) * w_step]);
            sum = without_small(fmaf(x1, w1, sum));
            sum = without_small(fmaf(nearest(x[l * x_step]), nearest(w[l * w_step]), sum));
        }
        total = first ? sum + total : sum + added; /* the bias, in forward */
    }
    return total;
}

/* ---- layers ---- */

static float random_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1;
}

static void layer_init(struct layer *layer)
{
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 1};
    uint32_t state = (uint32_t)(layer->m * 31 + layer->n * 7 + layer->k);
    struct qkv_shape shape =
        layer->is_transposed ? QKV_SHAPE(layer->n, layer->k) : QKV_SHAPE(layer->k, layer->n);
    layer->parameters = (struct qkv_parameters){0};
    layer->weight = qkv_parameters_add(&layer->parameters, shape, zeros, "weight");
    layer->bias = qkv_parameters_add(&layer->parameters, QKV_SHAPE(layer->n), zeros, "bias");
    cr_assert_eq(qkv_parameters_allocate(&layer->parameters, QKV_FLOAT32, NULL), QKV_OK);
    for (int64_t i = 0; i < layer->weight->count; i++)
        qkv_parameter_set(&layer->parameters, layer->weight, i, (double)random_number(&state));
    for (int64_t i = 0; i < layer->n; i++)
        qkv_parameter_set(&layer->parameters, layer->bias, i, (double)random_number(&state));
    layer->x = calloc((size_t)(layer->m * layer->k), sizeof *layer->x);
    layer->dy = calloc((size_t)(layer->m * layer->n), sizeof *layer->dy);
    for (int64_t i = 0; i < layer->m * layer->k; i++) layer->x[i] = 3 * random_number(&state);
    for (int64_t i = 0; i < layer->m * layer->n; i++) layer->dy[i] = random_number(&state);
    cr_assert_eq(qkv_parameters_set_precision(&layer->parameters, QKV_PRECISION_BFLOAT16, NULL), QKV_OK);
}

static void layer_release(struct layer *layer)
{
    qkv_parameters_release(&layer->parameters);
    free(layer->x);
    free(layer->dy);
}

static const float *weights_of(const struct layer *layer)
{
    return (const float *)layer->parameters.values + layer->weight->offset;
}

static int64_t wrong_outputs(const struct layer *layer, const float *y)
{
    int64_t wrong = 0, n = layer->n, k = layer->k;
    const float *w = weights_of(layer);
    for (int64_t i = 0; i < layer->m; i++)
        for (int64_t j = 0; j < n; j++) {
            float bias = (float)qkv_parameter_get(&layer->parameters, layer->bias, j);
            float expected = layer->is_transposed ? defined(k, layer->x + i * k, 1, w + j * k, 1, bias)
                                                  : defined(k, layer->x + i * k, 1, w + j, n, bias);
            wrong += bits_of(y[i * n + j]) != bits_of(expected);
        }
    return wrong;
}

/* dx = dy W'^T and dW = x^T dy, or dy^T x of a transposed W, each added to a gradient of 0. */
static int64_t wrong_gradients(const struct layer *layer, const float *dx, const float *dw)
{
    int64_t wrong = 0, m = layer->m, n = layer->n, k = layer->k;
    const float *w = weights_of(layer), *dy = layer->dy;
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            float expected = layer->is_transposed ? defined(n, dy + i * n, 1, w + l, k, 0)
                                                  : defined(n, dy + i * n, 1, w + l * n, 1, 0);
            wrong += bits_of(dx[i * k + l]) != bits_of(expected);
        }
    for (int64_t l = 0; l < k; l++)
        for (int64_t j = 0; j < n; j++) {
            float expected = layer->is_transposed ? defined(m, dy + j, n, layer->x + l, k, 0)
                                                  : defined(m, layer->x + l, k, dy + j, n, 0);
            wrong += bits_of(dw[layer->is_transposed ? j * k + l : l * n + j]) != bits_of(expected);
        }
    return wrong;
}

static void expect_none(int64_t wrong, const struct layer *layer, const char *what, const char *kernels)
{
    cr_expect_eq(wrong, 0, "%s of [%d, %d] times [%d, %d], %s: %d numbers are wrong", what, (int)layer->m,
                 (int)layer->k, (int)layer->k, (int)layer->n, kernels, (int)wrong);
}

/* y of a layer whose x is `variable`, or its own. */
static struct qkv_tensor *build(struct qkv_graph *graph, const struct layer *layer, void *gradients,
                                struct qkv_tensor *variable)
{
    qkv_graph_bind(graph, &layer->parameters, gradients, false);
    struct qkv_tensor *x = variable ? variable : qkv_wrap(graph, QKV_SHAPE(layer->m, layer->k), layer->x);
    struct qkv_tensor *y = qkv_linear(graph, x, qkv_graph_parameter(graph, layer->weight),
                                      qkv_graph_parameter(graph, layer->bias), layer->is_transposed);
    struct qkv_error error = {""};
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
    return y;
}

static void check_forward(const struct layer *layer, struct qkv_panels *panels, struct qkv_workers *workers,
                          const char *kernels)
{
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_set_panels(graph, panels);
    qkv_graph_set_workers(graph, workers);
    struct qkv_tensor *y = build(graph, layer, NULL, NULL);
    qkv_forward(graph);
    expect_none(wrong_outputs(layer, qkv_tensor_value(y)), layer, "outputs", kernels);
    qkv_graph_free(graph);
}

static void check_backward(const struct layer *layer, const char *kernels)
{
    float *gradients = calloc((size_t)layer->parameters.elements, sizeof *gradients);
    double *dy = calloc((size_t)(layer->m * layer->n), sizeof *dy);
    for (int64_t i = 0; i < layer->m * layer->n; i++) dy[i] = (double)layer->dy[i];
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(layer->m, layer->k)),
                      *y = build(graph, layer, gradients, x);
    memcpy(qkv_tensor_value(x), layer->x, (size_t)(layer->m * layer->k) * sizeof *layer->x);
    qkv_forward(graph);
    qkv_backward(graph, y, dy);
    expect_none(wrong_gradients(layer, qkv_tensor_gradient(x), gradients + layer->weight->offset), layer,
                "gradients", kernels);
    qkv_graph_free(graph);
    free(gradients);
    free(dy);
}

Test(bfloat16, products_have_the_bits_of_their_definition)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},     {1, 33, 5},   {2, 64, 64},    {3, 31, 66},  {4, 100, 7},   {5, 32, 128}, {12, 65, 20},
        {13, 17, 130}, {26, 96, 36}, {1, 1100, 300}, {7, 40, 257}, {20, 33, 515}, {490, 3, 35}, {520, 35, 3}};
    struct qkv_workers *workers = qkv_workers_new(3, NULL);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
            struct layer layer = {
                .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2], .is_transposed = is_transposed != 0};
            layer_init(&layer);
            for (int v = 0; v < KERNEL_COUNT; v++) {
                setenv("QKV_KERNELS", KERNELS[v], 1);
                struct qkv_panels *panels = qkv_panels_new(&layer.parameters);
                check_forward(&layer, NULL, NULL, KERNELS[v]);
                check_forward(&layer, panels, workers, KERNELS[v]);
                check_forward(&layer, panels, NULL, KERNELS[v]);
                check_backward(&layer, KERNELS[v]);
                qkv_panels_free(panels);
            }
            layer_release(&layer);
        }
    qkv_workers_free(workers);
}

/* Rounding, and what is too small or too large for it. */
Test(bfloat16, corner_cases_are_the_same_with_every_kernel)
{
    static const uint32_t corners[] = {
        0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x80800000, 0x00ffffff,
        0x3f800000, 0x3f807fff, 0x3f808000, 0x3f808001, 0x3f818000, 0x7f7fffff, 0xff7f8000,
        0x1f800000, 0x9f800001, 0x20000000, 0x5f000000, 0x33800000, 0xbf7fffff,
    };
    enum { COUNT = sizeof corners / sizeof corners[0] };
    struct layer layer = {.m = COUNT, .n = COUNT, .k = 3};
    layer_init(&layer);
    for (int i = 0; i < COUNT; i++) {
        layer.x[i * 3] = float_of(corners[i]);
        layer.x[i * 3 + 1] = i % 2 ? 0 : 2e-38f;
        layer.x[i * 3 + 2] = 0;
        qkv_parameter_set(&layer.parameters, layer.weight, i, (double)float_of(corners[(i * 7) % COUNT]));
        qkv_parameter_set(&layer.parameters, layer.bias, i, 0);
    }
    for (int v = 0; v < KERNEL_COUNT; v++) {
        setenv("QKV_KERNELS", KERNELS[v], 1);
        check_forward(&layer, NULL, NULL, KERNELS[v]);
    }
    layer_release(&layer);
}

Test(bfloat16, infinity_and_nan_are_not_hidden)
{
    for (int v = 0; v < KERNEL_COUNT; v++) {
        setenv("QKV_KERNELS", KERNELS[v], 1);
        struct layer layer = {.m = 3, .n = 4, .k = 6};
        layer_init(&layer);
        layer.x[0] = (float)INFINITY;
        layer.x[2 * layer.k] = float_of(0x7f800001); /* a NaN whose upper half is infinity */
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        const float *y = qkv_tensor_value(build(graph, &layer, NULL, NULL));
        qkv_forward(graph);
        cr_expect(isinf(y[0]) && isfinite(y[4]) && isnan(y[8]), "%s: %g %g %g", KERNELS[v], (double)y[0],
                  (double)y[4], (double)y[8]);
        qkv_graph_free(graph);
        layer_release(&layer);
    }
}

/* The loss with a fused output layer, and its gradients, against a layer and a loss of their own. */
Test(bfloat16, the_fused_output_layer_rounds_as_a_layer_does)
{
    enum { ROWS = 40, CLASSES = 600, INNER = 24 };
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS; i++) labels[i] = i * 13 % CLASSES;
    for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
        struct layer layer = {.m = ROWS, .n = CLASSES, .k = INNER, .is_transposed = is_transposed != 0};
        layer_init(&layer);
        float *gradients[2];
        double losses[2];
        for (int is_fused = 0; is_fused < 2; is_fused++) {
            gradients[is_fused] = calloc((size_t)layer.parameters.elements, sizeof(float));
            struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
            qkv_graph_bind(graph, &layer.parameters, gradients[is_fused], false);
            struct qkv_tensor *x = qkv_wrap(graph, QKV_SHAPE(ROWS, INNER), layer.x),
                              *weight = qkv_graph_parameter(graph, layer.weight),
                              *bias = qkv_graph_parameter(graph, layer.bias);
            struct qkv_tensor *loss =
                is_fused
                    ? qkv_linear_cross_entropy(graph, x, weight, bias, layer.is_transposed, labels, 0.1, 1)
                    : qkv_cross_entropy(graph, qkv_linear(graph, x, weight, bias, layer.is_transposed),
                                        labels, 0.1, 1);
            qkv_forward(graph);
            qkv_backward(graph, loss, NULL);
            losses[is_fused] = qkv_tensor_scalar(loss);
            qkv_graph_free(graph);
        }
        cr_expect_float_eq(losses[0], losses[1], 1e-4 * fabs(losses[0]));
        for (int64_t i = 0; i < layer.weight->count;
             i++) { /* a rounding of the logits' gradients may differ */
            double apart = (double)gradients[0][layer.weight->offset + i],
                   fused = (double)gradients[1][layer.weight->offset + i];
            cr_assert_float_eq(fused, apart, 1e-2 * fabs(apart) + 1e-3, "%d", (int)i);
        }
        free(gradients[0]);
        free(gradients[1]);
        layer_release(&layer);
    }
}

Test(bfloat16, is_refused_for_float64)
{
    struct qkv_parameters wide = {0};
    struct qkv_error error = {""};
    qkv_parameters_add(&wide, QKV_SHAPE(2, 2), (struct qkv_initial){QKV_INITIALIZER_ZEROS, 1}, "weight");
    cr_assert_eq(qkv_parameters_allocate(&wide, QKV_FLOAT64, NULL), QKV_OK);
    cr_expect_eq(qkv_parameters_set_precision(&wide, QKV_PRECISION_BFLOAT16, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "products in bfloat16 need parameters in float32");
    qkv_parameters_release(&wide);
}
