/* The random numbers of a scene: qkv's own, or those of NumPy's legacy generator (numpy.random.seed, rand, randn, randint), bit
 * for bit, so that a scene can repeat the numbers of a tutorial. */
#include "explain/scene.h"

#include "core/numbers.h"

#include <math.h>

enum { WORDS = sizeof((struct mersenne *)0)->state / sizeof(uint32_t), MIDDLE = 397 };

void qkv_scene_random_seed(struct scene_random *random, const struct qkv_scene *scene)
{
    *random = (struct scene_random){.generator = scene->random.generator,
                                    .philox = {(uint64_t)scene->random.seed, QKV_STREAM_SCENE, 0},
                                    .numpy.used = WORDS};
    uint32_t *x = random->numpy.state;
    x[0] = (uint32_t)scene->random.seed;
    for (uint32_t i = 1; i < WORDS; i++) x[i] = 1812433253u * (x[i - 1] ^ x[i - 1] >> 30) + i;
}

/* x[i] <- x[i + 397] ^ A (upper bit of x[i], lower bits of x[i + 1]), around the ring of 624 words */
static void advance(uint32_t *x)
{
    for (int i = 0; i < WORDS; i++) {
        uint32_t joined = (x[i] & 0x80000000u) | (x[(i + 1) % WORDS] & 0x7FFFFFFFu);
        x[i] = x[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ (joined & 1 ? 0x9908B0DFu : 0);
    }
}

static uint32_t numpy_bits(struct mersenne *numpy)
{
    if (numpy->used == WORDS) {
        advance(numpy->state);
        numpy->used = 0;
    }
    uint32_t y = numpy->state[numpy->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9D2C5680u;
    y ^= y << 15 & 0xEFC60000u;
    return y ^ y >> 18;
}

/* In [0, 1), 53 bits. */
static double numpy_uniform(struct mersenne *numpy)
{
    double high = numpy_bits(numpy) >> 5, low = numpy_bits(numpy) >> 6; /* 27 and 26 bits */
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

/* By the polar method of Marsaglia and Bray 1964. */
static double numpy_normal(struct mersenne *numpy)
{
    numpy->has_normal = !numpy->has_normal;
    if (!numpy->has_normal) return numpy->normal;
    double x, y, square;
    do {
        x = 2.0 * numpy_uniform(numpy) - 1.0;
        y = 2.0 * numpy_uniform(numpy) - 1.0;
        square = x * x + y * y;
    } while (square >= 1.0 || !(square > 0.0));
    double factor = sqrt(-2.0 * qkv_scalar_log(square) / square);
    numpy->normal = factor * x;
    return factor * y;
}

/* By masking and rejection. A single choice draws nothing. */
static uint32_t numpy_below(struct mersenne *numpy, uint32_t bound)
{
    uint32_t max = bound - 1, mask = max, value = 0;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    do value = max ? numpy_bits(numpy) & mask : 0;
    while (value > max);
    return value;
}

static double uniform(struct scene_random *random)
{
    return random->generator == QKV_GENERATOR_NUMPY ? numpy_uniform(&random->numpy)
                                                    : qkv_random_uniform(random->philox, random->used++);
}

static double draw(struct scene_random *random, enum qkv_distribution distribution, int64_t below,
                   int64_t fan)
{
    bool is_numpy = random->generator == QKV_GENERATOR_NUMPY;
    switch (distribution) {
    case QKV_SAMPLE_NORMAL:
        return is_numpy ? numpy_normal(&random->numpy) : qkv_random_normal(random->philox, random->used++);
    case QKV_SAMPLE_UNIFORM:
        return uniform(random);
    case QKV_SAMPLE_INTEGERS:
        return is_numpy ? (double)numpy_below(&random->numpy, (uint32_t)below)
                        : (double)qkv_random_below(random->philox, random->used++, (uint64_t)below);
    case QKV_SAMPLE_XAVIER: /* Glorot and Bengio 2010 */
        return (2 * uniform(random) - 1) * sqrt(6.0 / (double)fan);
    }
    return 0;
}

void qkv_scene_random_draw(struct scene_random *random, enum qkv_distribution distribution, int64_t below,
                           int64_t fan, int64_t count, double *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = draw(random, distribution, below, fan);
}
