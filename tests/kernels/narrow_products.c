/* Products in bfloat16 and in int8 against their definition, to the bit, with every variant of the kernels. */
#include "numbers.h"
#include "parameters.h"

#include "framework/engine/core/system.h"
#include "framework/engine/graph/internal.h"

#include <float.h>

/* y [m, n] = x [m, k] W' [k, n] + bias; W' is W or its transpose, which in int8 is a table. */
struct layer {
    enum qkv_precision precision;
    int64_t m, n, k;
    bool is_transposed, has_bias;
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

/* ---- the definition in qkv/base.h and kernels/narrow.h ---- */

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

/* a * b + c, rounded once to 24 bits, and then 0 of its sign if it is below 2^-126. Where that may be, float64 holds it
 * exactly. */
static float fused_without_small(float a, float b, float c)
{
    static const double LEAST = 0x1.ffffffp-127; /* the least number that 24 bits round to 2^-126 */
    float result = fmaf(a, b, c);
    bool is_small = fabsf(result) <= FLT_MIN && fabs((double)a * (double)b + (double)c) < LEAST;
    return is_small ? copysignf(0, result) : result;
}

/* One product of rows x and w, `x_step` and `w_step` numbers apart: in blocks of 512, of which the later are added. */
static float bfloat16_product(int64_t k, const float *x, int64_t x_step, const float *w, int64_t w_step,
                              float added)
{
    float total = 0;
    for (int64_t first = 0; first < k; first += 512) {
        float sum = 0;
        for (int64_t step = first; step < k && step < first + 512; step += 32) {
            float of[2] = {0, 0}; /* even and odd terms */
            for (int64_t l = step; l < step + 32; l++) {
                float left = l < k ? nearest(x[l * x_step]) : 0, right = l < k ? nearest(w[l * w_step]) : 0;
                of[l % 2] = fused_without_small(left, right, of[l % 2]);
            }
            sum = without_small(sum + without_small(of[0] + of[1]));
        }
        total = first ? sum + total : sum + added; /* the bias, in forward */
    }
    return total;
}

static const float *weights_of(const struct layer *layer)
{
    return (const float *)layer->parameters.values + layer->weight->offset;
}

static float weight_at(const struct layer *layer, int64_t l, int64_t j)
{
    return weights_of(layer)[layer->is_transposed ? j * layer->k + l : l * layer->n + j];
}

/* In int8, scale = largest / 127 for each row of x and each output. */
static float int8_product(const struct layer *layer, const float *x, int64_t j)
{
    float largest_x = 0, largest_w = 0;
    for (int64_t l = 0; l < layer->k; l++) {
        largest_x = fmaxf(largest_x, fabsf(x[l]));
        largest_w = fmaxf(largest_w, fabsf(weight_at(layer, l, j)));
    }
    int64_t sum = 0;
    float factor = 127 / largest_x, scale = largest_w / 127;
    for (int64_t l = 0; l < layer->k && largest_x > 0; l++)
        sum += (int64_t)rintf(x[l] * factor) * (int64_t)rintf(weight_at(layer, l, j) / scale);
    return (float)sum * (largest_x / 127 * scale);
}

static int64_t wrong_outputs(const struct layer *layer, const float *y)
{
    int64_t wrong = 0, n = layer->n, k = layer->k;
    for (int64_t i = 0; i < layer->m; i++)
        for (int64_t j = 0; j < n; j++) {
            const float *x = layer->x + i * k, *w = weights_of(layer) + (layer->is_transposed ? j * k : j);
            float bias = layer->has_bias ? (float)qkv_parameter_get(&layer->parameters, layer->bias, j) : 0;
            float expected = layer->precision == QKV_PRECISION_INT8
                                 ? int8_product(layer, x, j) + bias
                                 : bfloat16_product(k, x, 1, w, layer->is_transposed ? 1 : n, bias);
            wrong += bits_of(y[i * n + j]) != bits_of(expected) && !(isnan(y[i * n + j]) && isnan(expected));
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
            float expected = layer->is_transposed ? bfloat16_product(n, dy + i * n, 1, w + l, k, 0)
                                                  : bfloat16_product(n, dy + i * n, 1, w + l * n, 1, 0);
            wrong += bits_of(dx[i * k + l]) != bits_of(expected);
        }
    for (int64_t l = 0; l < k; l++)
        for (int64_t j = 0; j < n; j++) {
            float expected = layer->is_transposed ? bfloat16_product(m, dy + j, n, layer->x + l, k, 0)
                                                  : bfloat16_product(m, layer->x + l, k, dy + j, n, 0);
            wrong += bits_of(dw[layer->is_transposed ? j * k + l : l * n + j]) != bits_of(expected);
        }
    return wrong;
}

/* ---- layers ---- */

static float random_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1;
}

