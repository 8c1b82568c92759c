/* What training minimises: R-Drop and SimCut against the loss of two passes (which tests/kernels/fused.c compares with its
 * formula), in every network. */
#include "tiny.h"

#include "framework/engine/graph/internal.h"

enum { SOURCE_SIZE = 11, TARGET_SIZE = 9 };
static const struct qkv_objective R_DROP = {.smoothing = 0.1, .r_drop = 3}, PLAIN = {.smoothing = 0.1},
                                  SIMCUT = {.smoothing = 0.1, .simcut = 3, .simcut_rate = 0.4};

/* A model with dropout, and a batch. */
static struct tiny make_subject(enum qkv_network network)
{
    static const int64_t SOURCE[] = {3, 5, 1}, TARGET[] = {4, 2, 6};
    struct qkv_model_config config = tiny_config();
    struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
    for (int i = 0; i < 2; i++) {
        stacks[i]->type = network;
        stacks[i]->dropout = stacks[i]->embeddings.dropout = 0.3;
        stacks[i]->attention.dropout = 0.2;
    }
    return tiny_with(tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, 3), 3, SOURCE, TARGET, 5);
}

typedef struct qkv_tensor *loss_of(const struct tiny *subject, struct qkv_graph *graph);

static struct qkv_tensor *r_drop(const struct tiny *subject, struct qkv_graph *graph)
{
    return qkv_model_loss(subject->model, graph, &subject->view, &R_DROP, 0.5, NULL);
}

static struct qkv_tensor *simcut(const struct tiny *subject, struct qkv_graph *graph)
{
    return qkv_model_loss(subject->model, graph, &subject->view, &SIMCUT, 0.5, NULL);
}

static struct qkv_tensor *one_pass(const struct tiny *subject, struct qkv_graph *graph)
{
    return qkv_model_loss(subject->model, graph, &subject->view, &PLAIN, 0.5, NULL);
}

/* The loss of two passes, times 0.5, with 3 times their divergence: from each other, or (one_sided) of the second from the
 * first. Embeddings of the second one are dropped at the rate `cutoff`. */
static struct qkv_tensor *two_passes(const struct tiny *subject, struct qkv_graph *graph, bool one_sided,
                                     double cutoff)
{
    const struct qkv_model *model = subject->model;
    struct qkv_tensor *hidden[2];
    for (int k = 0; k < 2; k++) {
        qkv_graph_set_token_cutoff(graph, k ? cutoff : 0);
        hidden[k] = qkv_model_forward(model, graph, &subject->view, NULL);
    }
    return qkv_paired_cross_entropy(graph, hidden[0], hidden[1],
                                    qkv_graph_parameter(graph, model->output_weight),
                                    qkv_graph_parameter(graph, model->output_bias), false,
                                    subject->view.target_output, 0.1, 3, one_sided, 0.5);
}

static struct qkv_tensor *r_drop_parts(const struct tiny *subject, struct qkv_graph *graph)
{
    return two_passes(subject, graph, false, 0);
}

static struct qkv_tensor *simcut_parts(const struct tiny *subject, struct qkv_graph *graph)
{
    return two_passes(subject, graph, true, 0.4);
}

static void count(void *context, const struct qkv_tensor *tensor, bool backward)
{
    (void)tensor;
    *(int *)context += !backward;
}

/* Fills `gradients` and returns the loss; *nodes: nodes that forward computed. */
static double compute(const struct tiny *subject, loss_of *build, const struct qkv_random *random,
                      double *gradients, int *nodes)
{
    const struct qkv_observer observer = {count, nodes};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    *nodes = 0;
    qkv_graph_observe(graph, &observer);
    qkv_graph_set_dropout(graph, random);
    qkv_graph_bind(graph, &subject->model->parameters, gradients, false);
    struct qkv_tensor *loss = build(subject, graph);
    expect_done(qkv_graph_check(graph, &error));
    qkv_forward(graph);
    qkv_backward(graph, loss, NULL);
    double value = qkv_tensor_scalar(loss);
    return value;
}

static void expect_objective(enum qkv_network network, loss_of *pair, loss_of *pair_parts)
{
    const struct qkv_random random = {.seed = 8, .step = 2};
    struct tiny subject RELEASED(tiny_release) = make_subject(network);
    int64_t size = subject.model->parameters.elements;
    double *fused RELEASED(free_memory) = calloc((size_t)size, sizeof *fused),
                  *parts RELEASED(free_memory) = calloc((size_t)size, sizeof *parts);
    int nodes, plain_nodes;
    double loss = compute(&subject, pair, &random, fused, &nodes);
    double plain = compute(&subject, one_pass, &random, parts, &plain_nodes);
    cr_expect_gt(loss, plain + 0.01, "%g, %g", loss, plain);
    cr_expect_gt(nodes, plain_nodes);
    cr_expect_float_eq(loss, compute(&subject, pair_parts, &random, parts, &nodes), 1e-11);
    for (int64_t i = 0; i < size; i++) cr_assert_float_eq(fused[i], parts[i], 1e-11, "%lld", (long long)i);

    /* Without dropout both passes are equal: there is one, with the same bits as ever. */
    loss = compute(&subject, pair, NULL, fused, &nodes);
    cr_expect_eq(loss, compute(&subject, one_pass, NULL, parts, &plain_nodes));
    cr_expect_eq(nodes, plain_nodes);
    for (int64_t i = 0; i < size; i++) cr_assert_eq(fused[i], parts[i]);
}

Test(objective, r_drop_is_two_passes_and_their_divergences)
{
    expect_objective(QKV_NETWORK_TRANSFORMER, r_drop, r_drop_parts);
    expect_objective(QKV_NETWORK_RECURRENT, r_drop, r_drop_parts);
}

Test(objective, simcut_is_a_pass_and_its_divergence_from_one_with_tokens_cut_off)
{
    expect_objective(QKV_NETWORK_TRANSFORMER, simcut, simcut_parts);
    expect_objective(QKV_NETWORK_RECURRENT, simcut, simcut_parts);
}

static void count_cutoffs(void *context, const struct qkv_tensor *tensor, bool backward)
{
    *(int *)context += !backward && !strcmp(qkv_tensor_op(tensor), "dropout_rows");
}

/* The embeddings of both sides of the second pass alone are dropped. */
Test(objective, simcut_cuts_tokens_of_both_sides_off)
{
    const struct qkv_random random = {.seed = 8, .step = 2};
    for (int network = 0; network < 2; network++) {
        struct tiny subject RELEASED(tiny_release) = make_subject((enum qkv_network)network);
        int cutoffs = 0;
        const struct qkv_observer observer = {count_cutoffs, &cutoffs};
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
        qkv_graph_observe(graph, &observer);
        qkv_graph_set_dropout(graph, &random);
        qkv_graph_bind(graph, &subject.model->parameters, NULL, false);
        simcut(&subject, graph);
        cr_expect_eq(qkv_graph_token_cutoff(graph), 0);
        qkv_forward(graph);
        cr_expect_eq(cutoffs, 2, "%d", cutoffs);
    }
}
