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

static struct numbers compute(enum qkv_dtype dtype, bool gradients, const struct composition_case *test,
                              builder *build)
{
    struct qkv_graph *graph = qkv_graph_new(dtype);
    struct qkv_error error = {""};
    struct qkv_tensor *x[MAX_INPUTS] = {NULL};
    int64_t largest = 0, total = 0;
    qkv_graph_set_gradients(graph, gradients);
    for (int k = 0; k < MAX_INPUTS; k++) {
        int64_t count = test->shape[k].rank ? qkv_shape_count(test->shape[k]) : 0;
        double *values = malloc(((size_t)count + 1) * sizeof *values);
        for (int64_t i = 0; i < count; i++) values[i] = number((uint32_t)k + 1, i);
        if (count) qkv_tensor_write(x[k] = qkv_variable(graph, test->shape[k]), values);
        free(values);
        largest += count;
    }
    struct qkv_tensor *y = build(graph, x, test);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", test->name, error.message);
    qkv_forward(graph);
    int64_t count = qkv_tensor_count(y);
    struct numbers numbers = {calloc((size_t)(largest + 2 * count), sizeof(double)), {total = count}};
    double *cotangent = numbers.all + largest + count;
    for (int64_t i = 0; i < count; i++) cotangent[i] = number(9, i);
    if (gradients) qkv_backward(graph, y, cotangent);
    qkv_tensor_read(y, numbers.all);
    for (int k = 0, part = 1; gradients && k < MAX_INPUTS; k++) {
        if (!x[k]) continue;
        qkv_tensor_read_gradient(x[k], numbers.all + total);
        total += numbers.size[part++] = qkv_tensor_count(x[k]);
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
