#include "numbers.h"

const char *const VARIANTS[VARIANT_COUNT] = {"portable", "avx2", "avx512"};
const double BOUND[2] = {[QKV_FLOAT32] = 1e-5, [QKV_FLOAT64] = 1e-12};

double number(uint32_t family, int64_t i)
{
    struct qkv_random random = {5, QKV_STREAM_CHECK, family};
    return (double)(float)(2 * qkv_random_uniform(random, (uint64_t)i) - 1);
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
