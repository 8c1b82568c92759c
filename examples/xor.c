/* Two dense layers learn the exclusive or of two bits.
 *
 *     cc xor.c $(pkg-config --cflags --libs qkv) -o xor && ./xor
 *
 * The program shows the three parts of every training: parameters in one block of memory, a graph
 * that computes the loss and its gradients, and an optimizer. It checks the gradients against
 * finite differences before it trains. */
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>

static const double INPUTS[] = {0, 0, 0, 1, 1, 0, 1, 1}, TARGETS[] = {0, 1, 1, 0};

struct network {
    struct qkv_parameters parameters; /* all weights and biases */
    struct qkv_dense hidden, output;  /* the layers, which refer to them */
};

static void declare_layers(struct network *network)
{
    const struct qkv_initial xavier = {QKV_INITIALIZER_XAVIER_UNIFORM, 1.0};
    const struct qkv_dense_options hidden = {2, 8, true, QKV_ACTIVATION_TANH, xavier};
    const struct qkv_dense_options output = {8, 1, true, QKV_ACTIVATION_SIGMOID, xavier};
    qkv_dense_init(&network->hidden, &network->parameters, &hidden, "hidden");
    qkv_dense_init(&network->output, &network->parameters, &output, "output");
}

/* Builds and runs the graph of the mean squared error over the four rows of the truth table. Stores
 * the node of the predictions [4, 1] in *prediction. */
static struct qkv_tensor *compute_loss(const struct network *network, struct qkv_graph *graph,
                                       struct qkv_tensor **prediction)
{
    qkv_graph_reset(graph); /* keeps the memory, so that training allocates nothing */
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(4, 2));
    struct qkv_tensor *target = qkv_constant(graph, QKV_SHAPE(4, 1));
    struct qkv_tensor *hidden = qkv_dense_apply(&network->hidden, graph, x); /* [4, 8] */
    *prediction = qkv_dense_apply(&network->output, graph, hidden);          /* [4, 1] */
    struct qkv_tensor *error = qkv_subtract(graph, *prediction, target);     /* [4, 1] */
    struct qkv_tensor *loss = qkv_mean(graph, qkv_multiply(graph, error, error), QKV_ALL);

    struct qkv_error message;
    if (qkv_graph_check(graph, &message)) { /* every mistake made above shows here */
        fprintf(stderr, "%s\n", message.message);
        exit(EXIT_FAILURE);
    }
    qkv_tensor_write(x, INPUTS);
    qkv_tensor_write(target, TARGETS);
    qkv_forward(graph);
    return loss;
}

static bool check_gradients(const struct network *network, struct qkv_graph *graph)
{
    struct qkv_tensor *prediction, *loss = compute_loss(network, graph, &prediction);
    struct qkv_check_report report = {0};
    const struct qkv_check_options options = {.seed = 1};
    bool ok = !qkv_check_graph(&report, "xor", graph, loss, &options, NULL) && !report.failures;
    for (int64_t i = 0; i < report.count; i++)
        printf("%-30s relative error %.1e\n", report.rows[i].tensor, report.rows[i].error);
    printf("gradients %s\n", ok ? "agree" : "DISAGREE");
    qkv_check_release(&report);
    return ok;
}

/* Trains with Adam and returns the last loss; negative if there is no memory. */
static double train(struct network *network, struct qkv_graph *graph, double *gradients, int updates)
{
    const struct qkv_optimizer_options settings = {
        .optimizer = QKV_OPTIMIZER_ADAM, .adam_betas = {0.9, 0.999}, .adam_epsilon = 1e-8};
    struct qkv_optimizer optimizer = {0};
    if (qkv_optimizer_init(&optimizer, &settings, &network->parameters, NULL)) return -1;
    double loss = 0;
    for (int update = 0; update < updates; update++) {
        struct qkv_tensor *prediction, *node = compute_loss(network, graph, &prediction);
        qkv_backward(graph, node, NULL);
        qkv_optimizer_step(&optimizer, &network->parameters, NULL, 1, (void *[]){gradients}, 1.0, 0.05);
        loss = qkv_tensor_scalar(node);
        if (update % 100 == 0) printf("update %3d  loss %.6f\n", update, loss);
    }
    qkv_optimizer_release(&optimizer);
    return loss;
}

static void print_truth_table(const struct network *network, struct qkv_graph *graph)
{
    double output[4];
    struct qkv_tensor *prediction;
    compute_loss(network, graph, &prediction);
    qkv_tensor_read(prediction, output);
    for (int row = 0; row < 4; row++)
        printf("%.0f xor %.0f = %.0f  (%.3f)\n", INPUTS[2 * row], INPUTS[2 * row + 1], output[row],
               output[row]);
}

int main(void)
{
    struct network network = {0};
    declare_layers(&network);
    /* The gradient check needs float64; QKV_FLOAT32 trains faster. */
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    if (!graph || qkv_parameters_allocate(&network.parameters, QKV_FLOAT64, NULL)) return EXIT_FAILURE;
    qkv_parameters_initialize(&network.parameters, 1);
    double *gradients = calloc((size_t)network.parameters.elements, sizeof *gradients);
    if (!gradients) return EXIT_FAILURE;
    qkv_graph_bind(graph, &network.parameters, gradients, false);

    bool learned = check_gradients(&network, graph);
    if (learned) {
        double loss = train(&network, graph, gradients, 500);
        printf("final loss %.6f\n", loss);
        print_truth_table(&network, graph);
        learned = loss >= 0 && loss < 0.01;
    }
    free(gradients);
    qkv_graph_free(graph);
    qkv_parameters_release(&network.parameters);
    return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
