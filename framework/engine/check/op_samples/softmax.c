/* Samples of the ops in kernels/softmax.c. */
#include "check/op_samples/op_samples.h"

static const struct qkv_sample rows_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5))},
    {"one column", INPUTS(SHAPE(3, 1))},
    {"wide values", INPUTS(SHAPE(2, 17)), .low = -8, .high = 8},
    {"four axes", INPUTS(SHAPE(2, 1, 3, 4))},
    {0},
};
OP_SAMPLES(softmax, rows_good, NULL);
OP_SAMPLES(log_softmax, rows_good, NULL);
OP_SAMPLES(log_sum_exp, rows_good, NULL);

OP_SAMPLES(group_max,
           SAMPLES({"one group", INPUTS(SHAPE(3, 5))}, {"one column", INPUTS(SHAPE(2, 1))},
                   {"full groups", INPUTS(SHAPE(2, 2 * QKV_GROUP))},
                   {"a group and a partial one, wide values", INPUTS(SHAPE(3, QKV_GROUP + 7)), .low = -8,
                    .high = 8},
                   {"four axes", INPUTS(SHAPE(2, 1, 2, 4))}),
           NULL);

static const int64_t SAMPLE_STARTS[] = {0, 3, 4, 4}, SAMPLE_LENGTHS[] = {3, 1, 0, 2};
OP_SAMPLES(
    segment_softmax,
    SAMPLES({"ragged, one empty", INPUTS(SHAPE(6, 2)),
             OPTIONS(.segments = {4, SAMPLE_STARTS, SAMPLE_LENGTHS})},
            {"rows outside", INPUTS(SHAPE(8, 1)), OPTIONS(.segments = {4, SAMPLE_STARTS, SAMPLE_LENGTHS})},
            {"full", INPUTS(SHAPE(5, 3))}),
    SAMPLES({"too few rows", INPUTS(SHAPE(5, 2)), OPTIONS(.segments = {4, SAMPLE_STARTS, SAMPLE_LENGTHS}),
             "segment 3 of input is rows 4 to 5, but there are 5 rows"},
            {"a vector", INPUTS(SHAPE(5)), .message = "input is [5], but must have 2 axes"},
            {"a row of two segments", INPUTS(SHAPE(6, 2)),
             OPTIONS(.segments = {2, (const int64_t[]){3, 0}, (const int64_t[]){2, 4}}),
             "segments 1 and 0 of input share row 3, but must not overlap"}));
