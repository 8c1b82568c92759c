/* Matrix products of every size class and orientation, with the kernels of every instruction set and in both
 * precisions, compared with sums in double: values and gradients (products of other orientations). */
#include "numbers.h"
#include "support.h"

#include "qkv/ops.h"
#include "qkv/workers.h"

#include <cblas.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Largest error of an element, relative to the sum of the absolute values of its terms. */
static const double PRODUCT_BOUND[] = {[QKV_FLOAT32] = 2e-6, [QKV_FLOAT64] = 1e-14};

/* Sizes below, at and above tiles of 6 and 12 rows, vectors of 2 to 16 numbers and inner blocks from 256 on. */
static const int64_t ROWS[] = {1, 2, 3, 4, 7, 12, 13, 17, 33}, COLUMNS[] = {1, 7, 16, 17, 33, 64, 65, 150},
                     INNER[] = {1, 5, 17, 64, 300};

#define COUNT(array) (sizeof array / sizeof array[0])

/* The matrix as stored, row by row; products use its transpose if `transposed`. */
struct matrix {
    int64_t rows, columns;
    double *values;
    bool transposed;
};

static struct matrix matrix_new(int64_t rows, int64_t columns, uint32_t family)
{
    struct matrix matrix = {rows, columns, malloc((size_t)(rows * columns) * sizeof(double)), false};
    for (int64_t i = 0; i < rows * columns; i++) matrix.values[i] = number(family, i);
    return matrix;
}

/* The operand [rows, columns] of a product, stored transposed if `transposed`. */
static struct matrix operand_new(int64_t rows, int64_t columns, bool transposed, uint32_t family)
{
    struct matrix matrix = transposed ? matrix_new(columns, rows, family) : matrix_new(rows, columns, family);
    matrix.transposed = transposed;
    return matrix;
}

static struct matrix transpose(struct matrix matrix)
{
    matrix.transposed = !matrix.transposed;
    return matrix;
}

static double at(struct matrix a, int64_t i, int64_t j)
{
    return a.transposed ? a.values[j * a.columns + i] : a.values[i * a.columns + j];
}

/* Compares the product [m, n] of a [m, k] and b [k, n] with `found`, which is stored as [n, m] if
 * `transposed`. */
static void expect_product(const char *what, enum qkv_dtype dtype, const double *found, struct matrix a,
                           struct matrix b, bool transposed)
{
    int64_t m = a.transposed ? a.columns : a.rows, k = a.transposed ? a.rows : a.columns;
    int64_t n = b.transposed ? b.rows : b.columns;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n && !is_left_out(i); j++) {
            double sum = 0, magnitude = 0, got = found[transposed ? j * m + i : i * n + j];
            for (int64_t l = 0; l < k; l++) {
                double term = at(a, i, l) * at(b, l, j);
                sum += term;
                magnitude += fabs(term);
            }
            cr_assert(fabs(got - sum) <= PRODUCT_BOUND[dtype] * magnitude,
                      "%s [%d, %d] of %d x %d x %d: %.9g, but must be %.9g", what, (int)i, (int)j, (int)m,
                      (int)n, (int)k, got, sum);
        }
}

/* Checks the product y = a b of [m, k] and [k, n], and the gradients da = dy b^T and db = a^T dy. */
static void check_product(enum qkv_dtype dtype, int64_t m, int64_t n, int64_t k, bool transpose_a,
                          bool transpose_b)
{
    struct matrix a = operand_new(m, k, transpose_a, 1), b = operand_new(k, n, transpose_b, 2);
    struct matrix dy = matrix_new(m, n, 3);
    struct qkv_graph *graph = qkv_graph_new(dtype);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(a.rows, a.columns)),
                      *w = qkv_variable(graph, QKV_SHAPE(b.rows, b.columns));
    qkv_tensor_write(x, a.values);
    qkv_tensor_write(w, b.values);
    struct qkv_tensor *y = qkv_matmul(graph, x, w, transpose_a, transpose_b);
    struct qkv_error error = {""};
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
    qkv_forward(graph);
    qkv_backward(graph, y, dy.values);
    int64_t largest = m * n > m * k ? m * n : m * k;
    double *found = malloc((size_t)(largest > n * k ? largest : n * k) * sizeof *found);
    qkv_tensor_read(y, found);
    expect_product("value", dtype, found, a, b, false);
    qkv_tensor_read_gradient(x, found);
    expect_product("da", dtype, found, dy, transpose(b), transpose_a);
    qkv_tensor_read_gradient(w, found);
    expect_product("db", dtype, found, transpose(a), dy, transpose_b);
    free(found);
    free(a.values);
    free(b.values);
    free(dy.values);
    qkv_graph_free(graph);
}

