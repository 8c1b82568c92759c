/* Samples of the ops in kernels/attention.c. */
#include "check/op_samples/op_samples.h"

/* ---- composed attention ---- */

#define MASKED .constant = 2, .binary = 2 /* input 1 is a mask */

OP_SAMPLES(attention_scores,
           SAMPLES({"ragged", INPUTS(SHAPE(6, 6), SHAPE(8, 6)), &TWO_HEADS},
                   {"self, scaled", INPUTS(SHAPE(6, 3), SHAPE(6, 3)),
                    OPTIONS(ATTENTION(.heads = 1, .scale = 2), SELF)},
                   {"one sentence", INPUTS(SHAPE(2, 4), SHAPE(3, 4)), OPTIONS(ATTENTION(.heads = 4))},
                   {"grouped heads, ALiBi", INPUTS(SHAPE(6, 12), SHAPE(6, 4)),
                    OPTIONS(ATTENTION(.heads = 6, .key_value_heads = 2, .alibi = true), SELF)},
                   {"soft cap, ALiBi", INPUTS(SHAPE(6, 4), SHAPE(6, 4)),
                    OPTIONS(ATTENTION(.heads = 2, .soft_cap = 0.3, .alibi = true), SELF)},
                   {"distances", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 2)),
                    OPTIONS(ATTENTION(.heads = 2, .buckets = 6, .max_distance = 3), SELF)},
                   {"distances, causal", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(4, 2)),
                    OPTIONS(ATTENTION(.heads = 2, .buckets = 4, .max_distance = 4, .causal = true), SELF)}),
           SAMPLES({"soft cap", INPUTS(SHAPE(6, 4), SHAPE(8, 4)),
                    OPTIONS(ATTENTION(.heads = 2, .soft_cap = -1), RAGGED),
                    "soft_cap is -1, but must be a number above 0, or 0 for none"},
                   {"heads", INPUTS(SHAPE(6, 5), SHAPE(8, 5)), &TWO_HEADS,
                    "query is [6, 5], but its width must be a multiple of 2 heads"},
                   {"no heads", INPUTS(SHAPE(6, 5), SHAPE(8, 5)), OPTIONS(ATTENTION(.heads = 0)),
                    "heads is 0, but must be at least 1"},
                   {"widths", INPUTS(SHAPE(6, 6), SHAPE(8, 4)), &TWO_HEADS,
                    "query is [6, 6], but key is [8, 4]"},
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
                    "attention by distance needs no more queries than keys, but segment 0 has 2 and 1"}));

static const int64_t WINDOWED_STARTS[] = {0}, WINDOWED_LENGTHS[] = {7};
#define WINDOWED                                                                                             \
    .queries = {1, WINDOWED_STARTS, WINDOWED_LENGTHS}, .keys = {1, WINDOWED_STARTS, WINDOWED_LENGTHS}
OP_SAMPLES(
    attention_weights,
    SAMPLES({"ragged", INPUTS(SHAPE(30)), &TWO_HEADS},
            {"causal", INPUTS(SHAPE(28)), OPTIONS(ATTENTION(.heads = 2, .causal = true), SELF)},
            {"masked", INPUTS(SHAPE(36), SHAPE(3, 3)), &TWO_HEADS_SQUARE, MASKED},
            {"masked, with a sink", INPUTS(SHAPE(36), SHAPE(3, 3), SHAPE(2)), &TWO_HEADS_SQUARE, MASKED},
            {"window", INPUTS(SHAPE(28)), OPTIONS(ATTENTION(.heads = 2, .window = 1), SELF)},
            {"window and a global token", INPUTS(SHAPE(49)),
             OPTIONS(ATTENTION(.heads = 1, .window = 1, .global_tokens = 1), WINDOWED)},
            {"causal window, two global tokens, masked", INPUTS(SHAPE(49), SHAPE(7, 7)),
             OPTIONS(ATTENTION(.heads = 1, .window = 2, .global_tokens = 2, .causal = true), WINDOWED),
             MASKED},
            {"key mask of zeros and minus infinity, rows outside", INPUTS(SHAPE(30), SHAPE(9)),
             OPTIONS(ATTENTION(.heads = 2, .mask_values = QKV_MASK_VALUES_ADDITIVE), RAGGED), MASKED},
            {"masked and causal", INPUTS(SHAPE(18), SHAPE(3, 3)),
             OPTIONS(ATTENTION(.heads = 1, .causal = true), SQUARE), MASKED}),
    SAMPLES({"sink", INPUTS(SHAPE(30), SHAPE(8), SHAPE(3)), &TWO_HEADS, "sink is [3], but must be [2]",
             MASKED},
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
            {"learned mask", INPUTS(SHAPE(36), SHAPE(3, 3)), &TWO_HEADS_SQUARE,
             "the mask must not need a gradient"}));

