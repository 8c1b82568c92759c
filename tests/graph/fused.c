/* The fused ops against compositions of simple ones: values and gradients, at sizes that are no multiple of a
 * vector, in both precisions, with the kernels of every instruction set. The composition always runs in
 * float64. */
#include "qkv/ops.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Largest difference, relative to the largest number of the tensor. */
static const double BOUND[] = {[QKV_FLOAT32] = 1e-5, [QKV_FLOAT64] = 1e-12};

static const char *const VARIANTS[] = {"portable", "avx2", "avx512"};
static const int64_t ROWS[] = {1, 7, 17, 33};

enum { VARIANT_COUNT = 3, ROW_COUNT = 4 };

/* What is computed: by the fused op and by its composition. */
struct scene {
    const char *name;
    struct qkv_shape shape[4]; /* of the inputs; rank 0: none */
    bool one_tensor;           /* inputs 1 to 3 are the same tensor */
    struct qkv_attention layout;
    const double *mask; /* values of input 4, which then is a constant */
    bool drops;
    const int32_t *labels;
    bool transposed;
    double smoothing, factor, epsilon;
};

typedef struct qkv_tensor *builder(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                   const struct scene *scene);

/* Numbers between -1 and 1 that float32 holds exactly, so that both precisions start alike. */
static double number(uint32_t family, int64_t i)
{
    struct qkv_random random = {5, QKV_STREAM_CHECK, family};
    return (double)(float)(2 * qkv_random_uniform(random, (uint64_t)i) - 1);
}

/* The result and the gradients of the variables, each behind the other; sizes ends with 0. */
struct numbers {
    double *all;
    int64_t size[6];
};

static void fill_input(struct qkv_tensor *x, const struct scene *scene, int k)
{
    int64_t count = qkv_tensor_count(x);
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = scene->mask && k == 3 ? scene->mask[i] : number((uint32_t)k + 1, i);
    qkv_tensor_write(x, values);
    free(values);
}

static struct numbers compute(enum qkv_dtype dtype, const struct scene *scene, builder *build)
{
    struct qkv_graph *graph = qkv_graph_new(dtype);
    struct qkv_error error = {""};
    struct qkv_tensor *x[4] = {NULL}, *variable[4];
    const struct qkv_random random = {.seed = 11, .step = 2};
    int variables = 0;
    if (scene->drops) qkv_graph_set_dropout(graph, &random);
    for (int k = 0; k < 4; k++) {
        if (!scene->shape[k].rank) continue;
        bool mask = scene->mask && k == 3;
        x[k] = mask ? qkv_constant(graph, scene->shape[k]) : qkv_variable(graph, scene->shape[k]);
        fill_input(x[k], scene, k);
        if (!mask) variable[variables++] = x[k];
    }
    if (scene->one_tensor) x[1] = x[2] = x[0];
    struct qkv_tensor *y = build(graph, x, scene);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", scene->name, error.message);
    qkv_forward(graph);
    int64_t count = qkv_tensor_count(y), total = count;
    double *cotangent = malloc((size_t)count * sizeof *cotangent);
    for (int64_t i = 0; i < count; i++) cotangent[i] = number(9, i);
    qkv_backward(graph, y, cotangent);
    free(cotangent);
    for (int k = 0; k < variables; k++) total += qkv_tensor_count(variable[k]);
    struct numbers numbers = {malloc((size_t)total * sizeof(double)), {count}};
    qkv_tensor_read(y, numbers.all);
    for (int k = 0; k < variables; k++) {
        qkv_tensor_read_gradient(variable[k], numbers.all + count);
        count += numbers.size[k + 1] = qkv_tensor_count(variable[k]);
    }
    qkv_graph_free(graph);
    return numbers;
}

static double apart(int64_t count, const double *a, const double *b)
{
    double most = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        most = fmax(most, fabs(a[i] - b[i]));
        size = fmax(size, fabs(b[i]));
    }
    /* A gradient that is 0 but for rounding has nothing to be relative to. */
    return most / fmax(size, 1e-2);
}

