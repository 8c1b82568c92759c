/* Compares recurrent cells over complete sentences with the figures of PyTorch (tests/figures/recurrent.json)
 * and with step-by-step compositions of simple ops: values and gradients, in both precisions, with the kernels
 * of every instruction set. Compares additive scores and local weights of attention with compositions, too. */
#include "figures.h"
#include "numbers.h"
#include "qkv/layers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- PyTorch ---- */

/* As in recurrent.py. */
enum { INPUTS = 5, WIDTH = 4, TOKENS = 9, SENTENCES = 3 };
static const int64_t START[] = {0, 3, 4}, LENGTH[] = {3, 1, 5};
static const struct qkv_segments SEGMENTS = {SENTENCES, START, LENGTH};
static const struct qkv_initial ZEROS = {QKV_INITIALIZER_ZEROS, 0};
static const char *const CELLS[] = {"tanh", "gru", "lstm"};

static void check_from_a_state(enum qkv_cell cell)
{
    char name[64];
    snprintf(name, sizeof name, "%s, from a state", CELLS[cell]);
    struct figures_case test;
    struct qkv_recurrent layer;
    const struct qkv_recurrent_options options = {cell, INPUTS, WIDTH, 0, 0, ZEROS, ZEROS};
    figures_start(&test, "recurrent.json", name);
    qkv_recurrent_init(&layer, &test.parameters, &options, "1.forward");
    figures_bind(&test);
    struct qkv_tensor *x = figures_input(&test, 0, TOKENS, INPUTS);
    struct qkv_tensor *initial = figures_input(&test, 1, SENTENCES, qkv_recurrent_state_width(cell, WIDTH));
    struct qkv_tensor *gates = qkv_recurrent_gates(&layer, test.graph, x);
    struct qkv_tensor *states = qkv_recurrent_run(&layer, test.graph, gates, initial, SEGMENTS, false);
    figures_expect_case(&test, qkv_recurrent_hidden(&layer, test.graph, states));
    figures_end(&test);
}

static void check_bidirectional(enum qkv_cell cell)
{
    char name[64];
    snprintf(name, sizeof name, "%s, two layers, both ways", CELLS[cell]);
    struct figures_case test;
    struct qkv_recurrent layer[2][2];
    figures_start(&test, "recurrent.json", name);
    for (int l = 0; l < 2; l++)
        for (int direction = 0; direction < 2; direction++) {
            const struct qkv_recurrent_options options = {cell, l ? 2 * WIDTH : INPUTS, WIDTH, 0, 0, ZEROS,
                                                          ZEROS};
            char title[32];
            snprintf(title, sizeof title, "%d.%s", l + 1, direction ? "backward" : "forward");
            qkv_recurrent_init(&layer[l][direction], &test.parameters, &options, title);
        }
    figures_bind(&test);
    struct qkv_tensor *x = figures_input(&test, 0, TOKENS, INPUTS);
    for (int l = 0; l < 2; l++) {
        struct qkv_tensor *hidden[2];
        for (int k = 0; k < 2; k++) {
            struct qkv_tensor *gates = qkv_recurrent_gates(&layer[l][k], test.graph, x);
            hidden[k] = qkv_recurrent_hidden(
                &layer[l][k], test.graph,
                qkv_recurrent_run(&layer[l][k], test.graph, gates, NULL, SEGMENTS, k == 1));
        }
        x = qkv_concat(test.graph, hidden[0], hidden[1], 1);
    }
    figures_expect_case(&test, x);
    figures_end(&test);
}

Test(recurrent, agrees_with_pytorch_from_a_state)
{
    for (int cell = 0; cell < 3; cell++) check_from_a_state((enum qkv_cell)cell);
}

Test(recurrent, agrees_with_pytorch_in_two_bidirectional_layers)
{
    for (int cell = 0; cell < 3; cell++) check_bidirectional((enum qkv_cell)cell);
}

/* ---- compositions ---- */