static void check_sizes(const char *variant)
{
    setenv("QKV_KERNELS", variant, 1); /* replaced by another where the processor lacks it */
    int64_t cases = 0;
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++)
        for (size_t i = 0; i < COUNT(ROWS); i++)
            for (size_t j = 0; j < COUNT(COLUMNS); j++)
                for (size_t l = 0; l < COUNT(INNER); l++)
                    for (int orientation = 0; orientation < 4; orientation++)
                        if ((l < COUNT(INNER) - 1 || i + j == 8) && !is_left_out(cases++))
                            check_product((enum qkv_dtype)dtype, ROWS[i], COLUMNS[j], INNER[l],
                                          orientation & 1, orientation & 2);
}

Test(products, portable)
{
    check_sizes("portable");
}

Test(products, avx2)
{
    check_sizes("avx2");
}

Test(products, avx512)
{
    check_sizes("avx512");
}

/* Few rows with more columns than the kernel for few rows takes at once. */
Test(products, wide)
{
    check_product(QKV_FLOAT32, 1, 2050, 33, false, false);
    check_product(QKV_FLOAT32, 3, 2050, 35, false, false);
    check_product(QKV_FLOAT32, 3, 700, 99, false, true);
}

/* So large that both operands are packed. No size is a multiple of the blocks, of 480 x 256 numbers. */
static void check_large(const char *variant)
{
    setenv("QKV_KERNELS", variant, 1);
    check_product(QKV_FLOAT32, 501, 263, 513, false, false);
    check_product(QKV_FLOAT32, 501, 263, 513, true, true);
}

Test(products, large_portable)
{
    check_large("portable");
}

Test(products, large_avx2)
{
    check_large("avx2");
}

Test(products, large_avx512)
{
    check_large("avx512");
}

Test(products, blas)
{
    check_large("blas");
    check_sizes("blas");
}

Test(products, with_blas_are_its_bits_where_they_are_large)
{
    enum { M = 501, N = 263, K = 513 };
    setenv("QKV_KERNELS", "blas", 1);
    struct matrix a = matrix_new(M, K, 1), b = matrix_new(K, N, 2);
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(M, K)), *w = qkv_constant(graph, QKV_SHAPE(K, N));
    qkv_tensor_write(x, a.values);
    qkv_tensor_write(w, b.values);
    struct qkv_tensor *y = qkv_matmul(graph, x, w, false, false);
    qkv_forward(graph);
    double *found = malloc(sizeof(double[M * N]));
    qkv_tensor_read(y, found);
    float *left = malloc(sizeof(float[M * K])), *right = malloc(sizeof(float[K * N])),
          *expected = malloc(sizeof(float[M * N]));
    for (int64_t i = 0; i < M * K; i++) left[i] = (float)a.values[i];
    for (int64_t i = 0; i < K * N; i++) right[i] = (float)b.values[i];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, N, K, 1, left, K, right, N, 0, expected, N);
    for (int64_t i = 0; i < M * N; i++) cr_assert_eq(found[i], (double)expected[i], "number %d", (int)i);
    free(found);
    free(left);
    free(right);
    free(expected);
    free(a.values);
    free(b.values);
    qkv_graph_free(graph);
}

/* The expected result treats the bias as the last row of b, multiplied by a last column of ones in a. DEEP
 * is so large that the inner axis is split into several blocks: the bias must be added in one of them only. */
static void check_bias(const char *variant)
{
    static const int64_t rows[] = {1, 3, 17, 481};
    enum { COLUMNS_OF_B = 71, DEEP = 2100 };
    setenv("QKV_KERNELS", variant, 1);
    for (size_t i = 0; i < COUNT(rows) * 2; i++) {
        int64_t m = rows[i / 2];
        enum qkv_dtype dtype = i % 2 ? QKV_FLOAT64 : QKV_FLOAT32;
        struct matrix a = matrix_new(m, DEEP + 1, 1), b = matrix_new(DEEP + 1, COLUMNS_OF_B, 2);
        double *left = malloc((size_t)(m * DEEP) * sizeof *left),
               *found = malloc((size_t)m * COLUMNS_OF_B * sizeof *found);
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
        expect_product("linear", dtype, found, a, b, false);
        qkv_graph_free(graph);
        free(found);
        free(left);
        free(a.values);
        free(b.values);
    }
}

Test(products, bias_is_added_once)
{
    check_bias("portable");
    check_bias("avx2");
    check_bias("avx512");
}

Test(products, bias_is_added_once_with_blas)
{
    check_bias("blas");
}

/* Threads split the columns. Results must have the same bits as on one thread, for few and many rows, with b
 * small enough for the cache and larger. */
