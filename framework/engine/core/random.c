#include "qkv/random.h"

#include "core/philox.h"
#include "qkv/scalar_math.h"

#include <math.h>

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
