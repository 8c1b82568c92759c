#include "qkv/scalar_math.h"

#include "core/pair.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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
