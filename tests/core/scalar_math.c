/* The functions of core/numbers.h: right, and with the same bits on every processor and from every compiler. */
#include "support.h"

#include "framework/engine/core/numbers.h"

#include <float.h>
#include <inttypes.h>

/* How many doubles lie from a to b: 0 for equal numbers and for two NaN, 1 for neighbours. */
static double distance(double a, double b)
{
    const double values[] = {a, b};
    int64_t places[2]; /* in the order of all doubles */
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : (double)INFINITY;
    memcpy(places, values, sizeof places);
    for (int i = 0; i < 2; i++)
        if (places[i] < 0) places[i] = INT64_MIN - places[i];
    int larger = places[1] > places[0];
    return (double)((uint64_t)places[larger] - (uint64_t)places[1 - larger]);
}

/* ---- hard arguments, with results that mpmath computed with 2,400 bits and rounded to double; the others are among the
 * many arguments below ---- */

static const struct {
    const char *name;
    double (*function)(double x);
    double x, result;
} HARD[] = {
    {"exp", qkv_scalar_exp, 0x1.62e42fefa39efp-1, 2},
    {"exp", qkv_scalar_exp, 0x1p-54, 1},
    {"exp", qkv_scalar_exp, -0x1p-53, 0x1.fffffffffffffp-1},
    {"exp", qkv_scalar_exp, 0x1.62cp+9, 0x1.81e9b4b52d0c9p+1023},
    {"exp", qkv_scalar_exp, 0x1.62e42fefa39efp+9, 0x1.fffffffffff2ap+1023},
    {"exp", qkv_scalar_exp, -708, 0x1.7c8ab2288c9abp-1022},
    {"exp", qkv_scalar_exp, -720, 0x0.0000993b4dc95p-1022},
    {"exp", qkv_scalar_exp, -745, 0x0.0000000000001p-1022},
    {"exp2", qkv_scalar_exp2, -0x1.ffcp+9, 0x0.5a827999fcef3p-1022},
    {"exp2", qkv_scalar_exp2, 0x1.ffep+9, 0x1.ae89f995ad3adp+1023},
    {"exp2", qkv_scalar_exp2, -0x1.0b9p+10, 0x0.000000000000dp-1022},
    {"exp2", qkv_scalar_exp2, 0x1p-60, 1},
    {"log", qkv_scalar_log, 0x1.6a09e667f3bcdp+0, 0x1.62e42fefa39fp-2},
    {"log", qkv_scalar_log, 0x1.6a09e667f3bccp+0, 0x1.62e42fefa39eep-2},
    {"log", qkv_scalar_log, 0x1.0000000000001p+0, 0x1.fffffffffffffp-53},
    {"log", qkv_scalar_log, 0x1.fffffffffffffp-1, -0x1p-53},
    {"log", qkv_scalar_log, 0x1.fffffffffffffp+1023, 0x1.62e42fefa39efp+9},
    {"log", qkv_scalar_log, 0x1p-1022, -0x1.6232bdd7abcd2p+9},
    {"log", qkv_scalar_log, 0x0.0000000000001p-1022, -0x1.74385446d71c3p+9},
    {"log", qkv_scalar_log, 0x0.0000000005p-1022, -0x1.6f41a5a748c4fp+9},
    {"log10", qkv_scalar_log10, 0x1.7e43c8800759cp+996, 300},
    {"log10", qkv_scalar_log10, 0x0.0000000000001p-1022, -0x1.434e6420f4374p+8},
    {"log10", qkv_scalar_log10, 0x1.0000000000001p+0, 0x1.bcb7b1526e50dp-54},
    {"sin", qkv_scalar_sin, 0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53},
    {"sin", qkv_scalar_sin, 22, -0x1.220a29f6eb9f4p-7},
    {"sin", qkv_scalar_sin, 355, -0x1.f9bd0307d1de3p-16},
    {"sin", qkv_scalar_sin, 0x1.fffffffffffffp+19, 0x1.526ccb2de52a8p-2},
    {"sin", qkv_scalar_sin, 1048576, 0x1.526ccb2fc8656p-2},
    {"sin", qkv_scalar_sin, 0x1.0000000000001p+20, 0x1.526ccb338edb1p-2},
    {"sin", qkv_scalar_sin, 0x1.6c6cbc45dc8dep+5, 1},
    {"sin", qkv_scalar_sin, 0x1.0f0cf064dd592p+73, -0x1.b453ab76bf397p-1},
    {"sin", qkv_scalar_sin, 0x1.6ac5b262ca1ffp+849, 1},
    {"sin", qkv_scalar_sin, 0x1.fffffffffffffp+1023, 0x1.452fc98b34e97p-8},
    {"sin", qkv_scalar_sin, 0x1p-26, 0x1p-26},
    {"cos", qkv_scalar_cos, 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54},
    {"cos", qkv_scalar_cos, 0x1.fffffffffffffp+19, 0x1.e33ada9352c61p-1},
    {"cos", qkv_scalar_cos, 1048576, 0x1.e33ada92fe2aep-1},
    {"cos", qkv_scalar_cos, 0x1.0000000000001p+20, 0x1.e33ada9254f48p-1},
    {"cos", qkv_scalar_cos, 0x1.6c6cbc45dc8dep+5, -0x1.6d61b58c99c43p-61},
    {"cos", qkv_scalar_cos, 0x1.0f0cf064dd592p+73, 0x1.0be2cef01c8f4p-1},
    {"cos", qkv_scalar_cos, 0x1.6ac5b262ca1ffp+849, -0x1.14ae72e6ba22fp-61},
    {"cos", qkv_scalar_cos, 0x1.fffffffffffffp+1023, -0x1.fffe62ecfab75p-1},
    {"cos", qkv_scalar_cos, 0x1p-26, 0x1.fffffffffffffp-1},
    {"tanh", qkv_scalar_tanh, 0x1p-26, 0x1.fffffffffffffp-27},
    {"tanh", qkv_scalar_tanh, 0x1p-28, 0x1p-28},
    {"tanh", qkv_scalar_tanh, 0x1.a36e2eb1c432dp-14, 0x1.a36e2e9a4f662p-14},
    {"tanh", qkv_scalar_tanh, 19, 0x1.fffffffffffffp-1},
    {"erfc", qkv_scalar_erfc, 0x1.0000000000001p-2, 0x1.728558ee694fbp-1},
    {"erfc", qkv_scalar_erfc, 8, 0x1.c74fc41217dfbp-97},
    {"erfc", qkv_scalar_erfc, 20, 0x1.b54f244df93dfp-583},
    {"erfc", qkv_scalar_erfc, 26, 0x1.284bfe1cdea24p-981},
    {"erfc", qkv_scalar_erfc, 27, 0x0.0000000019e0fp-1022},
    {"erfc", qkv_scalar_erfc, -0x1.6p+2, 0x1.fffffffffffdfp+0},
};

