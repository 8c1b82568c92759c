/* Two dense layers learn the exclusive or of two bits. To build and run the program:
 *     cc xor.c $(pkg-config --cflags --libs qkv-engine) -o xor && ./xor */
#include <qkv/engine.h>
#include <stdio.h>
#include <stdlib.h>

static double inputs[] = {0, 0, 0, 1, 1, 0, 1, 1}, targets[] = {0, 1, 1, 0};

int main(void)
{
    /* The layers declare their parameters; then one block of memory holds all of them. */
    const struct qkv_initial xavier = {QKV_INITIALIZER_XAVIER_UNIFORM, 1.0};
    const struct qkv_dense_options two_to_eight = {2, 8, true, QKV_ACTIVATION_TANH, xavier};
    const struct qkv_dense_options eight_to_one = {8, 1, true, QKV_ACTIVATION_SIGMOID, xavier};
    struct qkv_parameters parameters = {0};
    struct qkv_dense hidden, output;
    qkv_dense_init(&hidden, &parameters, &two_to_eight, "hidden");
    qkv_dense_init(&output, &parameters, &eight_to_one, "output");
    if (qkv_parameters_allocate(&parameters, QKV_FLOAT64, NULL)) return EXIT_FAILURE;
    qkv_parameters_initialize(&parameters, 1);

    /* The graph of the mean squared error over the four rows of the truth table. */
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    double *gradients = calloc((size_t)parameters.elements, sizeof *gradients);
    qkv_graph_bind(graph, &parameters, gradients, false);
    struct qkv_tensor *x = qkv_wrap(graph, QKV_SHAPE(4, 2), inputs);
    struct qkv_tensor *target = qkv_wrap(graph, QKV_SHAPE(4, 1), targets);
    struct qkv_tensor *y = qkv_dense_apply(&output, graph, qkv_dense_apply(&hidden, graph, x)); /* [4, 1] */
    struct qkv_tensor *error = qkv_subtract(graph, y, target);                                  /* [4, 1] */
    struct qkv_tensor *loss = qkv_mean(graph, qkv_multiply(graph, error, error), QKV_ALL);

    /* Gradients against finite differences. Every mistake made above shows here, too. */
    struct qkv_check_report report = {0};
    const struct qkv_check_options check = {.seed = 1};
    bool ok = !qkv_check_graph(&report, "xor", graph, loss, &check, NULL) && !report.failures;
    printf("gradients %s\n", ok ? "agree" : "DISAGREE");

    /* Adam, with a learning rate of 0.05. */
    const struct qkv_optimizer_options adam = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAM);
    struct qkv_optimizer optimizer = {0};
    ok = ok && !qkv_optimizer_init(&optimizer, &adam, &parameters, NULL);
    for (int update = 0; ok && update <= 500; update++) {
        qkv_graph_rewind(graph); /* else qkv_forward would compute nothing the second time */
        qkv_forward(graph);
        if (update % 100 == 0) printf("update %3d  loss %.6f\n", update, qkv_tensor_scalar(loss));
        qkv_backward(graph, loss, NULL);
        qkv_optimizer_step(&optimizer, &parameters, NULL, 1, (void *[]){gradients}, 1.0, 0.05);
    }
    double out[4] = {0};
    qkv_tensor_read(y, out);
    for (int row = 0; row < 4; row++)
        printf("%.0f xor %.0f = %.3f\n", inputs[2 * row], inputs[2 * row + 1], out[row]);
    ok = ok && qkv_tensor_scalar(loss) < 0.01;
    qkv_check_release(&report);
    qkv_optimizer_release(&optimizer);
    qkv_graph_free(graph);
    qkv_parameters_release(&parameters);
    free(gradients);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