struct setting {
    const char *name;
    struct qkv_shape shape[4]; /* of the inputs; rank 0: none */
    struct qkv_segments segments, keys;
    int cell;
    bool reverse;
    int64_t window;
    double weight_factor; /* multiplies the values of input 1; 0: 1 */
};

typedef struct qkv_tensor *builder(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                   const struct setting *setting);

/* The result, followed by the gradients of the inputs; size: their counts. */
struct numbers {
    int64_t size[5];
    double *all;
};

/* centers: writes centers of local attention, fractions between 0.125 and 0.875. */
static void write_numbers(struct qkv_tensor *x, int64_t family, bool centers, double factor)
{
    int64_t count = qkv_tensor_count(x);
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        double value = (double)(float)figures_number(family, i);
        values[i] = centers ? 0.5 + 0.375 * value : (double)(float)(factor * value);
    }
    qkv_tensor_write(x, values);
    free(values);
}

static struct numbers compute(enum qkv_dtype dtype, const struct setting *setting, builder *build)
{
    struct qkv_graph *graph = qkv_graph_new(dtype);
    struct qkv_error error = {""};
    struct qkv_tensor *x[4] = {NULL};
    for (int k = 0; k < 4; k++) {
        if (!setting->shape[k].rank) continue;
        x[k] = qkv_variable(graph, setting->shape[k]);
        write_numbers(x[k], k, setting->window && k == 1,
                      k == 1 && setting->weight_factor > 0 ? setting->weight_factor : 1);
    }
    struct qkv_tensor *y = build(graph, x, setting);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", setting->name, error.message);
    qkv_forward(graph);
    struct numbers numbers = {{qkv_tensor_count(y)}, NULL};
    int64_t at = numbers.size[0], total = at;
    double *cotangent = malloc((size_t)at * sizeof *cotangent);
    for (int64_t i = 0; i < at; i++) cotangent[i] = (double)(float)figures_number(9, i);
    qkv_backward(graph, y, cotangent);
    free(cotangent);
    for (int k = 0; k < 4; k++) total += numbers.size[k + 1] = x[k] ? qkv_tensor_count(x[k]) : 0;
    numbers.all = malloc((size_t)total * sizeof *numbers.all);
    qkv_tensor_read(y, numbers.all);
    for (int k = 0; k < 4; at += numbers.size[++k])
        if (x[k]) qkv_tensor_read_gradient(x[k], numbers.all + at);
    qkv_graph_free(graph);
    return numbers;
}

static void expect_agreement(const struct setting *setting, builder *fused, builder *composed)
{
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct numbers expected = compute(QKV_FLOAT64, setting, composed);
        for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
            struct numbers got = compute((enum qkv_dtype)dtype, setting, fused);
            int64_t at = 0;
            for (int k = 0; k < 5; at += got.size[k++]) {
                double error = relative_difference(got.size[k], got.all + at, expected.all + at);
                cr_expect(error <= BOUND[dtype], "%s, %s, float%d: %s %d differs by %g, more than %g",
                          setting->name, VARIANTS[v], dtype == QKV_FLOAT32 ? 32 : 64,
                          k ? "gradient" : "value", k, error, BOUND[dtype]);
            }
            free(got.all);
        }
        free(expected.all);
    }
    unsetenv("QKV_KERNELS");
}

/* Inputs of cells: gates, weight, bias of a GRU, initial state. */
static struct qkv_tensor *fused_cell(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                     const struct setting *s)
{
    if (s->cell == QKV_CELL_TANH) return qkv_rnn(graph, x[0], x[1], x[3], s->segments, s->reverse);
    if (s->cell == QKV_CELL_GRU) return qkv_gru(graph, x[0], x[1], x[2], x[3], s->segments, s->reverse);
    return qkv_lstm(graph, x[0], x[1], x[3], s->segments, s->reverse);
}

static struct qkv_tensor *part(struct qkv_graph *graph, struct qkv_tensor *x, int64_t i, int64_t width)
{
    return qkv_slice(graph, x, 1, i * width, width);
}

