/* Private to explain: the random numbers of a scene, which are all drawn from one generator. */
#ifndef QKV_EXPLAIN_RANDOM_STREAM_H
#define QKV_EXPLAIN_RANDOM_STREAM_H

#include "qkv/numpy_random.h"
#include "qkv/random.h"
#include "qkv/scene.h"

struct random_stream {
    enum qkv_generator generator;
    struct qkv_numpy_random numpy; /* for QKV_GENERATOR_NUMPY */
    struct qkv_random philox;      /* for QKV_GENERATOR_QKV */
    uint64_t used;                 /* for QKV_GENERATOR_QKV: numbers drawn so far */
};

/* A stream at its start, with the generator and the seed of the scene. */
struct random_stream qkv_random_stream(const struct qkv_scene *scene);

/* What to draw. */
struct sample_options {
    enum qkv_distribution distribution;
    int64_t below; /* integers: 0 .. below-1 */
    int64_t fan;   /* xavier: inputs plus outputs of the matrix */
};

/* Draws `count` numbers. */
void qkv_random_stream_fill(struct random_stream *stream, struct sample_options options, int64_t count,
                            double *values);

#endif
