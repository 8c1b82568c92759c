/* Large, infinite and tiny numbers, and NaN that dropout meets, with the kernels of every instruction set and in float64. The
 * right values are closed forms: softmax does not change if a number is added to all of a row. */
#include "numbers.h"

static void differentiate(struct qkv_graph *graph, struct qkv_tensor *y)
{
    qkv_forward(graph);
    qkv_backward(graph, y, NULL);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
}

static void expect_near(const char *name, const char *what, double shift, double found, double right)
{
    cr_expect(fabs(found - right) <= 2e-6, "%s, %s, logits near %g: %.9g, not %.9g", name, what, shift, found,
              right);
}

/* The logits of one row, less the shift, and log sum exp of these. */
enum { CLASSES = 4, LABEL = 2 };
static const double LOGITS[CLASSES] = {0, 0, -1, -2};
#define LOG_SUM log(2 + exp(-1) + exp(-2))

/* Losses with smoothing 0.1, of logits 1 * weight: the mean of the logits is -0.75. */
static void shift_logits(struct qkv_graph *graph, const char *name)
{
    static const int32_t label = LABEL;
    for (double shift = 1; shift <= 1e7; shift *= 10) {
        double values[CLASSES], out[CLASSES], one = 1;
        qkv_graph_reset(graph);
        for (int j = 0; j < CLASSES; j++) values[j] = shift + LOGITS[j];
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(1, CLASSES)),
                          *unit = qkv_constant(graph, QKV_SHAPE(1, 1)), *logs = qkv_log_softmax(graph, x),
                          *loss[3];
        loss[0] = qkv_cross_entropy(graph, x, &label, 0.1, 1);
        loss[1] = qkv_linear_cross_entropy(graph, unit, x, NULL, false, &label, 0.1, 1);
        loss[2] = qkv_paired_cross_entropy(graph, unit, unit, x, NULL, false, &label, 0.1, 1, false, 1);
        qkv_tensor_write(x, values);
        qkv_tensor_write(unit, &one);
        for (int k = 0; k < 3; k++) {
            differentiate(graph, loss[k]);
            expect_near(name, qkv_tensor_op(loss[k]), shift, qkv_tensor_scalar(loss[k]),
                        LOG_SUM - 0.9 * LOGITS[LABEL] + 0.1 * 0.75);
            qkv_tensor_read_gradient(x, out);
            for (int j = 0; j < CLASSES; j++)
                expect_near(name, "gradient of the loss", shift, out[j],
                            exp(LOGITS[j] - LOG_SUM) - 0.025 - (j == LABEL ? 0.9 : 0));
        }
        qkv_tensor_read(logs, out);
        for (int j = 0; j < CLASSES; j++)
            expect_near(name, "log_softmax", shift, out[j], LOGITS[j] - LOG_SUM);
        differentiate(graph, qkv_log_sum_exp(graph, x));
        qkv_tensor_read_gradient(x, out);
        for (int j = 0; j < CLASSES; j++)
            expect_near(name, "gradient of log_sum_exp", shift, out[j], exp(LOGITS[j] - LOG_SUM));
    }
}

/* Two keys with the same score, and one with a score far below: weights 1/2, 1/2 and 0, which are the gradients of the
 * values; from 1 to 1e30. */
static void equal_scores(struct qkv_graph *graph, const char *name)
{
    for (double score = 1; score <= 1e30; score *= 1e5)
        for (int kernel = QKV_KERNEL_EXACT; kernel <= QKV_KERNEL_FLASH; kernel++) {
            double query[1] = {1}, key[3] = {score, score, -100 * score}, value[3] = {1, 3, 5}, dv[3];
            struct qkv_attention attention = {
                .rule = {.heads = 1, .scale = 1, .kernel = (enum qkv_attention_kernel)kernel}};
            qkv_graph_reset(graph);
            struct qkv_tensor *q = qkv_variable(graph, QKV_SHAPE(1, 1)),
                              *k = qkv_variable(graph, QKV_SHAPE(3, 1)),
                              *v = qkv_variable(graph, QKV_SHAPE(3, 1)),
                              *y = qkv_attention(graph, q, k, v, NULL, attention);
            qkv_tensor_write(q, query);
            qkv_tensor_write(k, key);
            qkv_tensor_write(v, value);
            differentiate(graph, y);
            qkv_tensor_read_gradient(v, dv);
            expect_near(name, "attention", score, qkv_tensor_scalar(y), 2);
            for (int j = 0; j < 3; j++)
                expect_near(name, kernel == QKV_KERNEL_FLASH ? "flash" : "exact", score, dv[j],
                            j < 2 ? 0.5 : 0);
        }
}

