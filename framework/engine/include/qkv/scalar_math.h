/* exp, log, sin and others for numbers of double precision, with the same bits on every processor.
 *
 * Example:
 *     double angle = 3 / qkv_scalar_power(10000, 0.25);
 *     printf("%.17g %.17g\n", qkv_scalar_sin(angle), qkv_scalar_cos(angle));
 *
 * A C library may choose among several versions of such a function depending on the processor, and their results may differ
 * in the last bit; one different bit in an initial value or a learning rate leads to a different trained network. These
 * functions consist of additions, subtractions, multiplications and divisions, which IEEE 754 defines to the last bit, and
 * of integer operations, in an order that no compiler may change (-ffp-contract=off, no -ffast-math). They assume the
 * default floating-point environment: results are rounded to nearest, and subnormal numbers are not flushed to zero.
 *
 * Errors were measured against mpmath with 60 digits over millions of arguments. A unit is the distance of two neighbouring
 * doubles at the result (unit in the last place); results below the smallest normal number may be wrong by one more such
 * unit. NaN gives NaN. Nothing sets errno.
 *
 * Methods: argument reduction as in Cody and Waite 1980, "Software manual for the elementary functions"; large arguments of
 * sin and cos as in Payne and Hanek 1983, "Radian reduction for trigonometric functions"; Taylor series; sums of two
 * doubles where more precision than that of one is needed (Dekker 1971, "A floating-point technique for extending the
 * available precision"). See also Muller 2016, "Elementary functions". */
#ifndef QKV_SCALAR_MATH_H
#define QKV_SCALAR_MATH_H

#include "qkv/error.h"

/* e^x, wrong by at most 0.55 units. Infinity above 709.78, 0 below -745.13. */
QKV_API double qkv_scalar_exp(double x);

/* 2^x, wrong by at most 0.55 units; exact for integers. Infinity from 1024, 0 below -1075. */
QKV_API double qkv_scalar_exp2(double x);

/* The natural logarithm, wrong by at most 0.51 units. -infinity for 0, NaN for negative numbers. */
QKV_API double qkv_scalar_log(double x);

/* The logarithm to base 10, wrong by at most 0.51 units; exact for powers of ten. Otherwise as qkv_scalar_log. */
QKV_API double qkv_scalar_log10(double x);

/* base^exponent, wrong by at most 0.7 units; exact where the result is a double. Infinities, zeros, negative bases and
 * NaN as in pow of C11, Annex F: x^0 and 1^y are 1 even for NaN, and a negative base needs an integer exponent, or the
 * result is NaN. */
QKV_API double qkv_scalar_power(double base, double exponent);

/* Sine and cosine of x radians, wrong by at most 0.85 units for all finite x. NaN for infinity. */
QKV_API double qkv_scalar_sin(double x);
QKV_API double qkv_scalar_cos(double x);

/* The hyperbolic tangent, wrong by at most 0.6 units. */
QKV_API double qkv_scalar_tanh(double x);

/* The complementary error function 2 / sqrt(pi) times the integral of exp(-t^2) from x to infinity, wrong by at most 1.6
 * units (Shepherd and Laframboise 1981, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity"). */
QKV_API double qkv_scalar_erfc(double x);

#endif
