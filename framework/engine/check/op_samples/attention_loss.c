/* Samples of the ops in kernels/attention_loss.c. */
#include "check/op_samples/shared.h"

static const struct qkv_sample attention_loss_good[] = {
    {"ragged, rows without target", INPUTS(SHAPE(15), SHAPE(15)),
     OPTIONS(ATTENTION(.heads = 1), RAGGED, .factor = 0.5), .constant = 2, .binary = 2},
    {"any target, two heads", INPUTS(SHAPE(30), SHAPE(30)),
     OPTIONS(ATTENTION(.heads = 2), RAGGED, .factor = 1), .low = 0.25, .high = 3, .constant = 2},
    {0},
};
static const struct qkv_sample attention_loss_bad[] = {
    {"count", INPUTS(SHAPE(14), SHAPE(14)), OPTIONS(ATTENTION(.heads = 1), RAGGED, .factor = 1),
     "scores are [14], but the segments make 15 of them"},
    {"target", INPUTS(SHAPE(15), SHAPE(16)), OPTIONS(ATTENTION(.heads = 1), RAGGED, .factor = 1),
     "target is [16], but scores are [15]", .constant = 2},
    {0},
};
OP_SAMPLES(attention_loss, attention_loss_good, attention_loss_bad);
