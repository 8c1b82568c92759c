/* Samples of the ops in kernels/recurrent.c. */
#include "check/op_samples/op_samples.h"

static const int64_t CELL_STARTS[] = {1, 3, 4}, CELL_LENGTHS[] = {2, 1, 4}, NONE_LENGTHS[] = {2, 0, 4};
static const int64_t LONG_LENGTHS[] = {3, 1, 4};
static const int64_t ONE_STARTS[] = {0, 1}, ONE_LENGTHS[] = {1, 1};
#define CELLS .segments = {3, CELL_STARTS, CELL_LENGTHS}
#define EMPTY .segments = {3, CELL_STARTS, NONE_LENGTHS}
#define ONE   .segments = {2, ONE_STARTS, ONE_LENGTHS}

OP_SAMPLES(rnn,
           SAMPLES({"ragged, rows outside", INPUTS(SHAPE(9, 3), SHAPE(3, 3)), OPTIONS(CELLS)},
                   {"from a state, reverse", INPUTS(SHAPE(8, 3), SHAPE(3, 3), SHAPE(3, 3)),
                    OPTIONS(CELLS, .reverse = true)},
                   {"one sentence", INPUTS(SHAPE(4, 2), SHAPE(2, 2))}),
           SAMPLES({"weight", INPUTS(SHAPE(8, 3), SHAPE(3, 4)),
                    .message = "weight is [3, 4], but must be [H, 1 H]"},
                   {"a row of two sentences", INPUTS(SHAPE(9, 3), SHAPE(3, 3)),
                    OPTIONS(.segments = {3, CELL_STARTS, LONG_LENGTHS}),
                    "segments 0 and 1 of gates share row 3, but must not overlap"},
                   {"gates", INPUTS(SHAPE(8, 4), SHAPE(3, 3)),
                    .message = "gates are [8, 4], but weight is [3, 3]"}));
OP_SAMPLES(
    gru,
    SAMPLES({"ragged, rows outside", INPUTS(SHAPE(9, 9), SHAPE(3, 9), SHAPE(3)), OPTIONS(CELLS)},
            {"from a state, reverse", INPUTS(SHAPE(8, 9), SHAPE(3, 9), SHAPE(3), SHAPE(3, 3)),
             OPTIONS(CELLS, .reverse = true)},
            {"no bias, one word each", INPUTS(SHAPE(2, 6), SHAPE(2, 6), {0}, SHAPE(2, 2)), OPTIONS(ONE)},
            {"an empty sentence", INPUTS(SHAPE(8, 6), SHAPE(2, 6), SHAPE(2), SHAPE(3, 2)), OPTIONS(EMPTY)},
            {"one sentence, constant gates", INPUTS(SHAPE(4, 6), SHAPE(2, 6), SHAPE(2)), .constant = 1}),
    SAMPLES({"bias", INPUTS(SHAPE(8, 9), SHAPE(3, 9), SHAPE(9)), .message = "bias is [9], but must be [3]"},
            {"initial", INPUTS(SHAPE(8, 9), SHAPE(3, 9), SHAPE(3), SHAPE(1, 3)), OPTIONS(CELLS),
             "initial is [1, 3], but must be [3, 3]"}));
OP_SAMPLES(lstm,
           SAMPLES({"ragged, rows outside", INPUTS(SHAPE(9, 12), SHAPE(3, 12)), OPTIONS(CELLS)},
                   {"from a state, reverse", INPUTS(SHAPE(8, 12), SHAPE(3, 12), SHAPE(3, 6)),
                    OPTIONS(CELLS, .reverse = true)},
                   {"one word each", INPUTS(SHAPE(2, 8), SHAPE(2, 8)), OPTIONS(ONE)},
                   {"one word each, from a state", INPUTS(SHAPE(2, 8), SHAPE(2, 8), SHAPE(2, 4)),
                    OPTIONS(ONE)},
                   {"an empty sentence", INPUTS(SHAPE(8, 8), SHAPE(2, 8), SHAPE(3, 4)), OPTIONS(EMPTY)},
                   {"one sentence, constant weight", INPUTS(SHAPE(5, 8), SHAPE(2, 8)), .constant = 2}),
           SAMPLES({"weight", INPUTS(SHAPE(8, 12), SHAPE(4, 12)),
                    .message = "weight is [4, 12], but must be [H, 4 H]"},
                   {"initial", INPUTS(SHAPE(8, 12), SHAPE(3, 12), SHAPE(3, 3)), OPTIONS(CELLS),
                    "initial is [3, 3], but must be [3, 6]"},
                   {"rows", INPUTS(SHAPE(7, 12), SHAPE(3, 12)), OPTIONS(CELLS),
                    "segment 2 of gates is rows 4 to 7, but there are 7 rows"}));
