/* Samples of the ops in kernels/elementwise.c. */
#include "check/op_samples/op_samples.h"

static const struct qkv_sample pair_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5), SHAPE(3, 5))},
    {"four axes", INPUTS(SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 2))},
    {"one number", INPUTS(SHAPE(1), SHAPE(1))},
    {0},
};
static const struct qkv_sample pair_bad[] = {
    {"other size", INPUTS(SHAPE(3, 5), SHAPE(5, 3)), .message = "shapes differ: [3, 5] and [5, 3]"},
    {"other rank", INPUTS(SHAPE(3, 5), SHAPE(15)), .message = "shapes differ: [3, 5] and [15]"},
    {0},
};
OP_SAMPLES(add, pair_good, pair_bad);
OP_SAMPLES(subtract, pair_good, pair_bad);
OP_SAMPLES(multiply, pair_good, pair_bad);

OP_SAMPLES(divide,
           SAMPLES({"matrix", INPUTS(SHAPE(3, 5), SHAPE(3, 5)), .low = 0.3f, .high = 2},
                   {"four axes", INPUTS(SHAPE(2, 1, 3, 2), SHAPE(2, 1, 3, 2)), .low = -3, .high = -0.5f}),
           pair_bad);
OP_SAMPLES(minimum, pair_good, pair_bad);
OP_SAMPLES(maximum, pair_good, pair_bad);

OP_SAMPLES(scale,
           SAMPLES({"matrix", INPUTS(SHAPE(3, 5)), OPTIONS(.factor = -2.5)},
                   {"by zero", INPUTS(SHAPE(4)), OPTIONS(.factor = 0)}),
           NULL);

static const struct qkv_sample add_row_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5), SHAPE(5))},
    {"three axes", INPUTS(SHAPE(2, 3, 4), SHAPE(4))},
    {"one row", INPUTS(SHAPE(5), SHAPE(5))},
    {0},
};
static const struct qkv_sample add_row_bad[] = {
    {"other width", INPUTS(SHAPE(3, 5), SHAPE(3)), .message = "row is [3], but must be [5]"},
    {"a matrix", INPUTS(SHAPE(3, 5), SHAPE(1, 5)), .message = "row is [1, 5], but must be [5]"},
    {0},
};
OP_SAMPLES(add_row, add_row_good, add_row_bad);
OP_SAMPLES(multiply_row, add_row_good, add_row_bad);

static const struct qkv_sample unary_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5))},
    {"wide values", INPUTS(SHAPE(2, 9)), .low = -6, .high = 6},
    {"four axes", INPUTS(SHAPE(2, 1, 3, 2))},
    {0},
};
static const struct qkv_sample positive_good[] = {
    {"matrix", INPUTS(SHAPE(3, 5)), .low = 0.2f, .high = 3},
    {"one number", INPUTS(SHAPE(1)), .low = 0.5f, .high = 2},
    {0},
};
OP_SAMPLES(relu, unary_good, NULL);
OP_SAMPLES(gelu, unary_good, NULL);
OP_SAMPLES(gelu_tanh, unary_good, NULL);
OP_SAMPLES(silu, unary_good, NULL);
OP_SAMPLES(tanh, unary_good, NULL);
OP_SAMPLES(sigmoid, unary_good, NULL);
OP_SAMPLES(exp, unary_good, NULL);
OP_SAMPLES(log, positive_good, NULL);
OP_SAMPLES(sqrt, positive_good, NULL);
OP_SAMPLES(abs, unary_good, NULL);

OP_SAMPLES(add_scalar,
           SAMPLES({"matrix", INPUTS(SHAPE(3, 5)), OPTIONS(.addend = -2.5)},
                   {"zero", INPUTS(SHAPE(4)), OPTIONS(.addend = 0)}),
           NULL);

OP_SAMPLES(clamp,
           SAMPLES({"both sides", INPUTS(SHAPE(3, 5)), OPTIONS(.lowest = -0.5, .highest = 0.25)},
                   {"one side", INPUTS(SHAPE(2, 9)), OPTIONS(.lowest = 0.1, .highest = 1e30)}),
           SAMPLES({"empty range", INPUTS(SHAPE(3)), OPTIONS(.lowest = 1, .highest = 0),
                    "the range is 1 to 0, but its end must not lie below its start"}));

OP_SAMPLES(pow,
           SAMPLES({"square", INPUTS(SHAPE(3, 5)), OPTIONS(.exponent = 2)},
                   {"cube", INPUTS(SHAPE(4)), OPTIONS(.exponent = 3)},
                   {"root", INPUTS(SHAPE(3, 2)), OPTIONS(.exponent = 0.5), .low = 0.2f, .high = 3},
                   {"fraction", INPUTS(SHAPE(7)), OPTIONS(.exponent = -1.3), .low = 0.2f, .high = 3},
                   {"inverse", INPUTS(SHAPE(7)), OPTIONS(.exponent = -1), .low = -3, .high = -0.4f},
                   {"large", INPUTS(SHAPE(7)), OPTIONS(.exponent = 11), .low = 0.7f, .high = 1.4f},
                   {"constant", INPUTS(SHAPE(7)), OPTIONS(.exponent = 0)}),
           NULL);

static const struct qkv_sample dropout_bad[] = {
    {"all", INPUTS(SHAPE(2)), OPTIONS(.rate = 1), "the rate is 1, but must be at least 0 and below 1"},
    {"negative", INPUTS(SHAPE(2)), OPTIONS(.rate = -0.1), "the rate is -0.1"},
    {0},
};
OP_SAMPLES(dropout,
           SAMPLES({"half", INPUTS(SHAPE(5, 17)), OPTIONS(.rate = 0.5)},
                   {"tenth", INPUTS(SHAPE(70)), OPTIONS(.rate = 0.1)},
                   {"none", INPUTS(SHAPE(3, 2)), OPTIONS(.rate = 0)}),
           dropout_bad);

OP_SAMPLES(dropout_rows,
           SAMPLES({"half", INPUTS(SHAPE(9, 5)), OPTIONS(.rate = 0.5)},
                   {"three axes", INPUTS(SHAPE(3, 4, 2)), OPTIONS(.rate = 0.3)},
                   {"more rows than a call of dropper_words has", INPUTS(SHAPE(140, 1)),
                    OPTIONS(.rate = 0.2)}),
           dropout_bad);
