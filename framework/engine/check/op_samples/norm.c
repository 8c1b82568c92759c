/* Samples of the ops in kernels/norm.c. */
#include "check/op_samples/op_samples.h"

OP_SAMPLES(
    layer_norm,
    SAMPLES({"matrix", INPUTS(SHAPE(3, 5), SHAPE(5), SHAPE(5)), OPTIONS(.epsilon = 1e-5)},
            {"odd width", INPUTS(SHAPE(2, 17), SHAPE(17), SHAPE(17)), OPTIONS(.epsilon = 1e-6)},
            {"three axes", INPUTS(SHAPE(2, 2, 4), SHAPE(4), SHAPE(4)), OPTIONS(.epsilon = 0.1)},
            {"one column", INPUTS(SHAPE(3, 1), SHAPE(1), SHAPE(1)), OPTIONS(.epsilon = 0.5)},
            {"constant input", INPUTS(SHAPE(3, 4), SHAPE(4), SHAPE(4)), OPTIONS(.epsilon = 0.1),
             .constant = 1},
            {"no bias", INPUTS(SHAPE(3, 5), SHAPE(5)), OPTIONS(.epsilon = 1e-5)},
            {"no gain", INPUTS(SHAPE(3, 5), {0}, SHAPE(5)), OPTIONS(.epsilon = 1e-5)},
            {"neither gain nor bias", INPUTS(SHAPE(2, 17)), OPTIONS(.epsilon = 1e-5)}),
    SAMPLES({"gain", INPUTS(SHAPE(3, 5), SHAPE(3), SHAPE(5)), .message = "gain is [3], but must be [5]"},
            {"bias", INPUTS(SHAPE(3, 5), SHAPE(5), SHAPE(3)), .message = "bias is [3], but must be [5]"},
            {"epsilon", INPUTS(SHAPE(3, 5), SHAPE(5), SHAPE(5)), OPTIONS(.epsilon = -1), "epsilon is -1"}));

OP_SAMPLES(rms_norm,
           SAMPLES({"matrix", INPUTS(SHAPE(3, 5), SHAPE(5)), OPTIONS(.epsilon = 1e-5)},
                   {"odd width", INPUTS(SHAPE(2, 17), SHAPE(17)), OPTIONS(.epsilon = 1e-6)},
                   {"three axes", INPUTS(SHAPE(2, 2, 4), SHAPE(4)), OPTIONS(.epsilon = 0.1)},
                   {"no gain", INPUTS(SHAPE(2, 17)), OPTIONS(.epsilon = 1e-5)}),
           SAMPLES({"gain", INPUTS(SHAPE(3, 5), SHAPE(3)), .message = "gain is [3], but must be [5]"}));
