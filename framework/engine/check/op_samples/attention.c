/* Samples of the ops in kernels/attention.c. */
#include "check/op_samples/shared.h"

static const int64_t LONG_STARTS[] = {0, 17}, LONG_LENGTHS[] = {17, 7};
#define LONG .queries = {2, LONG_STARTS, LONG_LENGTHS}, .keys = {2, LONG_STARTS, LONG_LENGTHS}

static const int64_t LATE_STARTS[] = {0, 2}, LATE_LENGTHS[] = {2, 2};
static const int64_t LATE_KEY_STARTS[] = {0, 7}, LATE_KEY_LENGTHS[] = {7, 7};
#define LATE .queries = {2, LATE_STARTS, LATE_LENGTHS}, .keys = {2, LATE_KEY_STARTS, LATE_KEY_LENGTHS}

/* Two sentences that share keys, and a third one whose keys include all of theirs. */
static const int64_t SHARED_STARTS[] = {1, 3, 0}, SHARED_LENGTHS[] = {4, 4, 8};
#define SHARED .queries = {3, QUERY_STARTS, QUERY_LENGTHS}, .keys = {3, SHARED_STARTS, SHARED_LENGTHS}

#define MASKED .constant = 8, .binary = 8 /* input 3 is a mask */

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
         MASKED},                                                                                            \
        {title ", key mask of zeros and minus infinity, keys shared",                                        \
         INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 6), SHAPE(8)),                                            \
         OPTIONS(KERNEL(chosen, .heads = 2, .mask_values = QKV_MASK_VALUES_ADDITIVE), SHARED), MASKED},      \
        {title ", window, key mask, keys shared, dropout",                                                   \
         INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 6), SHAPE(8)),                                            \
         OPTIONS(KERNEL(chosen, .heads = 2, .window = 1, .global_tokens = 1, .dropout = 0.3), SHARED),       \
         MASKED},                                                                                            \
    {                                                                                                        \
        title ", masked, dropout", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4), SHAPE(3, 3)),               \
            OPTIONS(KERNEL(chosen, .heads = 2, .dropout = 0.4), SQUARE), MASKED                              \
    }

static const struct qkv_sample attention_good[] = {
    {"cross, ragged", INPUTS(SHAPE(6, 6), SHAPE(8, 6), SHAPE(8, 6)), &TWO_HEADS},
    {"self", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4)), &TWO_HEADS_SELF},
    {"causal", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4)),
     OPTIONS(ATTENTION(.heads = 2, .causal = true), SELF)},
    {"wide values, scaled", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 10)),
     OPTIONS(ATTENTION(.heads = 2, .scale = 1.5), RAGGED)},
    {"dropout", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4)),
     OPTIONS(ATTENTION(.heads = 2, .dropout = 0.4), SELF)},
    {"causal dropout, odd sizes", INPUTS(SHAPE(24, 9), SHAPE(24, 9), SHAPE(24, 3)),
     OPTIONS(ATTENTION(.heads = 3, .causal = true, .dropout = 0.1), LONG)},
    {"masked", INPUTS(SHAPE(6, 4), SHAPE(6, 4), SHAPE(6, 4), SHAPE(3, 3)), &TWO_HEADS_SQUARE, MASKED},
    {"constant query", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4)), &TWO_HEADS, .constant = 1},
    {"constant value", INPUTS(SHAPE(6, 4), SHAPE(8, 4), SHAPE(8, 4)), &TWO_HEADS, .constant = 4},
    {"rows outside", INPUTS(SHAPE(9, 4), SHAPE(9, 4), SHAPE(9, 4)), OPTIONS(ATTENTION(.heads = 1), RAGGED)},
    {"wide, dropout, rows outside", INPUTS(SHAPE(9, 32), SHAPE(9, 32), SHAPE(9, 32)),
     OPTIONS(ATTENTION(.heads = 2, .dropout = 0.3), RAGGED)},
    {"wide, causal window", INPUTS(SHAPE(6, 8), SHAPE(6, 8), SHAPE(6, 32)),
     OPTIONS(ATTENTION(.heads = 2, .causal = true, .window = 2), SELF)},
    {"one sentence, library products", INPUTS(SHAPE(48, 32), SHAPE(48, 32), SHAPE(48, 32)),
     OPTIONS(ATTENTION(.heads = 1))},
    VARIED("exact", EXACT),
    VARIED("flash", FLASH),
    {0},
};
static const struct qkv_sample attention_bad[] = {
    {"heads", INPUTS(SHAPE(6, 5), SHAPE(8, 5), SHAPE(8, 6)), &TWO_HEADS,
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
     "segments 2 and 0 of queries share row 1, but must not overlap"},
    {0},
};
OP_SAMPLES(attention, attention_good, attention_bad);
