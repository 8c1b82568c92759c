/* exp, log, sin and other functions that have the same bits on every processor. */
#include "core/numbers.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- numbers of about 106 bits ---- */

/* A sum of two doubles, high + low, where high is the sum rounded to double (Dekker 1971). Needs compilation without
 * contraction of a * b + c, which would change the errors that these functions compute. */
struct pair {
    double high, low;
};

/* a + b exactly, where |a| >= |b| or a = 0 */
static inline struct pair ordered_sum(double a, double b)
{
    double sum = a + b;
    return (struct pair){sum, b - (sum - a)};
}

/* a + b exactly (Knuth 1969) */
static inline struct pair exact_sum(double a, double b)
{
    double sum = a + b, part = sum - a;
    return (struct pair){sum, (a - (sum - part)) + (b - part)};
}

/* a b exactly, unless a part of it overflows or underflows */
static inline struct pair exact_product(double a, double b)
{
    const double split = 134217729.0; /* 2^27 + 1 splits 53 bits into 26 and 26 */
    double scaled_a = split * a, scaled_b = split * b;
    double high_a = scaled_a - (scaled_a - a), high_b = scaled_b - (scaled_b - b);
    double low_a = a - high_a, low_b = b - high_b;
    double product = a * b;
    return (struct pair){product,
                         ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b};
}

static inline struct pair pair_sum(struct pair a, struct pair b)
{
    struct pair sum = exact_sum(a.high, b.high);
    return ordered_sum(sum.high, sum.low + (a.low + b.low));
}