OP_SAMPLES(attention_mix,
           SAMPLES({"ragged", INPUTS(SHAPE(30), SHAPE(8, 6)), &TWO_HEADS},
                   {"one head", INPUTS(SHAPE(15), SHAPE(8, 3)), OPTIONS(ATTENTION(.heads = 1), RAGGED)},
                   {"grouped heads", INPUTS(SHAPE(60), SHAPE(8, 6)),
                    OPTIONS(ATTENTION(.heads = 4, .key_value_heads = 2), RAGGED)}),
           SAMPLES({"count", INPUTS(SHAPE(29), SHAPE(8, 6)), &TWO_HEADS,
                    "weights are [29], but the segments make 30 of them"},
                   {"rows", INPUTS(SHAPE(30), SHAPE(7, 6)), &TWO_HEADS, "segment 2 of keys is rows 5 to 7"}));

/* ---- attention of recurrent decoders ---- */

#define ONE_HEAD ATTENTION(.heads = 1), RAGGED

OP_SAMPLES(
    attention_additive,
    SAMPLES({"ragged", INPUTS(SHAPE(6, 5), SHAPE(8, 5), SHAPE(5)), OPTIONS(ONE_HEAD)},
            {"one sentence", INPUTS(SHAPE(2, 3), SHAPE(3, 3), SHAPE(3)), OPTIONS(ATTENTION(.heads = 1))},
            {"constant keys", INPUTS(SHAPE(6, 2), SHAPE(8, 2), SHAPE(2)), OPTIONS(ONE_HEAD), .constant = 2}),
    SAMPLES({"heads", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(4)), OPTIONS(ATTENTION(.heads = 2)),
             "heads is 2, but must be 1"},
            {"widths", INPUTS(SHAPE(6, 6), SHAPE(8, 4), SHAPE(4)), OPTIONS(ONE_HEAD),
             "query is [6, 6], but key is [8, 4]"},
            {"vector", INPUTS(SHAPE(6, 6), SHAPE(8, 6), SHAPE(4)), OPTIONS(ONE_HEAD),
             "vector is [4], but must be [6]"},
            {"rows", INPUTS(SHAPE(6, 6), SHAPE(7, 6), SHAPE(6)), OPTIONS(ONE_HEAD),
             "segment 2 of keys is rows 5 to 7, but there are 7 rows"}));

OP_SAMPLES(attention_local,
           SAMPLES({"narrow", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 1),
                    .low = 0.05f, .high = 0.95f},
                   {"wide", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 4),
                    .low = 0.05f, .high = 0.95f},
                   {"centers outside 0 .. 1", INPUTS(SHAPE(15), SHAPE(6, 1)),
                    OPTIONS(ONE_HEAD, .local_window = 1)},
                   {"constant scores", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 2),
                    .constant = 1, .low = 0.05f, .high = 0.95f}),
           SAMPLES({"count", INPUTS(SHAPE(14), SHAPE(6, 1)), OPTIONS(ONE_HEAD, .local_window = 2),
                    "scores are [14], but the segments make 15 of them"},
                   {"center", INPUTS(SHAPE(15), SHAPE(6, 2)), OPTIONS(ONE_HEAD, .local_window = 2),
                    "center is [6, 2], but must have 1 column"},
                   {"window", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ONE_HEAD),
                    "the window is 0, but must be at least 1"},
                   {"whole", INPUTS(SHAPE(15), SHAPE(6, 1)), OPTIONS(ATTENTION(.heads = 1)),
                    "needs attention.queries and attention.keys"}));

static const int32_t NUMBERS[] = {0, 3, 1, 4, 5, 6, 2, 7, 8, 9, 10, 11, 12, 13, 0};
OP_SAMPLES(attention_arrange, SAMPLES({"ragged", INPUTS(SHAPE(14)), OPTIONS(ONE_HEAD, .indices = NUMBERS)}),
           SAMPLES({"number", INPUTS(SHAPE(13)), OPTIONS(ONE_HEAD, .indices = NUMBERS),
                    "number 13 is 13, but must lie in 0 to 12"},
                   {"matrix", INPUTS(SHAPE(7, 2)), OPTIONS(ONE_HEAD, .indices = NUMBERS),
                    "input is [7, 2], but must have 1 axis"}));

/* ---- the loss of weights ---- */

OP_SAMPLES(
    attention_loss,
    SAMPLES({"ragged, rows without target", INPUTS(SHAPE(15), SHAPE(15)),
             OPTIONS(ATTENTION(.heads = 1), RAGGED, .factor = 0.5), .constant = 2, .binary = 2},
            {"any target, two heads", INPUTS(SHAPE(30), SHAPE(30)),
             OPTIONS(ATTENTION(.heads = 2), RAGGED, .factor = 1), .low = 0.25, .high = 3, .constant = 2}),
    SAMPLES({"count", INPUTS(SHAPE(14), SHAPE(14)), OPTIONS(ATTENTION(.heads = 1), RAGGED, .factor = 1),
             "scores are [14], but the segments make 15 of them"},
            {"target", INPUTS(SHAPE(15), SHAPE(16)), OPTIONS(ATTENTION(.heads = 1), RAGGED, .factor = 1),
             "target is [16], but scores are [15]", .constant = 2}));

