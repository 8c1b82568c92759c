/* Samples of the ops in kernels/shape.c. */
#include "check/op_samples/op_samples.h"

/* Samples of the ops in kernels/shape.c. */

OP_SAMPLES(reshape,
           SAMPLES({"flat", INPUTS(SHAPE(3, 4)), OPTIONS(.shape = SHAPE(12))},
                   {"four axes", INPUTS(SHAPE(3, 4)), OPTIONS(.shape = SHAPE(2, 3, 1, 2))}),
           SAMPLES({"count", INPUTS(SHAPE(3, 4)), OPTIONS(.shape = SHAPE(3, 5)),
                    "input is [3, 4], which cannot become [3, 5]"}));

/* Constant inputs: finite differences would not stop at detach, as gradients do. */
OP_SAMPLES(detach,
           SAMPLES({"matrix", INPUTS(SHAPE(3, 4)), .constant = 1},
                   {"four axes", INPUTS(SHAPE(2, 1, 3, 2)), .constant = 1}),
           NULL);

OP_SAMPLES(permute,
           SAMPLES({"transpose", INPUTS(SHAPE(3, 4)), OPTIONS(.permutation = {2, {1, 0}})},
                   {"rotate", INPUTS(SHAPE(2, 3, 4)), OPTIONS(.permutation = {3, {2, 0, 1}})},
                   {"four axes", INPUTS(SHAPE(2, 3, 2, 4)), OPTIONS(.permutation = {4, {0, 2, 3, 1}})},
                   {"vector", INPUTS(SHAPE(5)), OPTIONS(.permutation = {1, {0}})}),
           SAMPLES({"twice", INPUTS(SHAPE(3, 4)), OPTIONS(.permutation = {2, {1, 1}}),
                    "entry 1 of the permutation is 1, but each of 0 to 1 must occur once"}));

OP_SAMPLES(concat,
           SAMPLES({"rows", INPUTS(SHAPE(2, 3), SHAPE(4, 3)), OPTIONS(.axis = 0)},
                   {"columns", INPUTS(SHAPE(2, 3), SHAPE(2, 1)), OPTIONS(.axis = 1)},
                   {"middle", INPUTS(SHAPE(2, 1, 2, 2), SHAPE(2, 1, 3, 2)), OPTIONS(.axis = 2)},
                   {"constant first", INPUTS(SHAPE(2, 3), SHAPE(2, 2)), OPTIONS(.axis = 1), .constant = 1}),
           SAMPLES({"other axes", INPUTS(SHAPE(2, 3), SHAPE(3, 2)), OPTIONS(.axis = 0),
                    "[2, 3] and [3, 2] do not fit along axis 0"},
                   {"axis", INPUTS(SHAPE(2, 3), SHAPE(2, 3)), OPTIONS(.axis = 2),
                    "axis is 2, but input is [2, 3]"}));

OP_SAMPLES(slice,
           SAMPLES({"columns", INPUTS(SHAPE(3, 7)), OPTIONS(.axis = 1, .start = 2, .length = 3)},
                   {"rows", INPUTS(SHAPE(5, 2)), OPTIONS(.axis = 0, .start = 4, .length = 1)},
                   {"middle", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.axis = 1, .start = 0, .length = 2)}),
           SAMPLES({"beyond", INPUTS(SHAPE(3, 7)), OPTIONS(.axis = 1, .start = 5, .length = 3),
                    "3 elements from 5 on of axis 1 are wanted, but input is [3, 7]"}));

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

OP_SAMPLES(
    multiply_column,
    SAMPLES({"matrix", INPUTS(SHAPE(3, 5), SHAPE(3, 1))},
            {"four axes", INPUTS(SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 1))},
            {"one number", INPUTS(SHAPE(4), SHAPE(1))},
            {"constant column", INPUTS(SHAPE(3, 5), SHAPE(3, 1)), .constant = 2}),
    SAMPLES({"rows", INPUTS(SHAPE(3, 5), SHAPE(5, 1)), .message = "column is [5, 1], but must be [3, 1]"},
            {"a vector", INPUTS(SHAPE(3, 5), SHAPE(3)), .message = "column is [3], but must be [3, 1]"}));

