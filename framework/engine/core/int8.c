#include "core/int8.h"

#include <math.h>
#include <string.h>

float qkv_int8_scale(int64_t count, const float *x, int64_t step)
{
    /* Below SMALLEST a scale would be rounded to fewer bits than a number has. */
    static const float SMALLEST = 1e-30f;
    enum { DROPPED = (1 << 7) - 1 }; /* 24 - 17 bits */
    float max = 0;
    for (int64_t i = 0; i < count; i++) max = fmaxf(max, fabsf(x[i * step]));
    if (!(max >= SMALLEST)) return 0;
    float scale = max / QKV_INT8_MAX;
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits = (bits + DROPPED) & ~(uint32_t)DROPPED;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

int8_t qkv_int8_of(float x, float scale)
{
    return scale > 0 ? (int8_t)rintf(x / scale) : 0;
}
