/* Samples of the ops in kernels/elementwise_pairs.c. */
#include "check/op_samples/op_samples.h"

static const struct qkv_sample pair_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5), SHAPE(3, 5))},
    {"four axes", INPUTS(SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 2))},
    {"one number", INPUTS(SHAPE(1), SHAPE(1))},
    {0},
};
static const struct qkv_sample pair_bad[] = {
    {"other size", INPUTS(SHAPE(3, 5), SHAPE(5, 3)), .message = "shapes differ: [3, 5] and [5, 3]"},
    {"other rank", INPUTS(SHAPE(3, 5), SHAPE(15)), .message = "shapes differ: [3, 5] and [15]"},
    {0},
};
OP_SAMPLES(add, pair_good, pair_bad);
OP_SAMPLES(subtract, pair_good, pair_bad);
OP_SAMPLES(multiply, pair_good, pair_bad);

static const struct qkv_sample divide_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5), SHAPE(3, 5)), .low = 0.3f, .high = 2},
    {"four axes", INPUTS(SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 2)), .low = -3, .high = -0.5f},
    {0},
};
OP_SAMPLES(divide, divide_good, pair_bad);
OP_SAMPLES(minimum, pair_good, pair_bad);
OP_SAMPLES(maximum, pair_good, pair_bad);
