/* The random numbers of NumPy's legacy generator (numpy.random.seed, rand, randn, randint), so that a scene
 * can draw what a tutorial drew: MT19937 (Matsumoto and Nishimura 1998), bit for bit. For reading along only;
 * qkv's own numbers are those of random.h. */
#ifndef QKV_NUMPY_RANDOM_H
#define QKV_NUMPY_RANDOM_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { QKV_MT19937_WORDS = 624 };

/* Caller's storage. Unlike qkv_random, numbers come one after the other. */
struct qkv_numpy_random {
    uint32_t state[QKV_MT19937_WORDS];
    int used;      /* words of the state that were handed out */
    bool cached;   /* the polar method makes two numbers at a time; one waits */
    double normal; /* the one that waits */
};

/* numpy.random.seed(seed) */
QKV_API void qkv_numpy_seed(struct qkv_numpy_random *random, uint32_t seed);

/* The next 32 bits, uniform. */
QKV_API uint32_t qkv_numpy_bits(struct qkv_numpy_random *random);

/* numpy.random.rand(): uniform in [0, 1), 53 bits. */
QKV_API double qkv_numpy_uniform(struct qkv_numpy_random *random);

/* numpy.random.randn(): standard normal, by the polar method of Marsaglia and Bray 1964. */
QKV_API double qkv_numpy_normal(struct qkv_numpy_random *random);

/* numpy.random.randint(bound): uniform among 0 .. bound-1, 0 < bound; by masking and rejection. */
QKV_API uint32_t qkv_numpy_below(struct qkv_numpy_random *random, uint32_t bound);

#endif