/* Row 1 of x is 0. */
static void layer_init(struct layer *layer)
{
    uint32_t state = (uint32_t)(layer->m * 31 + layer->n * 7 + layer->k);
    struct qkv_shape shape =
        layer->is_transposed ? QKV_SHAPE(layer->n, layer->k) : QKV_SHAPE(layer->k, layer->n);
    layer->weight = qkv_parameters_add(&layer->parameters, shape, ZEROS, "weight");
    layer->bias = qkv_parameters_add(&layer->parameters, QKV_SHAPE(layer->n), ZEROS, "bias");
    if (layer->is_transposed && layer->precision == QKV_PRECISION_INT8)
        qkv_parameters_mark_table(&layer->parameters, layer->weight);
    cr_assert_eq(qkv_parameters_allocate(&layer->parameters, QKV_FLOAT32, NULL), QKV_OK);
    for (int64_t i = 0; i < layer->weight->count; i++)
        qkv_parameter_set(&layer->parameters, layer->weight, i, (double)random_number(&state));
    for (int64_t i = 0; i < layer->n; i++)
        qkv_parameter_set(&layer->parameters, layer->bias, i, (double)random_number(&state));
    layer->x = calloc((size_t)(layer->m * layer->k), sizeof *layer->x);
    layer->dy = calloc((size_t)(layer->m * layer->n), sizeof *layer->dy);
    for (int64_t i = 0; i < layer->m * layer->k; i++) layer->x[i] = 3 * random_number(&state);
    for (int64_t i = 0; i < layer->m * layer->n; i++) layer->dy[i] = random_number(&state);
    if (layer->m > 2) memset(layer->x + layer->k, 0, (size_t)layer->k * sizeof *layer->x);
    cr_assert_eq(qkv_parameters_set_precision(&layer->parameters, layer->precision, NULL), QKV_OK);
}

static void layer_release(struct layer *layer)
{
    qkv_parameters_release(&layer->parameters);
    free(layer->x);
    free(layer->dy);
}

static void expect_none(int64_t wrong, const struct layer *layer, const char *what)
{
    cr_expect_eq(wrong, 0, "%s of [%d, %d] times [%d, %d], precision %d, %s: %d numbers are wrong", what,
                 (int)layer->m, (int)layer->k, (int)layer->k, (int)layer->n, layer->precision,
                 getenv("QKV_KERNELS"), (int)wrong);
}

/* y of a layer whose x is `variable`, or its own. */
static struct qkv_tensor *build(struct qkv_graph *graph, const struct layer *layer, void *gradients,
                                struct qkv_tensor *variable)
{
    qkv_graph_bind(graph, &layer->parameters, gradients, false);
    struct qkv_tensor *x = variable ? variable : qkv_wrap(graph, QKV_SHAPE(layer->m, layer->k), layer->x);
    struct qkv_tensor *y =
        qkv_linear(graph, x, qkv_graph_parameter(graph, layer->weight),
                   layer->has_bias ? qkv_graph_parameter(graph, layer->bias) : NULL, layer->is_transposed);
    expect_done(qkv_graph_check(graph, &error));
    return y;
}

static void check_forward(const struct layer *layer, struct qkv_panels *panels, struct qkv_workers *workers)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_set_panels(graph, panels);
    qkv_graph_set_workers(graph, workers);
    struct qkv_tensor *y = build(graph, layer, NULL, NULL);
    qkv_forward(graph);
    expect_none(wrong_outputs(layer, qkv_tensor_value(y)), layer, "outputs");
}

static void check_forward_of_variants(const struct layer *layer)
{
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        check_forward(layer, NULL, NULL);
    }
}

