#include "qkv/numpy_random.h"

#include "qkv/scalar_math.h"

#include <math.h>

enum { MIDDLE = 397 };

void qkv_numpy_seed(struct qkv_numpy_random *random, uint32_t seed)
{
    *random = (struct qkv_numpy_random){.used = QKV_MT19937_WORDS};
    random->state[0] = seed;
    for (uint32_t i = 1; i < QKV_MT19937_WORDS; i++) {
        uint32_t before = random->state[i - 1];
        random->state[i] = 1812433253u * (before ^ before >> 30) + i;
    }
}

/* x[i] <- x[i + 397] ^ A (upper bit of x[i], lower bits of x[i + 1]), around the ring of 624 words */
static void advance(uint32_t *x)
{
    for (int i = 0; i < QKV_MT19937_WORDS; i++) {
        uint32_t joined = (x[i] & 0x80000000u) | (x[(i + 1) % QKV_MT19937_WORDS] & 0x7FFFFFFFu);
        x[i] = x[(i + MIDDLE) % QKV_MT19937_WORDS] ^ joined >> 1 ^ (joined & 1 ? 0x9908B0DFu : 0);
    }
}

uint32_t qkv_numpy_bits(struct qkv_numpy_random *random)
{
    if (random->used < 1) qkv_numpy_seed(random, 0); /* never seeded: words of zeros would stay zeros */
    if (random->used >= QKV_MT19937_WORDS) {
        advance(random->state);
        random->used = 0;
    }
    uint32_t y = random->state[random->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9D2C5680u;
    y ^= y << 15 & 0xEFC60000u;
    return y ^ y >> 18;
}

double qkv_numpy_uniform(struct qkv_numpy_random *random)
{
    double high = qkv_numpy_bits(random) >> 5, low = qkv_numpy_bits(random) >> 6; /* 27 and 26 bits */
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

double qkv_numpy_normal(struct qkv_numpy_random *random)
{
    if (random->cached) {
        random->cached = false;
        return random->normal;
    }
    double x, y, square;
    do {
        x = 2.0 * qkv_numpy_uniform(random) - 1.0;
        y = 2.0 * qkv_numpy_uniform(random) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || !(square > 0.0));
    double factor = sqrt(-2.0 * qkv_scalar_log(square) / square);
    random->normal = factor * x;
    random->cached = true;
    return factor * y;
}

uint32_t qkv_numpy_below(struct qkv_numpy_random *random, uint32_t bound)
{
    if (bound <= 1) return 0; /* NumPy draws nothing for a single choice */
    uint32_t max = bound - 1, mask = max, value;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    do value = qkv_numpy_bits(random) & mask;
    while (value > max);
    return value;
}

/* ---- numpy.random.default_rng: PCG64, seeded by SeedSequence ---- */

/* SeedSequence: multiplies and xors so that every bit of the seed changes every bit of the result (O'Neill 2015, seed_seq).
 * `constant` goes on from call to call. */
static uint32_t hash_word(uint32_t value, uint32_t *constant, uint32_t factor)
{
    value ^= *constant;
    *constant *= factor;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t mix_words(uint32_t x, uint32_t y)
{
    uint32_t mixed = 0xCA01F9DDu * x - 0x4973F715u * y;
    return mixed ^ mixed >> 16;
}

/* x = x * factor + addend, all of 128 bits, lower half first; the schoolbook product of 32-bit digits. */
static void multiply_add(uint64_t x[2], const uint64_t factor[2], const uint64_t addend[2])
{
    const uint64_t low = 0xFFFFFFFFu;
    uint64_t a0 = x[0] & low, a1 = x[0] >> 32, b0 = factor[0] & low, b1 = factor[0] >> 32;
    uint64_t middle = (a0 * b0 >> 32) + (a1 * b0 & low) + (a0 * b1 & low);
    uint64_t high = a1 * b1 + (a1 * b0 >> 32) + (a0 * b1 >> 32) + (middle >> 32);
    high += x[0] * factor[1] + x[1] * factor[0];
    x[0] *= factor[0];
    x[0] += addend[0];
    x[1] = high + addend[1] + (x[0] < addend[0]);
}

/* state = state * multiplier + increment */
static void step(struct qkv_numpy_generator *generator)
{
    static const uint64_t multiplier[2] = {0x4385DF649FCCF645u, 0x2360ED051FC65DA4u};
    multiply_add(generator->state, multiplier, generator->increment);
}

void qkv_numpy_generator_seed(struct qkv_numpy_generator *generator, uint32_t seed)
{
    enum { POOL = 4 };
    uint32_t pool[POOL] = {0}, constant = 0x43B0D7E5u, words[2 * POOL];
    const uint32_t factor = 0x931E8875u;
    for (int i = 0; i < POOL; i++) pool[i] = hash_word(i == 0 ? seed : 0, &constant, factor);
    for (int source = 0; source < POOL; source++)
        for (int target = 0; target < POOL; target++)
            if (source != target)
                pool[target] = mix_words(pool[target], hash_word(pool[source], &constant, factor));
    constant = 0x8B51F9DDu;
    for (int i = 0; i < 2 * POOL; i++) words[i] = hash_word(pool[i % POOL], &constant, 0x58F38DEDu);

    uint64_t numbers[POOL]; /* of 64 bits: start, upper half first, and stream, upper half first */
    for (int i = 0; i < POOL; i++) numbers[i] = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
    *generator =
        (struct qkv_numpy_generator){.increment = {numbers[3] << 1 | 1, numbers[2] << 1 | numbers[3] >> 63}};
    step(generator);
    generator->state[0] += numbers[1];
    generator->state[1] += numbers[0] + (generator->state[0] < numbers[1]);
    step(generator);
}

/* The next 32 bits: a step gives 64, of which the lower ones come first. Output function XSL-RR: the halves of the state,
 * xored and rotated by its upper six bits. */
static uint32_t next_bits(struct qkv_numpy_generator *generator)
{
    if (generator->has_half) {
        generator->has_half = false;
        return generator->half;
    }
    step(generator);
    uint64_t folded = generator->state[0] ^ generator->state[1];
    unsigned rotation = (unsigned)(generator->state[1] >> 58);
    uint64_t bits = folded >> rotation | folded << (-rotation & 63);
    generator->half = (uint32_t)(bits >> 32);
    generator->has_half = true;
    return (uint32_t)bits;
}

uint32_t qkv_numpy_generator_below(struct qkv_numpy_generator *generator, uint32_t bound)
{
    if (bound <= 1) return 0; /* NumPy draws nothing for a single choice */
    /* Never seeded: a seed makes the increment odd, and a state of zeros would stay zeros. */
    if (!(generator->increment[0] & 1)) qkv_numpy_generator_seed(generator, 0);
    uint64_t product = (uint64_t)next_bits(generator) * bound;
    /* 2^32 mod bound of the lower halves are rejected, so that each result has equally many. */
    if ((uint32_t)product < bound)
        for (uint32_t min = -bound % bound; (uint32_t)product < min;)
            product = (uint64_t)next_bits(generator) * bound;
    return (uint32_t)(product >> 32);
}
