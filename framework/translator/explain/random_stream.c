#include "explain/random_stream.h"

#include <math.h>

struct random_stream qkv_random_stream(const struct qkv_scene *scene)
{
    struct random_stream stream = {
        .generator = scene->random.generator,
        .philox = {(uint64_t)scene->random.seed, QKV_STREAM_SCENE, 0},
    };
    qkv_numpy_seed(&stream.numpy, (uint32_t)scene->random.seed);
    return stream;
}

static double uniform(struct random_stream *stream)
{
    return stream->generator == QKV_GENERATOR_NUMPY ? qkv_numpy_uniform(&stream->numpy)
                                                    : qkv_random_uniform(stream->philox, stream->used++);
}

static double draw(struct random_stream *stream, struct sample_options options)
{
    bool numpy = stream->generator == QKV_GENERATOR_NUMPY;
    switch (options.distribution) {
    case QKV_SAMPLE_NORMAL:
        return numpy ? qkv_numpy_normal(&stream->numpy) : qkv_random_normal(stream->philox, stream->used++);
    case QKV_SAMPLE_UNIFORM:
        return uniform(stream);
    case QKV_SAMPLE_INTEGERS:
        return numpy ? (double)qkv_numpy_below(&stream->numpy, (uint32_t)options.below)
                     : (double)qkv_random_below(stream->philox, stream->used++, (uint64_t)options.below);
    case QKV_SAMPLE_XAVIER: /* Glorot and Bengio 2010 */
        return (2 * uniform(stream) - 1) * sqrt(6.0 / (double)(options.fan > 0 ? options.fan : 1));
    }
    return 0;
}

void qkv_random_stream_fill(struct random_stream *stream, struct sample_options options, int64_t count,
                            double *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = draw(stream, options);
}