/* One step of one sentence: gates [1, G H], state [1, S] or NULL. */
static struct qkv_tensor *composed_step(struct qkv_graph *graph, struct qkv_tensor *const *x, int cell,
                                        struct qkv_tensor *gates, struct qkv_tensor *state)
{
    int64_t width = qkv_tensor_shape(x[1]).size[0], blocks = qkv_tensor_shape(x[1]).size[1] / width;
    struct qkv_tensor *h = state ? part(graph, state, 0, width) : qkv_constant(graph, QKV_SHAPE(1, width));
    struct qkv_tensor *product = qkv_matmul(graph, h, x[1], false, false), *z[4];
    if (cell == QKV_CELL_GRU) {
        for (int i = 0; i < 2; i++)
            z[i] = qkv_sigmoid(graph,
                               qkv_add(graph, part(graph, gates, i, width), part(graph, product, i, width)));
        struct qkv_tensor *q = qkv_add_row(graph, part(graph, product, 2, width), x[2]);
        struct qkv_tensor *n =
            qkv_tanh(graph, qkv_add(graph, part(graph, gates, 2, width), qkv_multiply(graph, z[0], q)));
        return qkv_add(graph, n, qkv_multiply(graph, z[1], qkv_subtract(graph, h, n)));
    }
    struct qkv_tensor *sum = qkv_add(graph, gates, product);
    if (cell == QKV_CELL_TANH) return qkv_tanh(graph, sum);
    for (int i = 0; i < blocks; i++) {
        z[i] = part(graph, sum, i, width);
        z[i] = i == 2 ? qkv_tanh(graph, z[i]) : qkv_sigmoid(graph, z[i]);
    }
    struct qkv_tensor *c = qkv_multiply(graph, z[0], z[2]);
    if (state) c = qkv_add(graph, c, qkv_multiply(graph, z[1], part(graph, state, 1, width)));
    return qkv_concat(graph, qkv_multiply(graph, z[3], qkv_tanh(graph, c)), c, 1);
}

/* Returns the states in the row order of the fused op. The sentences cover all rows in order. */
static struct qkv_tensor *composed_cell(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                        const struct setting *s)
{
    struct qkv_tensor *all = NULL;
    for (int64_t b = 0; b < s->segments.count; b++) {
        struct qkv_tensor *state = x[3] ? qkv_slice(graph, x[3], 0, b, 1) : NULL, *sentence = NULL;
        int64_t length = s->segments.length[b];
        for (int64_t t = 0; t < length; t++) {
            int64_t row = s->segments.start[b] + (s->reverse ? length - 1 - t : t);
            state = composed_step(graph, x, s->cell, qkv_slice(graph, x[0], 0, row, 1), state);
            sentence = !sentence    ? state
                       : s->reverse ? qkv_concat(graph, state, sentence, 0)
                                    : qkv_concat(graph, sentence, state, 0);
        }
        all = all ? qkv_concat(graph, all, sentence, 0) : sentence;
    }
    return all;
}

static const int64_t LONG_START[] = {0, 7, 8}, LONG_LENGTH[] = {7, 1, 12};

Test(recurrent, fused_cells_are_the_composition_of_their_steps)
{
    static const int64_t gates[] = {1, 3, 4}, states[] = {1, 1, 2};
    for (int cell = 0; cell < 3; cell++)
        for (int64_t width = 1; width <= 17; width += 8)
            for (int variant = 0; variant < 4; variant++) {
                char name[64];
                snprintf(name, sizeof name, "%s of %d, variant %d", CELLS[cell], (int)width, variant);
                struct setting setting = {
                    .name = name,
                    .shape = {QKV_SHAPE(20, gates[cell] * width), QKV_SHAPE(width, gates[cell] * width)},
                    .segments = {3, LONG_START, LONG_LENGTH},
                    .cell = cell,
                    .reverse = variant & 1,
                    /* Keeps states, and with them rounding errors, from growing from step to step. */
                    .weight_factor = 1 / sqrt((double)width),
                };
                if (cell == QKV_CELL_GRU) setting.shape[2] = QKV_SHAPE(width);
                if (variant & 2) setting.shape[3] = QKV_SHAPE(3, states[cell] * width);
                expect_agreement(&setting, fused_cell, composed_cell);
            }
}