static void check_backward(const struct layer *layer)
{
    float *gradients RELEASED(free_memory) = calloc((size_t)layer->parameters.elements, sizeof *gradients);
    double *dy RELEASED(free_memory) = calloc((size_t)(layer->m * layer->n), sizeof *dy);
    for (int64_t i = 0; i < layer->m * layer->n; i++) dy[i] = (double)layer->dy[i];
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(layer->m, layer->k)),
                      *y = build(graph, layer, gradients, x);
    memcpy(qkv_tensor_value(x), layer->x, (size_t)(layer->m * layer->k) * sizeof *layer->x);
    qkv_forward(graph);
    qkv_backward(graph, y, dy);
    expect_none(wrong_gradients(layer, qkv_tensor_gradient(x), gradients + layer->weight->offset), layer,
                "gradients");
}

static void expect_definition(enum qkv_precision precision)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 33, 5},    {2, 64, 64},  {3, 31, 66},
                                       {4, 100, 7},   {5, 32, 128},  {6, 70, 33},  {12, 65, 20},
                                       {13, 17, 130}, {20, 64, 48},  {26, 96, 36}, {1, 1100, 300},
                                       {7, 40, 257},  {20, 33, 515}, {490, 3, 35}, {520, 35, 3}};
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(3, NULL);
    for (size_t s = 0; s < 2 * sizeof sizes / sizeof sizes[0]; s++) {
        const int64_t *size = sizes[s / 2];
        struct layer layer RELEASED(layer_release) = {precision, size[0],    size[1],
                                                      size[2],   s % 2 != 0, (s / 2 + s) % 2 == 0};
        layer_init(&layer);
        for (int v = 0; v < VARIANT_COUNT; v++) {
            setenv("QKV_KERNELS", VARIANTS[v], 1);
            struct qkv_panels *panels RELEASED(free_panels) = qkv_panels_new(&layer.parameters);
            check_forward(&layer, NULL, NULL);
            check_forward(&layer, panels, workers);
            check_forward(&layer, panels, NULL);
            if (precision == QKV_PRECISION_BFLOAT16) check_backward(&layer);
        }
    }
}

/* ---- bfloat16, in each way of computing it, which is chosen once in a process ---- */

static void choose(const char *way)
{
    static const char *const NAMES[] = {"float32", "vdpbf16ps", "amx"};
    setenv("QKV_BFLOAT16", way, 1);
    if (strcmp(NAMES[qkv_bfloat16_way()], way) != 0) cr_skip_test("this processor has no %s", way);
}

/* Numbers whose products are subnormal, infinite, and in between, and a few NaN. */
static float extreme_number(uint32_t *state)
{
    static const int exponents[][2] = {{-75, 24}, {-140, 40}, {-10, 20}, {100, 29}};
    float x = random_number(state);
    const int *range = exponents[*state >> 12 & 3];
    if ((*state >> 8) % 1001 == 0) return (float)NAN;
    return ldexpf(x, range[0] + (int)(fabsf(random_number(state)) * (float)range[1]));
}

static void expect_extremes(int range_of_sizes)
{
    uint32_t state = 7;
    for (int i = 0; i < 60; i++) {
        int64_t size[3];
        for (int axis = 0; axis < 3; axis++)
            size[axis] = 1 + (int64_t)(fabsf(random_number(&state)) * (float)range_of_sizes);
        struct layer layer RELEASED(layer_release) = {QKV_PRECISION_BFLOAT16, size[0], size[1], size[2],
                                                      i % 2 != 0};
        layer_init(&layer);
        for (int64_t at = 0; at < layer.m * layer.k; at++) layer.x[at] = extreme_number(&state);
        for (int64_t at = 0; at < layer.weight->count; at++)
            qkv_parameter_set(&layer.parameters, layer.weight, at, (double)extreme_number(&state));
        check_forward_of_variants(&layer);
    }
}