static inline struct pair pair_product(struct pair a, struct pair b)
{
    struct pair product = exact_product(a.high, b.high);
    return ordered_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

static inline struct pair pair_quotient(struct pair a, struct pair b)
{
    double quotient = a.high / b.high;
    struct pair product = exact_product(quotient, b.high);
    double rest = ((a.high - product.high) - product.low) + (a.low - quotient * b.low);
    return ordered_sum(quotient, rest / b.high);
}

/* c_0 + c_1 x + ... + c_last x^last (Horner) */
static inline double polynomial(const double *coefficients, int last, double x)
{
    double sum = coefficients[last];
    for (int i = last - 1; i >= 0; i--) sum = coefficients[i] + x * sum;
    return sum;
}

/* The nearest integer, for |x| < 2^51 */
static inline double nearest_integer(double x)
{
    return (x + 0x1.8p52) - 0x1.8p52;
}

/* ln 2 in two parts. The first has 42 bits: its products with integers up to 2^11 are exact. */
static const struct pair LN_2 = {0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45};

/* 2^n, for -1022 <= n <= 1023 */
static double power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* x 2^n with one rounding, for x near 1 and -1100 <= n <= 1100. In two steps, because 2^1024 would overflow where x
 * 2^1024 need not. */
static double scaled(double x, int n)
{
    return x * power_of_two(n / 2) * power_of_two(n - n / 2);
}

/* e^r - 1 for |r| <= 0.36 = r + r^2/2! + ... + r^14/14! */
static struct pair exp_minus_1(struct pair r)
{
    static const double FROM_CUBE[] = {
        1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,       1.0 / 40320,
        1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200,
    };
    double x = r.high;
    struct pair square = exact_product(x, x);
    struct pair sum = ordered_sum(x, square.high / 2);
    double rest = square.low / 2 + (r.low + x * r.low) + x * square.high * polynomial(FROM_CUBE, 11, x);
    return ordered_sum(sum.high, sum.low + rest);
}

/* x = n ln 2 + r with |r| <= 0.36, for |x| < 800. Returns r. */
static struct pair remove_powers_of_two(struct pair x, int *n)
{
    double count = nearest_integer(x.high * 1.4426950408889634);
    *n = (int)count;
    return pair_sum((struct pair){x.high - count * LN_2.high, x.low}, (struct pair){-count * LN_2.low, 0});
}

/* e^x, for |x| < 800 */
static double exp_of_pair(struct pair x)
{
    int n;
    struct pair rest = exp_minus_1(remove_powers_of_two(x, &n));
    struct pair sum = ordered_sum(1, rest.high);
    return scaled(sum.high + (sum.low + rest.low), n);
}

double qkv_scalar_exp(double x)
{
    if (isnan(x)) return x;
    if (x > 710) return (double)INFINITY;
    if (x < -746) return 0;
    return exp_of_pair((struct pair){x, 0});
}

double qkv_scalar_exp2(double x)
{
    if (isnan(x)) return x;
    if (x >= 1024) return (double)INFINITY;
    if (x < -1080) return 0;
    const struct pair ln_2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
    double count = nearest_integer(x);
    struct pair rest = exp_minus_1(pair_product(ln_2, (struct pair){x - count, 0}));
    struct pair sum = ordered_sum(1, rest.high);
    return scaled(sum.high + (sum.low + rest.low), (int)count);
}

/* x = m 2^n with 1/sqrt(2) <= m <= sqrt(2), for finite x > 0. Returns m. */
static double take_exponent(double x, int *n)
{
    const uint64_t fraction = (UINT64_C(1) << 52) - 1, one = UINT64_C(1023) << 52;
    int shift = x < DBL_MIN ? 54 : 0;
    uint64_t bits;
    x *= power_of_two(shift);
    memcpy(&bits, &x, sizeof bits);
    *n = (int)(bits >> 52) - 1023 - shift;
    bits = (bits & fraction) | one;
    memcpy(&x, &bits, sizeof x);
    if (x > 1.4142135623730951) {
        x /= 2;
        ++*n;
    }
    return x;
}

/* The natural logarithm of finite x > 0, to about 2^-64 of its size: with s = (m - 1) / (m + 1),
 *
 *     ln m = 2 artanh s = 2 s + s^3 (2/3 + 2/5 s^2 + 2/7 s^4 + ...) */
static struct pair log_as_pair(double x)
{
    static const double FROM_FIFTH_POWER[] = {2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13, 2.0 / 15,
                                              2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23, 2.0 / 25};
    int n;
    double m = take_exponent(x, &n);
    struct pair s = pair_quotient((struct pair){m - 1, 0}, exact_sum(m, 1));
    struct pair square = pair_product(s, s);
    double q = s.high * s.high;
    const struct pair two_thirds = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
    struct pair cubic =
        pair_product(pair_product(s, square),
                     pair_sum(two_thirds, (struct pair){q * polynomial(FROM_FIFTH_POWER, 10, q), 0}));
    struct pair log_of_m = pair_sum((struct pair){2 * s.high, 2 * s.low}, cubic);
    return pair_sum((struct pair){n * LN_2.high, n * LN_2.low}, log_of_m);
}

/* Whether the logarithm of x is not a finite number; then *log is the result. */
static bool has_no_finite_log(double x, double *log)
{
    *log = x; /* NaN and infinity */
    if (x == 0) *log = (double)-INFINITY;
    if (x < 0) *log = (double)NAN;
    return !(x > 0 && x <= DBL_MAX);
}

double qkv_scalar_log(double x)
{
    double special;
    return has_no_finite_log(x, &special) ? special : log_as_pair(x).high;
}

double qkv_scalar_log10(double x)
{
    const struct pair inverse_ln_10 = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
    double special;
    return has_no_finite_log(x, &special) ? special : pair_product(log_as_pair(x), inverse_ln_10).high;
}

static bool is_integer(double x)
{
    return floor(x) == x; /* infinity is one, and even */
}

static bool is_odd(double x)
{
    return is_integer(x) && !is_integer(x / 2);
}

/* x^y, for x > 0 that is not 1, and y that is not 0; neither is NaN. */
static double positive_power(double x, double y)
{
    if (x > DBL_MAX || fabs(y) > DBL_MAX) return (x > 1) == (y > 0) ? (double)INFINITY : 0;
    struct pair log = log_as_pair(x);
    double size = log.high * y;
    if (size > 710) return (double)INFINITY;
    if (size < -746) return 0;
    return exp_of_pair(pair_product(log, (struct pair){y, 0}));
}

double qkv_scalar_power(double base, double exponent)
{
    double x = fabs(base), y = exponent;
    if (y == 0 || base == 1) return 1;
    if (isnan(x) || isnan(y)) return (double)NAN;
    if (base < 0 && x <= DBL_MAX && !is_integer(y)) return (double)NAN;
    double power = x == 1 ? 1 : positive_power(x, y);
    if (x == 0) power = y > 0 ? 0 : (double)INFINITY;
    return signbit(base) && is_odd(y) ? -power : power;
}

/* (e^2x - 1) / (e^2x + 1) */
double qkv_scalar_tanh(double x)
{
    double size = fabs(x);
    if (isnan(x) || size < 0x1p-27) return x;
    double tanh_of_size = 1;
    if (size < 20) {
        int n;
        struct pair rest = exp_minus_1(remove_powers_of_two((struct pair){2 * size, 0}, &n));
        double power = power_of_two(n);
        struct pair numerator =
            pair_sum((struct pair){power - 1, 0}, (struct pair){power * rest.high, power * rest.low});
        tanh_of_size = pair_quotient(numerator, pair_sum((struct pair){2, 0}, numerator)).high;
    }
    return x < 0 ? -tanh_of_size : tanh_of_size;
}

/* (1 + 2x) e^(x^2) erfc x, for x >= 0, as a polynomial in t = (x - 3) / (x + 3): the interpolation at 41 Chebyshev
 * nodes, computed with 60 digits, without the terms above t^24. */
static struct pair scaled_erfc(double x)
{
    static const double COEFFICIENTS[] = {
        1.2530080582697296,     -0.13562110612458117,    -0.047562294353449198,   0.12964515870275939,
        -0.11927366341538638,   0.068308027344009897,    -0.023770514917171338,   0.0025293918156939696,
        0.0018886903449991718,  -0.0007798322696543306,  -0.00010515971958448065, 0.0001250993424583729,
        4.949196649968345e-06,  -2.0100542268525612e-05, -7.308281468783614e-07,  3.4723709449771682e-06,
        3.5576086684080595e-07, -6.1660114603987257e-07, -1.4047654315428462e-07, 1.0183620603842736e-07,
        4.1064013667940355e-08, -1.3312919661038687e-08, -8.2175950587114546e-09, 9.8625335103455874e-10,
        8.3937348586908774e-10,
    };
    double t = (x - 3) / (x + 3);
    return ordered_sum(COEFFICIENTS[0], t * polynomial(COEFFICIENTS + 1, 23, t));
}

/* erfc x for |x| <= 1/4 = 1 - 2/sqrt(pi) (x - x^3/(1! 3) + x^5/(2! 5) - ... - x^19/(9! 19)) */
static double small_erfc(double x)
{
    static const double FROM_CUBE[] = {
        -1.0 / 3,   1.0 / 10,     -1.0 / 42,    1.0 / 216,      -1.0 / 1320,
        1.0 / 9360, -1.0 / 75600, 1.0 / 685440, -1.0 / 6894720,
    };
    double linear = x * 1.1283791670955126, square = x * x;
    struct pair sum = ordered_sum(1, -linear);
    return sum.high + (sum.low - linear * square * polynomial(FROM_CUBE, 8, square));
}

double qkv_scalar_erfc(double x)
{
    double size = fabs(x), erfc_of_size = 0;
    if (isnan(x)) return x;
    if (size <= 0.25) return small_erfc(x);
    if (size < 28) {
        int n;
        struct pair square = exact_product(size, size);
        struct pair minus_square = {-square.high, -square.low};
        struct pair rest = exp_minus_1(remove_powers_of_two(minus_square, &n));
        struct pair product = pair_product(pair_sum((struct pair){1, 0}, rest), scaled_erfc(size));
        erfc_of_size = scaled(pair_quotient(product, exact_sum(2 * size, 1)).high, n);
    }
    return x < 0 ? 2 - erfc_of_size : erfc_of_size;
}

/* ---- sine and cosine ---- */

/* Sine and cosine: x = q pi/2 + r with |r| <= pi/4, then Taylor series. */

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
