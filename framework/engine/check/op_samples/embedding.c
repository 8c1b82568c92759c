/* Samples of the ops in kernels/embedding.c. */
#include "check/op_samples/op_samples.h"

static const int32_t INDICES[] = {2, 0, 2, 3, 1};
#define FIVE_INDICES .indices = INDICES, .index_count = 5
static const int64_t FIRST[] = {1, 0, 2}, SECOND[] = {1}; /* positions of the first rows */

OP_SAMPLES(embedding,
           SAMPLES({"repeated ids", INPUTS(SHAPE(5, 3)), OPTIONS(FIVE_INDICES, .factor = 1.7)},
                   {"one id", INPUTS(SHAPE(4, 2)),
                    OPTIONS(.indices = INDICES, .index_count = 1, .factor = 1)}),
           SAMPLES({"id too large", INPUTS(SHAPE(3, 3)), OPTIONS(FIVE_INDICES, .factor = 1),
                    "id 3 is 3, but must lie in 0 to 2"},
                   {"no ids", INPUTS(SHAPE(3, 3)), OPTIONS(.indices = INDICES, .factor = 1), "has no ids"},
                   {"a vector", INPUTS(SHAPE(3)), OPTIONS(FIVE_INDICES, .factor = 1),
                    "table is [3], but must have 2 axes"}));

OP_SAMPLES(gather_rows, SAMPLES({"repeated rows", INPUTS(SHAPE(4, 3)), OPTIONS(FIVE_INDICES)}),
           SAMPLES({"row too large", INPUTS(SHAPE(3, 3)), OPTIONS(FIVE_INDICES),
                    "row 3 is 3, but must lie in 0 to 2"}));

OP_SAMPLES(scatter_rows,
           SAMPLES({"rows meet and rows stay empty", INPUTS(SHAPE(3, 3)),
                    OPTIONS(.indices = INDICES, .rows = 5)}),
           SAMPLES({"row too large", INPUTS(SHAPE(5, 3)), OPTIONS(.indices = INDICES, .rows = 3),
                    "row 3 is 3, but must lie in 0 to 2"}));

OP_SAMPLES(add_positions,
           SAMPLES({"ragged", INPUTS(SHAPE(6, 2), SHAPE(4, 2)), OPTIONS(SENTENCES, .first = FIRST)},
                   {"rows outside", INPUTS(SHAPE(7, 2), SHAPE(4, 2)), OPTIONS(SENTENCES)},
                   {"one sentence", INPUTS(SHAPE(3, 5), SHAPE(3, 5))},
                   {"constant table", INPUTS(SHAPE(3, 5), SHAPE(7, 5)), .constant = 2}),
           SAMPLES({"short table", INPUTS(SHAPE(6, 2), SHAPE(2, 2)), OPTIONS(SENTENCES),
                    "segment 0 has 3 rows from position 0 on, but the table has 2 positions"},
                   {"a row of two segments", INPUTS(SHAPE(6, 2), SHAPE(9, 2)), OPTIONS(OVERLAPPING),
                    "segments 0 and 1 of input share row 3, but must not overlap"},
                   {"width", INPUTS(SHAPE(6, 2), SHAPE(9, 3)),
                    .message = "input is [6, 2], but table is [9, 3]"}));

static const int64_t ROTATE_STARTS[] = {0, 2, 5}, ROTATE_LENGTHS[] = {2, 3, 0};
OP_SAMPLES(
    rotate,
    SAMPLES({"two heads", INPUTS(SHAPE(6, 8), SHAPE(4, 4)),
             OPTIONS(.segments = {3, ROTATE_STARTS, ROTATE_LENGTHS}, .first = FIRST), .constant = 2},
            {"one sentence, one head", INPUTS(SHAPE(3, 2), SHAPE(3, 2)), .constant = 2}),
    SAMPLES({"odd width", INPUTS(SHAPE(3, 3), SHAPE(3, 3)), .constant = 2,
             .message = "table is [3, 3], but its width must be even"},
            {"no multiple", INPUTS(SHAPE(3, 6), SHAPE(3, 4)), .constant = 2,
             .message = "input is [3, 6], but its width must be a multiple of that of the table, [3, 4]"},
            {"too long", INPUTS(SHAPE(3, 4), SHAPE(3, 4)), OPTIONS(.first = SECOND),
             "segment 0 has 3 rows from position 1 on, but the table has 3 positions", .constant = 2},
            {"a row of two segments", INPUTS(SHAPE(6, 4), SHAPE(9, 4)), OPTIONS(OVERLAPPING),
             "segments 0 and 1 of input share row 3, but must not overlap", .constant = 2},
            {"learned", INPUTS(SHAPE(3, 4), SHAPE(3, 4)), .message = "the table must not need a gradient"}));

OP_SAMPLES(store_rows,
           SAMPLES({"some rows", INPUTS(SHAPE(4, 3), SHAPE(2, 3)), OPTIONS(.indices = INDICES),
                    .constant = 3}),
           SAMPLES({"needs a gradient", INPUTS(SHAPE(4, 3), SHAPE(2, 3)), OPTIONS(.indices = INDICES),
                    "has no gradient, but an input needs one: use constants or qkv_detach"},
                   {"row too large", INPUTS(SHAPE(2, 3), SHAPE(1, 3)), OPTIONS(.indices = INDICES),
                    "row 0 is 2, but must lie in 0 to 1", .constant = 3}));
