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
    uint32_t most = bound - 1, mask = most, value;
    if (!most) return 0; /* NumPy draws nothing for a single choice */
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    do value = qkv_numpy_bits(random) & mask;
    while (value > most);
    return value;
}
