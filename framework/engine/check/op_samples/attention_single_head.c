/* Samples of the ops in kernels/attention_single_head.c. */
#include "check/op_samples/shared.h"

#define ONE_HEAD ATTENTION(.heads = 1), RAGGED

static const struct qkv_sample attention_additive_good[] = {
    {"ragged", INPUTS(SHAPE(6, 5), SHAPE(8, 5), SHAPE(5)), OPTIONS(ONE_HEAD)},
    {"one sentence", INPUTS(SHAPE(2, 3), SHAPE(3, 3), SHAPE(3)), OPTIONS(ATTENTION(.heads = 1))},
    {"constant keys", INPUTS(SHAPE(6, 2), SHAPE(8, 2), SHAPE(2)), OPTIONS(ONE_HEAD), .constant = 2},
    {0},
};
static const struct qkv_sample attention_additive_bad[] = {
    {"heads", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(4)), OPTIONS(ATTENTION(.heads = 2)),
     "heads is 2, but must be 1"},
    {"widths", INPUTS(SHAPE(6, 6), SHAPE(8, 4), SHAPE(4)), OPTIONS(ONE_HEAD),
     "query is [6, 6], but key is [8, 4]"},
    {"vector", INPUTS(SHAPE(6, 6), SHAPE(8, 6), SHAPE(4)), OPTIONS(ONE_HEAD),
     "vector is [4], but must be [6]"},
    {"rows", INPUTS(SHAPE(6, 6), SHAPE(7, 6), SHAPE(6)), OPTIONS(ONE_HEAD),
     "segment 2 of keys is rows 5 to 7, but there are 7 rows"},
    {0},
};
OP_SAMPLES(attention_additive, attention_additive_good, attention_additive_bad);

static const struct qkv_sample attention_local_good[] = {
    {"narrow", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 1), .low = 0.05f,
     .high = 0.95f},
    {"wide", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 4), .low = 0.05f,
     .high = 0.95f},
    {"centers outside 0 .. 1", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 1)},
    {"constant scores", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 2), .constant = 1,
     .low = 0.05f, .high = 0.95f},
    {0},
};
static const struct qkv_sample attention_local_bad[] = {
    {"count", INPUTS(SHAPE(14), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 2),
     "scores are [14], but the segments make 15 of them"},
    {"center", INPUTS(SHAPE(15), SHAPE(6, 2)), OPTIONS(ONE_HEAD, .local_window = 2),
     "center is [6, 2], but must have 1 column"},
    {"window", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD), "the window is 0, but must be at least 1"},
    {"whole", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ATTENTION(.heads = 1)),
     "needs attention.queries and attention.keys"},
    {0},
};
OP_SAMPLES(attention_local, attention_local_good, attention_local_bad);

static const int32_t NUMBERS[] = {0, 3, 1, 4, 5, 6, 2, 7, 8, 9, 10, 11, 12, 13, 0};
static const struct qkv_sample attention_arrange_good[] = {
    {"ragged", INPUTS(SHAPE(14)), OPTIONS(ONE_HEAD, .indices = NUMBERS)},
    {0},
};
static const struct qkv_sample attention_arrange_bad[] = {
    {"number", INPUTS(SHAPE(13)), OPTIONS(ONE_HEAD, .indices = NUMBERS),
     "number 13 is 13, but must lie in 0 to 12"},
    {"matrix", INPUTS(SHAPE(7, 2)), OPTIONS(ONE_HEAD, .indices = NUMBERS),
     "input is [7, 2], but must have 1 axis"},
    {0},
};
OP_SAMPLES(attention_arrange, attention_arrange_good, attention_arrange_bad);
