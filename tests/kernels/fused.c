/* Compares fused products and losses with compositions of their parts, and softmax, norms and cross entropy
 * with compositions of elementwise ops. */
#include "composition.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* ---- products and the loss ---- */

static struct qkv_tensor *linear(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                 const struct composition_case *test)
{
    return qkv_linear(graph, x[0], x[1], x[2], test->transposed);
}

static struct qkv_tensor *linear_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                       const struct composition_case *test)
{
    struct qkv_tensor *product = qkv_matmul(graph, x[0], x[1], false, test->transposed);
    return x[2] ? qkv_add_row(graph, product, x[2]) : product;
}

static struct qkv_tensor *linear_loss(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                      const struct composition_case *test)
{
    return qkv_linear_cross_entropy(graph, x[0], x[1], x[2], test->transposed, test->labels, test->smoothing,
                                    test->factor);
}

static struct qkv_tensor *linear_loss_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                            const struct composition_case *test)
{
    return qkv_cross_entropy(graph, linear(graph, x, test), test->labels, test->smoothing, test->factor);
}

/* Tests the weight plain and transposed, each with and without bias. */
static void expect_linear(struct composition_case test, int64_t inputs, int64_t outputs, builder *fused,
                          builder *composed)
{
    for (int variant = 0; variant < 4; variant++) {
        test.transposed = variant % 2;
        test.shape[1] = test.transposed ? QKV_SHAPE(outputs, inputs) : QKV_SHAPE(inputs, outputs);
        test.shape[2] = variant / 2 ? QKV_SHAPE(outputs) : (struct qkv_shape){0};
        expect_composition(&test, fused, composed);
    }
}

Test(fused, linear_is_a_product_plus_a_bias_row)
{
    static const int64_t widths[][2] = {{1, 1}, {3, 5}, {17, 9}, {33, 31}, {5, 171}};
    for (int n = 0; n < ROW_COUNT; n++)
        for (int w = 0; w < 5; w++) {
            struct composition_case test = {.name = "linear", .shape = {QKV_SHAPE(ROWS[n], widths[w][0])}};
            expect_linear(test, widths[w][0], widths[w][1], linear, linear_parts);
            test.shape[0] = QKV_SHAPE(2, ROWS[n], widths[w][0]);
            expect_linear(test, widths[w][0], widths[w][1], linear, linear_parts);
        }
}

static void expect_loss(const char *name, int64_t rows, int64_t width, int64_t classes)
{
    int32_t labels[192];
    for (int64_t i = 0; i < rows; i++) labels[i] = (int32_t)((i * 7 + 3) % classes);
    for (int smooth = 0; smooth < 2; smooth++) {
        const struct composition_case test = {
            .name = name,
            .shape = {QKV_SHAPE(rows, width)},
            .labels = labels,
            .smoothing = smooth ? 0.1 : 0,
            .factor = 1.0 / (double)rows,
        };
        expect_linear(test, width, classes, linear_loss, linear_loss_parts);
    }
}

Test(fused, linear_cross_entropy_is_linear_then_cross_entropy)
{
    for (int n = 0; n < ROW_COUNT; n++) {
        expect_loss("few classes", ROWS[n], 5, 3);
        expect_loss("odd classes", ROWS[n], 17, 37);
    }
    expect_loss("several tiles", 35, 3, 1025);
    expect_loss("several blocks", 67, 3, 8201);
}

/* ---- two passes over the same labels ---- */

static struct qkv_tensor *pair_loss(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                    const struct composition_case *test)
{
    return qkv_paired_cross_entropy(graph, x[0], x[1], x[2], x[3], test->transposed, test->labels,
                                    test->smoothing, test->consistency, test->one_sided, test->factor);
}

/* The sum over rows of KL(p || q), with the logarithms of p and q [N, C]. */
static struct qkv_tensor *divergence(struct qkv_graph *graph, struct qkv_tensor *log_p,
                                     struct qkv_tensor *log_q)
{
    struct qkv_tensor *terms = qkv_multiply(graph, qkv_exp(graph, log_p), qkv_subtract(graph, log_p, log_q));
    return qkv_sum(graph, terms, QKV_ALL);
}

