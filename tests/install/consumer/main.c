/* Two dense layers learn XOR, after the gradient check has shown that their gradients are right. */
#include <qkv/gradcheck.h>
#include <qkv/layers.h>
#include <stdio.h>
#include <stdlib.h>

static const double INPUTS[] = {0, 0, 0, 1, 1, 0, 1, 1}, TARGETS[] = {0, 1, 1, 0};

/* The learned numbers, and two layers that name slices of them. */
struct network {
    struct qkv_parameters parameters;
    struct qkv_dense hidden, output;
};

static void declare(struct network *network)
{
    const struct qkv_initial xavier = {QKV_INITIALIZER_XAVIER_UNIFORM, 1.0};
    const struct qkv_dense_options hidden = {2, 8, true, QKV_ACTIVATION_TANH, xavier};
    const struct qkv_dense_options output = {8, 1, true, QKV_ACTIVATION_NONE, xavier};
    qkv_dense_init(&network->hidden, &network->parameters, &hidden, "hidden");
    qkv_dense_init(&network->output, &network->parameters, &output, "output");
}

/* Records the graph up to the mean squared error over the four rows of the truth table, and computes it: [1].
 */
static struct qkv_tensor *compute_loss(const struct network *network, struct qkv_graph *graph)
{
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(4, 2)),
                      *target = qkv_constant(graph, QKV_SHAPE(4, 1));
    struct qkv_tensor *hidden = qkv_dense_apply(&network->hidden, graph, x);      /* [4, 8] */
    struct qkv_tensor *output = qkv_dense_apply(&network->output, graph, hidden); /* [4, 1] */
    struct qkv_tensor *miss = qkv_subtract(graph, output, target);                /* [4, 1] */
    struct qkv_tensor *loss = qkv_mean(graph, qkv_multiply(graph, miss, miss), QKV_ALL);
    struct qkv_error error;
    if (qkv_graph_check(graph, &error)) { /* what is wrong with any of the above shows here, and only here */
        fprintf(stderr, "%s\n", error.message);
        exit(EXIT_FAILURE);
    }
    qkv_tensor_write(x, INPUTS);
    qkv_tensor_write(target, TARGETS);
    qkv_forward(graph);
    return loss;
}

/* Holds every gradient against central differences; false where they disagree. */
static bool check_gradients(const struct network *network, struct qkv_graph *graph)
{
    struct qkv_check_report report = {0};
    const struct qkv_check_options options = {.seed = 1};
    bool ok = !qkv_check_graph(&report, "xor", graph, compute_loss(network, graph), &options, NULL) &&
              !report.failures;
    for (int64_t i = 0; i < report.count; i++)
        printf("%-30s relative error %.1e\n", report.rows[i].tensor, report.rows[i].error);
    printf("gradients %s\n", ok ? "agree" : "DISAGREE");
    qkv_check_release(&report);
    return ok;
}

/* Gradient descent: every step records the graph anew, in the same memory. */
static double train(const struct network *network, struct qkv_graph *graph, const double *gradients,
                    int steps)
{
    double *values = network->parameters.values, loss = 0;
    for (int step = 0; step < steps; step++) {
        qkv_graph_reset(graph);
        struct qkv_tensor *y = compute_loss(network, graph);
        qkv_backward(graph, y, NULL);
        for (int64_t i = 0; i < network->parameters.elements; i++) values[i] -= 0.1 * gradients[i];
        loss = qkv_tensor_scalar(y);
        if (step % 100 == 0) printf("step %3d  loss %.6f\n", step, loss);
    }
    return loss;
}

int main(void)
{
    struct network network = {0};
    declare(&network);
    struct qkv_graph *graph =
        qkv_graph_new(QKV_FLOAT64); /* what the check needs; QKV_FLOAT32 trains faster */
    if (!graph || qkv_parameters_allocate(&network.parameters, QKV_FLOAT64, NULL)) return EXIT_FAILURE;
    qkv_parameters_initialize(&network.parameters, 1);

    double *gradients = calloc((size_t)network.parameters.elements, sizeof *gradients);
    if (!gradients) return EXIT_FAILURE;
    qkv_graph_bind(graph, &network.parameters, gradients, false);

    bool learned = check_gradients(&network, graph);
    if (learned) {
        double loss = train(&network, graph, gradients, 500);
        printf("final loss %.6f\n", loss);
        learned = loss < 0.01;
    }
    free(gradients);
    qkv_graph_free(graph);
    qkv_parameters_release(&network.parameters);
    return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