static const struct {
    double base, exponent, result;
} HARD_POWERS[] = {
    {10000, 0x1p-2, 10},
    {10000, 0x1.fp-1, 0x1.d4af12d0732c2p+12},
    {0x1.ff7ced916872bp-1, 100000, 0x1.940747bb85395p-145},
    {0x1.0000000000001p+0, 0x1p+52, 0x1.5bf0a8b145769p+1},
    {0x1.8p+0, 1748, 0x1.6daef2307f4cp+1022},
    {0x1.fffffffffffffp-1, -0x1.bc16d674ec8p+59, 0x1.2047972b728a1p+160},
    {0x1p-1, 1074, 0x0.0000000000001p-1022},
    {0x1.3333333333333p-2, 0x1.2c4p+9, 0x0.000007bd33dd8p-1022},
    {-3, 33, -0x1.3bfefa65abb83p+52},
    {-0x1.6666666666666p-1, -101, -0x1.f61ee7aa80293p+51},
    {0x1.2aaaaaaaaaaabp+0, 0x1.3333333333333p-1, 0x1.18ce9c2f64d9bp+0},
    {0x0.0000000000001p-1022, 0x1p-1, 0x1p-537},
    {0x1.e42d130773b76p+1023, -1, 0x0.43ad882e2107cp-1022},
};

Test(scalar_math, hard_arguments_give_the_nearest_double_or_its_neighbour)
{
    for (size_t i = 0; i < sizeof HARD / sizeof HARD[0]; i++) {
        double result = HARD[i].function(HARD[i].x);
        cr_expect_leq(distance(result, HARD[i].result), 1, "%s(%a) is %a, but must be %a", HARD[i].name,
                      HARD[i].x, result, HARD[i].result);
    }
    for (size_t i = 0; i < sizeof HARD_POWERS / sizeof HARD_POWERS[0]; i++) {
        double x = HARD_POWERS[i].base, y = HARD_POWERS[i].exponent, result = qkv_scalar_power(x, y);
        cr_expect_leq(distance(result, HARD_POWERS[i].result), 1, "power(%a, %a) is %a, but must be %a", x, y,
                      result, HARD_POWERS[i].result);
    }
}