/* 2^-126 - 1.5 * 2^-151 is 0, because 24 bits of it are below 2^-126; subnormal numbers would round it to 2^-126. */
static void expect_rounding_before_flushing(void)
{
    struct layer layer RELEASED(layer_release) = {QKV_PRECISION_BFLOAT16, 1, 1, 3};
    layer_init(&layer);
    static const float x[3] = {0x1p-126F, 0, -0x1.8p-75F}, w[3] = {1, 0, 0x1p-76F};
    memcpy(layer.x, x, sizeof x);
    for (int i = 0; i < 3; i++) qkv_parameter_set(&layer.parameters, layer.weight, i, (double)w[i]);
    cr_expect(bfloat16_product(3, x, 1, w, 1, 0) <= 0);
    check_forward_of_variants(&layer);
}

/* Rounding, and what is too small or too large for it. */
static void expect_corner_cases(void)
{
    static const uint32_t corners[] = {
        0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x80800000, 0x00ffffff,
        0x3f800000, 0x3f807fff, 0x3f808000, 0x3f808001, 0x3f818000, 0x7f7fffff, 0xff7f8000,
        0x1f800000, 0x9f800001, 0x20000000, 0x5f000000, 0x33800000, 0xbf7fffff,
    };
    enum { COUNT = sizeof corners / sizeof corners[0] };
    struct layer layer RELEASED(layer_release) = {
        .precision = QKV_PRECISION_BFLOAT16, .m = COUNT, .n = COUNT, .k = 3};
    layer_init(&layer);
    for (int i = 0; i < COUNT; i++) {
        layer.x[i * 3] = float_of(corners[i]);
        layer.x[i * 3 + 1] = i % 2 ? 0 : 2e-38f;
        layer.x[i * 3 + 2] = 0;
        qkv_parameter_set(&layer.parameters, layer.weight, i, (double)float_of(corners[(i * 7) % COUNT]));
    }
    check_forward_of_variants(&layer);
}

static void expect_bfloat16(const char *way)
{
    choose(way);
    expect_rounding_before_flushing();
    expect_definition(QKV_PRECISION_BFLOAT16);
    expect_extremes(100);
    expect_corner_cases();
}

Test(narrow_products, have_the_bits_of_their_definition_by_float32)
{
    expect_bfloat16("float32");
}

Test(narrow_products, have_the_bits_of_their_definition_by_vdpbf16ps)
{
    expect_bfloat16("vdpbf16ps");
}

Test(narrow_products, have_the_bits_of_their_definition_by_amx)
{
    expect_bfloat16("amx");
}

Test(narrow_products, have_the_bits_of_their_definition_in_int8)
{
    expect_definition(QKV_PRECISION_INT8);
}

Test(narrow_products, infinity_and_nan_are_not_hidden)
{
    for (int i = 0; i < 2 * VARIANT_COUNT; i++) {
        setenv("QKV_KERNELS", VARIANTS[i / 2], 1);
        const bool is_int8 = i % 2;
        struct layer layer RELEASED(layer_release) = {is_int8 ? QKV_PRECISION_INT8 : QKV_PRECISION_BFLOAT16,
                                                      3, 4, 6};
        layer_init(&layer);
        layer.x[0] = (float)INFINITY;
        layer.x[2 * layer.k] = float_of(0x7f800001); /* a NaN whose upper half is infinity */
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        const float *y = qkv_tensor_value(build(graph, &layer, NULL, NULL));
        qkv_forward(graph);
        cr_expect((is_int8 ? isnan(y[0]) : isinf(y[0])) && y[4] == 0 && isnan(y[8]), "%s: %g %g %g",
                  VARIANTS[i / 2], (double)y[0], (double)y[4], (double)y[8]);
    }
}

/* The loss with a fused output layer, and its gradients, against a layer and a loss of their own. */
Test(narrow_products, the_fused_output_layer_rounds_as_a_layer_does)
{
    enum { ROWS = 40, CLASSES = 600, INNER = 24 };
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS; i++) labels[i] = i * 13 % CLASSES;
    for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
        struct layer layer RELEASED(layer_release) = {QKV_PRECISION_BFLOAT16, ROWS, CLASSES, INNER,
                                                      is_transposed != 0,     true};
        layer_init(&layer);
        float *gradients[2];
        double losses[2];
        for (int is_fused = 0; is_fused < 2; is_fused++) {
            gradients[is_fused] = calloc((size_t)layer.parameters.elements, sizeof(float));
            struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
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
        }
        cr_expect_float_eq(losses[0], losses[1], 1e-4 * fabs(losses[0]));
        for (int64_t i = 0; i < layer.weight->count;
             i++) { /* a rounding of the logits' gradients may differ */
            double apart = (double)gradients[0][layer.weight->offset + i],
                   fused = (double)gradients[1][layer.weight->offset + i];
            cr_assert_float_eq(fused, apart, 1e-2 * fabs(apart) + 1e-3, "%d", (int)i);
        }
        for (int k = 0; k < 2; k++) free(gradients[k]);
    }
}

