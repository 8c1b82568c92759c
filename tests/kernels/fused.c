/* Compares fused products and losses with compositions of their parts, and softmax and norms with their formulas. */
#include "numbers.h"

#include "framework/engine/graph/internal.h"

enum { ROW_COUNT = 4, MAX_INPUTS = 4 };

/* Numbers of rows that are not multiples of a vector. */
static const int64_t ROWS[ROW_COUNT] = {1, 7, 17, 33};

/* One case: the inputs and options of both the fused op and its composition. */
struct composition_case {
    const char *name;
    struct qkv_shape shape[MAX_INPUTS]; /* of the inputs; rank 0: no input */
    const int32_t *labels;
    bool transposed;
    double smoothing, consistency, factor;
    bool one_sided;
};

typedef struct qkv_tensor *builder(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                   const struct composition_case *test);

static struct computed compute(enum qkv_dtype dtype, bool gradients, const struct composition_case *test,
                               builder *build)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(dtype);
    struct qkv_tensor *x[MAX_INPUTS] = {NULL};
    qkv_graph_set_gradients(graph, gradients);
    for (uint32_t k = 0; k < MAX_INPUTS; k++)
        if (test->shape[k].rank) x[k] = fill(qkv_variable(graph, test->shape[k]), k + 1);
    return compute_in(graph, build(graph, x, test), MAX_INPUTS, x, NULL, test->name);
}

/* Fails where the result, or the gradient of an input for a random cotangent, differs between the
 * two. */
static void expect_composition(const struct composition_case *test, builder *fused, builder *composed)
{
    static int64_t cases;
    if (is_left_out(cases++)) return;
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct computed expected RELEASED(computed_release) = compute(QKV_FLOAT64, true, test, composed);
        for (int mode = 0; mode < 4; mode++) {
            enum qkv_dtype dtype = mode % 2 ? QKV_FLOAT64 : QKV_FLOAT32;
            struct computed got RELEASED(computed_release) = compute(dtype, mode < 2, test, fused);
            expect_close(&got, &expected, BOUND[dtype],
                         dtype == QKV_FLOAT32 ? format("%s, float32", test->name) : test->name);
        }
    }
    unsetenv("QKV_KERNELS");
}

/* ---- a product and the loss, of one or two passes over the same labels ---- */

static struct qkv_tensor *linear_loss(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                      const struct composition_case *test)
{
    return qkv_linear_cross_entropy(graph, x[0], x[2], x[3], test->transposed, test->labels, test->smoothing,
                                    test->factor);
}

static struct qkv_tensor *linear_loss_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                            const struct composition_case *test)
{
    return qkv_cross_entropy(graph, qkv_linear(graph, x[0], x[2], x[3], test->transposed), test->labels,
                             test->smoothing, test->factor);
}

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

enum passes { ONE_PASS, TWO_PASSES, ONE_SIDED };

/* Variant bits: 1: the weight is transposed, 2: there is a bias, 4: labels are smoothed. */
static void expect_loss(const char *name, enum passes passes, int64_t rows, int64_t width, int64_t classes,
                        int variants)
{
    int32_t labels[192];
    for (int64_t i = 0; i < rows; i++) labels[i] = (int32_t)((i * 7 + 3) % classes);
    for (int variant = 8 - variants; variant < 8; variant++) {
        bool transposed = variant & 1, has_bias = variant & 2, smooths = variant & 4;
        const struct composition_case test = {
            .name = name,
            .shape = {QKV_SHAPE(rows, width), passes ? QKV_SHAPE(rows, width) : (struct qkv_shape){0},
                      transposed ? QKV_SHAPE(classes, width) : QKV_SHAPE(width, classes),
                      has_bias ? QKV_SHAPE(classes) : (struct qkv_shape){0}},
            .transposed = transposed,
            .labels = labels,
            .smoothing = smooths ? 0.1 : 0,
            .consistency = 3,
            .one_sided = passes == ONE_SIDED,
            .factor = 1.0 / (double)rows,
        };
        expect_composition(&test, passes ? pair_loss : linear_loss,
                           passes ? pair_loss_parts : linear_loss_parts);
    }
}

Test(fused, losses_are_products_cross_entropies_and_divergences)
{
    for (enum passes passes = ONE_PASS; passes <= ONE_SIDED; passes++) {
        for (int n = 0; n < ROW_COUNT; n++) {
            expect_loss("few classes", passes, ROWS[n], 5, 3, 8);
            expect_loss("odd classes", passes, ROWS[n], 17, 37, 8);
        }
        expect_loss("several tiles", passes, 35, 3, 1025, passes ? 4 : 8);
        expect_loss("several blocks", passes, passes ? 35 : 67, 3, 8201, passes ? 2 : 8);
    }
}

