/* Attention on given matrices: prints the weights of each head and the result, then checks the
 * gradients.
 *
 *     cc attention_gradcheck.c $(pkg-config --cflags --libs qkv-engine) -o attention_gradcheck && ./attention_gradcheck
 *
 * Three queries attend to four keys with two heads of width 2 (Vaswani et al. 2017): weights =
 * softmax(query key^T / sqrt(2)), result = weights value. */
#include <qkv/engine.h>
#include <stdio.h>
#include <stdlib.h>

enum { QUERIES = 3, KEYS = 4, HEADS = 2, WIDTH = 4 };

static const double QUERY[QUERIES * WIDTH] = {1, 0, 0, 2, 0, 1, 1, 0, 1, 1, 3, 1};
static const double KEY[KEYS * WIDTH] = {4, 0, 0, 1, 0, 4, 2, 0, 2, 2, 0, 3, 1, 0, 1, 1};
static const double VALUE[KEYS * WIDTH] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};

static void print_matrix(const char *name, const double *numbers, int64_t rows, int64_t columns)
{
    printf("%s\n", name);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) printf("%8.4f", numbers[i * columns + j]);
        printf("\n");
    }
}

/* Prints the weights [QUERIES, KEYS] of each head. They are valid after qkv_forward. */
static void print_weights(const struct qkv_tensor *attention)
{
    for (int head = 0; head < HEADS; head++) {
        char name[32];
        int64_t rows, columns;
        const double *weights = qkv_attention_weights_of(attention, 0, head, &rows, &columns);
        snprintf(name, sizeof name, "weights of head %d", head + 1);
        if (weights) print_matrix(name, weights, rows, columns);
    }
}

/* Compares the gradients of query, key and value with finite differences. */
static bool check_gradients(struct qkv_graph *graph, struct qkv_tensor *result)
{
    struct qkv_check_report report = {0};
    const struct qkv_check_options options = {.seed = 1};
    struct qkv_error error;
    if (qkv_check_graph(&report, "attention", graph, result, &options, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return false;
    }
    for (int64_t i = 0; i < report.count; i++) {
        const struct qkv_check_row *row = &report.rows[i];
        printf("%-22s %2lld elements, relative error %.1e  %s\n", row->tensor, (long long)row->checked,
               row->error, row->failure ? row->failure : "ok");
    }
    printf("gradients %s\n", report.failures ? "DISAGREE" : "agree");
    bool ok = !report.failures;
    qkv_check_release(&report);
    return ok;
}

int main(void)
{
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64); /* the gradient check needs float64 */
    if (!graph) return EXIT_FAILURE;
    qkv_graph_scope(graph, "query"); /* the name of the next tensors, in messages and checks */
    struct qkv_tensor *query = qkv_variable(graph, QKV_SHAPE(QUERIES, WIDTH));
    qkv_graph_scope(graph, "key");
    struct qkv_tensor *key = qkv_variable(graph, QKV_SHAPE(KEYS, WIDTH));
    qkv_graph_scope(graph, "value");
    struct qkv_tensor *value = qkv_variable(graph, QKV_SHAPE(KEYS, WIDTH));
    /* No segments: all rows are one sentence. No mask. */
    struct qkv_tensor *result =
        qkv_attention(graph, query, key, value, NULL, (struct qkv_attention){.rule.heads = HEADS});
    struct qkv_error error;
    if (qkv_graph_check(graph, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return EXIT_FAILURE;
    }
    qkv_tensor_write(query, QUERY);
    qkv_tensor_write(key, KEY);
    qkv_tensor_write(value, VALUE);
    qkv_forward(graph);

    double numbers[QUERIES * WIDTH];
    qkv_tensor_read(result, numbers);
    print_weights(result);
    print_matrix("result", numbers, QUERIES, WIDTH);
    bool ok = check_gradients(graph, result);
    qkv_graph_free(graph);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
