/* The generator: known answers, and that what is made of its words has the distributions that it promises. */
#include "support.h"

#include "framework/engine/core/numbers.h"

#include <inttypes.h>

#define SOME_SEED UINT64_C(0x0123456789abcdef)
static const struct qkv_random SOME = {.seed = SOME_SEED, .stream = QKV_STREAM_CHECK, .step = 7};

/* ---- Philox4x32-10: kat_vectors of Random123, the authors' own distribution ---- */

static void expect_block(const uint32_t counter[4], const uint32_t key[2], const uint32_t words[4])
{
    struct qkv_random random = {
        .seed = (uint64_t)key[1] << 32 | key[0],
        .step = counter[2],
        .stream = counter[3],
    };
    uint32_t block[4];
    qkv_random_block(random, (uint64_t)counter[1] << 32 | counter[0], block);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(block[i], words[i], "word %d is %08x, but must be %08x", i, block[i], words[i]);
}

Test(random, known_answers)
{
    expect_block((uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0, 0},
                 (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    expect_block((uint32_t[]){~0u, ~0u, ~0u, ~0u}, (uint32_t[]){~0u, ~0u},
                 (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    expect_block((uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 (uint32_t[]){0xa4093822, 0x299f31d0},
                 (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

Test(random, every_coordinate_counts)
{
    const uint64_t high = (uint64_t)1 << 63;
    const struct qkv_random others[] = {{SOME_SEED ^ 1, QKV_STREAM_CHECK, 7},
                                        {SOME_SEED ^ high, QKV_STREAM_CHECK, 7},
                                        {SOME_SEED, QKV_STREAM_CHECK ^ 1, 7},
                                        {SOME_SEED, QKV_STREAM_CHECK ^ 1u << 31, 7},
                                        {SOME_SEED, QKV_STREAM_CHECK, 6}};
    uint32_t block[4], other[4];
    qkv_random_block(SOME, 5, block);
    for (int i = 0; i < 5; i++) {
        qkv_random_block(others[i], 5, other);
        for (int j = 0; j < 4; j++) cr_expect_neq(block[j], other[j]);
    }
    qkv_random_block(SOME, 5 + ((uint64_t)1 << 32), other);
    cr_expect_neq(block[0], other[0], "the upper half of the index counts, too");
    qkv_random_block(SOME, 5, other);
    cr_expect_arr_eq(block, other, sizeof block, "the same coordinates give the same words");
}

/* ---- distributions ---- */

enum { DRAWS = 200000 };

Test(random, uniform_numbers_are_the_first_53_bits_of_a_block)
{
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t block[4];
        qkv_random_block(SOME, i, block);
        cr_assert_eq(qkv_random_uniform(SOME, i),
                     ldexp((double)(((uint64_t)block[0] << 32 | block[1]) >> 11), -53));
    }
}

/* On every processor and with every compiler: initial values of parameters are made of these numbers. */
Test(random, normal_numbers_have_the_same_bits_everywhere)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a, of words */
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = qkv_random_normal(SOME, i);
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    cr_expect_eq(hash, 0xe8fe7bd5ad9b3586, "the hash is 0x%016" PRIx64, hash);
}

Test(random, below_follows_the_64_bit_product)
{
    const uint64_t bounds[] = {1, 2, 3, 1000, 0x80000001u, 0xffffffffu};
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++)
        for (uint64_t i = 0; i < 1000; i++) {
            uint32_t block[4];
            qkv_random_block(SOME, i, block);
            /* floor(word bound / 2^64), by long multiplication in 32-bit digits */
            uint64_t low = (uint64_t)block[1] * bounds[b],
                     high = (uint64_t)block[0] * bounds[b] + (low >> 32);
            cr_assert_eq(qkv_random_below(SOME, i, bounds[b]), high >> 32);
        }
}

/* ---- permutations ---- */

Test(random, permuted_numbers_are_a_permutation)
{
    static const uint64_t COUNTS[] = {1,   2,   3,   5,   31,   32,   33,   255,  256,   257,
                                      511, 512, 513, 999, 1000, 4095, 4096, 4097, 65535, 65537};
    for (size_t c = 0; c < sizeof COUNTS / sizeof *COUNTS; c++) {
        uint64_t count = COUNTS[c], fixed = 0, same = 0;
        bool *seen RELEASED(free_memory) = calloc(count, sizeof *seen);
        struct qkv_random next = SOME;
        next.step++;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t x = qkv_random_permuted(SOME, count, i);
            cr_assert(x < count && !seen[x], "%llu of %llu", (unsigned long long)i,
                      (unsigned long long)count);
            seen[x] = true;
            fixed += x == i;
            same += x == qkv_random_permuted(next, count, i);
            cr_assert_eq(x, qkv_random_permuted(SOME, count, i));
        }
        /* A random permutation has one fixed point on average, with variance 1. */
        if (count > 20) cr_expect(fixed < 7 && same < 7, "of %llu", (unsigned long long)count);
    }
    const uint64_t max = (uint64_t)1 << 63;
    cr_expect_lt(qkv_random_permuted(SOME, max, max - 1), max);
    cr_expect_neq(qkv_random_permuted(SOME, max, 0), qkv_random_permuted(SOME, max, 1));
    cr_expect_eq(qkv_random_permuted(SOME, 0, 0), 0);
    cr_expect_eq(qkv_random_permuted(SOME, 5, 5), 5, "there is no such element");
    cr_expect_eq(qkv_random_permuted(SOME, max + 1, 3), 3);
}

/* Over many epochs, each element comes to each position about equally often, and neighbours come about equally
 * often at each distance: chi-square of both tables. */
Test(random, permuted_numbers_are_uniform)
{
    enum { COUNT = 37, ROUNDS = 20000 };
    static int at[COUNT][COUNT], distance[COUNT];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct qkv_random random = SOME;
        random.step = round;
        uint64_t before = 0;
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t x = qkv_random_permuted(random, COUNT, i);
            at[i][x]++;
            if (i == 1) distance[(x + COUNT - before) % COUNT]++;
            before = x;
        }
    }
    double square = 0, expected = (double)ROUNDS / COUNT, freedom = (COUNT - 1) * (COUNT - 1);
    for (int i = 0; i < COUNT; i++)
        for (int x = 0; x < COUNT; x++) square += (at[i][x] - expected) * (at[i][x] - expected) / expected;
    cr_expect_float_eq(square, freedom, 4 * sqrt(2 * freedom), "positions: %g for %g", square, freedom);
    square = 0;
    expected = (double)ROUNDS / (COUNT - 1);
    for (int d = 1; d < COUNT; d++) square += (distance[d] - expected) * (distance[d] - expected) / expected;
    cr_expect_float_eq(square, COUNT - 2, 4 * sqrt(2.0 * (COUNT - 2)), "distances: %g", square);
}

/* ---- shuffle ---- */

Test(random, every_permutation_is_equally_likely)
{
    enum { ROUNDS = 60000, PERMUTATIONS = 24 };
    int counts[256] = {0}, kinds = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        int64_t order[] = {0, 1, 2, 3};
        struct qkv_random random = SOME;
        random.step = i;
        qkv_random_shuffle(random, 4, order);
        counts[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]]++;
    }
    double p = 1.0 / PERMUTATIONS;
    for (int i = 0; i < 256; i++) {
        if (!counts[i]) continue;
        kinds++;
        cr_expect_float_eq(counts[i], p * ROUNDS, 5 * sqrt(p * (1 - p) * ROUNDS));
    }
    cr_expect_eq(kinds, PERMUTATIONS);
}
