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

void qkv_random_shuffle(struct qkv_random random, int64_t count, int64_t *order)
{
    for (int64_t i = count > 0 ? count - 1 : 0; i > 0; i--) {
        int64_t j = (int64_t)qkv_random_below(random, (uint64_t)i, (uint64_t)i + 1);
        int64_t kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
