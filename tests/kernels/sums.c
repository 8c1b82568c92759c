/* Sums over a million rows in float32 keep their digits, with the kernels of every instruction set: the gradients of
 * biases, gains and embeddings. Equal terms, whose rounding errors add up, are wrong by 4e-5; a running sum of them by
 * 1e-2. */
#include "qkv/ops.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS = 1 << 20, COLUMNS = 3 };

static const char *const VARIANTS[] = {"portable", "avx2", "avx512"};

/* What backward adds to the gradient of one column for each row: not a power of two, so that sums round. */
static const float TERM = 0.1f;

/* Runs backward of y [ROWS, COLUMNS] with TERM as the gradient of every number, and checks that every number of
 * the gradient of x [count] is ROWS times `term`. */
static void check_gradient(const char *what, const char *variant, struct qkv_graph *graph,
                           struct qkv_tensor *y, struct qkv_tensor *x, int64_t count, double term)
{
    struct qkv_error error = {""};
    double *dy = malloc((size_t)ROWS * COLUMNS * sizeof *dy), found[COLUMNS];
    for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) dy[i] = (double)TERM;
    qkv_forward(graph);
    qkv_backward(graph, y, dy);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
    qkv_tensor_read_gradient(x, found);
    for (int64_t j = 0; j < count; j++)
        cr_expect(fabs(found[j] / (ROWS * term) - 1) < 1e-4, "%s, %s: %.9g, but must be %.9g", what, variant,
                  found[j], ROWS * term);
    free(dy);
    qkv_graph_free(graph);
}

Test(sums, bias)
{
    for (size_t v = 0; v < sizeof VARIANTS / sizeof *VARIANTS; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *bias = qkv_variable(graph, QKV_SHAPE(COLUMNS)),
                          *x = qkv_constant(graph, QKV_SHAPE(ROWS, 1)),
                          *weight = qkv_constant(graph, QKV_SHAPE(1, COLUMNS));
        struct qkv_tensor *y = qkv_linear(graph, x, weight, bias, false);
        check_gradient("bias of linear", VARIANTS[v], graph, y, bias, COLUMNS, (double)TERM);

        graph = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *row = qkv_variable(graph, QKV_SHAPE(COLUMNS)),
                          *matrix = qkv_constant(graph, QKV_SHAPE(ROWS, COLUMNS));
        check_gradient("row of add_row", VARIANTS[v], graph, qkv_add_row(graph, matrix, row), row, COLUMNS,
                       (double)TERM);
    }
}

Test(sums, gain)
{
    for (size_t v = 0; v < sizeof VARIANTS / sizeof *VARIANTS; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *gain = qkv_variable(graph, QKV_SHAPE(COLUMNS)),
                          *x = qkv_constant(graph, QKV_SHAPE(ROWS, COLUMNS));
        double *ones = malloc((size_t)ROWS * COLUMNS * sizeof *ones);
        for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) ones[i] = 1;
        qkv_tensor_write(x, ones);
        free(ones);
        struct qkv_tensor *y = qkv_rms_norm(graph, x, gain, 1e-12); /* of ones: ones */
        check_gradient("gain of rms_norm", VARIANTS[v], graph, y, gain, COLUMNS, (double)TERM);
    }
}

/* One id in every other row; the other rows have ids that come back after 1,000 rows. */
Test(sums, embedding)
{
    int32_t *ids = malloc(ROWS * sizeof *ids);
    for (int32_t i = 0; i < ROWS; i++) ids[i] = i % 2 ? 0 : 1 + i / 2 % 500;
    for (size_t v = 0; v < sizeof VARIANTS / sizeof *VARIANTS; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *table = qkv_variable(graph, QKV_SHAPE(501, COLUMNS));
        struct qkv_tensor *y = qkv_embedding(graph, table, ids, ROWS, 1);
        double *dy = malloc((size_t)ROWS * COLUMNS * sizeof *dy),
               *found = malloc(501 * COLUMNS * sizeof *found);
        for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) dy[i] = (double)TERM;
        qkv_forward(graph);
        qkv_backward(graph, y, dy);
        qkv_tensor_read_gradient(table, found);
        for (int64_t j = 0; j < 501 * COLUMNS; j++) {
            double count = j < COLUMNS ? ROWS / 2 : ROWS / 2 / 500 + (j / COLUMNS <= ROWS / 2 % 500);
            double expected = count * (double)TERM;
            cr_assert(fabs(found[j] / expected - 1) < 1e-4, "%s, number %d: %.9g, but must be %.9g",
                      VARIANTS[v], (int)j, found[j], expected);
        }
        free(dy);
        free(found);
        qkv_graph_free(graph);
    }
    free(ids);
}
