/* Samples of the ops in kernels/linear.c. */
#include "check/op_samples/op_samples.h"

OP_SAMPLES(
    matmul,
    SAMPLES({"plain", INPUTS(SHAPE(3, 4), SHAPE(4, 5))},
            {"b transposed", INPUTS(SHAPE(3, 4), SHAPE(5, 4)), OPTIONS(.transpose_b = true)},
            {"a transposed", INPUTS(SHAPE(4, 3), SHAPE(4, 5)), OPTIONS(.transpose_a = true)},
            {"both transposed", INPUTS(SHAPE(4, 3), SHAPE(5, 4)),
             OPTIONS(.transpose_a = true, .transpose_b = true)},
            {"batched", INPUTS(SHAPE(2, 3, 4), SHAPE(2, 4, 2))},
            {"two leading axes", INPUTS(SHAPE(2, 2, 3, 2), SHAPE(2, 2, 4, 2)), OPTIONS(.transpose_b = true)},
            {"b shared", INPUTS(SHAPE(3, 2, 4), SHAPE(4, 3))}),
    SAMPLES({"inner", INPUTS(SHAPE(3, 4), SHAPE(5, 4)),
             .message = "inputs are [3, 4] and [5, 4], but their inner axes differ"},
            {"vector", INPUTS(SHAPE(4), SHAPE(4, 5)), .message = "each needs 2 axes or more"},
            {"leading", INPUTS(SHAPE(2, 3, 4), SHAPE(3, 4, 2)), .message = "their leading axes differ"}));

OP_SAMPLES(
    linear,
    SAMPLES({"with bias", INPUTS(SHAPE(3, 4), SHAPE(4, 5), SHAPE(5))},
            {"without bias", INPUTS(SHAPE(3, 4), SHAPE(4, 5))},
            {"transposed", INPUTS(SHAPE(3, 4), SHAPE(5, 4), SHAPE(5)), OPTIONS(.transpose_b = true)},
            {"four axes", INPUTS(SHAPE(2, 1, 3, 4), SHAPE(4, 2), SHAPE(2))},
            {"a vector", INPUTS(SHAPE(4), SHAPE(4, 3), SHAPE(3))},
            {"constant input", INPUTS(SHAPE(3, 4), SHAPE(4, 5), SHAPE(5)), .constant = 1},
            {"odd sizes", INPUTS(SHAPE(7, 17), SHAPE(17, 3), SHAPE(3))}),
    SAMPLES({"inner", INPUTS(SHAPE(3, 4), SHAPE(5, 6)), .message = "input is [3, 4], but weight is [5, 6]"},
            {"bias", INPUTS(SHAPE(3, 4), SHAPE(4, 5), SHAPE(4)), .message = "bias is [4], but must be [5]"},
            {"weight of 3 axes", INPUTS(SHAPE(3, 4), SHAPE(1, 4, 5)), .message = "weight is [1, 4, 5]"},
            {"no weight", INPUTS(SHAPE(3, 4)), .message = "weight is NULL"}));
