/* Sums over a million rows in float32 keep their digits, with the kernels of every instruction set: the gradients of
 * biases, gains and embeddings. Equal terms, whose rounding errors add up, would be wrong by 4e-5 in blocks, and by 1e-2
 * in a running sum. */
#include "numbers.h"

enum { ROWS = 1 << 20, COLUMNS = 3 };

static const double MAX_ERROR = 1e-6;

/* What backward adds to the gradient of one column for each row: not a power of two, so that sums round. */
static const float TERM = 0.1f;

/* Runs backward of y with TERM as the gradient of every number, and reads the gradient of x. */
static void read_gradient(struct qkv_graph *graph, struct qkv_tensor *y, const struct qkv_tensor *x,
                          double *found)
{
    const int64_t count = qkv_tensor_count(y);
    double *dy RELEASED(free_memory) = malloc((size_t)count * sizeof *dy);
    for (int64_t i = 0; i < count; i++) dy[i] = (double)TERM;
    qkv_forward(graph);
    qkv_backward(graph, y, dy);
    expect_done(qkv_graph_check(graph, &error));
    qkv_tensor_read_gradient(x, found);
}

/* Of ones, rms_norm gives ones. The losses have equal logits, and labels of class 0: each row adds 1/3 to the gradient of the
 * other biases. */
Test(sums, bias_row_and_gain)
{
    static const char *const OPS[] = {"linear", "add_row", "rms_norm", "multiply_row", "paired", "loss"};
    float *ones RELEASED(free_memory) = malloc((size_t)ROWS * COLUMNS * sizeof *ones);
    int32_t *labels RELEASED(free_memory) = calloc(ROWS, sizeof *labels);
    for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) ones[i] = 1;
    for (int c = 0; c < 6 * VARIANT_COUNT; c++) {
        setenv("QKV_KERNELS", VARIANTS[c / 6], 1);
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *row = qkv_variable(graph, QKV_SHAPE(COLUMNS)),
                          *matrix = qkv_wrap(graph, QKV_SHAPE(ROWS, COLUMNS), ones),
                          *column = qkv_wrap(graph, QKV_SHAPE(ROWS, 1), ones),
                          *weight = qkv_wrap(graph, QKV_SHAPE(1, COLUMNS), ones);
        struct qkv_tensor *y =
            c % 6 == 0   ? qkv_linear(graph, column, weight, row, false)
            : c % 6 == 1 ? qkv_add_row(graph, matrix, row)
            : c % 6 == 2 ? qkv_rms_norm(graph, matrix, row, 1e-12)
            : c % 6 == 3 ? qkv_multiply_row(graph, matrix, row)
            : c % 6 == 4
                ? qkv_paired_cross_entropy(graph, column, column, weight, row, false, labels, 0, 0, false, 1)
                : qkv_linear_cross_entropy(graph, column, weight, row, false, labels, 0, 1);
        double found[COLUMNS], expected = ROWS * (double)TERM / (c % 6 < 4 ? 1 : 3);
        read_gradient(graph, y, row, found);
        for (int j = c % 6 < 4 ? 0 : 1; j < COLUMNS; j++)
            cr_expect(fabs(found[j] / expected - 1) < MAX_ERROR, "%s, %s: %.9g, but must be %.9g", OPS[c % 6],
                      VARIANTS[c / 6], found[j], expected);
    }
}

/* One id in every other row; the other rows have ids that come back after 1,000 rows. */
Test(sums, embedding)
{
    int32_t *ids RELEASED(free_memory) = malloc(ROWS * sizeof *ids);
    for (int32_t i = 0; i < ROWS; i++) ids[i] = i % 2 ? 0 : 1 + i / 2 % 500;
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *table = qkv_variable(graph, QKV_SHAPE(501, COLUMNS));
        struct qkv_tensor *y = qkv_embedding(graph, table, ids, ROWS, 1);
        double found[501 * COLUMNS];
        read_gradient(graph, y, table, found);
        for (int64_t j = 0; j < 501 * COLUMNS; j++) {
            double count = j < COLUMNS ? ROWS / 2 : ROWS / 2 / 500 + (j / COLUMNS <= ROWS / 2 % 500);
            double expected = count * (double)TERM;
            cr_assert(fabs(found[j] / expected - 1) < MAX_ERROR, "%s, number %d: %.9g, but must be %.9g",
                      VARIANTS[v], (int)j, found[j], expected);
        }
    }
}
