/* int8 numbers with a scale: each represents the value number * scale. */
#ifndef QKV_CORE_INT8_H
#define QKV_CORE_INT8_H

#include <stdint.h>

/* The largest int8 number that is used: the range is symmetric. */
enum { QKV_INT8_MAX = 127 };

/* The scale of x[0], x[step], ..., x[(count - 1) * step]: their largest absolute value / 127, rounded up to 17 significant
 * bits. So int8 numbers times a scale are exact in float32, and quantising these products again gives the same scale and
 * numbers. 0 if all numbers are nearly 0. */
float qkv_int8_scale(int64_t count, const float *x, int64_t step);

/* The int8 number nearest to x / scale; 0 where scale is 0. */
int8_t qkv_int8_of(float x, float scale);

#endif