/* Number j of row 0 of x W', in float32. */
static double exact(const struct layer *p, int64_t j, bool transposed)
{
    double sum = 0;
    for (int64_t l = 0; l < p->k; l++)
        sum += (double)p->x[l] * (double)(transposed ? weight_at(p, j, l) : weight_at(p, l, j));
    return sum;
}

/* Copies in int8 are smaller: those in float32 must not be put into their memory. */
Test(narrow_products, panels_of_another_precision_are_packed_again)
{
    struct layer p RELEASED(layer_release) = {QKV_PRECISION_INT8, 4, 50, 50};
    layer_init(&p);
    struct qkv_panels *panels RELEASED(free_panels) = qkv_panels_new(&p.parameters);
    for (int precision = QKV_PRECISION_INT8; precision >= QKV_PRECISION_FLOAT32; precision--) {
        cr_assert_eq(qkv_parameters_set_precision(&p.parameters, (enum qkv_precision)precision, NULL),
                     QKV_OK);
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
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
    }
}

/* ---- what is refused ---- */

Test(narrow_products, are_refused_for_what_is_not_float32_or_not_finite)
{
    static const struct {
        enum qkv_dtype dtype;
        enum qkv_precision precision;
        bool is_allocated;
        const char *message;
    } CASES[] = {
        {QKV_FLOAT64, QKV_PRECISION_BFLOAT16, true, "products in bfloat16 need parameters in float32"},
        {QKV_FLOAT64, QKV_PRECISION_INT8, true, "products in int8 need parameters in float32"},
        {QKV_FLOAT32, QKV_PRECISION_INT8, false, ""},
        {QKV_FLOAT32, QKV_PRECISION_INT8, true, "weight has numbers that are not finite"},
    };
    for (int i = 0; i < 4; i++) {
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
        const struct qkv_parameter *weight =
            qkv_parameters_add(&parameters, QKV_SHAPE(2, 2), ZEROS, "weight");
        if (CASES[i].is_allocated) {
            cr_assert_eq(qkv_parameters_allocate(&parameters, CASES[i].dtype, NULL), QKV_OK);
            qkv_parameter_set(&parameters, weight, 3, (double)NAN);
        }
        expect_refusal_with(qkv_parameters_set_precision(&parameters, CASES[i].precision, &error),
                            CASES[i].message);
        cr_expect_eq(parameters.products, QKV_PRECISION_FLOAT32, "nothing has changed");
    }
}

/* The binding was made before; int8 products have no backward that is right. */
Test(narrow_products, int8_gradients_are_refused_of_parameters_that_are_bound_already)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *weight =
        last_parameter(&parameters, QKV_FLOAT32, QKV_SHAPE(2, 2), NORMAL, "weight");
    float gradients[64] = {0};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_bind(graph, &parameters, gradients, false);
    cr_expect_not_null(qkv_graph_parameter(graph, weight));
    expect_done(qkv_parameters_set_precision(&parameters, QKV_PRECISION_INT8, &error));
    qkv_graph_reset(graph);
    cr_expect_null(qkv_graph_parameter(graph, weight));
    expect_refusal(qkv_graph_check(graph, &error),
                   "weight: int8 parameters have no gradients: bind them anew, without");
    qkv_graph_reset(graph);
    qkv_graph_bind(graph, &parameters, gradients, false);
    expect_refusal_with(qkv_graph_check(graph, &error), "int8 parameters have no gradients");
    qkv_graph_reset(graph);
    qkv_graph_bind(graph, &parameters, NULL, false);
    cr_expect_not_null(qkv_graph_parameter(graph, weight));
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_OK);
}
