#include "core/half.h"

#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

enum { FRACTION = 10, DROPPED = 23 - FRACTION, BIAS = 15, BIAS_32 = 127 };

uint16_t qkv_half_of(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) return (uint16_t)(sign | 0x7E00); /* NaN */
    if (size < (BIAS_32 - BIAS + 1) << 23) {
        /* Below 2^-14 halves have a fixed step of 2^-24, which is the last bit of a float32 from 0.5 to 1. */
        float rounded = of_bits(size) + 0.5f;
        return (uint16_t)(sign | (bits_of(rounded) - bits_of(0.5f)));
    }
    uint32_t odd = size >> DROPPED & 1;
    uint32_t half =
        (size - ((uint32_t)(BIAS_32 - BIAS) << 23) + ((1u << (DROPPED - 1)) - 1 + odd)) >> DROPPED;
    return (uint16_t)(sign | (half < 0x7C00 ? half : 0x7C00));
}

float qkv_half_value(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> FRACTION & 0x1F,
             fraction = half & 0x3FF;
    if (exponent == 0x1F) return of_bits(sign | 0x7F800000 | fraction << DROPPED);
    if (exponent) return of_bits(sign | (exponent + BIAS_32 - BIAS) << 23 | fraction << DROPPED);
    float size = (float)fraction / (1 << 24);
    return sign ? -size : size;
}