/* A bias of -infinity removes classes, also all of a tile (512). */
static void remove_classes(struct qkv_graph *graph, const char *name)
{
    enum { ALL = 1030, KEPT = 2 };
    static const int32_t label = ALL - 1;
    static double bias[ALL];
    for (int j = 0; j < ALL; j++) bias[j] = j < ALL - KEPT ? -INFINITY : 0;
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(1, 1)),
                      *weight = qkv_constant(graph, QKV_SHAPE(1, ALL)),
                      *b = qkv_variable(graph, QKV_SHAPE(ALL));
    struct qkv_tensor *loss = qkv_linear_cross_entropy(graph, x, weight, b, false, &label, 0, 1);
    qkv_tensor_write(b, bias);
    differentiate(graph, loss);
    expect_near(name, "loss of two classes", 0, qkv_tensor_scalar(loss), log(2));
    qkv_tensor_read_gradient(b, bias);
    expect_near(name, "gradient of a removed class", 0, bias[0], 0);
    expect_near(name, "gradient of the label", 0, bias[ALL - 1], -0.5);
}

/* Dropout drops some of these NaN, but must not hide that they are there. */
static void drop_nan(struct qkv_graph *graph, const char *name)
{
    enum { ROWS = 64 };
    const struct qkv_random random = {.seed = 1};
    qkv_graph_set_dropout(graph, &random);
    for (int k = 0; k < 4; k++) {
        struct qkv_attention attention = {
            .rule = {.heads = 1, .dropout = 0.5, .kernel = k == 2 ? QKV_KERNEL_EXACT : QKV_KERNEL_FLASH}};
        double nan[ROWS], out[ROWS], gradient[ROWS];
        for (int i = 0; i < ROWS; i++) nan[i] = (double)NAN;
        qkv_graph_reset(graph);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(ROWS, 1));
        struct qkv_tensor *y = k == 0   ? qkv_dropout(graph, x, 0.5)
                               : k == 1 ? qkv_dropout_rows(graph, x, 0.5)
                                        : qkv_attention(graph, x, x, x, NULL, attention);
        qkv_tensor_write(x, nan);
        qkv_forward(graph);
        qkv_backward(graph, y, nan);
        qkv_tensor_read(y, out);
        qkv_tensor_read_gradient(x, gradient);
        for (int i = 0; i < ROWS; i++)
            cr_expect(isnan(out[i]) && isnan(gradient[i]), "%s, %s %d: %g, gradient %g", name,
                      qkv_tensor_op(y), k, out[i], gradient[i]);
    }
}

/* e^x of numbers that float32 holds, by NumPy in float64, rounded to float32: subnormal results, and the largest ones. */
static void limits_of_exp(struct qkv_graph *graph, const char *name)
{
    static const double X[] = {-87.25, -88, -95, -103, -104.5, -INFINITY, 88.71875, 88.72265625, INFINITY};
    static const double RIGHT[] = {1.2817593e-38, 6.0546015e-39, 5.5211160e-42, 1.4012985e-45, 0, 0,
                                   3.3889375e38,  3.4022014e38,  INFINITY};
    enum { COUNT = sizeof X / sizeof *X };
    double found[COUNT];
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(COUNT)), *y = qkv_exp(graph, x);
    qkv_tensor_write(x, X);
    differentiate(graph, y);
    qkv_tensor_read(y, found);
    for (int i = 0; i < COUNT; i++)
        cr_expect(found[i] == RIGHT[i] || fabs(found[i] - RIGHT[i]) <= 3e-7 * RIGHT[i] + 0x1p-149,
                  "%s: exp(%g) is %g, not %g", name, X[i], found[i], RIGHT[i]);
}

Test(extremes, are_computed_as_their_formulas_say)
{
    static void (*const tests[])(struct qkv_graph *, const char *) = {
        shift_logits, equal_scores, remove_classes, drop_nan, limits_of_exp};
    for (int v = 0; v <= VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v % VARIANT_COUNT], 1);
        for (int t = 0; t < 5; t++) {
            struct qkv_graph *graph RELEASED(free_graph) =
                qkv_graph_new(v < VARIANT_COUNT ? QKV_FLOAT32 : QKV_FLOAT64);
            tests[t](graph, v < VARIANT_COUNT ? VARIANTS[v] : "float64");
        }
    }
}
