/* Tensors that share memory: the results are the same bits, in less memory. */
#include "framework/engine/graph/internal.h"

#include "tiny.h"

/* Gradients of all parameters for one batch, [elements] on the heap, and the bytes of the graph. */
static float *gradients_of(const struct qkv_model *model, const struct qkv_batch_view *view, bool share,
                           size_t *bytes)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    const struct qkv_random random = {.seed = 4};
    float *gradients = calloc((size_t)model->parameters.elements, sizeof *gradients);
    qkv_graph_share_memory(graph, share);
    qkv_graph_bind(graph, &model->parameters, gradients, false);
    qkv_graph_set_dropout(graph, &random);
    for (int pass = 0; pass < 2; pass++) { /* the second pass reuses the memory of the first */
        qkv_graph_reset(graph);
        struct qkv_tensor *loss =
            qkv_model_loss(model, graph, view, &(struct qkv_objective){.smoothing = 0.1}, 1, NULL);
        qkv_graph_plan(graph, loss);
        expect_done(qkv_graph_check(graph, &error));
        qkv_forward(graph);
        qkv_backward(graph, loss, NULL);
    }
    *bytes = qkv_graph_peak_bytes(graph);
    return gradients;
}

static void expect_same(enum qkv_norm_place place, bool tied)
{
    struct qkv_model_config config = tiny_config();
    config.encoder.layer_norm = config.decoder.layer_norm = place;
    config.encoder.dropout = config.decoder.dropout = config.decoder.attention.dropout = 0.2;
    config.tied_softmax = tied;
    static const int64_t SOURCE[] = {7, 1, 12, 5}, TARGET[] = {3, 9, 4, 16};
    struct tiny tiny RELEASED(tiny_release) =
        tiny_with(tiny_model(&config, 11, 13, QKV_FLOAT32, 3), 4, SOURCE, TARGET, 8);
    size_t separate, shared;
    float *one RELEASED(free_memory) = gradients_of(tiny.model, &tiny.view, false, &separate),
               *other RELEASED(free_memory) = gradients_of(tiny.model, &tiny.view, true, &shared);
    cr_expect_eq(memcmp(one, other, (size_t)tiny.model->parameters.elements * sizeof *one), 0,
                 "norm %d, tied %d", place, tied);
    cr_expect_lt(shared, separate * 3 / 4, "%zu bytes of %zu", shared, separate);
}

Test(sharing, gradients_are_the_same_in_less_memory)
{
    expect_same(QKV_NORM_PRE, false);
    expect_same(QKV_NORM_POST, false);
    expect_same(QKV_NORM_POST, true);
}

/* ---- results that overwrite their inputs ---- */

enum { ROWS = 5, COLUMNS = 37, NUMBERS = ROWS * COLUMNS };

/* A variable that holds numbers. */
static struct qkv_tensor *numbers(struct qkv_graph *graph, int64_t rows, int64_t columns)
{
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(rows, columns));
    double values[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) values[i] = (i * 7 % 31) / 10.0 - 1.5;
    qkv_tensor_write(x, values);
    return x;
}

typedef struct qkv_tensor *unary(struct qkv_graph *graph, struct qkv_tensor *x);

static struct qkv_tensor *twice(struct qkv_graph *graph, struct qkv_tensor *x)
{
    return qkv_add(graph, qkv_relu(graph, x), x); /* two ops use x: neither may overwrite it */
}

/* A sum of a tensor with itself, a product that two ops use, and an op that no gradient reaches. */
static struct qkv_tensor *several_consumers(struct qkv_graph *graph, struct qkv_tensor *x)
{
    struct qkv_tensor *square = qkv_multiply(graph, x, x), *twice_square = qkv_add(graph, square, square),
                      *side = qkv_tanh(graph, twice_square);
    qkv_exp(graph, side); /* no op uses the result */
    return qkv_multiply(graph, side, qkv_add(graph, twice_square, square));
}

/* ---- values that backward recomputes ---- */

static struct qkv_tensor *norm(struct qkv_graph *graph, struct qkv_tensor *x)
{
    int64_t columns = qkv_tensor_shape(x).size[1];
    struct qkv_tensor *gain = qkv_constant(graph, QKV_SHAPE(columns)),
                      *bias = qkv_constant(graph, QKV_SHAPE(columns));
    double values[NUMBERS];
    for (int64_t i = 0; i < columns; i++) values[i] = 0.5 + 0.1 * (double)i;
    qkv_tensor_write(gain, values);
    qkv_tensor_write(bias, values);
    return qkv_layer_norm(graph, x, gain, bias, 1e-5);
}

