/* Values of inputs and comparison of results, for tests that compare ops with independent
 * calculations, with the kernels of every instruction set. */
#pragma once

#include "support.h"

enum { VARIANT_COUNT = 3 };

/* The values of the environment variable QKV_KERNELS. */
extern const char *const VARIANTS[VARIANT_COUNT];

/* The largest relative_difference of a result, by dtype. */
extern const double BOUND[2];

/* Returns number i of a random family, between -1 and 1. float32 holds it exactly, so both
 * precisions start with equal values. */
double number(uint32_t family, int64_t i);

/* Returns the largest difference, relative to the largest number of b; INFINITY if a number is not
 * finite. */
double relative_difference(int64_t count, const double *a, const double *b);
