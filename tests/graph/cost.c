/* What nodes cost, counted. */

#include "support.h"

#include "framework/engine/graph/internal.h"

enum { HEADS = 2, WIDTH = 3, SENTENCES = 3 };
static const int64_t START[] = {0, 7, 8}, LENGTH[] = {7, 1, 4};
static const struct qkv_segments ROWS = {SENTENCES, START, LENGTH};

/* Weights above 0 of all sentences: each stands for a key that a query of one head sees. */
static double seen(const struct qkv_tensor *attention)
{
    double count = 0;
    for (int64_t s = 0; s < SENTENCES; s++) {
        int64_t rows, columns;
        const double *weights = qkv_attention_weights_of(attention, s, 0, &rows, &columns);
        for (int64_t i = 0; i < rows * columns; i++) count += weights[i] > 0;
    }
    return count;
}

static void expect_counted(struct qkv_attention attention, const char *name)
{
    attention.rule.heads = HEADS;
    attention.queries = attention.keys = ROWS;
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(12, HEADS * WIDTH));
    struct qkv_tensor *y = qkv_attention(graph, x, x, x, NULL, attention);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", name, error.message);
    qkv_forward(graph);
    double wanted = 2 * seen(y) * HEADS * (WIDTH + WIDTH); /* a multiplication and an addition each */
    cr_expect_eq(qkv_tensor_cost(y, false).operations, wanted, "%s: %g, not %g", name,
                 qkv_tensor_cost(y, false).operations, wanted);
    cr_expect_eq(qkv_tensor_cost(y, true).operations, 2 * wanted, "%s, backward", name);
}

Test(cost, attention_counts_what_its_queries_see)
{
    expect_counted((struct qkv_attention){0}, "all");
    expect_counted((struct qkv_attention){.rule.window = 1}, "narrow window");
    expect_counted((struct qkv_attention){.rule.window = 5}, "wide window");
    expect_counted((struct qkv_attention){.rule = {.window = 2, .causal = true}}, "causal window");
    expect_counted((struct qkv_attention){.rule = {.window = 1, .global_tokens = 2}}, "global tokens");
    expect_counted((struct qkv_attention){.rule = {.window = 1, .global_tokens = 2, .causal = true}},
                   "causal, global tokens");
}

/* Under a window the cost of a long sentence grows with the window, not with the square of the length. */
Test(cost, windowed_attention_is_linear)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(4096, 64));
    struct qkv_tensor *all = qkv_attention(graph, x, x, x, NULL, (struct qkv_attention){.rule.heads = 1}),
                      *some = qkv_attention(graph, x, x, x, NULL,
                                            (struct qkv_attention){.rule = {.heads = 1, .window = 128}});
    /* 257 keys a query, less those that the first and last 128 lack */
    cr_expect_eq(qkv_tensor_cost(all, false).operations, 4.0 * 64 * 4096 * 4096);
    cr_expect_eq(qkv_tensor_cost(some, false).operations, 4.0 * 64 * (4096 * 257 - 128 * 129));
}

/* A step multiplies a hidden state of H numbers by the weight; backward does so for the state and for the weight. */
Test(cost, recurrent_cells_count_the_steps_of_their_sentences)
{
    enum { HIDDEN = 5, STEPS = 7 + 1 + 4 };
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *gates = qkv_variable(graph, QKV_SHAPE(14, 4 * HIDDEN)),
                      *weight = qkv_variable(graph, QKV_SHAPE(HIDDEN, 4 * HIDDEN)),
                      *fixed = qkv_constant(graph, QKV_SHAPE(HIDDEN, 4 * HIDDEN));
    struct qkv_tensor *y = qkv_lstm(graph, gates, weight, NULL, ROWS, false),
                      *z = qkv_lstm(graph, gates, fixed, NULL, ROWS, false);
    expect_done(qkv_graph_check(graph, &error));
    double product = 2.0 * STEPS * HIDDEN * 4 * HIDDEN;
    cr_expect_eq(qkv_tensor_cost(y, false).operations, product);
    cr_expect_eq(qkv_tensor_cost(y, true).operations, 2 * product);
    cr_expect_eq(qkv_tensor_cost(z, true).operations, product, "of the states alone");
}