/* Its backward reads its input. */
static struct qkv_tensor *square(struct qkv_graph *graph, struct qkv_tensor *x)
{
    return qkv_multiply(graph, x, x);
}

static struct qkv_tensor *norms_in_turn(struct qkv_graph *graph, struct qkv_tensor *x)
{
    for (int i = 0; i < 4; i++) x = square(graph, norm(graph, x));
    return x;
}

/* The first norm is read once more after the others. */
static struct qkv_tensor *norms_that_overlap(struct qkv_graph *graph, struct qkv_tensor *x)
{
    struct qkv_tensor *first = norm(graph, x), *y = qkv_add(graph, square(graph, first), x);
    for (int i = 0; i < 3; i++) y = square(graph, norm(graph, y));
    return qkv_multiply(graph, first, norm(graph, y));
}

/* Another tensor uses the memory of the first norm and is read after the second. */
static struct qkv_tensor *norms_in_other_shapes(struct qkv_graph *graph, struct qkv_tensor *x)
{
    struct qkv_tensor *transposed = qkv_reshape(graph, norm(graph, x), QKV_SHAPE(COLUMNS, ROWS)),
                      *other = qkv_reshape(graph, square(graph, norm(graph, qkv_tanh(graph, x))),
                                           QKV_SHAPE(COLUMNS, ROWS));
    return qkv_reshape(graph, qkv_multiply(graph, transposed, other), QKV_SHAPE(ROWS, COLUMNS));
}

/* The input from which the second norm is recomputed must still be there. */
static struct qkv_tensor *norms_of_norms(struct qkv_graph *graph, struct qkv_tensor *x)
{
    struct qkv_tensor *y = square(graph, norm(graph, norm(graph, norm(graph, x))));
    return square(graph, norm(graph, norm(graph, y)));
}

/* No op uses the first norm. */
static struct qkv_tensor *norm_without_use(struct qkv_graph *graph, struct qkv_tensor *x)
{
    norm(graph, x);
    return square(graph, norm(graph, x));
}

/* tests/kernels/random_cases.c tries each op alone. */
static const struct {
    const char *name;
    unary *build;
} UNARIES[] = {
    {"relu", qkv_relu},
    {"tanh", qkv_tanh},
    {"softmax", qkv_softmax},
    {"twice", twice},
    {"several consumers", several_consumers},
    {"norm", norm},
    {"norms in turn", norms_in_turn},
    {"norms that overlap", norms_that_overlap},
    {"norms in other shapes", norms_in_other_shapes},
    {"norm without use", norm_without_use},
    {"norms of norms", norms_of_norms},
};

/* Loss and gradient of x -> scale -> dropout -> op -> scale -> sum of squares. */
static void run_chain(unary *op, bool share, double *loss, double gradient[NUMBERS])
{
    const struct qkv_random random = {.seed = 9};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    qkv_graph_share_memory(graph, share);
    qkv_graph_set_dropout(graph, &random);
    struct qkv_tensor *x = numbers(graph, ROWS, COLUMNS);
    struct qkv_tensor *y = op(graph, qkv_dropout(graph, qkv_scale(graph, x, 1.25), 0.2));
    y = qkv_scale(graph, y, -0.75);
    y = qkv_sum(graph, qkv_multiply(graph, y, y), QKV_ALL);
    qkv_graph_plan(graph, y);
    cr_assert_eq(qkv_graph_check(graph, NULL), QKV_OK);
    for (int pass = 0; pass < 2; pass++) { /* the second pass starts with the memory as the first left it */
        qkv_graph_rewind(graph);
        qkv_forward(graph);
        qkv_backward(graph, y, NULL);
    }
    *loss = qkv_tensor_scalar(y);
    qkv_tensor_read_gradient(x, gradient);
}

Test(sharing, results_that_overwrite_inputs_are_the_same)
{
    for (size_t i = 0; i < sizeof UNARIES / sizeof UNARIES[0]; i++) {
        double loss[2], gradient[2][NUMBERS];
        for (int share = 0; share < 2; share++)
            run_chain(UNARIES[i].build, share, &loss[share], gradient[share]);
        cr_expect_eq(loss[0], loss[1], "%s: %.17g and %.17g", UNARIES[i].name, loss[0], loss[1]);
        cr_expect_eq(memcmp(gradient[0], gradient[1], sizeof gradient[0]), 0, "%s", UNARIES[i].name);
    }
}

