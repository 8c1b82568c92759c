/* Products that read a copy of their matrix in another order: the same bits as without it, whatever the
 * sizes, the reading and the instruction set, and never those of a copy that is out of date. */
#include "numbers.h"

#include "framework/engine/graph/internal.h"

#define COUNT(array) (sizeof array / sizeof array[0])

static const struct qkv_initial XAVIER = {QKV_INITIALIZER_XAVIER_UNIFORM, 1};

struct weights {
    struct qkv_parameters parameters;
    const struct qkv_parameter *matrix, *bias;
};

static struct weights weights_of(enum qkv_dtype dtype, int64_t rows, int64_t columns, int64_t outputs)
{
    struct weights weights = {0};
    weights.matrix = qkv_parameters_add(&weights.parameters, QKV_SHAPE(rows, columns), XAVIER, "matrix");
    weights.bias = qkv_parameters_add(&weights.parameters, QKV_SHAPE(outputs), XAVIER, "bias");
    cr_assert_eq(qkv_parameters_allocate(&weights.parameters, dtype, NULL), QKV_OK);
    qkv_parameters_initialize(&weights.parameters, 3);
    return weights;
}

static void release(struct weights *weights)
{
    qkv_parameters_release(&weights->parameters);
}

/* x matrix' + bias, of m rows; [m, outputs] numbers to be given back with free. */
static double *product(const struct weights *weights, struct qkv_panels *panels, struct qkv_workers *workers,
                       int64_t m, bool transposed)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(weights->parameters.dtype);
    qkv_graph_set_gradients(graph, false);
    qkv_graph_bind(graph, &weights->parameters, NULL, false);
    qkv_graph_set_panels(graph, panels);
    qkv_graph_set_workers(graph, workers);
    int64_t k = weights->matrix->shape.size[transposed ? 1 : 0];
    struct qkv_tensor *x = fill(qkv_constant(graph, QKV_SHAPE(m, k)), 1);
    struct qkv_tensor *y = qkv_linear(graph, x, qkv_graph_parameter(graph, weights->matrix),
                                      qkv_graph_parameter(graph, weights->bias), transposed);
    expect_done(qkv_graph_check(graph, &error));
    qkv_forward(graph);
    double *values = malloc((size_t)qkv_tensor_count(y) * sizeof *values);
    qkv_tensor_read(y, values);
    return values;
}

/* Returns whether the numbers are those of a product without panels. */
static bool is_exact(const struct weights *weights, struct qkv_panels *panels, struct qkv_workers *workers,
                     int64_t m, bool transposed)
{
    double *expected RELEASED(free_memory) = product(weights, NULL, NULL, m, transposed),
                     *found RELEASED(free_memory) = product(weights, panels, workers, m, transposed);
    return !memcmp(found, expected, (size_t)(m * weights->bias->count) * sizeof *found);
}

Test(panels, give_the_same_bits)
{
    static const int64_t rows[] = {1, 3, 4, 7, 12, 17, 33}, columns[] = {1, 16, 33, 150, 1029},
                         inner[] = {1, 17, 64, 600};
    static const char *const variants[] = {"portable", "avx2", "avx512"};
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(3, NULL);
    for (size_t i = 0; i < COUNT(columns) * COUNT(inner) * COUNT(variants) * 2 * 2; i++) {
        size_t at = i;
        bool transposed = at % 2;
        enum qkv_dtype dtype = (at /= 2) % 2 ? QKV_FLOAT64 : QKV_FLOAT32;
        int64_t n = columns[(at /= 2) % COUNT(columns)], k = inner[(at /= COUNT(columns)) % COUNT(inner)];
        setenv("QKV_KERNELS", variants[at / COUNT(inner)], 1); /* one that this machine lacks gives another */
        struct weights weights RELEASED(release) =
            weights_of(dtype, transposed ? n : k, transposed ? k : n, n);
        struct qkv_panels *panels RELEASED(free_panels) = qkv_panels_new(&weights.parameters);
        cr_assert_not_null(panels);
        for (size_t r = 0; r < COUNT(rows); r++)
            for (int split = 0; split < 2; split++)
                cr_expect(is_exact(&weights, panels, split ? workers : NULL, rows[r], transposed),
                          "%s%s, %d x %d x %d", variants[at / COUNT(inner)], transposed ? ", transposed" : "",
                          (int)rows[r], (int)n, (int)k);
    }
}

/* OpenBLAS reads no panels, nor parts of a product. */
Test(panels, give_the_same_bits_with_blas)
{
    enum { OUTPUTS = 1029, INNER = 600, FEW = 60, MANY = 110 }; /* OpenBLAS multiplies many rows, qkv few */
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(3, NULL);
    setenv("QKV_KERNELS", "blas", 1);
    struct weights weights RELEASED(release) = weights_of(QKV_FLOAT32, INNER, OUTPUTS, OUTPUTS);
    struct qkv_panels *panels RELEASED(free_panels) = qkv_panels_new(&weights.parameters);
    cr_assert_not_null(panels);
    cr_expect(is_exact(&weights, panels, workers, FEW, false));
    cr_expect(is_exact(&weights, panels, workers, MANY, false));
}

Test(panels, follow_what_is_written)
{
    struct weights weights RELEASED(release) = weights_of(QKV_FLOAT32, 40, 50, 50);
    struct qkv_panels *panels RELEASED(free_panels) = qkv_panels_new(&weights.parameters);
    double *before RELEASED(free_memory) = product(&weights, panels, NULL, 9, false);
    qkv_parameter_set(&weights.parameters, weights.matrix, 123, 4);
    double *after RELEASED(free_memory) = product(&weights, panels, NULL, 9, false);
    cr_expect_neq(memcmp(before, after, 9 * 50 * sizeof *before), 0, "one number is another");
    cr_expect(is_exact(&weights, panels, NULL, 9, false), "set");
    qkv_parameters_initialize(&weights.parameters, 4);
    cr_expect(is_exact(&weights, panels, NULL, 9, false), "initialized");
    ((float *)weights.parameters.values)[weights.matrix->offset + 7] = -2;
    weights.parameters.changes++;
    cr_expect(is_exact(&weights, panels, NULL, 9, false), "written and told");
}

/* There is room for each matrix once: of one that is read both ways, the second is read where it stands. */
Test(panels, do_without_room)
{
    struct weights weights RELEASED(release) = weights_of(QKV_FLOAT32, 300, 300, 300);
    struct qkv_panels *panels RELEASED(free_panels) = qkv_panels_new(&weights.parameters);
    for (int run = 0; run < 4; run++)
        cr_expect(is_exact(&weights, panels, NULL, 9, run % 2), "%s", run % 2 ? "transposed" : "as it is");
}
