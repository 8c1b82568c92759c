/* Compares recurrent cells over complete sentences with the figures of PyTorch (tests/figures/recurrent.json), and additive
 * scores and local weights of attention with compositions of simple ops. */
#include "composition.h"
#include "figures.h"
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

Test(recurrent, agrees_with_pytorch)
{
    for (int cell = 0; cell < 3; cell++) {
        check_from_a_state((enum qkv_cell)cell);
        check_bidirectional((enum qkv_cell)cell);
    }
}

/* ---- attention of recurrent networks, against compositions ---- */

/* Inputs: query [6, K], key [9, K], vector [K]. */
static struct qkv_attention attention_of(const struct composition_case *s)
{
    return (struct qkv_attention){.rule = {.heads = 1, .scale = 1}, .queries = s->queries, .keys = s->keys};
}

static struct qkv_tensor *fused_additive(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                         const struct composition_case *s)
{
    return qkv_attention_additive(graph, x[0], x[1], x[2], attention_of(s));
}

static struct qkv_tensor *composed_additive(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                            const struct composition_case *s)
{
    int64_t width = qkv_tensor_shape(x[2]).size[0];
    struct qkv_tensor *all = NULL, *column = qkv_reshape(graph, x[2], QKV_SHAPE(width, 1));
    for (int64_t b = 0; b < s->queries.count; b++)
        for (int64_t i = 0; i < s->queries.length[b]; i++) {
            struct qkv_tensor *q = qkv_slice(graph, x[0], 0, s->queries.start[b] + i, 1);
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
#define RAGGED .queries = {3, QUERY_START, QUERY_LENGTH}, .keys = {3, KEY_START, KEY_LENGTH}

Test(recurrent, additive_scores_are_their_composition)
{
    for (int64_t width = 1; width <= 33; width += 16) {
        const struct composition_case test = {
            "additive", {QKV_SHAPE(6, width), QKV_SHAPE(9, width), QKV_SHAPE(width)}, RAGGED};
        expect_composition(&test, fused_additive, composed_additive);
    }
}

/* Inputs: scores [22], center [6, 1]. */
static struct qkv_tensor *fused_local(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                      const struct composition_case *s)
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

/* Row by row. The centers are known in advance, so the keys within the window are, too. */
static struct qkv_tensor *composed_local(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                         const struct composition_case *s)
{
    struct qkv_tensor *all = NULL;
    double sigma = (double)s->window / 2;
    int64_t at = 0;
    for (int64_t b = 0; b < s->queries.count; b++)
        for (int64_t i = 0; i < s->queries.length[b]; i++) {
            int64_t row = s->queries.start[b] + i, keys = s->keys.length[b], first = 0, end = keys;
            double fraction = composition_input(s, 1, row);
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
        const struct composition_case test = {
            "local", {QKV_SHAPE(22), QKV_SHAPE(6, 1)}, RAGGED, .window = window};
        expect_composition(&test, fused_local, composed_local);
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
