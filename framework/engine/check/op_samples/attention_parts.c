/* Samples of the ops in kernels/attention_parts.c. */
#include "check/op_samples/shared.h"

#define MASKED .constant = 2, .binary = 2 /* input 1 is a mask */

static const struct qkv_sample attention_scores_good[] = {
    {"ragged", INPUTS(SHAPE(6, 6), SHAPE(8, 6)), &TWO_HEADS},
    {"self, scaled", INPUTS(SHAPE(6, 3), SHAPE(6, 3)), OPTIONS(ATTENTION(.heads = 1, .scale = 2), SELF)},
    {"one sentence", INPUTS(SHAPE(2, 4), SHAPE(3, 4)), OPTIONS(ATTENTION(.heads = 4))},
    {"grouped heads, ALiBi", INPUTS(SHAPE(6, 12), SHAPE(6, 4)),
     OPTIONS(ATTENTION(.heads = 6, .key_value_heads = 2, .alibi = true), SELF)},
    {"distances", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 2)),
     OPTIONS(ATTENTION(.heads = 2, .buckets = 6, .max_distance = 3), SELF)},
    {"distances, causal", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(4, 2)),
     OPTIONS(ATTENTION(.heads = 2, .buckets = 4, .max_distance = 4, .causal = true), SELF)},
    {0},
};
static const struct qkv_sample attention_scores_bad[] = {
    {"heads", INPUTS(SHAPE(6, 5), SHAPE(8, 5)), &TWO_HEADS,
     "query is [6, 5], but its width must be a multiple of 2 heads"},
    {"no heads", INPUTS(SHAPE(6, 5), SHAPE(8, 5)), OPTIONS(ATTENTION(.heads = 0)),
     "heads is 0, but must be at least 1"},
    {"widths", INPUTS(SHAPE(6, 6), SHAPE(8, 4)), &TWO_HEADS, "query is [6, 6], but key is [8, 4]"},
    {"rows", INPUTS(SHAPE(6, 6), SHAPE(7, 6)), &TWO_HEADS,
     "segment 2 of keys is rows 5 to 7, but there are 7 rows"},
    {"key heads", INPUTS(SHAPE(6, 6), SHAPE(8, 4)),
     OPTIONS(ATTENTION(.heads = 3, .key_value_heads = 2), RAGGED),
     "key_value_heads is 2, but must divide 3 heads"},
    {"grouped widths", INPUTS(SHAPE(6, 8), SHAPE(8, 8)),
     OPTIONS(ATTENTION(.heads = 4, .key_value_heads = 2), RAGGED),
     "query is [6, 8] for 4 heads, but key is [8, 8] for 2"},
    {"bias columns", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 3)),
     OPTIONS(ATTENTION(.heads = 2, .buckets = 6, .max_distance = 4), SELF),
     "bias is [6, 3], but must be [6, 2]: 6 buckets by 2 heads"},
    {"bias without buckets", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 2)), &TWO_HEADS_SELF,
     "bias is [6, 2], but must be [0, 2]"},
    {"buckets without bias", INPUTS(SHAPE(6, 4), SHAPE(6, 4)),
     OPTIONS(ATTENTION(.heads = 2, .buckets = 6, .max_distance = 4), SELF),
     "there are 6 buckets, but no bias: set attention.bias to a tensor [6, 2]"},
    {"odd buckets", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(5, 2)),
     OPTIONS(ATTENTION(.heads = 2, .buckets = 5, .max_distance = 4), SELF),
     "buckets is 5, but must be even and at least 4"},
    {"distance", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(8, 2)),
     OPTIONS(ATTENTION(.heads = 2, .buckets = 8, .max_distance = 2), SELF),
     "max_distance is 2, but must be above 2 for 8 buckets"},
    {"queries at the end of fewer keys", INPUTS(SHAPE(6, 4), SHAPE(8, 4)),
     OPTIONS(ATTENTION(.heads = 2, .alibi = true), RAGGED),
     "attention by distance needs no more queries than keys, but segment 0 has 2 and 1"},
    {0},
};
OP_SAMPLES(attention_scores, attention_scores_good, attention_scores_bad);