/* Samples of the ops in kernels/attention.c. */

static const int64_t LONG_STARTS[] = {0, 17}, LONG_LENGTHS[] = {17, 7};
#define LONG .queries = {2, LONG_STARTS, LONG_LENGTHS}, .keys = {2, LONG_STARTS, LONG_LENGTHS}

static const int64_t LATE_STARTS[] = {0, 2}, LATE_LENGTHS[] = {2, 2};
static const int64_t LATE_KEY_STARTS[] = {0, 7}, LATE_KEY_LENGTHS[] = {7, 7};
#define LATE .queries = {2, LATE_STARTS, LATE_LENGTHS}, .keys = {2, LATE_KEY_STARTS, LATE_KEY_LENGTHS}

/* Two sentences that share keys, and a third one whose keys include all of theirs. */
static const int64_t SHARED_STARTS[] = {1, 3, 0}, SHARED_LENGTHS[] = {4, 4, 8};
#define SHARED .queries = {3, QUERY_STARTS, QUERY_LENGTHS}, .keys = {3, SHARED_STARTS, SHARED_LENGTHS}

#define MASKED_FUSED .constant = 8, .binary = 8 /* input 3 is a mask */

/* Samples that both kernels run. They include sentences of one word, and of one word more than the
 * window. */
#define KERNEL(chosen, ...) ATTENTION(.kernel = QKV_KERNEL_##chosen, __VA_ARGS__)
#define VARIED(title, chosen)                                                                                \
    {title ", cross, ragged", INPUTS(SHAPE(6, 6), SHAPE(8, 6), SHAPE(8, 10)),                                \
     OPTIONS(KERNEL(chosen, .heads = 2), RAGGED)},                                                           \
        {title ", window and dropout", INPUTS(SHAPE(24, 4), SHAPE(24, 4), SHAPE(24, 6)),                     \
         OPTIONS(KERNEL(chosen, .heads = 2, .window = 2, .dropout = 0.3), LONG)},                            \
        {title ", window, two global tokens, grouped heads",                                                 \
         INPUTS(SHAPE(24, 8), SHAPE(24, 4), SHAPE(24, 2)),                                                   \
         OPTIONS(KERNEL(chosen, .heads = 4, .key_value_heads = 2, .window = 3, .global_tokens = 2), LONG)},  \
        {title ", causal window of one word, a global token, ALiBi",                                         \
         INPUTS(SHAPE(6, 6), SHAPE(6, 6), SHAPE(6, 6)),                                                      \
         OPTIONS(KERNEL(chosen, .heads = 3, .window = 1, .global_tokens = 1, .causal = true, .alibi = true), \
                 SELF)},                                                                                     \
        {title ", distances, dropout", INPUTS(SHAPE(24, 4), SHAPE(24, 4), SHAPE(24, 4), {0}, SHAPE(6, 2)),   \
         OPTIONS(KERNEL(chosen, .heads = 2, .buckets = 6, .max_distance = 5, .dropout = 0.2), LONG)},        \
        {title ", causal distances, ALiBi, shared key head",                                                 \
         INPUTS(SHAPE(6, 6), SHAPE(6, 3), SHAPE(6, 2), {0}, SHAPE(3, 2)),                                    \
         OPTIONS(KERNEL(chosen, .heads = 2, .key_value_heads = 1, .buckets = 3, .max_distance = 3,           \
                        .causal = true, .alibi = true),                                                      \
                 SELF)},                                                                                     \
        {title ", queries at the end, windowed, masked",                                                     \
         INPUTS(SHAPE(4, 4), SHAPE(14, 4), SHAPE(14, 4), SHAPE(2, 7)),                                       \
         OPTIONS(KERNEL(chosen, .heads = 2, .window = 3, .global_tokens = 1, .causal = true), LATE),         \
         MASKED_FUSED},                                                                                      \
        {title ", key mask of zeros and minus infinity, keys shared",                                        \
         INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 6), SHAPE(8)),                                            \
         OPTIONS(KERNEL(chosen, .heads = 2, .mask_values = QKV_MASK_VALUES_ADDITIVE), SHARED),               \
         MASKED_FUSED},                                                                                      \
        {title ", window, key mask, keys shared, dropout",                                                   \
         INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 6), SHAPE(8)),                                            \
         OPTIONS(KERNEL(chosen, .heads = 2, .window = 1, .global_tokens = 1, .dropout = 0.3), SHARED),       \
         MASKED_FUSED},                                                                                      \
    {                                                                                                        \
        title ", masked, dropout", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4), SHAPE(3, 3)),               \
            OPTIONS(KERNEL(chosen, .heads = 2, .dropout = 0.4), SQUARE), MASKED_FUSED                        \
    }