static struct qkv_tensor *pair_loss_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                          const struct composition_case *test)
{
    struct qkv_tensor *entropy[2], *log[2];
    for (int k = 0; k < 2; k++) {
        struct qkv_tensor *logits = qkv_linear(graph, x[k], x[2], x[3], test->transposed);
        entropy[k] = qkv_cross_entropy(graph, logits, test->labels, test->smoothing,
                                       test->one_sided ? test->factor : test->factor / 2);
        log[k] = qkv_log_softmax(graph, logits);
    }
    if (test->one_sided)
        return qkv_add(graph, entropy[0],
                       qkv_scale(graph, divergence(graph, log[0], log[1]), test->factor * test->consistency));
    struct qkv_tensor *apart =
        qkv_add(graph, divergence(graph, log[0], log[1]), divergence(graph, log[1], log[0]));
    return qkv_add(graph, qkv_add(graph, entropy[0], entropy[1]),
                   qkv_scale(graph, apart, test->factor * test->consistency / 4));
}

/* Variant bits: 1: the weight is transposed, 2: there is a bias, 4: labels are smoothed. */
static void expect_pair(const char *name, bool one_sided, int64_t rows, int64_t width, int64_t classes,
                        int variants)
{
    int32_t labels[192];
    for (int64_t i = 0; i < rows; i++) labels[i] = (int32_t)((i * 7 + 3) % classes);
    for (int variant = 8 - variants; variant < 8; variant++) {
        bool transposed = variant & 1, has_bias = variant & 2, smooths = variant & 4;
        const struct composition_case test = {
            .name = name,
            .shape = {QKV_SHAPE(rows, width), QKV_SHAPE(rows, width),
                      transposed ? QKV_SHAPE(classes, width) : QKV_SHAPE(width, classes),
                      has_bias ? QKV_SHAPE(classes) : (struct qkv_shape){0}},
            .transposed = transposed,
            .labels = labels,
            .smoothing = smooths ? 0.1 : 0,
            .consistency = 3,
            .one_sided = one_sided,
            .factor = 1.0 / (double)rows,
        };
        expect_composition(&test, pair_loss, pair_loss_parts);
    }
}

Test(fused, paired_cross_entropy_is_two_cross_entropies_and_their_divergences)
{
    for (int n = 0; n < ROW_COUNT; n++) {
        expect_pair("few classes", false, ROWS[n], 5, 3, 8);
        expect_pair("odd classes", false, ROWS[n], 17, 37, 8);
    }
    expect_pair("several tiles", false, 35, 3, 1025, 4);
    expect_pair("several blocks", false, 35, 3, 8201, 2);
}

Test(fused, a_one_sided_pair_is_a_cross_entropy_and_one_divergence)
{
    for (int n = 0; n < ROW_COUNT; n++) {
        expect_pair("few classes", true, ROWS[n], 5, 3, 8);
        expect_pair("odd classes", true, ROWS[n], 17, 37, 8);
    }
    expect_pair("several tiles", true, 35, 3, 1025, 4);
    expect_pair("several blocks", true, 35, 3, 8201, 2);
}

/* ---- softmax, norms and cross entropy ---- */

static struct qkv_tensor *filled(struct qkv_graph *graph, struct qkv_shape shape, double value)
{
    struct qkv_tensor *x = qkv_constant(graph, shape);
    int64_t count = qkv_shape_count(shape);
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = value;
    if (x) qkv_tensor_write(x, values);
    free(values);
    return x;
}

/* Broadcast [N] (one number per row) or [D] (one per column) to [N, D] by a product with ones. */
static struct qkv_tensor *broadcast_column(struct qkv_graph *graph, struct qkv_tensor *column, int64_t rows,
                                           int64_t width)
{
    return qkv_matmul(graph, qkv_reshape(graph, column, QKV_SHAPE(rows, 1)),
                      filled(graph, QKV_SHAPE(1, width), 1), false, false);
}

static struct qkv_tensor *broadcast_row(struct qkv_graph *graph, struct qkv_tensor *row, int64_t rows,
                                        int64_t width)
{
    return qkv_matmul(graph, filled(graph, QKV_SHAPE(rows, 1), 1),
                      qkv_reshape(graph, row, QKV_SHAPE(1, width)), false, false);
}

