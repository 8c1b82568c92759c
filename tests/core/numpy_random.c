#include "qkv/numpy_random.h"

#include <criterion/criterion.h>

/* The figures are those that NumPy prints for its legacy generator. */

static struct qkv_numpy_random seeded(uint32_t seed)
{
    struct qkv_numpy_random random;
    qkv_numpy_seed(&random, seed);
    return random;
}

Test(numpy_random, words_are_those_of_mt19937)
{
    struct qkv_numpy_random random = seeded(5489); /* the seed of the reference program */
    cr_expect_eq(qkv_numpy_bits(&random), 3499211612u);
    cr_expect_eq(qkv_numpy_bits(&random), 581869302u);
    for (int i = 3; i < 10000; i++) qkv_numpy_bits(&random);
    cr_expect_eq(qkv_numpy_bits(&random), 4123659995u, "the 10000th, which the C++ standard names");
}

Test(numpy_random, rand_is_uniform_with_53_bits)
{
    struct qkv_numpy_random random = seeded(42);
    cr_expect_eq(qkv_numpy_uniform(&random), 0.3745401188473625);
    cr_expect_eq(qkv_numpy_uniform(&random), 0.9507143064099162);
    cr_expect_eq(qkv_numpy_uniform(&random), 0.7319939418114051);
}

/* The macro of the comparison would draw twice. */
static void expect_normal(struct qkv_numpy_random *random, double expected)
{
    double drawn = qkv_numpy_normal(random);
    cr_expect_float_eq(drawn, expected, 1e-15, "%.17g, but %.17g was expected", drawn, expected);
}

Test(numpy_random, randn_makes_two_and_keeps_one)
{
    static const double FORTY_TWO[] = {0.4967141530112327, -0.13826430117118466, 0.6476885381006925,
                                       1.5230298564080254, -0.23415337472333597};
    static const double ONE_TWO_THREE[] = {-1.0856306033005612, 0.9973454465835858, 0.28297849805199204};
    struct qkv_numpy_random random = seeded(42);
    for (int i = 0; i < 5; i++) expect_normal(&random, FORTY_TWO[i]);
    random = seeded(123);
    for (int i = 0; i < 3; i++) expect_normal(&random, ONE_TWO_THREE[i]);
    qkv_numpy_seed(&random, 123);
    expect_normal(&random, ONE_TWO_THREE[0]); /* a seed forgets the one that waits */
}

Test(numpy_random, randint_masks_and_rejects)
{
    static const uint32_t EXPECTED[] = {2, 0, 2, 2, 0, 0, 2, 1, 2, 2, 2, 2, 0, 2,
                                        1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0};
    struct qkv_numpy_random random = seeded(42);
    for (int i = 0; i < 27; i++) cr_expect_eq(qkv_numpy_below(&random, 3), EXPECTED[i], "%d", i);
    cr_expect_eq(qkv_numpy_below(&random, 1), 0u);
    for (int i = 0; i < 1000; i++) cr_expect_lt(qkv_numpy_below(&random, 5), 5u);
}

/* The figures are those of numpy.random.default_rng(seed).choice(bound, size). */
Test(numpy_random, default_rng_chooses_as_pcg64)
{
    static const struct {
        uint32_t seed, bound, chosen[6];
    } cases[] = {
        {12345, 1000, {699, 227, 788, 316, 204, 797}},
        {12345, 3000000000u, {2097645094u, 682008066u, 2365940964u}},
        {0, 7, {5, 4, 3, 1, 2, 0}},
        {4294967295u,
         3000000001u,
         {572433046u, 2172742368u, 657197388u, 2728677139u, 861854160u, 2121662000u}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct qkv_numpy_generator generator;
        qkv_numpy_generator_seed(&generator, cases[c].seed);
        for (int i = 0; i < 6 && cases[c].chosen[i]; i++)
            cr_expect_eq(qkv_numpy_generator_below(&generator, cases[c].bound), cases[c].chosen[i],
                         "case %zu, %d", c, i);
    }
}