static const int64_t WINDOWED_STARTS[] = {0}, WINDOWED_LENGTHS[] = {7};
#define WINDOWED                                                                                             \
    .queries = {1, WINDOWED_STARTS, WINDOWED_LENGTHS}, .keys = {1, WINDOWED_STARTS, WINDOWED_LENGTHS}
static const struct qkv_sample attention_weights_good[] = {
    {"ragged", INPUTS(SHAPE(30)), &TWO_HEADS},
    {"causal", INPUTS(SHAPE(28)), OPTIONS(ATTENTION(.heads = 2, .causal = true), SELF)},
    {"masked", INPUTS(SHAPE(36), SHAPE(3, 3)), &TWO_HEADS_SQUARE, MASKED},
    {"window", INPUTS(SHAPE(28)), OPTIONS(ATTENTION(.heads = 2, .window = 1), SELF)},
    {"window and a global token", INPUTS(SHAPE(49)),
     OPTIONS(ATTENTION(.heads = 1, .window = 1, .global_tokens = 1), WINDOWED)},
    {"causal window, two global tokens, masked", INPUTS(SHAPE(49), SHAPE(7, 7)),
     OPTIONS(ATTENTION(.heads = 1, .window = 2, .global_tokens = 2, .causal = true), WINDOWED), MASKED},
    {"key mask of zeros and minus infinity, rows outside", INPUTS(SHAPE(30), SHAPE(9)),
     OPTIONS(ATTENTION(.heads = 2, .mask_values = QKV_MASK_VALUES_ADDITIVE), RAGGED), MASKED},
    {"masked and causal", INPUTS(SHAPE(18), SHAPE(3, 3)),
     OPTIONS(ATTENTION(.heads = 1, .causal = true), SQUARE), MASKED},
    {0},
};
static const struct qkv_sample attention_weights_bad[] = {
    {"global_tokens", INPUTS(SHAPE(28)), OPTIONS(ATTENTION(.heads = 2, .global_tokens = 1), SELF),
     "global_tokens need a window"},
    {"negative window", INPUTS(SHAPE(28)), OPTIONS(ATTENTION(.heads = 2, .window = -1), SELF),
     "window is -1 and global_tokens 0, but neither may be negative"},
    {"count", INPUTS(SHAPE(29)), &TWO_HEADS, "scores are [29], but the segments make 30 of them"},
    {"causal", INPUTS(SHAPE(30)), OPTIONS(ATTENTION(.heads = 2, .causal = true), RAGGED),
     "causal attention needs no more queries than keys, but segment 0 has 2 and 1"},
    {"mask", INPUTS(SHAPE(36), SHAPE(3, 2)), &TWO_HEADS_SQUARE,
     "mask is [3, 2], but segment 0 has 3 queries and 3 keys", .constant = 2},
    {"short key mask", INPUTS(SHAPE(30), SHAPE(7)), &TWO_HEADS,
     "segment 2 of keys with a mask is rows 5 to 7, but there are 7 rows", .constant = 2},
    {"learned mask", INPUTS(SHAPE(36), SHAPE(3, 3)), &TWO_HEADS_SQUARE, "the mask must not need a gradient"},
    {0},
};
OP_SAMPLES(attention_weights, attention_weights_good, attention_weights_bad);

static const struct qkv_sample attention_mix_good[] = {
    {"ragged", INPUTS(SHAPE(30), SHAPE(8, 6)), &TWO_HEADS},
    {"one head", INPUTS(SHAPE(15), SHAPE(8, 3)), OPTIONS(ATTENTION(.heads = 1), RAGGED)},
    {"grouped heads", INPUTS(SHAPE(60), SHAPE(8, 6)),
     OPTIONS(ATTENTION(.heads = 4, .key_value_heads = 2), RAGGED)},
    {0},
};
static const struct qkv_sample attention_mix_bad[] = {
    {"count", INPUTS(SHAPE(29), SHAPE(8, 6)), &TWO_HEADS,
     "weights are [29], but the segments make 30 of them"},
    {"rows", INPUTS(SHAPE(30), SHAPE(7, 6)), &TWO_HEADS, "segment 2 of keys is rows 5 to 7"},
    {0},
};
OP_SAMPLES(attention_mix, attention_mix_good, attention_mix_bad);
