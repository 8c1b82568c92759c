/* Which gradients backward says are complete while it goes on: those that are sent to another process meanwhile. */
#include "parameters.h"

#include "framework/engine/graph/graph.h"

enum { LAYERS = 3, WIDTH = 4 };

/* What the flags said when each node of backward had run, the last layer first. */
struct seen {
    const struct qkv_graph *graph;
    int nodes;
    int complete[16]; /* before each node: how many gradients are complete */
    float gradients[16][(LAYERS + 1) * 64];
};

static struct qkv_parameters parameters;
static atomic_bool flags[LAYERS + 1];
static float block[(LAYERS + 1) * 64];

static void record(void *context, const struct qkv_tensor *tensor, bool backward)
{
    struct seen *seen = context;
    (void)tensor;
    if (!backward) return;
    cr_assert_lt(seen->nodes, 16);
    memcpy(seen->gradients[seen->nodes], block, sizeof block);
    for (int i = 0; i < LAYERS; i++) seen->complete[seen->nodes] += atomic_load(&flags[i]);
    seen->nodes++;
}

Test(progress, gradients_are_complete_one_after_the_other_and_change_no_more)
{
    const struct qkv_parameter *weight[LAYERS];
    struct seen seen = {0};
    for (int i = 0; i < LAYERS; i++)
        weight[i] = qkv_parameters_add(&parameters, QKV_SHAPE(WIDTH, WIDTH), NORMAL, "weight%d", i);
    make_parameters(&parameters, QKV_FLOAT32, 3);
    cr_assert_leq((size_t)parameters.elements, sizeof block / sizeof *block);
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_set_progress(graph, (struct qkv_progress){&parameters, flags});
    qkv_graph_bind(graph, &parameters, block, false);
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(2, WIDTH));
    qkv_tensor_write(x, (const double[]){1, 2, 3, 4, -1, 0.5, 2, -3});
    for (int i = 0; i < LAYERS; i++)
        x = qkv_tanh(graph, qkv_matmul(graph, x, qkv_graph_parameter(graph, weight[i]), false, false));
    struct qkv_tensor *loss = qkv_sum(graph, x, QKV_ALL);
    qkv_graph_observe(graph, &(struct qkv_observer){record, &seen});
    qkv_forward(graph);
    qkv_backward(graph, loss, NULL);
    expect_done(qkv_graph_check(graph, &error));
    cr_assert_eq(seen.nodes, 2 * LAYERS + 1);
    /* The sum, then tanh and product of each layer; a product's flag is set when it has run. */
    static const int EXPECTED[] = {0, 0, 0, 1, 1, 2, 2};
    for (int i = 0; i < seen.nodes; i++) cr_expect_eq(seen.complete[i], EXPECTED[i], "node %d", i);
    for (int i = 0; i < LAYERS; i++) cr_expect(atomic_load(&flags[i]), "weight %d", i);
    const size_t last = (size_t)weight[LAYERS - 1]->offset;
    cr_expect_arr_eq(&seen.gradients[3][last], &block[last], WIDTH * WIDTH * sizeof *block,
                     "the gradient of the last layer is final when it is said to be complete");
    qkv_parameters_release(&parameters);
}