static void hold(const struct scene *scene, builder *fused, builder *composed)
{
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct numbers expected = compute(QKV_FLOAT64, scene, composed);
        for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
            struct numbers got = compute((enum qkv_dtype)dtype, scene, fused);
            int64_t at = 0;
            for (int k = 0; got.size[k]; at += got.size[k++]) {
                double error = apart(got.size[k], got.all + at, expected.all + at);
                cr_expect(error <= BOUND[dtype], "%s, %s, float%d: %s is %g apart, above %g", scene->name,
                          VARIANTS[v], dtype == QKV_FLOAT32 ? 32 : 64, k ? "a gradient" : "the value", error,
                          BOUND[dtype]);
            }
            free(got.all);
        }
        free(expected.all);
    }
    unsetenv("QKV_KERNELS");
}

/* ---- attention against scores, weights and mix ---- */

static struct qkv_tensor *attention(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                    const struct scene *scene)
{
    return qkv_attention(graph, x[0], x[1], x[2], x[3], scene->layout);
}

static struct qkv_tensor *attention_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                          const struct scene *scene)
{
    static int64_t zero;
    static int64_t rows[2];
    struct qkv_attention layout = scene->layout;
    if (!layout.queries.count) { /* the parts want their one sentence spelled out */
        rows[0] = scene->shape[0].size[0];
        rows[1] = scene->shape[1].size[0];
        layout.queries = (struct qkv_segments){1, &zero, &rows[0]};
        layout.keys = (struct qkv_segments){1, &zero, &rows[1]};
    }
    struct qkv_tensor *scores = qkv_attention_scores(graph, x[0], x[1], layout);
    struct qkv_tensor *weights = qkv_attention_weights(graph, scores, x[3], layout);
    if (layout.dropout > 0) weights = qkv_dropout(graph, weights, layout.dropout);
    return qkv_attention_mix(graph, weights, x[2], layout);
}

/* Three sentences with `rows` queries in all (one, when there are too few rows), and `rows` + 3 keys for
 * cross. */
struct ragged {
    int64_t query_start[3], query_length[3], key_start[3], key_length[3];
    struct qkv_segments queries, keys;
    int64_t query_rows, key_rows;
};

static void make_ragged(struct ragged *r, int64_t rows, bool cross)
{
    int64_t first = rows / 2, second = rows > 2 ? 1 : 0;
    int64_t queries[] = {first, second, rows - first - second};
    int64_t keys[] = {first + 2, second + 1, queries[2]};
    *r = (struct ragged){0};
    for (int i = 0; i < 3; i++) {
        r->query_start[i] = r->query_rows;
        r->query_rows += r->query_length[i] = queries[i];
        r->key_start[i] = r->key_rows;
        r->key_rows += r->key_length[i] = cross ? keys[i] : queries[i];
    }
    r->queries = (struct qkv_segments){3, r->query_start, r->query_length};
    r->keys = (struct qkv_segments){3, r->key_start, r->key_length};
}

static const struct {
    int64_t heads, key_width, value_width;
} WIDTHS[] = {{1, 5, 5}, {2, 3, 3}, {3, 1, 7}, {2, 17, 9}, {1, 70, 90}};

enum { WIDTH_COUNT = 5 };

static void hold_attention(const char *name, struct qkv_segments queries, struct qkv_segments keys,
                           int64_t query_rows, int64_t key_rows, int w, bool causal, double dropout)
{
    const struct scene scene = {
        .name = name,
        .shape = {QKV_SHAPE(query_rows, WIDTHS[w].heads * WIDTHS[w].key_width),
                  QKV_SHAPE(key_rows, WIDTHS[w].heads * WIDTHS[w].key_width),
                  QKV_SHAPE(key_rows, WIDTHS[w].heads * WIDTHS[w].value_width)},
        .layout = {.heads = WIDTHS[w].heads,
                   .queries = queries,
                   .keys = keys,
                   .causal = causal,
                   .dropout = dropout},
        .drops = dropout > 0,
    };
    hold(&scene, attention, attention_parts);
}

Test(fused, attention_is_scores_weights_and_mix)
{
    const struct qkv_segments whole = {0};
    for (int n = 0; n < ROW_COUNT; n++)
        for (int w = 0; w < WIDTH_COUNT; w++) {
            struct ragged self, cross;
            make_ragged(&self, ROWS[n], false);
            make_ragged(&cross, ROWS[n], true);
            hold_attention("self", self.queries, self.keys, ROWS[n], ROWS[n], w, false, 0);
            hold_attention("causal", self.queries, self.keys, ROWS[n], ROWS[n], w, true, 0);
            hold_attention("cross", cross.queries, cross.keys, cross.query_rows, cross.key_rows, w, false, 0);
            hold_attention("whole", whole, whole, ROWS[n], ROWS[n], w, false, 0);
            hold_attention("whole, causal", whole, whole, ROWS[n], ROWS[n], w, true, 0);
            hold_attention("whole, cross", whole, whole, ROWS[n], ROWS[n] + 5, w, false, 0);
            hold_attention("dropout", cross.queries, cross.keys, cross.query_rows, cross.key_rows, w, false,
                           0.3);
        }
}