OP_SAMPLES(
    attention,
    SAMPLES({"cross, ragged", INPUTS(SHAPE(6, 6), SHAPE(8, 6), SHAPE(8, 6)), &TWO_HEADS},
            {"self", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4)), &TWO_HEADS_SELF},
            {"causal", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4)),
             OPTIONS(ATTENTION(.heads = 2, .causal = true), SELF)},
            {"wide values, scaled", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 10)),
             OPTIONS(ATTENTION(.heads = 2, .scale = 1.5), RAGGED)},
            {"dropout", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4)),
             OPTIONS(ATTENTION(.heads = 2, .dropout = 0.4), SELF)},
            {"causal dropout, odd sizes", INPUTS(SHAPE(24, 9), SHAPE(24, 9), SHAPE(24, 3)),
             OPTIONS(ATTENTION(.heads = 3, .causal = true, .dropout = 0.1), LONG)},
            {"masked", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4), SHAPE(3, 3)), &TWO_HEADS_SQUARE,
             MASKED_FUSED},
            {"constant query", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4)), &TWO_HEADS, .constant = 1},
            {"constant value", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4)), &TWO_HEADS, .constant = 4},
            {"rows outside", INPUTS(SHAPE(9, 4), SHAPE(9, 4), SHAPE(9, 4)),
             OPTIONS(ATTENTION(.heads = 1), RAGGED)},
            {"wide, dropout, rows outside", INPUTS(SHAPE(9, 32), SHAPE(9, 32), SHAPE(9, 32)),
             OPTIONS(ATTENTION(.heads = 2, .dropout = 0.3), RAGGED)},
            {"wide, causal window", INPUTS(SHAPE(6, 8), SHAPE(6, 8), SHAPE(6, 32)),
             OPTIONS(ATTENTION(.heads = 2, .causal = true, .window = 2), SELF)},
            {"one sentence, library products", INPUTS(SHAPE(48, 32), SHAPE(48, 32), SHAPE(48, 32)),
             OPTIONS(ATTENTION(.heads = 1))},
            VARIED("exact", EXACT), VARIED("flash", FLASH)),
    SAMPLES({"heads", INPUTS(SHAPE(6, 5), SHAPE(8, 5), SHAPE(8, 6)), &TWO_HEADS,
             "query is [6, 5], but its width must be a multiple of 2 heads"},
            {"key width", INPUTS(SHAPE(6, 6), SHAPE(8, 4), SHAPE(8, 4)), &TWO_HEADS,
             "query is [6, 6], but key is [8, 4]"},
            {"value rows", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(7, 4)), &TWO_HEADS,
             "key is [8, 4], but value is [7, 4]"},
            {"causal", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4)),
             OPTIONS(ATTENTION(.heads = 2, .causal = true), RAGGED),
             "causal attention needs no more queries than keys, but segment 0 has 2 and 1"},
            {"window", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4)),
             OPTIONS(ATTENTION(.heads = 2, .window = 1), RAGGED),
             "a window needs no more queries than keys, but segment 0 has 2 and 1"},
            {"key heads", INPUTS(SHAPE(6, 6), SHAPE(6, 4), SHAPE(6, 4)),
             OPTIONS(ATTENTION(.heads = 3, .key_value_heads = 2), SELF),
             "key_value_heads is 2, but must divide 3 heads"},
            {"key heads and value width", INPUTS(SHAPE(6, 8), SHAPE(6, 4), SHAPE(6, 3)),
             OPTIONS(ATTENTION(.heads = 4, .key_value_heads = 2), SELF),
             "value is [6, 3], but its width must be a multiple of 2 heads"},
            {"rate", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4)),
             OPTIONS(ATTENTION(.heads = 2, .dropout = 1), RAGGED), "the dropout rate is 1"},
            {"mask", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4), SHAPE(3, 2)), &TWO_HEADS_SQUARE,
             "mask is [3, 2], but segment 0 has 3 queries and 3 keys", .constant = 8},
            {"key mask", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4), SHAPE(7)), &TWO_HEADS,
             "mask is [7], but must be [queries, keys] of every sentence or [8], a number per row of keys",
             .constant = 8},
            {"queries shared", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4)),
             OPTIONS(ATTENTION(.heads = 2), .queries = {3, SHARED_STARTS, QUERY_LENGTHS},
                     .keys = {3, KEY_STARTS, KEY_LENGTHS}),
             "segments 2 and 0 of queries share row 1, but must not overlap"}));
