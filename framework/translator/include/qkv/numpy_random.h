/* The random numbers of NumPy, bit for bit: those of its legacy generator (numpy.random.seed, rand, randn, randint), so
 * that a scene can repeat the numbers of a tutorial, and the integers of numpy.random.default_rng, so that a bootstrap
 * draws the samples that other programs draw. All other code uses random.h.
 *
 * Example:
 *     struct qkv_numpy_random random;
 *     qkv_numpy_seed(&random, 42);
 *     printf("%.8f\n", qkv_numpy_uniform(&random)); // 0.37454012, as numpy.random.rand()
 *
 * The legacy generator is MT19937 (Matsumoto and Nishimura 1998), that of default_rng is PCG64 (O'Neill 2014). */
#ifndef QKV_NUMPY_RANDOM_H
#define QKV_NUMPY_RANDOM_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { QKV_MT19937_WORDS = 624 };

/* State of the generator, in the caller's storage. Each call below advances it. All zero: as if seeded with 0. */
struct qkv_numpy_random {
    uint32_t state[QKV_MT19937_WORDS];
    int used;    /* words of the state that have been returned */
    bool cached; /* the polar method draws normal numbers in pairs: `normal` holds the second */
    double normal;
};

/* numpy.random.seed(seed) */
QKV_API void qkv_numpy_seed(struct qkv_numpy_random *random, uint32_t seed);

/* The next 32 bits, uniform. */
QKV_API uint32_t qkv_numpy_bits(struct qkv_numpy_random *random);

/* numpy.random.rand(): uniform in [0, 1), 53 bits. */
QKV_API double qkv_numpy_uniform(struct qkv_numpy_random *random);

/* numpy.random.randn(): standard normal, by the polar method of Marsaglia and Bray 1964. */
QKV_API double qkv_numpy_normal(struct qkv_numpy_random *random);

/* numpy.random.randint(bound): uniform among 0 .. bound-1; by masking and rejection. 0, and draws nothing, for a bound of 0,
 * which NumPy refuses. */
QKV_API uint32_t qkv_numpy_below(struct qkv_numpy_random *random, uint32_t bound);

/* State of numpy.random.default_rng, in the caller's storage: two 128-bit numbers, lower half first, and the unused half of
 * the last word. All zero: as if seeded with 0. */
struct qkv_numpy_generator {
    uint64_t state[2], increment[2];
    bool has_half;
    uint32_t half;
};

/* numpy.random.default_rng(seed) */
QKV_API void qkv_numpy_generator_seed(struct qkv_numpy_generator *generator, uint32_t seed);

/* generator.integers(bound), and each element of generator.choice(bound, size): uniform among 0 .. bound-1; by the
 * multiplication of Lemire 2019. 0, and draws nothing, for a bound of 0, which NumPy refuses. */
QKV_API uint32_t qkv_numpy_generator_below(struct qkv_numpy_generator *generator, uint32_t bound);

#endif
