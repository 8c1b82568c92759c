/* Samples of the ops in kernels/loss.c. */
#include "check/op_samples/shared.h"

static const struct qkv_sample cross_entropy_good[] = {
    {"plain", INPUTS(SHAPE(5, 4)), OPTIONS(.indices = LABELS, .factor = 0.2)},
    {"smoothed", INPUTS(SHAPE(5, 7)), OPTIONS(.indices = LABELS, .factor = 1, .smoothing = 0.1)},
    {"wide values", INPUTS(SHAPE(3, 4)), OPTIONS(.indices = LABELS, .factor = 1, .smoothing = 0.3), .low = -9,
     .high = 9},
    {0},
};
static const struct qkv_sample cross_entropy_bad[] = {
    {"label", INPUTS(SHAPE(5, 3)), OPTIONS(.indices = LABELS, .factor = 1),
     "label 3 is 3, but must lie in 0 to 2"},
    {"smoothing", INPUTS(SHAPE(5, 4)), OPTIONS(.indices = LABELS, .smoothing = 1),
     "smoothing is 1, but must be at least 0 and below 1"},
    {"a vector", INPUTS(SHAPE(5)), OPTIONS(.indices = LABELS), "logits are [5], but must have 2 axes"},
    {0},
};
OP_SAMPLES(cross_entropy, cross_entropy_good, cross_entropy_bad);

static const struct qkv_sample linear_cross_entropy_good[] = {
    {"with bias", INPUTS(SHAPE(5, 3), SHAPE(3, 4), SHAPE(4)),
     OPTIONS(.indices = LABELS, .factor = 0.2, .smoothing = 0.1)},
    {"without bias", INPUTS(SHAPE(5, 3), SHAPE(3, 4)), OPTIONS(.indices = LABELS, .factor = 1)},
    {"transposed", INPUTS(SHAPE(5, 3), SHAPE(4, 3), SHAPE(4)),
     OPTIONS(.indices = LABELS, .factor = 1, .smoothing = 0.2, .transpose_b = true)},
    {"constant weight", INPUTS(SHAPE(5, 3), SHAPE(3, 4), SHAPE(4)), OPTIONS(.indices = LABELS, .factor = 1),
     .constant = 2},
    {0},
};
static const struct qkv_sample linear_cross_entropy_bad[] = {
    {"inner", INPUTS(SHAPE(5, 3), SHAPE(4, 4)), OPTIONS(.indices = LABELS),
     "input is [5, 3], but weight is [4, 4]"},
    {"bias", INPUTS(SHAPE(5, 3), SHAPE(3, 4), SHAPE(3)), OPTIONS(.indices = LABELS),
     "bias is [3], but must be [4]"},
    {"label", INPUTS(SHAPE(5, 3), SHAPE(3, 2)), OPTIONS(.indices = LABELS),
     "label 0 is 2, but must lie in 0 to 1"},
    {0},
};
OP_SAMPLES(linear_cross_entropy, linear_cross_entropy_good, linear_cross_entropy_bad);
