/* Numbers to begin with, and how far apart results are: for tests that hold ops against independent
 * calculations with the kernels of every instruction set. */
#ifndef QKV_TESTS_NUMBERS_H
#define QKV_TESTS_NUMBERS_H

#include <stdint.h>

enum { VARIANT_COUNT = 3 };

/* What QKV_KERNELS may be. */
extern const char *const VARIANTS[VARIANT_COUNT];

/* By dtype: how far `apart` a result in that precision may be. */
extern const double BOUND[2];

/* Numbers between -1 and 1 that float32 holds exactly, so that both precisions start alike. */
double number(uint32_t family, int64_t i);

/* The largest difference, relative to the largest number of b; infinite where a number is not finite. */
double apart(int64_t count, const double *a, const double *b);

#endif
