/* Samples of the ops in kernels/loss_pair.c. */
#include "check/op_samples/shared.h"

static const struct qkv_sample paired_cross_entropy_good[] = {
    {"with bias", INPUTS(SHAPE(5, 3), SHAPE(5, 3), SHAPE(3, 4), SHAPE(4)),
     OPTIONS(.indices = LABELS, .factor = 0.2, .smoothing = 0.1, .consistency = 5)},
    {"without bias", INPUTS(SHAPE(5, 3), SHAPE(5, 3), SHAPE(3, 4)),
     OPTIONS(.indices = LABELS, .factor = 1, .consistency = 1)},
    {"transposed, without consistency", INPUTS(SHAPE(5, 3), SHAPE(5, 3), SHAPE(4, 3), SHAPE(4)),
     OPTIONS(.indices = LABELS, .factor = 1, .smoothing = 0.2, .transpose_b = true)},
    {"constant weight", INPUTS(SHAPE(5, 3), SHAPE(5, 3), SHAPE(3, 4), SHAPE(4)),
     OPTIONS(.indices = LABELS, .factor = 1, .consistency = 2), .constant = 4},
    {"one-sided", INPUTS(SHAPE(5, 3), SHAPE(5, 3), SHAPE(3, 4), SHAPE(4)),
     OPTIONS(.indices = LABELS, .factor = 0.2, .smoothing = 0.1, .consistency = 3, .one_sided = true)},
    {0},
};
static const struct qkv_sample paired_cross_entropy_bad[] = {
    {"inner", INPUTS(SHAPE(5, 3), SHAPE(5, 3), SHAPE(4, 4)), OPTIONS(.indices = LABELS),
     "input is [5, 3], but weight is [4, 4]"},
    {"second input", INPUTS(SHAPE(5, 3), SHAPE(4, 3), SHAPE(3, 4)), OPTIONS(.indices = LABELS),
     "the second input is [4, 3], but must be [5, 3], as the first"},
    {"consistency", INPUTS(SHAPE(5, 3), SHAPE(5, 3), SHAPE(3, 4)),
     OPTIONS(.indices = LABELS, .consistency = -1), "consistency is -1, but must be at least 0 and finite"},
    {"label", INPUTS(SHAPE(5, 3), SHAPE(5, 3), SHAPE(3, 2)), OPTIONS(.indices = LABELS),
     "label 0 is 2, but must lie in 0 to 1"},
    {0},
};
OP_SAMPLES(paired_cross_entropy, paired_cross_entropy_good, paired_cross_entropy_bad);
