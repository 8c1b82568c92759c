/* Precision of numbers (float32 for training, float64 for gradient checks), and access to arrays whose precision is known
 * only at run time.
 *
 * Example:
 *     float array[3] = {0};
 *     qkv_dtype_set(QKV_FLOAT32, array, 1, 0.5);
 *     printf("%g in %zu bytes\n", qkv_dtype_get(QKV_FLOAT32, array, 1), qkv_dtype_size(QKV_FLOAT32));
 *
 * Indices are not checked. */
#ifndef QKV_DTYPE_H
#define QKV_DTYPE_H

#include <stddef.h>
#include <stdint.h>

enum qkv_dtype { QKV_FLOAT32, QKV_FLOAT64 };

/* Bytes of a number. */
static inline size_t qkv_dtype_size(enum qkv_dtype dtype)
{
    return dtype == QKV_FLOAT32 ? sizeof(float) : sizeof(double);
}

/* Element i of an array, from 0. */
static inline double qkv_dtype_get(enum qkv_dtype dtype, const void *array, int64_t i)
{
    return dtype == QKV_FLOAT32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

/* Sets element i of an array; float32 rounds the value. */
static inline void qkv_dtype_set(enum qkv_dtype dtype, void *array, int64_t i, double value)
{
    if (dtype == QKV_FLOAT32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

#endif
