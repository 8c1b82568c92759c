#include "numbers.h"

const char *const VARIANTS[VARIANT_COUNT] = {"portable", "avx2", "avx512"};
const double BOUND[2] = {[QKV_FLOAT32] = 1e-5, [QKV_FLOAT64] = 1e-12};

double number(uint32_t family, int64_t i)
{
    struct qkv_random random = {5, QKV_STREAM_CHECK, family};
    return (double)(float)(2 * qkv_random_uniform(random, (uint64_t)i) - 1);
}

struct qkv_tensor *fill(struct qkv_tensor *x, uint32_t family)
{
    double *values RELEASED(free_memory) = malloc((size_t)qkv_tensor_count(x) * sizeof *values);
    for (int64_t i = 0; i < qkv_tensor_count(x); i++) values[i] = number(family, i);
    qkv_tensor_write(x, values);
    return x;
}

struct computed compute_in(struct qkv_graph *graph, struct qkv_tensor *y, int inputs,
                           struct qkv_tensor *const *input, const double *cotangent, const char *name)
{
    struct computed computed = {{qkv_tensor_count(y)}, {NULL}};
    double *numbers = computed.part[0] = calloc((size_t)computed.count[0] + 1, sizeof *numbers);
    for (int64_t i = 0; i < computed.count[0]; i++) numbers[i] = number(9, i);
    qkv_forward(graph);
    qkv_backward(graph, y, cotangent ? cotangent : numbers);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", name, error.message);
    qkv_tensor_read(y, numbers);
    for (int k = 0; k < inputs; k++) {
        if (!qkv_tensor_gradient(input[k])) continue;
        computed.count[k + 1] = qkv_tensor_count(input[k]);
        computed.part[k + 1] = malloc((size_t)computed.count[k + 1] * sizeof *numbers);
        qkv_tensor_read_gradient(input[k], computed.part[k + 1]);
    }
    return computed;
}

void computed_release(struct computed *computed)
{
    for (int k = 0; k < PARTS; k++) free(computed->part[k]);
}

void expect_close(const struct computed *got, const struct computed *expected, double bound, const char *name)
{
    for (int k = 0; k < PARTS; k++) {
        if (!got->count[k]) continue;
        cr_assert_eq(got->count[k], expected->count[k], "%s, part %d", name, k);
        double difference = relative_difference(got->count[k], got->part[k], expected->part[k]);
        cr_expect(difference <= bound, "%s, %s: part %d differs by %g, more than %g", name,
                  getenv("QKV_KERNELS"), k, difference, bound);
    }
}

double relative_difference(int64_t count, const double *a, const double *b)
{
    double largest = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        largest = fmax(largest, fabs(a[i] - b[i]));
        size = fmax(size, fabs(b[i]));
    }
    /* For numbers that are zero except for rounding, the difference is absolute. */
    return largest / fmax(size, 1e-2);
}
