/* Matrix products of every size class and orientation, with the kernels of every instruction set and in both
 * precisions, against sums in double: values, and the gradients, which are products of other orientations. */
#include "numbers.h"

#include "qkv/ops.h"
#include "qkv/workers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double OWN_BOUND[] = {[QKV_FLOAT32] = 2e-6, [QKV_FLOAT64] = 1e-14};

/* Around the tiles of 6 and 12 rows, vectors of 2 to 16 numbers, and inner blocks of 256 to 2048. */
static const int64_t ROWS[] = {1, 2, 3, 4, 7, 12, 13, 17, 33}, COLUMNS[] = {1, 7, 16, 17, 33, 64, 65, 150},
                     INNER[] = {1, 5, 17, 64, 300};

#define COUNT(array) (sizeof array / sizeof array[0])

struct matrix {
    int64_t rows, columns;
    double *values;
};

static struct matrix matrix_new(int64_t rows, int64_t columns, uint32_t family)
{
    struct matrix matrix = {rows, columns, malloc((size_t)(rows * columns) * sizeof(double))};
    for (int64_t i = 0; i < rows * columns; i++) matrix.values[i] = number(family, i);
    return matrix;
}

static double at(struct matrix a, bool transposed, int64_t i, int64_t j)
{
    return transposed ? a.values[j * a.columns + i] : a.values[i * a.columns + j];
}

/* Holds found [m, n] (transposed: as it lies in memory) against a' b'. */
static void expect_product(const char *what, enum qkv_dtype dtype, const double *found, int64_t m, int64_t n,
                           int64_t k, struct matrix a, bool ta, struct matrix b, bool tb, bool transposed)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0, got = found[transposed ? j * m + i : i * n + j];
            for (int64_t l = 0; l < k; l++) {
                double term = at(a, ta, i, l) * at(b, tb, l, j);
                sum += term;
                size += fabs(term);
            }
            cr_assert(fabs(got - sum) <= OWN_BOUND[dtype] * size,
                      "%s [%d, %d] of %d x %d x %d: %.9g, but must be %.9g", what, (int)i, (int)j, (int)m,
                      (int)n, (int)k, got, sum);
        }
}

static void check(enum qkv_dtype dtype, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    struct matrix a = ta ? matrix_new(k, m, 1) : matrix_new(m, k, 1),
                  b = tb ? matrix_new(n, k, 2) : matrix_new(k, n, 2);
    struct matrix dy = matrix_new(m, n, 3);
    struct qkv_graph *graph = qkv_graph_new(dtype);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(a.rows, a.columns)),
                      *w = qkv_variable(graph, QKV_SHAPE(b.rows, b.columns));
    qkv_tensor_write(x, a.values);
    qkv_tensor_write(w, b.values);
    struct qkv_tensor *y = qkv_matmul(graph, x, w, ta, tb);
    struct qkv_error error = {""};
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
    qkv_forward(graph);
    qkv_backward(graph, y, dy.values);
    int64_t most = m * n > m * k ? m * n : m * k;
    double *found = malloc((size_t)(most > n * k ? most : n * k) * sizeof *found);
    qkv_tensor_read(y, found);
    expect_product("value", dtype, found, m, n, k, a, ta, b, tb, false);
    qkv_tensor_read_gradient(x, found);
    expect_product("da", dtype, found, m, k, n, dy, false, b, !tb, ta);
    qkv_tensor_read_gradient(w, found);
    expect_product("db", dtype, found, k, n, m, a, !ta, dy, false, tb);
    free(found);
    free(a.values);
    free(b.values);
    free(dy.values);
    qkv_graph_free(graph);
}

static void check_all(const char *variant)
{
    setenv("QKV_KERNELS", variant, 1); /* one that this machine lacks gives another */
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++)
        for (size_t i = 0; i < COUNT(ROWS); i++)
            for (size_t j = 0; j < COUNT(COLUMNS); j++)
                for (size_t l = 0; l < COUNT(INNER); l++)
                    for (int way = 0; way < 4; way++)
                        if (l < COUNT(INNER) - 1 || i + j == 8)
                            check((enum qkv_dtype)dtype, ROWS[i], COLUMNS[j], INNER[l], way & 1, way & 2);
}

Test(products, portable)
{
    check_all("portable");
}

Test(products, avx2)
{
    check_all("avx2");
}

Test(products, avx512)
{
    check_all("avx512");
}

/* Two rows against more columns than a run of the decoding path holds, and more than the library's threshold.
 */
