/* Half precision: IEEE 754 binary16, 1 sign bit, 5 bits of exponent, 10 of fraction. A format to store numbers in;
 * nothing is computed in it. */
#ifndef QKV_CORE_HALF_H
#define QKV_CORE_HALF_H

#include <stdint.h>

/* The nearest number of half precision; of two, the one whose last bit is 0. Infinite from 65520 on. */
uint16_t qkv_half_of(float x);

/* Exact: float32 holds every number of half precision. */
float qkv_half_value(uint16_t half);

#endif