/* ---- many arguments ---- */

/* Arguments are drawn from each range. glibc documents errors of 1 unit in the last place, but 2 for log10 and tanh and
 * 5 for erfc, hence the bounds of the distance. */
static const struct function {
    const char *name;
    double (*function)(double x), (*libm)(double x); /* NULL: base^x, or x^-0.5 where the base is 0 */
    double max_distance, ranges[5][2], base;
} FUNCTIONS[] = {
    {"exp", qkv_scalar_exp, exp, 1, {{-1, 1}, {-30, 30}, {-708, 709.7}, {-745, -708}, {-1e-8, 1e-8}}},
    {"exp2", qkv_scalar_exp2, exp2, 1, {{-1, 1}, {-30, 30}, {-1022, 1024}, {-1074, -1022}, {-8, 0}}},
    {"log", qkv_scalar_log, log, 1, {{0, 1}, {0.9, 1.1}, {1, 1e6}, {0, 1e300}, {0, 1e-310}}},
    {"log10", qkv_scalar_log10, log10, 2, {{0, 1}, {0.9, 1.1}, {1, 1e6}, {0, 1e300}, {0, 1e-310}}},
    {"sin", qkv_scalar_sin, sin, 1, {{-1, 1}, {-7, 7}, {0, 1048576}, {-1e9, 1e9}, {0, 1e300}}},
    {"cos", qkv_scalar_cos, cos, 1, {{-1, 1}, {-7, 7}, {0, 1048576}, {-1e9, 1e9}, {0, 1e300}}},
    {"tanh", qkv_scalar_tanh, tanh, 3, {{-1, 1}, {-22, 22}, {-1e-3, 1e-3}, {-1e-8, 1e-8}, {0, 1e-300}}},
    {"erfc", qkv_scalar_erfc, erfc, 6, {{-1, 1}, {-6, 6}, {0, 27}, {26, 27.2}, {-1e-3, 1e-3}}},
    {"x^-0.5", NULL, NULL, 1, {{0, 1}, {1, 1e6}, {0, 1e300}, {0, 1e-310}, {1, 2}}},
    {"10000^x", NULL, NULL, 1, {{0, 1}, {-1, 0}, {-76, 77}, {-80, -77}, {0, 1e-9}}, 10000},
    {"0.999^x", NULL, NULL, 1, {{0, 1}, {0, 1e3}, {0, 1e6}, {-7e5, 0}, {6e5, 8e5}}, 0.999},
};
enum { FUNCTION_COUNT = sizeof FUNCTIONS / sizeof FUNCTIONS[0], POINTS = 20000 };

/* The result of qkv, or of the C library. */
static double value_of(const struct function *f, bool libm, double x)
{
    if (f->function) return libm ? f->libm(x) : f->function(x);
    const double base = f->base > 0 ? f->base : x, exponent = f->base > 0 ? x : -0.5;
    return libm ? pow(base, exponent) : qkv_scalar_power(base, exponent);
}

static double argument(const struct function *function, uint64_t point)
{
    const struct qkv_random random = {.seed = 1, .stream = QKV_STREAM_CHECK};
    double low = function->ranges[point % 5][0], high = function->ranges[point % 5][1];
    return low + (high - low) * qkv_random_uniform(random, point);
}

Test(scalar_math, results_are_those_of_the_c_library_but_for_rounding)
{
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        const struct function *f = &FUNCTIONS[i];
        double worst = 0, where = 0;
        for (uint64_t point = 0; point < POINTS; point++) {
            double x = argument(f, point), far = distance(value_of(f, false, x), value_of(f, true, x));
            if (far > worst) {
                worst = far;
                where = x;
            }
        }
        cr_expect_leq(worst, f->max_distance, "%s(%a) is %a, %g doubles from %a", f->name, where,
                      value_of(f, false, where), worst, value_of(f, true, where));
    }
}

/* Every word of the digits of 2/pi decides about the angles of some exponents. */
Test(scalar_math, angles_of_every_exponent)
{
    for (int n = -30; n < 1024; n++)
        for (int i = 0; i < 8; i++) {
            double x =
                ldexp(1 + qkv_random_uniform((struct qkv_random){.step = (uint32_t)n}, (uint64_t)i), n);
            cr_expect_leq(distance(qkv_scalar_sin(x), sin(x)), 1, "sin(%a) is %a", x, qkv_scalar_sin(x));
            cr_expect_leq(distance(qkv_scalar_cos(x), cos(x)), 1, "cos(%a) is %a", x, qkv_scalar_cos(x));
        }
}

