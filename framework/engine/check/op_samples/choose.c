/* Samples of the ops in kernels/choose.c. */
#include "check/op_samples/op_samples.h"

static const struct qkv_sample extremum_good[] = {
    {"all", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = QKV_ALL)},
    {"rows", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 0)},
    {"columns", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 1)},
    {"middle", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.axis = 1)},
    {"one number", INPUTS(SHAPE(3, 1)), OPTIONS(.axis = 1)},
    {0},
};
/* Constant inputs: indices have no derivative. */
static const struct qkv_sample index_good[] = {
    {"all", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = QKV_ALL), .constant = 1},
    {"columns", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 1), .constant = 1},
    {"middle", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.axis = 1), .constant = 1},
    {0},
};
static const struct qkv_sample extremum_bad[] = {
    {"axis", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 2), "axis is 2, but input is [3, 4]"},
    {0},
};
OP_SAMPLES(min, extremum_good, extremum_bad);
OP_SAMPLES(max, extremum_good, extremum_bad);
OP_SAMPLES(argmin, index_good, extremum_bad);
OP_SAMPLES(argmax, index_good, extremum_bad);

static const struct qkv_sample top_k_good[] = {
    {"some", INPUTS(SHAPE(3, 7)), OPTIONS(.length = 3)},
    {"all", INPUTS(SHAPE(2, 1, 3, 4)), OPTIONS(.length = 4)},
    {"of a vector", INPUTS(SHAPE(5)), OPTIONS(.length = 1)},
    {0},
};
static const struct qkv_sample top_k_indices_good[] = {
    {"some", INPUTS(SHAPE(3, 7)), OPTIONS(.length = 3), .constant = 1},
    {"of a vector", INPUTS(SHAPE(5)), OPTIONS(.length = 5), .constant = 1},
    {0},
};
static const struct qkv_sample top_k_bad[] = {
    {"more than there are", INPUTS(SHAPE(3, 7)), OPTIONS(.length = 8),
     "8 numbers of each row are wanted, but input is [3, 7]"},
    {"none", INPUTS(SHAPE(3, 7)), .message = "0 numbers of each row are wanted"},
    {0},
};
OP_SAMPLES(top_k, top_k_good, top_k_bad);
OP_SAMPLES(top_k_indices, top_k_indices_good, top_k_bad);

static const struct qkv_sample where_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5), SHAPE(3, 5), SHAPE(3, 5)), .constant = 1, .binary = 1},
    {"four axes", INPUTS(SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 2)), .constant = 1,
     .binary = 1},
    {"constant b", INPUTS(SHAPE(9), SHAPE(9), SHAPE(9)), .constant = 5, .binary = 1},
    {"constant a", INPUTS(SHAPE(9), SHAPE(9), SHAPE(9)), .constant = 3, .binary = 1},
    {0},
};
static const struct qkv_sample where_bad[] = {
    {"condition", INPUTS(SHAPE(3), SHAPE(3, 5), SHAPE(3, 5)), .constant = 1,
     .message = "shapes differ: the condition is [3], the inputs are [3, 5] and [3, 5]"},
    {"gradient of the condition", INPUTS(SHAPE(3), SHAPE(3), SHAPE(3)),
     .message = "the condition must not need a gradient: detach it"},
    {0},
};
OP_SAMPLES(where, where_good, where_bad);
