/* Random numbers as a pure function: value = f(seed, stream, step, index). There is no state to save, share or lock.
 *
 * Example:
 *     struct qkv_random random = {.seed = 42, .stream = QKV_STREAM_GENERATE};
 *     for (uint64_t i = 0; i < 3; i++) printf("%g\n", qkv_random_normal(random, i));
 *
 * The generator is Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). */
#ifndef QKV_RANDOM_H
#define QKV_RANDOM_H

#include "qkv/error.h"

#include <stdint.h>

/* What random numbers are used for. Each use has its own stream, so no two uses get the same numbers. */
enum qkv_stream {
    QKV_STREAM_INITIAL_VALUES, /* of parameters; index of the parameter in `step` */
    QKV_STREAM_SHUFFLE,        /* order of examples; epoch in `step`, pool of batches in the sub-stream */
    QKV_STREAM_DROPOUT,        /* masks; number of the dropout node in the sub-stream */
    QKV_STREAM_GENERATE,       /* generated data sets */
    QKV_STREAM_CHECK,          /* samples and cotangents of the gradient check */
    QKV_STREAM_SCENE,          /* vectors and matrices of scenes */
    QKV_STREAM_PIECES, /* parts of texts that are left out at random; epoch in `step`, side in the sub-stream */
    QKV_STREAM_SPLIT,  /* choice of the examples that are held out */
    QKV_STREAM_SAMPLE, /* draws from the output of a model; number of the sample in `step` */
};

/* A sequence of random numbers. */
struct qkv_random {
    uint64_t seed;
    uint32_t stream; /* enum qkv_stream, and a sub-stream in the upper 24 bits, where a use needs one */
    uint32_t step;   /* a number that the use defines: training step, epoch, index of a parameter */
};

/* Block `index` of the generator: four independent uniform 32-bit words. */
QKV_API void qkv_random_block(struct qkv_random random, uint64_t index, uint32_t block[4]);

/* Number `index` of the sequence: uniform in [0, 1). */
QKV_API double qkv_random_uniform(struct qkv_random random, uint64_t index);

/* Number `index` of the sequence: standard normal (Box and Muller 1958). */
QKV_API double qkv_random_normal(struct qkv_random random, uint64_t index);

/* Number `index` of the sequence: uniform in 0 .. bound-1, with a bias below 2^-32. Requires 0 < bound < 2^32; returns 0
 * otherwise. */
QKV_API uint64_t qkv_random_below(struct qkv_random random, uint64_t index, uint64_t bound);

/* Element i of a random permutation of 0 .. count - 1: a keyed bijection of i, which needs no memory and no other element.
 * Requires i < count <= 2^63; returns i otherwise. Computes 16 blocks of the generator on average, more if `count` is below
 * 256; qkv_random_shuffle is faster if all elements are needed and fit in memory. */
QKV_API uint64_t qkv_random_permuted(struct qkv_random random, uint64_t count, uint64_t i);

/* Shuffles `order` in place (Fisher and Yates). */
QKV_API void qkv_random_shuffle(struct qkv_random random, int64_t count, int64_t *order);

#endif