/* Hashes of the bits of all results: the same with gcc and clang, with and without optimisation, on x86-64 and 64-bit
 * Arm. A change of one bit of one result changes the networks that are trained. */
static const uint64_t HASHES[FUNCTION_COUNT] = {
    0xf14874c86c191572, /* exp */
    0x1f697d2ddbc21499, /* exp2 */
    0x1eb7f285c3902ea7, /* log */
    0x8c88db7a42bbaa29, /* log10 */
    0xe698a6232c95a858, /* sin */
    0x9a991bbad3895c3d, /* cos */
    0x10b96ef0a6a31660, /* tanh */
    0xdc3f40ab2804c555, /* erfc */
    0x387bbf517550c2c1, /* x^-0.5 */
    0xbd6885be90f1a090, /* 10000^x */
    0x23c52541e1913b8d, /* 0.999^x */
};

Test(scalar_math, results_have_the_same_bits_everywhere)
{
    for (int i = 0; i < FUNCTION_COUNT; i++) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, of words */
        for (uint64_t point = 0; point < POINTS; point++) {
            double result = value_of(&FUNCTIONS[i], false, argument(&FUNCTIONS[i], point));
            uint64_t bits;
            memcpy(&bits, &result, sizeof bits);
            hash = (hash ^ bits) * UINT64_C(0x100000001b3);
        }
        cr_expect_eq(hash, HASHES[i], "%s: the hash is 0x%016" PRIx64, FUNCTIONS[i].name, hash);
    }
}

/* ---- the ends of the ranges ---- */

static const double ODD[] = {
    0.0,     -0.0,     1, -1, 1024, -1076, 709.79, -745.14,      -1e300,        2,   -2,   0.5,  -0.5, 1e16,
    DBL_MAX, -DBL_MAX, 3, -3, 1.5,  -1.5,  1e300,  DBL_TRUE_MIN, -DBL_TRUE_MIN, 700, -701, -1e16};
enum { ODD_COUNT = sizeof ODD / sizeof ODD[0] + 3 };

/* Numbers at the ends of the ranges, infinities and NaN. */
static double odd(int i)
{
    const double others[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    return i < 3 ? others[i] : ODD[i - 3];
}

static bool is_same(double result, double expected, double max_distance)
{
    bool same_sign = isnan(result) || signbit(result) == signbit(expected);
    return distance(result, expected) <= max_distance && same_sign;
}

/* C11, F.10: the results of the C library are exact there. */
Test(scalar_math, zeros_infinities_and_nan)
{
    for (int i = 0; i < FUNCTION_COUNT; i++)
        for (int k = 0; k < ODD_COUNT; k++) {
            const struct function *f = &FUNCTIONS[i];
            double x = odd(k), expected = value_of(f, true, x);
            bool is_exact = isnan(expected) || isinf(expected) || expected == 0 || x == 0;
            cr_expect(is_same(value_of(f, false, x), expected, is_exact ? 0 : f->max_distance),
                      "%s(%a) is %a, but must be %a", f->name, x, value_of(f, false, x), expected);
        }
    for (int n = -1074; n < 1024; n++) cr_expect_eq(qkv_scalar_exp2(n), ldexp(1, n), "2^%d is exact", n);
    cr_expect_eq(qkv_scalar_tanh(-DBL_MAX), -1);
}

/* C11, F.9.4.4 */
Test(scalar_math, special_powers_are_those_of_the_c_standard)
{
    for (int i = 0; i < ODD_COUNT; i++)
        for (int j = 0; j < ODD_COUNT; j++) {
            double x = odd(i), y = odd(j), power = qkv_scalar_power(x, y), expected = pow(x, y);
            cr_expect(is_same(power, expected, 1), "%a^%a is %a, but must be %a", x, y, power, expected);
        }
}

Test(scalar_math, powers_of_ten_are_exact)
{
    double power = 1;
    for (int n = 0; n <= 22; n++, power *= 10) { /* 10^23 is no double */
        cr_expect_eq(qkv_scalar_power(10, n), power, "10^%d", n);
        cr_expect_eq(qkv_scalar_power(10, -n), 1 / power, "10^-%d", n);
        cr_expect_eq(qkv_scalar_log10(power), n, "log10 10^%d", n);
    }
}