/* Inputs: query [6, K], key [9, K], vector [K]. */
static struct qkv_attention attention_of(const struct setting *s)
{
    return (struct qkv_attention){.rule = {.heads = 1, .scale = 1}, .queries = s->segments, .keys = s->keys};
}

static struct qkv_tensor *fused_additive(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                         const struct setting *s)
{
    return qkv_attention_additive(graph, x[0], x[1], x[2], attention_of(s));
}

static struct qkv_tensor *composed_additive(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                            const struct setting *s)
{
    int64_t width = qkv_tensor_shape(x[2]).size[0];
    struct qkv_tensor *all = NULL, *column = qkv_reshape(graph, x[2], QKV_SHAPE(width, 1));
    for (int64_t b = 0; b < s->segments.count; b++)
        for (int64_t i = 0; i < s->segments.length[b]; i++) {
            struct qkv_tensor *q = qkv_slice(graph, x[0], 0, s->segments.start[b] + i, 1);
            struct qkv_tensor *k = qkv_slice(graph, x[1], 0, s->keys.start[b], s->keys.length[b]);
            struct qkv_tensor *sum = qkv_add_row(graph, k, qkv_reshape(graph, q, QKV_SHAPE(width)));
            struct qkv_tensor *scores =
                qkv_reshape(graph, qkv_matmul(graph, qkv_tanh(graph, sum), column, false, false),
                            QKV_SHAPE(s->keys.length[b]));
            all = all ? qkv_concat(graph, all, scores, 0) : scores;
        }
    return all;
}

static const int64_t QUERY_START[] = {0, 2, 3}, QUERY_LENGTH[] = {2, 1, 3};
static const int64_t KEY_START[] = {0, 3, 4}, KEY_LENGTH[] = {3, 1, 5};
#define RAGGED .segments = {3, QUERY_START, QUERY_LENGTH}, .keys = {3, KEY_START, KEY_LENGTH}

Test(recurrent, additive_scores_are_their_composition)
{
    for (int64_t width = 1; width <= 33; width += 16) {
        const struct setting setting = {
            "additive", {QKV_SHAPE(6, width), QKV_SHAPE(9, width), QKV_SHAPE(width)}, RAGGED};
        expect_agreement(&setting, fused_additive, composed_additive);
    }
}

/* Inputs: scores [22], center [6, 1]. */
static struct qkv_tensor *fused_local(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                      const struct setting *s)
{
    return qkv_attention_local(graph, x[0], x[1], attention_of(s), s->window);
}

static struct qkv_tensor *constant_of(struct qkv_graph *graph, int64_t count, double first, double step)
{
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(count));
    double values[16];
    for (int64_t i = 0; i < count; i++) values[i] = first + step * (double)i;
    if (x) qkv_tensor_write(x, values);
    return x;
}

