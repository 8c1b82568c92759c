/* Sine and cosine: x = q pi/2 + r with |r| <= pi/4, then Taylor series. */
#include "core/pair.h"
#include "qkv/scalar_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* r for 0 <= x <= 2^20 pi/2, with pi/2 in four parts. The first three have 33 bits: products with q are exact. */
static struct pair reduce_small(double x, int *quarter_turns)
{
    double q = nearest_integer(x * 0.63661977236758134);
    *quarter_turns = (int)q;
    struct pair r = exact_sum(x - q * 0x1.921fb544p+0, -q * 0x1.0b4611a6p-34);
    r = pair_sum(r, (struct pair){-q * 0x1.3198a2ep-69, 0});
    return pair_sum(r, (struct pair){-q * 0x1.b839a252049c1p-104, 0});
}

/* The bits of 2/pi, after 64 zeros, as far as the largest double needs them. */
static const uint32_t TWO_OVER_PI[] = {
    0x00000000, 0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041,
    0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
    0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b,
    0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d,
    0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046,
};
enum {
    WORDS = 6
}; /* 192 bits of 2/pi: 2 for q, 53 that x brings, 62 for the nearest x to a multiple of pi/2 */

/* r for finite x >= 2^20 (Payne and Hanek 1983): x = m 2^e with an integer m of 53 bits. Bits of 2/pi whose products with
 * 2^e are multiples of 4 do not change r; m times the next 192 bits gives q (the two highest bits) and the fraction. */
static struct pair reduce_large(double x, int *quarter_turns)
{
    uint64_t bits, m, carry = 0;
    uint32_t product[WORDS];
    memcpy(&bits, &x, sizeof bits);
    m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    int start = (int)(bits >> 52) - 1075 - 2 + 64; /* of the 192 bits */
    uint64_t below = 0;                            /* the word of 2/pi to the right of the current one */
    for (int i = WORDS - 1; i >= 0; i--) {
        int at = start / 32 + i;
        uint64_t two_words = (uint64_t)TWO_OVER_PI[at] << 32 | TWO_OVER_PI[at + 1];
        uint64_t word = two_words << start % 32 >> 32;
        uint64_t a = word * (m & UINT32_MAX), b = below * (m >> 32);
        carry += (a & UINT32_MAX) + (b & UINT32_MAX);
        product[i] = (uint32_t)carry;
        carry = (carry >> 32) + (a >> 32) + (b >> 32);
        below = word;
    }
    double fraction = (double)(product[0] & 0x3FFFFFFF);
    *quarter_turns = (int)(product[0] >> 30);
    if (fraction >= 0x1p29) { /* 1/2 or more: the next integer is nearer */
        fraction -= 0x1p30;
        ++*quarter_turns;
    }
    const struct pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
    struct pair sum = {0, 0};
    double unit = 0x1p-158; /* of the last word but one */
    for (int i = WORDS - 2; i > 0; i--, unit *= 0x1p32)
        sum = pair_sum(sum, (struct pair){(double)product[i] * unit, 0});
    return pair_product(pair_sum((struct pair){fraction * 0x1p-30, 0}, sum), half_pi);
}

/* r - r^3/3! + ... + r^17/17! */
static double sin_of_rest(struct pair r)
{
    static const double FROM_CUBE[] = {
        -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000,
    };
    double x = r.high, q = x * x;
    return x + (x * q * polynomial(FROM_CUBE, 7, q) + r.low * (1 - q / 2));
}

/* 1 - r^2/2! + ... - r^18/18! */
static double cos_of_rest(struct pair r)
{
    static const double FROM_FOURTH_POWER[] = {
        1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
        1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000,
    };
    double x = r.high;
    struct pair square = exact_product(x, x);
    double q = square.high;
    struct pair sum = ordered_sum(1, -q / 2);
    return sum.high +
           (sum.low + (q * q * polynomial(FROM_FOURTH_POWER, 7, q) - (square.low / 2 + x * r.low)));
}

/* sin(size + quarter_turns pi/2), for finite size >= 0 */
static double sin_of_turned(double size, int quarter_turns)
{
    int q;
    struct pair r = size < 0x1p20 ? reduce_small(size, &q) : reduce_large(size, &q);
    q += quarter_turns;
    double value = q % 2 ? cos_of_rest(r) : sin_of_rest(r);
    return q % 4 >= 2 ? -value : value;
}

double qkv_scalar_sin(double x)
{
    if (!isfinite(x)) return (double)NAN;
    if (fabs(x) < 0x1p-27) return x;
    double value = sin_of_turned(fabs(x), 0);
    return x < 0 ? -value : value;
}

double qkv_scalar_cos(double x)
{
    if (!isfinite(x)) return (double)NAN;
    return sin_of_turned(fabs(x), 1);
}