Test(sharing, several_norms_need_the_memory_of_one)
{
    size_t added[2];
    for (int more = 0; more < 2; more++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_share_memory(graph, true);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(64, 48));
        for (int i = 0; i < (more ? 6 : 2); i++) x = square(graph, norm(graph, x));
        x = qkv_sum(graph, x, QKV_ALL);
        size_t before = qkv_graph_peak_bytes(graph);
        qkv_graph_plan(graph, x);
        added[more] = qkv_graph_peak_bytes(graph) - before;
    }
    cr_expect_eq(added[1] - added[0], 4 * 64 * 48 * sizeof(float), "%zu bytes for four more squares",
                 added[1] - added[0]);
}

/* How often an op runs forward and backward. */
struct counter {
    const char *op;
    int runs[2];
};

static void count_runs(void *context, const struct qkv_tensor *tensor, bool backward)
{
    struct counter *counter = context;
    if (!strcmp(qkv_tensor_op(tensor), counter->op)) counter->runs[backward]++;
}

/* However many nodes read a norm, backward recomputes it once. The result is kept although later
 * nodes use it. */
Test(sharing, norms_are_recomputed_once)
{
    double found[2][NUMBERS];
    for (int share = 0; share < 2; share++) {
        struct counter norms = {"layer_norm", {0, 0}};
        const struct qkv_observer observer = {count_runs, &norms};
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
        qkv_graph_share_memory(graph, share);
        qkv_graph_observe(graph, &observer);
        struct qkv_tensor *y = numbers(graph, ROWS, COLUMNS);
        for (int i = 0; i < 3; i++) {
            struct qkv_tensor *normed = norm(graph, y);
            y = qkv_add(graph, square(graph, normed), square(graph, normed));
        }
        y = norm(graph, y);
        norm(graph, square(graph, y));
        qkv_graph_plan(graph, y);
        qkv_forward(graph);
        cr_expect(norms.runs[0] == 5 && norms.runs[1] == 0, "%d, %d", norms.runs[0], norms.runs[1]);
        qkv_backward(graph, y, NULL);
        cr_expect_eq(norms.runs[0], share ? 5 + 3 : 5, "%d", norms.runs[0]);
        cr_expect_eq(norms.runs[1], 4);
        qkv_tensor_read(y, found[share]);
    }
    cr_expect_eq(memcmp(found[0], found[1], sizeof found[0]), 0);
}

enum { WIDE = 32, MOST_ROWS = 5 };

/* Runs three attentions of [rows, WIDE], each squared. */
static void run_attentions(int64_t rows, bool share, struct counter *counter,
                           double gradient[MOST_ROWS * WIDE])
{
    const struct qkv_attention attention = {.rule = {.heads = 2, .dropout = 0.2}};
    const struct qkv_random random = {.seed = 9};
    const struct qkv_observer observer = {count_runs, counter};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    qkv_graph_share_memory(graph, share);
    qkv_graph_set_dropout(graph, &random);
    qkv_graph_observe(graph, &observer);
    struct qkv_tensor *x = numbers(graph, rows, WIDE), *y = x;
    for (int i = 0; i < 3; i++) y = square(graph, qkv_attention(graph, y, y, y, NULL, attention));
    y = qkv_sum(graph, y, QKV_ALL);
    qkv_graph_plan(graph, y);
    qkv_forward(graph);
    qkv_backward(graph, y, NULL);
    cr_assert_eq(qkv_graph_check(graph, NULL), QKV_OK);
    qkv_tensor_read_gradient(x, gradient);
}

/* Backward recomputes the results of attention if they have at least 8 columns for each key. */
Test(sharing, results_of_attention_are_recomputed_if_they_are_wide)
{
    for (int64_t rows = MOST_ROWS - 1; rows <= MOST_ROWS; rows++) {
        double gradient[2][MOST_ROWS * WIDE] = {{0}};
        for (int share = 0; share < 2; share++) {
            struct counter counter = {"attention", {0, 0}};
            run_attentions(rows, share, &counter, gradient[share]);
            cr_expect_eq(counter.runs[0], share && 8 * rows <= WIDE ? 6 : 3, "%d rows: %d", (int)rows,
                         counter.runs[0]);
            cr_expect_eq(counter.runs[1], 3);
        }
        cr_expect_eq(memcmp(gradient[0], gradient[1], sizeof gradient[0]), 0, "%d rows", (int)rows);
    }
}

