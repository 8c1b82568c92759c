/* Compares recurrent cells over complete sentences with the figures of PyTorch (tests/figures/recurrent.json), and additive
 * scores and local weights of attention with their formulas. */
#include "figures.h"
#include "numbers.h"
#include "parameters.h"

/* ---- PyTorch ---- */

/* As in recurrent.py. */
enum { INPUTS = 5, WIDTH = 4, TOKENS = 9, SENTENCES = 3 };
static const int64_t START[] = {0, 3, 4}, LENGTH[] = {3, 1, 5};
static const struct qkv_segments SEGMENTS = {SENTENCES, START, LENGTH};
static const char *const CELLS[] = {"tanh", "gru", "lstm"};

static void check_from_a_state(enum qkv_cell cell)
{
    struct figures_case test RELEASED(figures_end);
    struct qkv_recurrent layer;
    const struct qkv_recurrent_options options = {cell, INPUTS, WIDTH, 0, 0, ZEROS, ZEROS};
    figures_start(&test, "recurrent.json", format("%s, from a state", CELLS[cell]));
    qkv_recurrent_init(&layer, test.parameters, &options, "1.forward");
    figures_bind(&test);
    struct qkv_tensor *x = figures_input(&test, 0, TOKENS, INPUTS);
    struct qkv_tensor *initial = figures_input(&test, 1, SENTENCES, qkv_recurrent_state_width(cell, WIDTH));
    struct qkv_tensor *gates = qkv_recurrent_gates(&layer, test.graph, x);
    struct qkv_tensor *states = qkv_recurrent_run(&layer, test.graph, gates, initial, SEGMENTS, false);
    figures_expect_case(&test, qkv_recurrent_hidden(&layer, test.graph, states));
}

static void check_bidirectional(enum qkv_cell cell)
{
    struct figures_case test RELEASED(figures_end);
    struct qkv_recurrent layer[2][2];
    figures_start(&test, "recurrent.json", format("%s, two layers, both ways", CELLS[cell]));
    for (int l = 0; l < 2; l++)
        for (int direction = 0; direction < 2; direction++) {
            const struct qkv_recurrent_options options = {cell, l ? 2 * WIDTH : INPUTS, WIDTH, 0, 0, ZEROS,
                                                          ZEROS};
            qkv_recurrent_init(&layer[l][direction], test.parameters, &options,
                               format("%d.%s", l + 1, direction ? "backward" : "forward"));
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
}

Test(recurrent, agrees_with_pytorch)
{
    for (int cell = 0; cell < 3; cell++) {
        check_from_a_state((enum qkv_cell)cell);
        check_bidirectional((enum qkv_cell)cell);
    }
}

/* ---- attention of recurrent networks, by its formulas ---- */

enum { QUERIES = 6, KEYS = 9, WIDEST = 33, PAIRS = 2 * 3 + 1 * 1 + 3 * 5 };
static const int64_t QUERY_START[] = {0, 2, 3}, QUERY_LENGTH[] = {2, 1, 3};

/* A leaf of numbers between low and high, which are copied to `values`. */
static struct qkv_tensor *leaf(struct qkv_graph *graph, uint32_t family, struct qkv_shape shape, double low,
                               double high, double *values)
{
    struct qkv_tensor *x = qkv_constant(graph, shape);
    for (int64_t i = 0; i < qkv_shape_count(shape); i++)
        values[i] = low + (number(family, i) + 1) / 2 * (high - low);
    qkv_tensor_write(x, values);
    return x;
}

/* v tanh(q + k) for each query and key of a sentence */
static double additive_score(int64_t width, const double *v, const double *q, const double *k)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++) sum += v[i] * tanh(q[i] + k[i]);
    return sum;
}

/* Number `key` of softmax(scores [keys]) exp(-(key - keys center)^2 / (2 (window / 2)^2)), which is 0 outside of the window, as
 * is what softmax leaves out. */
static double local_weight(int64_t keys, int64_t key, const double *scores, double center, double window)
{
    double sum = 0, place = (double)keys * center, far = (double)key - place;
    for (int64_t j = 0; j < keys; j++)
        if (fabs((double)j - place) <= window) sum += exp(scores[j]);
    if (fabs(far) > window) return 0;
    return exp(scores[key]) / sum * exp(-far * far / (window * window / 2));
}

Test(recurrent, additive_scores_and_local_weights_follow_their_formulas)
{
    const struct qkv_attention attention = {
        .rule = {.heads = 1}, .queries = {SENTENCES, QUERY_START, QUERY_LENGTH}, .keys = SEGMENTS};
    double q[QUERIES * WIDEST], k[KEYS * WIDEST], v[WIDEST], scores[PAIRS], centers[QUERIES], found[2][PAIRS];
    for (int64_t size = 1; size <= 6; size++) {
        const int64_t width = size < 6 ? size : WIDEST;
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
        const struct qkv_tensor *additive =
            qkv_attention_additive(graph, leaf(graph, 1, QKV_SHAPE(QUERIES, width), -1, 1, q),
                                   leaf(graph, 2, QKV_SHAPE(KEYS, width), -1, 1, k),
                                   leaf(graph, 3, QKV_SHAPE(width), -1, 1, v), attention);
        const struct qkv_tensor *local = qkv_attention_local(
            graph, leaf(graph, 4, QKV_SHAPE(PAIRS), -1, 1, scores),
            leaf(graph, 5, QKV_SHAPE(QUERIES, 1), 0.125, 0.875, centers), attention, size);
        expect_done(qkv_graph_check(graph, &error));
        qkv_forward(graph);
        qkv_tensor_read(additive, found[0]);
        qkv_tensor_read(local, found[1]);
        for (int64_t s = 0, at = 0; s < SENTENCES; s++)
            for (int64_t i = 0; i < QUERY_LENGTH[s]; i++, at += LENGTH[s])
                for (int64_t j = 0; j < LENGTH[s]; j++) {
                    const int64_t row = QUERY_START[s] + i;
                    double score = additive_score(width, v, q + row * width, k + (START[s] + j) * width),
                           weight = local_weight(LENGTH[s], j, scores + at, centers[row], (double)size);
                    cr_expect_float_eq(found[0][at + j], score, 1e-12, "width %d, pair %d", (int)width,
                                       (int)(at + j));
                    cr_expect_float_eq(found[1][at + j], weight, 1e-12, "window %d, pair %d", (int)size,
                                       (int)(at + j));
                }
    }
}

/* ---- initial values of recurrent parameters ---- */

Test(recurrent, orthogonal_weights_are_orthogonal_gate_by_gate)
{
    enum { N = 13, GATES = 4 };
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
        const struct qkv_parameter *weight =
            last_parameter(&parameters, (enum qkv_dtype)dtype, QKV_SHAPE(N, GATES * N),
                           (struct qkv_initial){QKV_INITIALIZER_ORTHOGONAL, 2.0}, "weight");
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
    }
}

Test(recurrent, forget_gates_start_with_their_bias)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    struct qkv_recurrent layer;
    const struct qkv_recurrent_options options = {QKV_CELL_LSTM, 3, 5, 0, 1.5, ZEROS, ZEROS};
    qkv_recurrent_init(&layer, &parameters, &options, "cell");
    make_parameters(&parameters, QKV_FLOAT64, 1);
    for (int i = 0; i < 20; i++)
        cr_expect_eq(qkv_parameter_get(&parameters, layer.input.bias, i), i / 5 == 1 ? 1.5 : 0.0);
}
