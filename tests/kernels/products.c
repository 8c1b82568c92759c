/* Matrix products of every size class and orientation, with the kernels of every instruction set and in both
 * precisions, compared with sums in double: values and gradients (products of other orientations). */
#include "graph/internal.h"
#include "numbers.h"

#include <cblas.h>

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

static void free_matrix(struct matrix *matrix)
{
    free(matrix->values);
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

static int64_t rows_of(struct matrix a)
{
    return a.transposed ? a.columns : a.rows;
}

static int64_t columns_of(struct matrix a)
{
    return rows_of(transpose(a));
}

/* Compares the product [m, n] of a [m, k] and b [k, n] with `found`, which is stored as [n, m] if
 * `transposed`. */
static void expect_product(const char *what, enum qkv_dtype dtype, const double *found, struct matrix a,
                           struct matrix b, bool transposed)
{
    int64_t m = rows_of(a), n = columns_of(b), k = columns_of(a);
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

/* y = a b, or a b + bias, that a graph has computed. */
struct product {
    struct matrix a, b;
    struct qkv_graph *graph;
    struct qkv_tensor *x, *w, *y;
    double *found; /* the numbers of y */
};

static struct qkv_tensor *variable(struct qkv_graph *graph, struct qkv_shape shape, const double *values)
{
    struct qkv_tensor *x = qkv_variable(graph, shape);
    qkv_tensor_write(x, values);
    return x;
}

/* bias: [n], or NULL. */
static struct product product_of(enum qkv_dtype dtype, struct matrix a, struct matrix b, const double *bias,
                                 struct qkv_workers *workers)
{
    struct product product = {.a = a, .b = b, .graph = qkv_graph_new(dtype)};
    struct qkv_graph *graph = product.graph;
    int64_t n = columns_of(b);
    qkv_graph_set_workers(graph, workers);
    product.x = variable(graph, QKV_SHAPE(a.rows, a.columns), a.values);
    product.w = variable(graph, QKV_SHAPE(b.rows, b.columns), b.values);
    product.y =
        bias ? qkv_linear(graph, product.x, product.w, variable(graph, QKV_SHAPE(n), bias), b.transposed)
             : qkv_matmul(graph, product.x, product.w, a.transposed, b.transposed);
    expect_done(qkv_graph_check(graph, &error));
    qkv_forward(graph);
    product.found = malloc((size_t)(rows_of(a) * n) * sizeof(double));
    qkv_tensor_read(product.y, product.found);
    return product;
}

static void release(struct product *product)
{
    qkv_graph_free(product->graph);
    free(product->found);
}

/* Expects these numbers of y, to the bit. */
static void expect_bits(const char *what, const struct product *product, const double *expected)
{
    int64_t m = rows_of(product->a), n = columns_of(product->b);
    for (int64_t i = 0; i < m * n; i++)
        cr_assert_eq(product->found[i], expected[i],
                     "%s, %d x %d x %d%s%s: number %d is %.9g, but must be %.9g", what, (int)m, (int)n,
                     (int)columns_of(product->a), product->a.transposed ? ", a transposed" : "",
                     product->b.transposed ? ", b transposed" : "", (int)i, product->found[i], expected[i]);
}

/* Checks the product y = a b of [m, k] and [k, n], and the gradients da = dy b^T and db = a^T dy. */
static void check_product(enum qkv_dtype dtype, int64_t m, int64_t n, int64_t k, bool transpose_a,
                          bool transpose_b)
{
    struct matrix a RELEASED(free_matrix) = operand_new(m, k, transpose_a, 1),
                    b RELEASED(free_matrix) = operand_new(k, n, transpose_b, 2),
                    dy RELEASED(free_matrix) = matrix_new(m, n, 3);
    struct product product RELEASED(release) = product_of(dtype, a, b, NULL, NULL);
    double *gradient RELEASED(free_memory) = malloc((size_t)((m + n) * k) * sizeof *gradient);
    expect_product("value", dtype, product.found, a, b, false);
    qkv_backward(product.graph, product.y, dy.values);
    qkv_tensor_read_gradient(product.x, gradient);
    expect_product("da", dtype, gradient, dy, transpose(b), transpose_a);
    qkv_tensor_read_gradient(product.w, gradient);
    expect_product("db", dtype, gradient, transpose(a), dy, transpose_b);
}

static void check_sizes(void)
{
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

/* Few rows with more columns than the kernel for few rows takes at once. */
Test(products, wide)
{
    check_product(QKV_FLOAT32, 1, 2050, 33, false, false);
    check_product(QKV_FLOAT32, 3, 2050, 35, false, false);
    check_product(QKV_FLOAT32, 3, 700, 99, false, true);
}

static float *floats_of(struct matrix matrix)
{
    int64_t count = matrix.rows * matrix.columns;
    float *floats = malloc((size_t)count * sizeof *floats);
    for (int64_t i = 0; i < count; i++) floats[i] = (float)matrix.values[i];
    return floats;
}

Test(products, with_blas_are_its_bits_where_they_are_large)
{
    enum { M = 501, N = 263, K = 513 };
    setenv("QKV_KERNELS", "blas", 1);
    struct matrix a RELEASED(free_matrix) = matrix_new(M, K, 1),
                    b RELEASED(free_matrix) = matrix_new(K, N, 2),
                    expected RELEASED(free_matrix) = matrix_new(M, N, 3);
    struct product product RELEASED(release) = product_of(QKV_FLOAT32, a, b, NULL, NULL);
    float *left RELEASED(free_memory) = floats_of(a), *right RELEASED(free_memory) = floats_of(b),
                *result RELEASED(free_memory) = floats_of(expected);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, N, K, 1, left, K, right, N, 0, result, N);
    for (int64_t i = 0; i < M * N; i++) expected.values[i] = (double)result[i];
    expect_bits("blas", &product, expected.values);
}

/* The expected result treats the bias as the last row of b, multiplied by a last column of ones in a. DEEP
 * is so large that the inner axis is split into several blocks: the bias must be added in one of them only. */
static void check_bias(void)
{
    static const int64_t rows[] = {1, 3, 17, 481};
    enum { COLUMNS_OF_B = 71, DEEP = 2100 };
    for (size_t i = 0; i < COUNT(rows) * 2; i++) {
        int64_t m = rows[i / 2];
        enum qkv_dtype dtype = i % 2 ? QKV_FLOAT64 : QKV_FLOAT32;
        struct matrix a RELEASED(free_matrix) = matrix_new(m, DEEP + 1, 1),
                        b RELEASED(free_matrix) = matrix_new(DEEP + 1, COLUMNS_OF_B, 2),
                        left RELEASED(free_matrix) = matrix_new(m, DEEP, 3),
                        right = {DEEP, COLUMNS_OF_B, b.values, false};
        for (int64_t row = 0; row < m; row++) {
            a.values[row * a.columns + DEEP] = 1;
            memcpy(left.values + row * DEEP, a.values + row * a.columns, DEEP * sizeof *left.values);
        }
        struct product product RELEASED(release) =
            product_of(dtype, left, right, b.values + DEEP * COLUMNS_OF_B, NULL);
        expect_product("linear", dtype, product.found, a, b, false);
    }
}

/* Threads split the columns. Results must have the same bits as on one thread, for few and many rows, with b
 * small enough for the cache and larger. */
static void check_threads(enum qkv_dtype dtype)
{
    static const int64_t rows[] = {1, 2, 3, 4, 60}, columns[] = {300, 1029, 5000}, inner[] = {35, 64, 300};
    struct qkv_workers *workers RELEASED(free_workers) = made(qkv_workers_new(3, &error));
    for (size_t i = 0; i < COUNT(rows) * COUNT(columns) * COUNT(inner) * 2; i++) {
        if (is_left_out((int64_t)i)) continue;
        size_t at = i / 2;
        int64_t m = rows[at % COUNT(rows)], n = columns[(at /= COUNT(rows)) % COUNT(columns)],
                k = inner[at / COUNT(columns)];
        struct matrix a RELEASED(free_matrix) = matrix_new(m, k, 1),
                        b RELEASED(free_matrix) = operand_new(k, n, i % 2, 2),
                        bias RELEASED(free_matrix) = matrix_new(1, n, 3);
        struct product alone RELEASED(release) = product_of(dtype, a, b, bias.values, NULL),
                             split RELEASED(release) = product_of(dtype, a, b, bias.values, workers);
        expect_bits("on three threads", &split, alone.found);
    }
}

static void check_kernels(const char *variant)
{
    setenv("QKV_KERNELS", variant, 1); /* replaced by another where the processor lacks it */
    check_sizes();
    /* So large that both operands are packed. No size is a multiple of the blocks, of 480 x 256 numbers. */
    check_product(QKV_FLOAT32, 501, 263, 513, false, false);
    check_product(QKV_FLOAT32, 501, 263, 513, true, true);
    check_bias();
    check_threads(QKV_FLOAT32);
}

Test(products, portable)
{
    check_kernels("portable");
    check_threads(QKV_FLOAT64);
}

Test(products, avx2)
{
    check_kernels("avx2");
}

Test(products, avx512)
{
    check_kernels("avx512");
}

Test(products, blas)
{
    check_kernels("blas");
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
    struct matrix a RELEASED(free_matrix) = operand_new(m, k, ta, 1),
                    b RELEASED(free_matrix) = operand_new(k, n, tb, 2),
                    expected RELEASED(free_matrix) = matrix_new(m, n, 3);
    bool chains =
        m > 3 || !tb || ta; /* few rows and a transposed b: dot products, in an order of their own */
    for (int64_t i = 0; chains && i < m * n; i++)
        expected.values[i] = (double)defined_element(a, b, i / n, i % n, k);
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct product product RELEASED(release) = product_of(QKV_FLOAT32, a, b, NULL, NULL);
        if (!chains && v == 0) memcpy(expected.values, product.found, (size_t)(m * n) * sizeof(double));
        expect_bits(VARIANTS[v], &product, expected.values);
    }
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
