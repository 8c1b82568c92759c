/* Samples of the ops in kernels/shape.c. */
#include "check/op_samples/op_samples.h"

static const struct qkv_sample reshape_good[] = {
    {"flat", INPUTS(SHAPE(3, 4)), OPTIONS(.shape = SHAPE(12))},
    {"four axes", INPUTS(SHAPE(3, 4)), OPTIONS(.shape = SHAPE(2, 3, 1, 2))},
    {0},
};
static const struct qkv_sample reshape_bad[] = {
    {"count", INPUTS(SHAPE(3, 4)), OPTIONS(.shape = SHAPE(3, 5)),
     "input is [3, 4], which cannot become [3, 5]"},
    {0},
};
OP_SAMPLES(reshape, reshape_good, reshape_bad);

/* Constant inputs: finite differences would not stop at detach, as gradients do. */
static const struct qkv_sample detach_good[] = {
    {"matrix", INPUTS(SHAPE(3, 4)), .constant = 1},
    {"four axes", INPUTS(SHAPE(2, 1, 3, 2)), .constant = 1},
    {0},
};
OP_SAMPLES(detach, detach_good, NULL);

static const struct qkv_sample permute_good[] = {
    {"transpose", INPUTS(SHAPE(3, 4)), OPTIONS(.permutation = {1, 0})},
    {"rotate", INPUTS(SHAPE(2, 3, 4)), OPTIONS(.permutation = {2, 0, 1})},
    {"four axes", INPUTS(SHAPE(2, 3, 2, 4)), OPTIONS(.permutation = {0, 2, 3, 1})},
    {"vector", INPUTS(SHAPE(5)), OPTIONS(.permutation = {0})},
    {0},
};
static const struct qkv_sample permute_bad[] = {
    {"twice", INPUTS(SHAPE(3, 4)), OPTIONS(.permutation = {1, 1}),
     "entry 1 of the permutation is 1, but each of 0 to 1 must occur once"},
    {0},
};
OP_SAMPLES(permute, permute_good, permute_bad);

static const struct qkv_sample concat_good[] = {
    {"rows", INPUTS(SHAPE(2, 3), SHAPE(4, 3)), OPTIONS(.axis = 0)},
    {"columns", INPUTS(SHAPE(2, 3), SHAPE(2, 1)), OPTIONS(.axis = 1)},
    {"middle", INPUTS(SHAPE(2, 1, 2, 2), SHAPE(2, 1, 3, 2)), OPTIONS(.axis = 2)},
    {"constant first", INPUTS(SHAPE(2, 3), SHAPE(2, 2)), OPTIONS(.axis = 1), .constant = 1},
    {0},
};
static const struct qkv_sample concat_bad[] = {
    {"other axes", INPUTS(SHAPE(2, 3), SHAPE(3, 2)), OPTIONS(.axis = 0),
     "[2, 3] and [3, 2] do not fit along axis 0"},
    {"axis", INPUTS(SHAPE(2, 3), SHAPE(2, 3)), OPTIONS(.axis = 2), "axis is 2, but input is [2, 3]"},
    {0},
};
OP_SAMPLES(concat, concat_good, concat_bad);

static const struct qkv_sample slice_good[] = {
    {"columns", INPUTS(SHAPE(3, 7)), OPTIONS(.axis = 1, .start = 2, .length = 3)},
    {"rows", INPUTS(SHAPE(5, 2)), OPTIONS(.axis = 0, .start = 4, .length = 1)},
    {"middle", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.axis = 1, .start = 0, .length = 2)},
    {0},
};
static const struct qkv_sample slice_bad[] = {
    {"beyond", INPUTS(SHAPE(3, 7)), OPTIONS(.axis = 1, .start = 5, .length = 3),
     "3 elements from 5 on of axis 1 are wanted, but input is [3, 7]"},
    {0},
};
OP_SAMPLES(slice, slice_good, slice_bad);

static const struct qkv_sample reduce_good[] = {
    {"all", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = QKV_ALL)},
    {"rows", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 0)},
    {"columns", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 1)},
    {"middle", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.axis = 1)},
    {"vector", INPUTS(SHAPE(5)), OPTIONS(.axis = 0)},
    {0},
};
static const struct qkv_sample reduce_bad[] = {
    {"axis", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 2), "axis is 2, but input is [3, 4]"},
    {0},
};
OP_SAMPLES(sum, reduce_good, reduce_bad);
OP_SAMPLES(mean, reduce_good, reduce_bad);