Test(fused, attention_of_a_tensor_to_itself)
{
    for (int n = 0; n < ROW_COUNT; n++) {
        struct ragged r;
        make_ragged(&r, ROWS[n], false);
        const struct scene scene = {
            .name = "one tensor",
            .shape = {QKV_SHAPE(ROWS[n], 6)},
            .one_tensor = true,
            .layout = {.heads = 2, .queries = r.queries, .keys = r.keys, .causal = true, .scale = 0.7},
        };
        hold(&scene, attention, attention_parts);
    }
}

/* A mask in which row 2 sees nothing. */
static double *make_mask(int64_t queries, int64_t keys)
{
    double *mask = malloc((size_t)(queries * keys) * sizeof *mask);
    for (int64_t i = 0; i < queries * keys; i++) mask[i] = i / keys != 2 && number(8, i) > -0.3;
    return mask;
}

Test(fused, attention_with_a_mask)
{
    for (int n = 1; n < ROW_COUNT; n++) {
        int64_t rows = ROWS[n];
        double *mask = make_mask(rows, rows);
        for (int causal = 0; causal < 2; causal++) {
            const int64_t start[] = {0, rows}, length[] = {rows, rows};
            const struct qkv_segments segments = {2, start, length};
            const struct scene scene = {
                .name = causal ? "masked and causal" : "masked",
                .shape = {QKV_SHAPE(2 * rows, 6), QKV_SHAPE(2 * rows, 6), QKV_SHAPE(2 * rows, 10),
                          QKV_SHAPE(rows, rows)},
                .layout = {.heads = 2, .queries = segments, .keys = segments, .causal = causal},
                .mask = mask,
            };
            hold(&scene, attention, attention_parts);
        }
        free(mask);
    }
}

Test(fused, a_row_that_sees_nothing_gives_nothing)
{
    enum { ROWS_HERE = 7, WIDTH = 6 };
    double *mask = make_mask(ROWS_HERE, ROWS_HERE), cotangent[ROWS_HERE * WIDTH];
    const struct scene scene = {.mask = mask};
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
        struct qkv_tensor *x[3], *marks = qkv_constant(graph, QKV_SHAPE(ROWS_HERE, ROWS_HERE));
        fill_input(marks, &scene, 3);
        for (int k = 0; k < 3; k++)
            fill_input(x[k] = qkv_variable(graph, QKV_SHAPE(ROWS_HERE, WIDTH)), &scene, k);
        struct qkv_tensor *y =
            qkv_attention(graph, x[0], x[1], x[2], marks, (struct qkv_attention){.heads = 2});
        qkv_forward(graph);
        /* Only the blind row is looked at: nothing may flow anywhere. */
        for (int i = 0; i < ROWS_HERE * WIDTH; i++) cotangent[i] = i / WIDTH == 2;
        qkv_backward(graph, y, cotangent);
        for (int head = 0; head < 2; head++) {
            int64_t queries, keys;
            const double *weights = qkv_attention_weights_of(y, 0, head, &queries, &keys);
            for (int64_t j = 0; j < keys; j++) cr_expect_eq(weights[2 * keys + j], 0.0);
        }
        const double *value = qkv_tensor_value(y);
        for (int j = 0; j < WIDTH; j++) cr_expect_eq(value[2 * WIDTH + j], 0.0);
        for (int k = 0; k < 3; k++) {
            const double *gradient = qkv_tensor_gradient(x[k]);
            for (int i = 0; i < ROWS_HERE * WIDTH; i++) cr_expect_eq(gradient[i], 0.0, "%s", VARIANTS[v]);
        }
        qkv_graph_free(graph);
    }
    unsetenv("QKV_KERNELS");
    free(mask);
}

/* ---- products and the loss ---- */

static struct qkv_tensor *linear(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                 const struct scene *scene)
{
    return qkv_linear(graph, x[0], x[1], x[2], scene->transposed);
}

