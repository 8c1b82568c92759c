/* Half precision, int8 numbers with a scale, and random numbers. */
#include "core/numbers.h"

#include <math.h>
#include <string.h>

/* ---- half precision ---- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

enum { FRACTION = 10, DROPPED = 23 - FRACTION, BIAS = 15, BIAS_32 = 127 };

uint16_t qkv_half_of(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) return (uint16_t)(sign | 0x7E00); /* NaN */
    if (size < (BIAS_32 - BIAS + 1) << 23) {
        /* Below 2^-14 halves have a fixed step of 2^-24, which is the last bit of a float32 from 0.5 to 1. */
        float rounded = of_bits(size) + 0.5f;
        return (uint16_t)(sign | (bits_of(rounded) - bits_of(0.5f)));
    }
    uint32_t odd = size >> DROPPED & 1;
    uint32_t half =
        (size - ((uint32_t)(BIAS_32 - BIAS) << 23) + ((1u << (DROPPED - 1)) - 1 + odd)) >> DROPPED;
    return (uint16_t)(sign | (half < 0x7C00 ? half : 0x7C00));
}

float qkv_half_value(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> FRACTION & 0x1F,
             fraction = half & 0x3FF;
    if (exponent == 0x1F) return of_bits(sign | 0x7F800000 | fraction << DROPPED);
    if (exponent) return of_bits(sign | (exponent + BIAS_32 - BIAS) << 23 | fraction << DROPPED);
    float size = (float)fraction / (1 << 24);
    return sign ? -size : size;
}

/* ---- int8 ---- */

float qkv_int8_scale(int64_t count, const float *x, int64_t step)
{
    /* Below SMALLEST a scale would be rounded to fewer bits than a number has. */
    static const float SMALLEST = 1e-30f;
    enum { CLEARED = (1 << 7) - 1 }; /* 24 - 17 bits */
    float max = 0;
    for (int64_t i = 0; i < count; i++) max = fmaxf(max, fabsf(x[i * step]));
    if (!(max >= SMALLEST)) return 0;
    float scale = max / QKV_INT8_MAX;
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits = (bits + CLEARED) & ~(uint32_t)CLEARED;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

int8_t qkv_int8_of(float x, float scale)
{
    return scale > 0 ? (int8_t)rintf(x / scale) : 0;
}

/* ---- random numbers ---- */

void qkv_random_block(struct qkv_random random, uint64_t index, uint32_t block[4])
{
    block[0] = (uint32_t)index;
    block[1] = (uint32_t)(index >> 32);
    block[2] = random.step;
    block[3] = random.stream;
    qkv_philox(block, (uint32_t)random.seed, (uint32_t)(random.seed >> 32));
}

/* 53 random bits as a fraction. */
static double unit(uint32_t high, uint32_t low)
{
    return (double)(((uint64_t)high << 21) ^ (low >> 11)) * 0x1p-53;
}

double qkv_random_uniform(struct qkv_random random, uint64_t index)
{
    uint32_t block[4];
    qkv_random_block(random, index, block);
    return unit(block[0], block[1]);
}

double qkv_random_normal(struct qkv_random random, uint64_t index)
{
    uint32_t block[4];
    qkv_random_block(random, index, block);
    double radius = sqrt(-2.0 * qkv_scalar_log(1 - unit(block[0], block[1])));
    return radius * qkv_scalar_cos(6.283185307179586476925 * unit(block[2], block[3]));
}

uint64_t qkv_random_below(struct qkv_random random, uint64_t index, uint64_t bound)
{
    if (bound == 0 || bound > UINT32_MAX) return 0;
    uint32_t block[4];
    qkv_random_block(random, index, block);
    /* (word * bound) >> 64 for a 64-bit word, in two halves so that no 128-bit type is needed. */
    return ((uint64_t)block[0] * bound + (((uint64_t)block[1] * bound) >> 32)) >> 32;
}

/* The round function: computes from one half the word that changes the other half. */
static uint64_t round_word(struct qkv_random random, uint32_t round, uint64_t half)
{
    uint32_t block[4];
    qkv_random_block(random, (uint64_t)round << 32 | half, block);
    return block[0];
}

/* A Feistel network: each round changes one half of the bits by a function of the other half. Rounds can be undone, so
 * different numbers stay different. It permutes 0 .. 2^bits - 1; a result that is too large is permuted again until it is
 * small enough (cycle walking; Black and Rogaway 2002), above SMALLEST at most twice on average. */
uint64_t qkv_random_permuted(struct qkv_random random, uint64_t count, uint64_t i)
{
    enum {
        ROUNDS = 8,
        SMALLEST = 8,
        LARGEST = 63
    }; /* bits: in fewer than SMALLEST, the permutations are less random */
    int bits = SMALLEST;
    if (i >= count || count > (uint64_t)1 << LARGEST) return i;
    while (count > (uint64_t)1 << bits) bits++;
    int low_bits = bits / 2;
    uint64_t low_mask = ((uint64_t)1 << low_bits) - 1, high_mask = ((uint64_t)1 << (bits - low_bits)) - 1;
    do {
        uint64_t low = i & low_mask, high = i >> low_bits;
        for (uint32_t round = 0; round < ROUNDS; round += 2) {
            high ^= round_word(random, round, low) & high_mask;
            low ^= round_word(random, round + 1, high) & low_mask;
        }
        i = high << low_bits | low;
    } while (i >= count);
    return i;
}

void qkv_random_shuffle(struct qkv_random random, int64_t count, int64_t *order)
{
    for (int64_t i = count > 0 ? count - 1 : 0; i > 0; i--) {
        int64_t j = (int64_t)qkv_random_below(random, (uint64_t)i, (uint64_t)i + 1);
        int64_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