OP_SAMPLES(broadcast,
           SAMPLES({"a row", INPUTS(SHAPE(4)), OPTIONS(.shape = SHAPE(3, 4))},
                   {"a column", INPUTS(SHAPE(3, 1)), OPTIONS(.shape = SHAPE(3, 4))},
                   {"in the middle", INPUTS(SHAPE(2, 1, 3)), OPTIONS(.shape = SHAPE(2, 2, 4, 3))},
                   {"a number", INPUTS(SHAPE(1)), OPTIONS(.shape = SHAPE(2, 1, 3))},
                   {"nothing", INPUTS(SHAPE(2, 3)), OPTIONS(.shape = SHAPE(2, 3))}),
           SAMPLES({"other size", INPUTS(SHAPE(3, 2)), OPTIONS(.shape = SHAPE(3, 4)),
                    "input is [3, 2], which cannot be repeated to [3, 4]"},
                   {"fewer axes", INPUTS(SHAPE(1, 4)), OPTIONS(.shape = SHAPE(4)),
                    "input is [1, 4], which cannot be repeated to [4]"}));

OP_SAMPLES(cumulative_sum,
           SAMPLES({"rows", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 0)},
                   {"columns", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 1)},
                   {"middle", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.axis = 1)},
                   {"vector", INPUTS(SHAPE(5)), OPTIONS(.axis = 0)}),
           SAMPLES({"axis", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = 2), "axis is 2, but input is [3, 4]"},
                   {"all axes", INPUTS(SHAPE(3, 4)), OPTIONS(.axis = QKV_ALL),
                    "axis is -1, but input is [3, 4]"}));

OP_SAMPLES(neighbours,
           SAMPLES({"both sides", INPUTS(SHAPE(6, 2)), OPTIONS(SENTENCES, .start = -1, .length = 3)},
                   {"rows outside", INPUTS(SHAPE(7, 2)), OPTIONS(SENTENCES, .start = -2, .length = 3)},
                   {"one sentence", INPUTS(SHAPE(5, 3)), OPTIONS(.start = 0, .length = 2)},
                   {"longer than the sentence", INPUTS(SHAPE(2, 3)), OPTIONS(.start = -2, .length = 7)},
                   {"before the only row", INPUTS(SHAPE(1, 3)), OPTIONS(.start = -2, .length = 3)}),
           SAMPLES({"none", INPUTS(SHAPE(6, 2)), OPTIONS(.start = -1),
                    "0 rows from the row -1 on are wanted, but input is [6, 2]"},
                   {"a row of two segments", INPUTS(SHAPE(6, 2)), OPTIONS(OVERLAPPING, .length = 1),
                    "segments 0 and 1 of input share row 3, but must not overlap"},
                   {"four axes", INPUTS(SHAPE(2, 3, 2, 2)), OPTIONS(.length = 1), "must have 2 axes"}));

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
OP_SAMPLES(min, extremum_good, reduce_bad);
OP_SAMPLES(max, extremum_good, reduce_bad);
OP_SAMPLES(argmin, index_good, reduce_bad);
OP_SAMPLES(argmax, index_good, reduce_bad);

static const struct qkv_sample top_k_bad[] = {
    {"more than there are", INPUTS(SHAPE(3, 7)), OPTIONS(.length = 8),
     "8 numbers of each row are wanted, but input is [3, 7]"},
    {"none", INPUTS(SHAPE(3, 7)), .message = "0 numbers of each row are wanted"},
    {0},
};
OP_SAMPLES(top_k,
           SAMPLES({"some", INPUTS(SHAPE(3, 7)), OPTIONS(.length = 3)},
                   {"all", INPUTS(SHAPE(2, 1, 3, 4)), OPTIONS(.length = 4)},
                   {"of a vector", INPUTS(SHAPE(5)), OPTIONS(.length = 1)}),
           top_k_bad);
OP_SAMPLES(top_k_indices,
           SAMPLES({"some", INPUTS(SHAPE(3, 7)), OPTIONS(.length = 3), .constant = 1},
                   {"of a vector", INPUTS(SHAPE(5)), OPTIONS(.length = 5), .constant = 1}),
           top_k_bad);

OP_SAMPLES(where,
           SAMPLES({"matrix", INPUTS(SHAPE(3, 5), SHAPE(3, 5), SHAPE(3, 5)), .constant = 1, .binary = 1},
                   {"four axes", INPUTS(SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 2)),
                    .constant = 1, .binary = 1},
                   {"constant b", INPUTS(SHAPE(9), SHAPE(9), SHAPE(9)), .constant = 5, .binary = 1},
                   {"constant a", INPUTS(SHAPE(9), SHAPE(9), SHAPE(9)), .constant = 3, .binary = 1}),
           SAMPLES({"condition", INPUTS(SHAPE(3), SHAPE(3, 5), SHAPE(3, 5)), .constant = 1,
                    .message = "shapes differ: the condition is [3], the inputs are [3, 5] and [3, 5]"},
                   {"gradient of the condition", INPUTS(SHAPE(3), SHAPE(3), SHAPE(3)),
                    .message = "the condition must not need a gradient: detach it"}));
