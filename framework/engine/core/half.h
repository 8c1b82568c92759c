/* Half precision: IEEE 754 binary16, 1 sign bit, 5 bits of exponent, 10 of fraction. It is only a storage format; nothing
 * is computed in it. */
#ifndef QKV_CORE_HALF_H
#define QKV_CORE_HALF_H

#include <stdint.h>

/* Rounds to the nearest number of half precision, ties to even. Infinite from 65520 on. */
uint16_t qkv_half_of(float x);

/* Exact: float32 holds every number of half precision. */
float qkv_half_value(uint16_t half);

#endif