/* x^power for x > 0 */
static struct qkv_tensor *power_of(struct qkv_graph *graph, struct qkv_tensor *x, double power)
{
    return qkv_exp(graph, qkv_scale(graph, qkv_log(graph, x), power));
}

/* x / sqrt(mean(x^2) + epsilon) * gain */
static struct qkv_tensor *rms_normalized(struct qkv_graph *graph, struct qkv_tensor *x,
                                         struct qkv_tensor *gain, const struct composition_case *test)
{
    int64_t rows = test->shape[0].size[0], width = test->shape[0].size[1];
    struct qkv_tensor *square = qkv_mean(graph, qkv_multiply(graph, x, x), 1); /* [N] */
    square = qkv_add(graph, square, filled(graph, QKV_SHAPE(rows), test->epsilon));
    struct qkv_tensor *unit =
        qkv_multiply(graph, x, broadcast_column(graph, power_of(graph, square, -0.5), rows, width));
    return qkv_multiply(graph, unit, broadcast_row(graph, gain, rows, width));
}

static struct qkv_tensor *rms_norm(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                   const struct composition_case *test)
{
    return qkv_rms_norm(graph, x[0], x[1], test->epsilon);
}

static struct qkv_tensor *rms_norm_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                         const struct composition_case *test)
{
    return rms_normalized(graph, x[0], x[1], test);
}

static struct qkv_tensor *layer_norm(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                     const struct composition_case *test)
{
    return qkv_layer_norm(graph, x[0], x[1], x[2], test->epsilon);
}

static struct qkv_tensor *layer_norm_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                           const struct composition_case *test)
{
    int64_t rows = test->shape[0].size[0], width = test->shape[0].size[1];
    struct qkv_tensor *mean = broadcast_column(graph, qkv_mean(graph, x[0], 1), rows, width);
    return qkv_add_row(graph, rms_normalized(graph, qkv_subtract(graph, x[0], mean), x[1], test), x[2]);
}

static struct qkv_tensor *softmax(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                  const struct composition_case *test)
{
    (void)test;
    return qkv_softmax(graph, x[0]);
}

static struct qkv_tensor *softmax_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                        const struct composition_case *test)
{
    struct qkv_tensor *e = qkv_exp(graph, x[0]), *sum = qkv_sum(graph, e, 1);
    return qkv_multiply(
        graph, e,
        broadcast_column(graph, power_of(graph, sum, -1), test->shape[0].size[0], test->shape[0].size[1]));
}

static struct qkv_tensor *log_softmax(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                      const struct composition_case *test)
{
    (void)test;
    return qkv_log_softmax(graph, x[0]);
}

static struct qkv_tensor *log_softmax_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                            const struct composition_case *test)
{
    return qkv_log(graph, softmax_parts(graph, x, test));
}

static struct qkv_tensor *cross_entropy(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                        const struct composition_case *test)
{
    return qkv_cross_entropy(graph, x[0], test->labels, test->smoothing, test->factor);
}

/* -factor * sum(distribution * log softmax) */
static struct qkv_tensor *cross_entropy_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                              const struct composition_case *test)
{
    int64_t rows = test->shape[0].size[0], classes = test->shape[0].size[1];
    struct qkv_tensor *target = filled(graph, test->shape[0], test->smoothing / (double)classes);
    for (int64_t i = 0; i < rows; i++)
        ((double *)qkv_tensor_value(target))[i * classes + test->labels[i]] += 1 - test->smoothing;
    struct qkv_tensor *logs = log_softmax_parts(graph, x, test);
    return qkv_scale(graph, qkv_sum(graph, qkv_multiply(graph, target, logs), QKV_ALL), -test->factor);
}