/* ---- softmax, norms and ties ---- */

/* A row of results by the formula of the op; returns their number. */
static int64_t by_formula(enum qkv_op_id op, int64_t width, const double *x, const double *gain,
                          const double *bias, double *y)
{
    double mean = 0, square = 0, sum = 0;
    for (int64_t j = 0; j < width; j++) mean += op == QKV_OP_layer_norm ? x[j] / (double)width : 0;
    for (int64_t j = 0; j < width; j++) square += (x[j] - mean) * (x[j] - mean) / (double)width;
    for (int64_t j = 0; j < width; j++) sum += exp(x[j]);
    for (int64_t j = 0; j < width; j++) {
        double unit = (x[j] - mean) / sqrt(square + 1e-3);
        y[j] = op == QKV_OP_softmax       ? exp(x[j]) / sum
               : op == QKV_OP_log_softmax ? x[j] - log(sum)
               : op == QKV_OP_rms_norm    ? unit * gain[j]
                                          : unit * gain[j] + bias[j];
    }
    if (op == QKV_OP_log_sum_exp) y[0] = log(sum);
    for (int64_t j = 0; j < width && op == QKV_OP_group_max; j++)
        y[j / QKV_GROUP] = j % QKV_GROUP ? fmax(y[j / QKV_GROUP], x[j]) : x[j];
    return op == QKV_OP_log_sum_exp ? 1 : op == QKV_OP_group_max ? (width - 1) / QKV_GROUP + 1 : width;
}

Test(fused, softmax_maxima_and_norms_follow_their_formulas)
{
    enum { WIDEST = 1000, ROWS_HERE = 7, OPS = 6 };
    static const int64_t widths[] = {1, 2, 7, 31, 32, 33, 64, 131, WIDEST};
    static const enum qkv_op_id ops[OPS] = {QKV_OP_softmax,   QKV_OP_log_softmax, QKV_OP_log_sum_exp,
                                            QKV_OP_group_max, QKV_OP_rms_norm,    QKV_OP_layer_norm};
    static double values[3][ROWS_HERE * WIDEST], expected[WIDEST], found[ROWS_HERE * WIDEST];
    for (size_t c = 0; c < OPS * sizeof widths / sizeof *widths; c++) {
        const enum qkv_op_id op = ops[c % OPS];
        const int64_t width = widths[c / OPS];
        const int inputs = op == QKV_OP_layer_norm ? 3
                           : op == QKV_OP_rms_norm ? 2
                                                   : 1; /* with gain and bias */
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
        struct qkv_tensor *x[QKV_MAX_INPUTS] = {NULL};
        for (int k = 0; k < inputs; k++) {
            x[k] = fill(qkv_variable(graph, k ? QKV_SHAPE(width) : QKV_SHAPE(ROWS_HERE, width)), (uint32_t)k);
            qkv_tensor_read(x[k], values[k]);
        }
        struct qkv_tensor *y = qkv_node(graph, op, x, &(struct qkv_options){.epsilon = 1e-3});
        qkv_forward(graph);
        qkv_tensor_read(y, found);
        for (int64_t i = 0; i < ROWS_HERE; i++) {
            int64_t count = by_formula(op, width, values[0] + i * width, values[1], values[2], expected);
            cr_assert_eq(qkv_tensor_count(y), ROWS_HERE * count, "%s", qkv_op_name(op));
            cr_expect_lt(relative_difference(count, found + i * count, expected), 1e-13, "%s of %d columns",
                         qkv_op_name(op), (int)width);
        }
    }
}

/* Of classes with the same greatest logit, the first one is the most probable, with and without gradients; between tiles of
 * classes and within one. */
Test(fused, losses_count_the_first_of_equal_logits)
{
    static const int32_t sizes[] = {7, 512, 513, 1200};
    for (int variant = 0; variant < 16; variant++) {
        const int32_t size = sizes[variant / 4], labels[] = {0, 1, size / 2, size - 1};
        double likelihood, correct, values[1200] = {0};
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_set_gradients(graph, variant & 1);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(4, 1)),
                          *weight = qkv_variable(graph, QKV_SHAPE(1, size)),
                          *bias = qkv_variable(graph, QKV_SHAPE(size));
        values[size / 2] = values[size - 1] = 3;
        qkv_tensor_write(bias, values);
        const struct qkv_tensor *loss =
            variant & 2 ? qkv_linear_cross_entropy(graph, x, weight, bias, false, labels, 0, 1)
                        : qkv_cross_entropy(graph, qkv_linear(graph, x, weight, bias, false), labels, 0, 1);
        qkv_forward(graph);
        qkv_cross_entropy_sums(loss, &likelihood, &correct);
        cr_expect_eq(correct, 1, "variant %d, %d classes: %g", variant, (int)size, correct);
    }
}
