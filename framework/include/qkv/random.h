/* Randomness as a function of its coordinates: Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers:
 * as easy as 1, 2, 3"). There is no state to save, share or lock: value = f(seed, stream, step, index). */
#ifndef QKV_RANDOM_H
#define QKV_RANDOM_H

#include "qkv/error.h"

#include <stdint.h>

/* What a family of random numbers is drawn for. A new use gets a new row, so that no two uses share numbers.
 */
enum qkv_stream {
    QKV_STREAM_INITIAL_VALUES, /* + parameter index in `step` */
    QKV_STREAM_SHUFFLE,        /* order of the training data; epoch in `step` */
    QKV_STREAM_DROPOUT,        /* + node within its graph, see graph.h */
    QKV_STREAM_GENERATE,       /* generated data sets */
    QKV_STREAM_CHECK,          /* samples and cotangents of the gradient check */
    QKV_STREAM_SCENE,          /* vectors and matrices of scenes */
};

/* The coordinates but for the index. */
struct qkv_random {
    uint64_t seed;
    uint32_t stream; /* enum qkv_stream, with a sub-stream in the upper 24 bits where a use needs one */
    uint32_t step;
};

/* One block of the generator: four independent uniform 32-bit words. */
QKV_API void qkv_random_block(struct qkv_random random, uint64_t index, uint32_t block[4]);

/* The index-th number of the family: uniform in [0, 1). */
QKV_API double qkv_random_uniform(struct qkv_random random, uint64_t index);

/* The index-th number of the family: standard normal (Box and Muller 1958). */
QKV_API double qkv_random_normal(struct qkv_random random, uint64_t index);

/* The index-th number of the family: uniform among 0 .. bound-1, without bias worth naming (64-bit product).
 * 0 < bound < 2^32. */
QKV_API uint64_t qkv_random_below(struct qkv_random random, uint64_t index, uint64_t bound);

/* Shuffles `order` in place (Fisher and Yates), a pure function of the coordinates. */
QKV_API void qkv_random_shuffle(struct qkv_random random, int64_t count, int64_t *order);

#endif
