/* Samples of the ops in kernels/broadcast.c. */
#include "check/op_samples/shared.h"

static const struct qkv_sample multiply_column_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5), SHAPE(3, 1))},
    {"four axes", INPUTS(SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 1))},
    {"one number", INPUTS(SHAPE(4), SHAPE(1))},
    {"constant column", INPUTS(SHAPE(3, 5), SHAPE(3, 1)), .constant = 2},
    {0},
};
static const struct qkv_sample multiply_column_bad[] = {
    {"rows", INPUTS(SHAPE(3, 5), SHAPE(5, 1)), .message = "column is [5, 1], but must be [3, 1]"},
    {"a vector", INPUTS(SHAPE(3, 5), SHAPE(3)), .message = "column is [3], but must be [3, 1]"},
    {0},
};
OP_SAMPLES(multiply_column, multiply_column_good, multiply_column_bad);

static const struct qkv_sample broadcast_good[] = {
    {"a row", INPUTS(SHAPE(4)), OPTIONS(.shape = SHAPE(3, 4))},
    {"a column", INPUTS(SHAPE(3, 1)), OPTIONS(.shape = SHAPE(3, 4))},
    {"in the middle", INPUTS(SHAPE(2, 1, 3)), OPTIONS(.shape = SHAPE(2, 2, 4, 3))},
    {"a number", INPUTS(SHAPE(1)), OPTIONS(.shape = SHAPE(2, 1, 3))},
    {"nothing", INPUTS(SHAPE(2, 3)), OPTIONS(.shape = SHAPE(2, 3))},
    {0},
};
static const struct qkv_sample broadcast_bad[] = {
    {"other size", INPUTS(SHAPE(3, 2)), OPTIONS(.shape = SHAPE(3, 4)),
     "input is [3, 2], which cannot be repeated to [3, 4]"},
    {"fewer axes", INPUTS(SHAPE(1, 4)), OPTIONS(.shape = SHAPE(4)),
     "input is [1, 4], which cannot be repeated to [4]"},
    {0},
};
OP_SAMPLES(broadcast, broadcast_good, broadcast_bad);

static const struct qkv_sample cumulative_sum_good[] = {
    {"rows", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 0)},
    {"columns", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 1)},
    {"middle", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.axis = 1)},
    {"vector", INPUTS(SHAPE(5)), OPTIONS(.axis = 0)},
    {0},
};
static const struct qkv_sample cumulative_sum_bad[] = {
    {"axis", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 2), "axis is 2, but input is [3, 4]"},
    {"all axes", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = QKV_ALL), "axis is -1, but input is [3, 4]"},
    {0},
};
OP_SAMPLES(cumulative_sum, cumulative_sum_good, cumulative_sum_bad);

static const struct qkv_sample neighbours_good[] = {
    {"both sides", INPUTS(SHAPE(6, 2)), OPTIONS(SENTENCES, .start = -1, .length = 3)},
    {"rows outside", INPUTS(SHAPE(7, 2)), OPTIONS(SENTENCES, .start = -2, .length = 3)},
    {"one sentence", INPUTS(SHAPE(5, 3)), OPTIONS(.start = 0, .length = 2)},
    {"longer than the sentence", INPUTS(SHAPE(2, 3)), OPTIONS(.start = -2, .length = 7)},
    {"before the only row", INPUTS(SHAPE(1, 3)), OPTIONS(.start = -2, .length = 3)},
    {0},
};
static const struct qkv_sample neighbours_bad[] = {
    {"none", INPUTS(SHAPE(6, 2)), OPTIONS(.start = -1),
     "0 rows from the row -1 on are wanted, but input is [6, 2]"},
    {"a row of two segments", INPUTS(SHAPE(6, 2)), OPTIONS(OVERLAPPING, .length = 1),
     "segments 0 and 1 of input share row 3, but must not overlap"},
    {"four axes", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.length = 1), "must have 2 axes"},
    {0},
};
OP_SAMPLES(neighbours, neighbours_good, neighbours_bad);