Test(products, wide_and_large)
{
    check(QKV_FLOAT32, 1, 2050, 33, false, false);
    check(QKV_FLOAT32, 3, 2050, 35, false, false);
    check(QKV_FLOAT32, 3, 700, 99, false, true);
    check(QKV_FLOAT32, 401, 400, 401, false, false);
}

/* The bias is the last row of b, which meets ones: added once, however many runs the inner axis takes. */
Test(products, bias_is_added_once)
{
    static const int64_t rows[] = {1, 3, 17, 30};
    static const char *const variants[] = {"portable", "avx2", "avx512"};
    enum { COLUMNS_OF_B = 71, DEEP = 2100 };
    for (size_t i = 0; i < COUNT(rows) * COUNT(variants) * 2; i++) {
        int64_t m = rows[i / 2 % COUNT(rows)];
        enum qkv_dtype dtype = i % 2 ? QKV_FLOAT64 : QKV_FLOAT32;
        setenv("QKV_KERNELS", variants[i / 2 / COUNT(rows)], 1);
        struct matrix a = matrix_new(m, DEEP + 1, 1), b = matrix_new(DEEP + 1, COLUMNS_OF_B, 2);
        double *left = malloc((size_t)(m * DEEP) * sizeof *left), found[30 * COLUMNS_OF_B];
        for (int64_t row = 0; row < m; row++) {
            a.values[row * a.columns + DEEP] = 1;
            memcpy(left + row * DEEP, a.values + row * a.columns, DEEP * sizeof *left);
        }
        struct qkv_graph *graph = qkv_graph_new(dtype);
        struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(m, DEEP)),
                          *w = qkv_constant(graph, QKV_SHAPE(DEEP, COLUMNS_OF_B)),
                          *bias = qkv_constant(graph, QKV_SHAPE(COLUMNS_OF_B));
        qkv_tensor_write(x, left);
        qkv_tensor_write(w, b.values);
        qkv_tensor_write(bias, b.values + DEEP * COLUMNS_OF_B);
        struct qkv_tensor *y = qkv_linear(graph, x, w, bias, false);
        qkv_forward(graph);
        qkv_tensor_read(y, found);
        expect_product("linear", dtype, found, m, COLUMNS_OF_B, DEEP + 1, a, false, b, false, false);
        qkv_graph_free(graph);
        free(left);
        free(a.values);
        free(b.values);
    }
}

/* Columns that are split among threads: each number with the same bits, for few rows and many, b near and
 * far. */
Test(products, the_same_bits_on_any_team)
{
    static const int64_t rows[] = {1, 2, 3, 4, 17}, columns[] = {300, 1029, 5000}, inner[] = {35, 64, 300};
    static const char *const variants[] = {"portable", "avx2", "avx512"};
    struct qkv_workers *workers = qkv_workers_new(3, NULL);
    cr_assert_not_null(workers);
    for (size_t i = 0; i < COUNT(rows) * COUNT(columns) * COUNT(inner) * COUNT(variants) * 2; i++) {
        size_t at = i;
        bool transposed = at % 2;
        int64_t m = rows[(at /= 2) % COUNT(rows)], n = columns[(at /= COUNT(rows)) % COUNT(columns)],
                k = inner[(at /= COUNT(columns)) % COUNT(inner)];
        setenv("QKV_KERNELS", variants[at / COUNT(inner)], 1);
        struct matrix a = matrix_new(m, k, 1), b = transposed ? matrix_new(n, k, 2) : matrix_new(k, n, 2),
                      bias = matrix_new(1, n, 3);
        double *found[2];
        for (int split = 0; split < 2; split++) {
            struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
            qkv_graph_set_workers(graph, split ? workers : NULL);
            struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(m, k)),
                              *w = qkv_constant(graph, QKV_SHAPE(b.rows, b.columns)),
                              *c = qkv_constant(graph, QKV_SHAPE(n));
            qkv_tensor_write(x, a.values);
            qkv_tensor_write(w, b.values);
            qkv_tensor_write(c, bias.values);
            struct qkv_tensor *y = qkv_linear(graph, x, w, c, transposed);
            qkv_forward(graph);
            found[split] = malloc((size_t)(m * n) * sizeof(double));
            qkv_tensor_read(y, found[split]);
            qkv_graph_free(graph);
        }
        for (int64_t j = 0; j < m * n; j++)
            cr_assert_eq(found[0][j], found[1][j], "%s %s %d x %d x %d: number %d is %.9g and %.9g",
                         variants[at / COUNT(inner)], transposed ? "transposed" : "", (int)m, (int)n, (int)k,
                         (int)j, found[0][j], found[1][j]);
        free(found[0]);
        free(found[1]);
        free(a.values);
        free(b.values);
        free(bias.values);
    }
    qkv_workers_free(workers);
}
