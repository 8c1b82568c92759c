#include "composition.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

const int64_t ROWS[ROW_COUNT] = {1, 7, 17, 33};

/* The result and, if asked for, the gradients of the variables, each behind the other; sizes ends with 0. */
struct numbers {
    double *all;
    int64_t size[6];
};

void fill_input(struct qkv_tensor *x, const struct scene *scene, int k)
{
    int64_t count = qkv_tensor_count(x);
    double *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = scene->mask && k == 3 ? scene->mask[i] : number((uint32_t)k + 1, i);
    qkv_tensor_write(x, values);
    free(values);
}

static struct numbers compute(enum qkv_dtype dtype, bool gradients, const struct scene *scene, builder *build)
{
    struct qkv_graph *graph = qkv_graph_new(dtype);
    qkv_graph_set_gradients(graph, gradients);
    struct qkv_error error = {""};
    struct qkv_tensor *x[4] = {NULL}, *variable[4];
    const struct qkv_random random = {.seed = 11, .step = 2};
    int variables = 0;
    if (scene->drops) qkv_graph_set_dropout(graph, &random);
    for (int k = 0; k < 4; k++) {
        if (!scene->shape[k].rank) continue;
        bool mask = scene->mask && k == 3;
        x[k] = mask ? qkv_constant(graph, scene->shape[k]) : qkv_variable(graph, scene->shape[k]);
        fill_input(x[k], scene, k);
        if (!mask) variable[variables++] = x[k];
    }
    if (scene->one_tensor) x[1] = x[2] = x[0];
    struct qkv_tensor *y = build(graph, x, scene);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", scene->name, error.message);
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

void hold(const struct scene *scene, builder *fused, builder *composed)
{
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct numbers expected = compute(QKV_FLOAT64, true, scene, composed);
        for (int way = 0; way < 4; way++) {
            enum qkv_dtype dtype = way % 2 ? QKV_FLOAT64 : QKV_FLOAT32;
            struct numbers got = compute(dtype, way < 2, scene, fused);
            int64_t at = 0;
            for (int k = 0; got.size[k]; at += got.size[k++]) {
                double error = apart(got.size[k], got.all + at, expected.all + at);
                cr_expect(error <= BOUND[dtype], "%s, %s, float%d: %s is %g apart, above %g", scene->name,
                          VARIANTS[v], dtype == QKV_FLOAT32 ? 32 : 64, k ? "a gradient" : "the value", error,
                          BOUND[dtype]);
            }
            free(got.all);
        }
        free(expected.all);
    }
    unsetenv("QKV_KERNELS");
}