static void check_threads(const char *variant, enum qkv_dtype dtype)
{
    static const int64_t rows[] = {1, 2, 3, 4, 60}, columns[] = {300, 1029, 5000}, inner[] = {35, 64, 300};
    struct qkv_workers *workers = qkv_workers_new(3, NULL);
    cr_assert_not_null(workers);
    setenv("QKV_KERNELS", variant, 1);
    for (size_t i = 0; i < COUNT(rows) * COUNT(columns) * COUNT(inner) * 2; i++) {
        if (is_left_out((int64_t)i)) continue;
        size_t at = i;
        bool transposed = at % 2;
        int64_t m = rows[(at /= 2) % COUNT(rows)], n = columns[(at /= COUNT(rows)) % COUNT(columns)],
                k = inner[at / COUNT(columns)];
        struct matrix a = matrix_new(m, k, 1), b = transposed ? matrix_new(n, k, 2) : matrix_new(k, n, 2),
                      bias = matrix_new(1, n, 3);
        double *found[2];
        for (int split = 0; split < 2; split++) {
            struct qkv_graph *graph = qkv_graph_new(dtype);
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
                         dtype == QKV_FLOAT32 ? variant : "float64", transposed ? "transposed" : "", (int)m,
                         (int)n, (int)k, (int)j, found[0][j], found[1][j]);
        free(found[0]);
        free(found[1]);
        free(a.values);
        free(b.values);
        free(bias.values);
    }
    qkv_workers_free(workers);
}

Test(products, bits_do_not_depend_on_the_number_of_threads)
{
    check_threads("portable", QKV_FLOAT32);
    check_threads("avx2", QKV_FLOAT32);
    check_threads("avx512", QKV_FLOAT32);
    check_threads("portable", QKV_FLOAT64);
}

Test(products, bits_do_not_depend_on_the_number_of_threads_with_blas)
{
    check_threads("blas", QKV_FLOAT32);
}

/* a b + c, rounded once, or twice where the kernels do (kernels/vectors.h). */
static float fused(float a, float b, float c)
{
#ifdef QKV_ROUND_TWICE
    return a * b + c;
#else
    return fmaf(a, b, c);
#endif
}

/* The bits that a product in float32 must have with every instruction set: a fused chain over the inner axis, which
 * begins anew after every 256 terms; then the sum of these chains, in order. */
static float defined_element(struct matrix a, struct matrix b, int64_t i, int64_t j, int64_t inner)
{
    float total = 0;
    for (int64_t first = 0; first < inner; first += 256) {
        float chain = 0;
        for (int64_t l = first; l < inner && l < first + 256; l++)
            chain = fused((float)at(a, i, l), (float)at(b, l, j), chain);
        total = first ? chain + total : chain;
    }
    return total;
}

static void check_bits(int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    static const char *const variants[] = {"portable", "avx2", "avx512"};
    struct matrix a = operand_new(m, k, ta, 1), b = operand_new(k, n, tb, 2);
    double *found = malloc((size_t)(m * n) * sizeof *found);
    float *expected = malloc((size_t)(m * n) * sizeof *expected);
    bool chains =
        m > 3 || !tb || ta; /* few rows and a transposed b: dot products, in an order of their own */
    for (int64_t i = 0; chains && i < m * n; i++) expected[i] = defined_element(a, b, i / n, i % n, k);
    for (size_t v = 0; v < COUNT(variants); v++) {
        setenv("QKV_KERNELS", variants[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
        struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(a.rows, a.columns)),
                          *w = qkv_constant(graph, QKV_SHAPE(b.rows, b.columns));
        qkv_tensor_write(x, a.values);
        qkv_tensor_write(w, b.values);
        struct qkv_tensor *y = qkv_matmul(graph, x, w, ta, tb);
        qkv_forward(graph);
        qkv_tensor_read(y, found);
        for (int64_t i = 0; i < m * n; i++) {
            if (!chains && v == 0) expected[i] = (float)found[i];
            cr_assert_eq(found[i], (double)expected[i],
                         "%s, %d x %d x %d%s%s: number %d is %.9g, but must be %.9g", variants[v], (int)m,
                         (int)n, (int)k, ta ? ", a transposed" : "", tb ? ", b transposed" : "", (int)i,
                         found[i], (double)expected[i]);
        }
        qkv_graph_free(graph);
    }
    free(found);
    free(expected);
    free(a.values);
    free(b.values);
}

Test(products, bits_do_not_depend_on_the_instruction_set)
{
    static const int64_t rows[] = {1, 2, 3, 4, 13, 33}, columns[] = {3, 17, 65, 300},
                         inner[] = {5, 64, 300, 513};
    int64_t cases = 0;
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t j = 0; j < COUNT(columns); j++)
            for (size_t l = 0; l < COUNT(inner); l++)
                for (int orientation = 0; orientation < 4; orientation++) {
                    if (is_left_out(cases++)) continue;
                    check_bits(rows[i], columns[j], inner[l], orientation & 1, orientation & 2);
                }
    check_bits(3, 2050, 300, false, false);
    check_bits(2, 700, 300, false, true);
    check_bits(501, 263, 513, true, true);
}
