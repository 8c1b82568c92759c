/* Private to explain: the random numbers of a scene. */
#ifndef QKV_EXPLAIN_DRAW_H
#define QKV_EXPLAIN_DRAW_H

#include "qkv/numpy_random.h"
#include "qkv/random.h"
#include "qkv/scene.h"

/* One stream of numbers, taken one after the other whatever the generator. */
struct drawing {
    enum qkv_generator generator;
    struct qkv_numpy_random numpy;
    struct qkv_random own;
    uint64_t drawn;
};

struct drawing qkv_drawing_of(const struct qkv_scene *scene);

/* Fills [rows, columns] in order. `fan`: inputs + outputs, for xavier. */
void qkv_draw_numbers(struct drawing *drawing, enum qkv_draw kind, int64_t below, int64_t fan, int64_t count,
                      double *values);

#endif
