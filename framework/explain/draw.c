#include "explain/draw.h"

#include <math.h>

struct drawing qkv_drawing_of(const struct qkv_scene *scene)
{
    struct drawing drawing = {
        .generator = scene->random.generator,
        .own = {(uint64_t)scene->random.seed, QKV_STREAM_SCENE, 0},
    };
    qkv_numpy_seed(&drawing.numpy, (uint32_t)scene->random.seed);
    return drawing;
}

static double uniform(struct drawing *drawing)
{
    return drawing->generator == QKV_GENERATOR_NUMPY ? qkv_numpy_uniform(&drawing->numpy)
                                                     : qkv_random_uniform(drawing->own, drawing->drawn++);
}

static double one(struct drawing *drawing, enum qkv_draw kind, int64_t below, double limit)
{
    bool numpy = drawing->generator == QKV_GENERATOR_NUMPY;
    switch (kind) {
    case QKV_SAMPLE_NORMAL:
        return numpy ? qkv_numpy_normal(&drawing->numpy) : qkv_random_normal(drawing->own, drawing->drawn++);
    case QKV_SAMPLE_UNIFORM:
        return uniform(drawing);
    case QKV_SAMPLE_INTEGERS:
        return numpy ? (double)qkv_numpy_below(&drawing->numpy, (uint32_t)below)
                     : (double)qkv_random_below(drawing->own, drawing->drawn++, (uint64_t)below);
    case QKV_SAMPLE_XAVIER:
        return (2 * uniform(drawing) - 1) * limit;
    }
    return 0;
}

void qkv_draw_numbers(struct drawing *drawing, enum qkv_draw kind, int64_t below, int64_t fan, int64_t count,
                      double *values)
{
    double limit = sqrt(6.0 / (double)(fan > 0 ? fan : 1)); /* Glorot and Bengio 2010 */
    for (int64_t i = 0; i < count; i++) values[i] = one(drawing, kind, below, limit);
}