Test(fused, softmax_norms_and_loss_follow_their_formulas)
{
    static const int64_t widths[] = {2, 7, 17, 33, 131};
    int32_t labels[64];
    for (int n = 0; n < ROW_COUNT; n++)
        for (int w = 0; w < 5; w++) {
            struct composition_case test = {
                .name = "softmax", .shape = {QKV_SHAPE(ROWS[n], widths[w])}, .epsilon = 1e-3};
            expect_composition(&test, softmax, softmax_parts);
            test.name = "log_softmax";
            expect_composition(&test, log_softmax, log_softmax_parts);
            for (int64_t i = 0; i < ROWS[n]; i++) labels[i] = (int32_t)((5 * i + 1) % widths[w]);
            test.name = "cross_entropy";
            test.labels = labels;
            test.smoothing = 0.2;
            test.factor = 0.5;
            expect_composition(&test, cross_entropy, cross_entropy_parts);
            test.name = "rms_norm";
            test.shape[1] = QKV_SHAPE(widths[w]);
            expect_composition(&test, rms_norm, rms_norm_parts);
            test.name = "layer_norm";
            test.shape[2] = QKV_SHAPE(widths[w]);
            expect_composition(&test, layer_norm, layer_norm_parts);
        }
}

/* Of classes with the same greatest logit, the first one is the most probable, with and without gradients. */
Test(fused, cross_entropy_counts_the_first_of_equal_logits)
{
    static const int32_t labels[] = {0, 1, 2, 3};
    for (int with_gradient = 0; with_gradient < 2; with_gradient++) {
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_set_gradients(graph, with_gradient);
        struct qkv_tensor *logits = qkv_variable(graph, QKV_SHAPE(4, 4));
        double likelihood, correct, values[16];
        for (int i = 0; i < 16; i++) values[i] = i % 4 == 1 || i % 4 == 3 ? 2 : 0;
        qkv_tensor_write(logits, values);
        struct qkv_tensor *loss = qkv_cross_entropy(graph, logits, labels, 0, 1);
        qkv_forward(graph);
        qkv_cross_entropy_sums(loss, &likelihood, &correct);
        cr_expect_eq(correct, 1, "%g", correct);
        qkv_graph_free(graph);
    }
}

/* What beam search reads of logits: log_sum_exp must agree with log_softmax, and group_max must be exact. */
Test(fused, log_sum_exp_and_group_max)
{
    static const int64_t widths[] = {1, 7, 31, 32, 33, 64, 131, 1000};
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++)
        for (int w = 0; w < 8; w++) {
            enum { ROWS_OF_LOGITS = 3 };
            int64_t width = widths[w], groups = (width + QKV_GROUP - 1) / QKV_GROUP;
            double logits[ROWS_OF_LOGITS * 1000], logs[ROWS_OF_LOGITS * 1000], maxima[ROWS_OF_LOGITS * 40];
            double sums[ROWS_OF_LOGITS];
            for (int64_t i = 0; i < ROWS_OF_LOGITS * width; i++) logits[i] = (float)(9 * number(4, i));
            struct qkv_graph *graph = qkv_graph_new((enum qkv_dtype)dtype);
            struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(ROWS_OF_LOGITS, width));
            qkv_tensor_write(x, logits);
            struct qkv_tensor *y = qkv_group_max(graph, x), *sum = qkv_log_sum_exp(graph, x);
            struct qkv_tensor *softmax = qkv_log_softmax(graph, x);
            qkv_forward(graph);
            cr_assert_eq(qkv_tensor_count(y), ROWS_OF_LOGITS * groups);
            cr_assert_eq(qkv_tensor_count(sum), ROWS_OF_LOGITS);
            qkv_tensor_read(y, maxima);
            qkv_tensor_read(sum, sums);
            qkv_tensor_read(softmax, logs);
            for (int64_t i = 0; i < ROWS_OF_LOGITS; i++) {
                cr_expect_float_eq(logits[i * width] - sums[i], logs[i * width],
                                   dtype == QKV_FLOAT32 ? 4e-6 : 1e-13, "row %d of %d", (int)i, (int)width);
                for (int64_t g = 0; g < groups; g++) {
                    double greatest = -INFINITY;
                    for (int64_t j = g * QKV_GROUP; j < width && j < (g + 1) * QKV_GROUP; j++)
                        greatest = fmax(greatest, logits[i * width + j]);
                    cr_expect_eq(maxima[i * groups + g], greatest, "group %d of %d columns", (int)g,
                                 (int)width);
                }
            }
            qkv_graph_free(graph);
        }
}