/* Row by row. The centers are known in advance (write_numbers), so the keys within the window are, too. */
static struct qkv_tensor *composed_local(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                         const struct setting *s)
{
    struct qkv_tensor *all = NULL;
    double sigma = (double)s->window / 2;
    int64_t at = 0;
    for (int64_t b = 0; b < s->segments.count; b++)
        for (int64_t i = 0; i < s->segments.length[b]; i++) {
            int64_t row = s->segments.start[b] + i, keys = s->keys.length[b], first = 0, end = keys;
            double fraction = 0.5 + 0.375 * (double)(float)figures_number(1, row);
            while ((double)first < fraction * (double)keys - (double)s->window) first++;
            while ((double)(end - 1) > fraction * (double)keys + (double)s->window) end--;
            int64_t in_window = end - first;
            struct qkv_tensor *scores = qkv_slice(graph, x[0], 0, at + first, in_window);
            struct qkv_tensor *center = qkv_slice(graph, x[1], 0, row, 1); /* [1, 1] */
            struct qkv_tensor *negative_center =
                qkv_reshape(/* -Tk center, repeated for each key */
                            graph,
                            qkv_matmul(graph, center,
                                       qkv_reshape(graph, constant_of(graph, in_window, -(double)keys, 0),
                                                   QKV_SHAPE(1, in_window)),
                                       false, false),
                            QKV_SHAPE(in_window));
            struct qkv_tensor *distance =
                qkv_add(graph, constant_of(graph, in_window, (double)first, 1), negative_center);
            struct qkv_tensor *gaussian = qkv_exp(
                graph, qkv_scale(graph, qkv_multiply(graph, distance, distance), -1 / (2 * sigma * sigma)));
            struct qkv_tensor *weights = qkv_multiply(graph, qkv_softmax(graph, scores), gaussian);
            if (first) weights = qkv_concat(graph, constant_of(graph, first, 0, 0), weights, 0);
            if (end < keys) weights = qkv_concat(graph, weights, constant_of(graph, keys - end, 0, 0), 0);
            all = all ? qkv_concat(graph, all, weights, 0) : weights;
            at += keys;
        }
    return all;
}

Test(recurrent, local_weights_are_their_composition)
{
    for (int64_t window = 1; window <= 6; window++) {
        const struct setting setting = {"local", {QKV_SHAPE(22), QKV_SHAPE(6, 1)}, RAGGED, .window = window};
        expect_agreement(&setting, fused_local, composed_local);
    }
}

/* ---- initial values of recurrent parameters ---- */

Test(recurrent, orthogonal_weights_are_orthogonal_gate_by_gate)
{
    enum { N = 13, GATES = 4 };
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
        struct qkv_parameters parameters = {0};
        const struct qkv_initial initial = {QKV_INITIALIZER_ORTHOGONAL, 2.0};
        const struct qkv_parameter *weight =
            qkv_parameters_add(&parameters, QKV_SHAPE(N, GATES * N), initial, "weight");
        cr_assert_eq(qkv_parameters_allocate(&parameters, (enum qkv_dtype)dtype, NULL), QKV_OK);
        qkv_parameters_initialize(&parameters, 3);
        double first = qkv_parameter_get(&parameters, weight, 0);
        cr_expect_neq(first, qkv_parameter_get(&parameters, weight, N), "two gates start with equal weights");
        for (int gate = 0; gate < GATES; gate++)
            for (int i = 0; i < N; i++)
                for (int j = 0; j < N; j++) {
                    double dot = 0;
                    for (int k = 0; k < N; k++)
                        dot += qkv_parameter_get(&parameters, weight, i * GATES * N + gate * N + k) *
                               qkv_parameter_get(&parameters, weight, j * GATES * N + gate * N + k);
                    cr_expect_float_eq(dot, i == j ? 4.0 : 0.0, dtype == QKV_FLOAT32 ? 1e-6 : 1e-14);
                }
        qkv_parameters_release(&parameters);
    }
}

Test(recurrent, forget_gates_start_with_their_bias)
{
    struct qkv_parameters parameters = {0};
    struct qkv_recurrent layer;
    const struct qkv_recurrent_options options = {QKV_CELL_LSTM, 3, 5, 0, 1.5, ZEROS, ZEROS};
    qkv_recurrent_init(&layer, &parameters, &options, "cell");
    cr_assert_eq(qkv_parameters_allocate(&parameters, QKV_FLOAT64, NULL), QKV_OK);
    qkv_parameters_initialize(&parameters, 1);
    for (int i = 0; i < 20; i++)
        cr_expect_eq(qkv_parameter_get(&parameters, layer.input.bias, i), i / 5 == 1 ? 1.5 : 0.0);
    qkv_parameters_release(&parameters);
}