static struct qkv_tensor *linear_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                       const struct scene *scene)
{
    struct qkv_tensor *product = qkv_matmul(graph, x[0], x[1], false, scene->transposed);
    return x[2] ? qkv_add_row(graph, product, x[2]) : product;
}

static struct qkv_tensor *linear_loss(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                      const struct scene *scene)
{
    return qkv_linear_cross_entropy(graph, x[0], x[1], x[2], scene->transposed, scene->labels,
                                    scene->smoothing, scene->factor);
}

static struct qkv_tensor *linear_loss_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                            const struct scene *scene)
{
    return qkv_cross_entropy(graph, linear(graph, x, scene), scene->labels, scene->smoothing, scene->factor);
}

/* All four: weight plain and transposed, with bias and without. */
static void hold_linear(struct scene scene, int64_t inputs, int64_t outputs, builder *fused,
                        builder *composed)
{
    for (int kind = 0; kind < 4; kind++) {
        scene.transposed = kind % 2;
        scene.shape[1] = scene.transposed ? QKV_SHAPE(outputs, inputs) : QKV_SHAPE(inputs, outputs);
        scene.shape[2] = kind / 2 ? QKV_SHAPE(outputs) : (struct qkv_shape){0};
        hold(&scene, fused, composed);
    }
}

Test(fused, linear_is_a_product_and_a_row)
{
    static const int64_t widths[][2] = {{1, 1}, {3, 5}, {17, 9}, {33, 31}};
    for (int n = 0; n < ROW_COUNT; n++)
        for (int w = 0; w < 4; w++) {
            struct scene scene = {.name = "linear", .shape = {QKV_SHAPE(ROWS[n], widths[w][0])}};
            hold_linear(scene, widths[w][0], widths[w][1], linear, linear_parts);
            scene.shape[0] = QKV_SHAPE(2, ROWS[n], widths[w][0]);
            hold_linear(scene, widths[w][0], widths[w][1], linear, linear_parts);
        }
}

static void hold_loss(const char *name, int64_t rows, int64_t width, int64_t classes)
{
    int32_t labels[192];
    for (int64_t i = 0; i < rows; i++) labels[i] = (int32_t)((i * 7 + 3) % classes);
    for (int smooth = 0; smooth < 2; smooth++) {
        const struct scene scene = {
            .name = name,
            .shape = {QKV_SHAPE(rows, width)},
            .labels = labels,
            .smoothing = smooth ? 0.1 : 0,
            .factor = 1.0 / (double)rows,
        };
        hold_linear(scene, width, classes, linear_loss, linear_loss_parts);
    }
}

Test(fused, the_loss_of_a_projection_is_projection_and_loss)
{
    for (int n = 0; n < ROW_COUNT; n++) {
        hold_loss("few classes", ROWS[n], 5, 3);
        hold_loss("odd classes", ROWS[n], 17, 37);
    }
    hold_loss("several tiles", 35, 3, 1025);
    hold_loss("several blocks", 131, 3, 8201);
}

/* ---- softmax, norms and cross entropy against arithmetic ---- */

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

/* [N] -> [N, D] and [D] -> [N, D] by a product with ones. */
static struct qkv_tensor *across(struct qkv_graph *graph, struct qkv_tensor *column, int64_t rows,
                                 int64_t width)
{
    return qkv_matmul(graph, qkv_reshape(graph, column, QKV_SHAPE(rows, 1)),
                      filled(graph, QKV_SHAPE(1, width), 1), false, false);
}

static struct qkv_tensor *down(struct qkv_graph *graph, struct qkv_tensor *row, int64_t rows, int64_t width)
{
    return qkv_matmul(graph, filled(graph, QKV_SHAPE(rows, 1), 1),
                      qkv_reshape(graph, row, QKV_SHAPE(1, width)), false, false);
}

/* x^power for x > 0 */
static struct qkv_tensor *raised(struct qkv_graph *graph, struct qkv_tensor *x, double power)
{
    return qkv_exp(graph, qkv_scale(graph, qkv_log(graph, x), power));
}