Test(sharing, gradients_reuse_the_workspace_of_the_loss)
{
    enum { TOKENS = 40, WIDTH = 24, CLASSES = 700 };
    static const int32_t LABELS[TOKENS] = {3, 699, 0, 511, 512, 3};
    size_t added[2];
    for (int share = 0; share < 2; share++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_share_memory(graph, share);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(TOKENS, WIDTH)),
                          *weight = qkv_variable(graph, QKV_SHAPE(WIDTH, CLASSES));
        /* Two values are kept for backward, and two gradients exist at a time. */
        struct qkv_tensor *hidden = qkv_tanh(graph, qkv_tanh(graph, x));
        struct qkv_tensor *loss = qkv_linear_cross_entropy(graph, hidden, weight, NULL, false, LABELS, 0, 1);
        size_t before = qkv_graph_peak_bytes(graph);
        qkv_graph_plan(graph, loss);
        added[share] = qkv_graph_peak_bytes(graph) - before;
    }
    cr_expect_eq(added[0], 0, "%zu bytes", added[0]);
    cr_expect_eq(added[1], (2 * TOKENS * WIDTH + WIDTH * CLASSES) * sizeof(float) + 64,
                 "%zu bytes: values, the gradient that the loss computes early, a loss and nothing else",
                 added[1]);
}

/* ---- graphs without gradients: a value is freed when its last consumer has run ---- */

/* x -> scale -> op -> scale -> relu, the result. Further nodes use the result and the input of the
 * second scale, also in another shape; two of their results are read by no op. */
static void forward_chain(unary *op, bool share, double found[3][NUMBERS])
{
    const struct qkv_random random = {.seed = 9};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    qkv_graph_set_gradients(graph, false);
    qkv_graph_share_memory(graph, share);
    qkv_graph_set_dropout(graph, &random);
    struct qkv_tensor *x = op(graph, qkv_scale(graph, numbers(graph, ROWS, COLUMNS), 1.25));
    struct qkv_tensor *transposed =
        qkv_reshape(graph, qkv_relu(graph, square(graph, x)), QKV_SHAPE(COLUMNS, ROWS));
    struct qkv_tensor *unused = qkv_exp(graph, qkv_reshape(graph, x, QKV_SHAPE(COLUMNS, ROWS)));
    struct qkv_tensor *y = qkv_relu(graph, qkv_scale(graph, x, -0.75));
    struct qkv_tensor *later = square(graph, square(graph, qkv_relu(graph, y)));
    later = qkv_add(graph, qkv_reshape(graph, later, QKV_SHAPE(COLUMNS, ROWS)), transposed);
    qkv_graph_plan(graph, y);
    cr_assert_eq(qkv_graph_check(graph, NULL), QKV_OK);
    for (int pass = 0; pass < 2; pass++) {
        qkv_graph_rewind(graph);
        qkv_forward(graph);
    }
    qkv_tensor_read(y, found[0]);
    qkv_tensor_read(unused, found[1]);
    qkv_tensor_read(later, found[2]);
}

Test(sharing, forward_without_gradients_gives_the_same)
{
    for (size_t i = 0; i < sizeof UNARIES / sizeof UNARIES[0]; i++) {
        double found[2][3][NUMBERS];
        for (int share = 0; share < 2; share++) forward_chain(UNARIES[i].build, share, found[share]);
        for (int which = 0; which < 3; which++)
            cr_expect_eq(memcmp(found[0][which], found[1][which], sizeof found[0][which]), 0, "%s, %d",
                         UNARIES[i].name, which);
    }
}

Test(sharing, forward_without_gradients_needs_the_memory_of_two)
{
    size_t bytes[2];
    for (int more = 0; more < 2; more++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_set_gradients(graph, false);
        qkv_graph_share_memory(graph, true);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(64, 64)), *weight = x;
        size_t before = 0;
        for (int i = 0; i < (more ? 12 : 3); i++)
            x = qkv_relu(graph, qkv_linear(graph, x, weight, NULL, false));
        before = qkv_graph_peak_bytes(graph);
        qkv_graph_plan(graph, x);
        bytes[more] = qkv_graph_peak_bytes(graph) - before;
    }
    /* The two alternate; the last one holds the result. */
    cr_expect_eq(bytes[0], 2 * 64 * 64 * sizeof(float), "%zu bytes of three", bytes[0]);
    cr_expect_eq(bytes[1], bytes[0], "%zu bytes of twelve", bytes[1]);
}
