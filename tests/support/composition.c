#include "composition.h"
#include "support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

const int64_t ROWS[ROW_COUNT] = {1, 7, 17, 33};

/* The numbers of the result, followed by those of the gradients of all variables; size ends with
 * 0. */
struct numbers {
    double *all;
    int64_t size[6];
};

void write_input(struct qkv_tensor *x, const struct composition_case *test, int k)
{
    int64_t count = qkv_tensor_count(x);
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = test->mask && k == 3 ? test->mask[i] : number((uint32_t)k + 1, i);
    qkv_tensor_write(x, values);
    free(values);
}

static struct numbers compute(enum qkv_dtype dtype, bool gradients, const struct composition_case *test,
                              builder *build)
{
    struct qkv_graph *graph = qkv_graph_new(dtype);
    qkv_graph_set_gradients(graph, gradients);
    struct qkv_error error = {""};
    struct qkv_tensor *x[4] = {NULL}, *variable[4];
    const struct qkv_random random = {.seed = 11, .step = 2};
    int variables = 0;
    if (test->drops) qkv_graph_set_dropout(graph, &random);
    for (int k = 0; k < 4; k++) {
        if (!test->shape[k].rank) continue;
        bool mask = test->mask && k == 3;
        x[k] = mask ? qkv_constant(graph, test->shape[k]) : qkv_variable(graph, test->shape[k]);
        write_input(x[k], test, k);
        if (!mask) variable[variables++] = x[k];
    }
    if (test->one_tensor) x[1] = x[2] = x[0];
    struct qkv_tensor *y = build(graph, x, test);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", test->name, error.message);
    qkv_forward(graph);
    int64_t count = qkv_tensor_count(y), total = count;
    if (!gradients) {
        struct numbers numbers = {malloc((size_t)count * sizeof(double)), {count}};
        qkv_tensor_read(y, numbers.all);
        qkv_graph_free(graph);
        return numbers;
    }
    double *cotangent = malloc((size_t)count * sizeof *cotangent);
    for (int64_t i = 0; i < count; i++) cotangent[i] = number(9, i);
    qkv_backward(graph, y, cotangent);
    free(cotangent);
    for (int k = 0; k < variables; k++) total += qkv_tensor_count(variable[k]);
    struct numbers numbers = {malloc((size_t)total * sizeof(double)), {count}};
    qkv_tensor_read(y, numbers.all);
    for (int k = 0; k < variables; k++) {
        qkv_tensor_read_gradient(variable[k], numbers.all + count);
        count += numbers.size[k + 1] = qkv_tensor_count(variable[k]);
    }
    qkv_graph_free(graph);
    return numbers;
}

void expect_composition(const struct composition_case *test, builder *fused, builder *composed)
{
    static int64_t cases;
    if (is_left_out(cases++)) return;
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct numbers expected = compute(QKV_FLOAT64, true, test, composed);
        for (int mode = 0; mode < 4; mode++) {
            enum qkv_dtype dtype = mode % 2 ? QKV_FLOAT64 : QKV_FLOAT32;
            struct numbers got = compute(dtype, mode < 2, test, fused);
            int64_t at = 0;
            for (int k = 0; got.size[k]; at += got.size[k++]) {
                double error = relative_difference(got.size[k], got.all + at, expected.all + at);
                cr_expect(error <= BOUND[dtype], "%s, %s, float%d: %s differs by %g, more than %g",
                          test->name, VARIANTS[v], dtype == QKV_FLOAT32 ? 32 : 64,
                          k ? "a gradient" : "the value", error, BOUND[dtype]);
            }
            free(got.all);
        }
        free(expected.all);
    }
    unsetenv("QKV_KERNELS");
}