/* x / sqrt(mean(x^2) + epsilon) * gain */
static struct qkv_tensor *scaled_to_one(struct qkv_graph *graph, struct qkv_tensor *x,
                                        struct qkv_tensor *gain, const struct scene *scene)
{
    int64_t rows = scene->shape[0].size[0], width = scene->shape[0].size[1];
    struct qkv_tensor *square = qkv_mean(graph, qkv_multiply(graph, x, x), 1); /* [N] */
    square = qkv_add(graph, square, filled(graph, QKV_SHAPE(rows), scene->epsilon));
    struct qkv_tensor *unit = qkv_multiply(graph, x, across(graph, raised(graph, square, -0.5), rows, width));
    return qkv_multiply(graph, unit, down(graph, gain, rows, width));
}

static struct qkv_tensor *rms_norm(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                   const struct scene *scene)
{
    return qkv_rms_norm(graph, x[0], x[1], scene->epsilon);
}

static struct qkv_tensor *rms_norm_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                         const struct scene *scene)
{
    return scaled_to_one(graph, x[0], x[1], scene);
}

static struct qkv_tensor *layer_norm(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                     const struct scene *scene)
{
    return qkv_layer_norm(graph, x[0], x[1], x[2], scene->epsilon);
}

static struct qkv_tensor *layer_norm_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                           const struct scene *scene)
{
    int64_t rows = scene->shape[0].size[0], width = scene->shape[0].size[1];
    struct qkv_tensor *mean = across(graph, qkv_mean(graph, x[0], 1), rows, width);
    return qkv_add_row(graph, scaled_to_one(graph, qkv_subtract(graph, x[0], mean), x[1], scene), x[2]);
}

static struct qkv_tensor *softmax(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                  const struct scene *scene)
{
    (void)scene;
    return qkv_softmax(graph, x[0]);
}

static struct qkv_tensor *softmax_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                        const struct scene *scene)
{
    struct qkv_tensor *e = qkv_exp(graph, x[0]), *sum = qkv_sum(graph, e, 1);
    return qkv_multiply(
        graph, e, across(graph, raised(graph, sum, -1), scene->shape[0].size[0], scene->shape[0].size[1]));
}

static struct qkv_tensor *log_softmax(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                      const struct scene *scene)
{
    (void)scene;
    return qkv_log_softmax(graph, x[0]);
}

static struct qkv_tensor *log_softmax_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                            const struct scene *scene)
{
    return qkv_log(graph, softmax_parts(graph, x, scene));
}

static struct qkv_tensor *cross_entropy(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                        const struct scene *scene)
{
    return qkv_cross_entropy(graph, x[0], scene->labels, scene->smoothing, scene->factor);
}

/* -factor * sum(distribution * log softmax) */
static struct qkv_tensor *cross_entropy_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                              const struct scene *scene)
{
    int64_t rows = scene->shape[0].size[0], classes = scene->shape[0].size[1];
    struct qkv_tensor *wanted = filled(graph, scene->shape[0], scene->smoothing / (double)classes);
    for (int64_t i = 0; i < rows; i++)
        ((double *)qkv_tensor_value(wanted))[i * classes + scene->labels[i]] += 1 - scene->smoothing;
    struct qkv_tensor *logs = log_softmax_parts(graph, x, scene);
    return qkv_scale(graph, qkv_sum(graph, qkv_multiply(graph, wanted, logs), QKV_ALL), -scene->factor);
}

Test(fused, softmax_norms_and_loss_follow_their_formulas)
{
    static const int64_t widths[] = {2, 7, 17, 33, 131};
    int32_t labels[64];
    for (int n = 0; n < ROW_COUNT; n++)
        for (int w = 0; w < 5; w++) {
            struct scene scene = {
                .name = "softmax", .shape = {QKV_SHAPE(ROWS[n], widths[w])}, .epsilon = 1e-3};
            hold(&scene, softmax, softmax_parts);
            scene.name = "log_softmax";
            hold(&scene, log_softmax, log_softmax_parts);
            for (int64_t i = 0; i < ROWS[n]; i++) labels[i] = (int32_t)((5 * i + 1) % widths[w]);
            scene.name = "cross_entropy";
            scene.labels = labels;
            scene.smoothing = 0.2;
            scene.factor = 0.5;
            hold(&scene, cross_entropy, cross_entropy_parts);
            scene.name = "rms_norm";
            scene.shape[1] = QKV_SHAPE(widths[w]);
            hold(&scene, rms_norm, rms_norm_parts);
            scene.name = "layer_norm";
            scene.shape[2] = QKV_SHAPE(widths[w]);
            hold(&scene, layer_norm, layer_norm_parts);
        }
}
