/* Samples of the layer in layers/multi_head.c. */
#include "check/layer_samples/layer_samples.h"

/* The layer of the gradient check: multi-head attention with the positions that it needs. */
struct layer_and_positions {
    struct qkv_multi_head attention;
    struct qkv_positions positions;
};

struct sample_options {
    struct qkv_multi_head_options attention;
    struct qkv_positions_options positions;
};

static void init_sample(void *layer, struct qkv_parameters *parameters, const void *given, const char *name)
{
    struct layer_and_positions *both = layer;
    const struct sample_options *options = given;
    struct qkv_multi_head_options attention = options->attention;
    qkv_positions_init(&both->positions, parameters, &options->positions, "positions");
    if (options->positions.length) attention.positions = &both->positions;
    qkv_multi_head_init(&both->attention, parameters, &attention, name);
}

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    const struct layer_and_positions *both = layer;
    int cross = sample->input[1].rank ? 1 : 0;
    const struct qkv_attention_inputs inputs = {.x = input[0],
                                                .memory = input[cross],
                                                .queries = sample->segments[0],
                                                .keys = sample->segments[cross]};
    return qkv_multi_head_apply(&both->attention, graph, &inputs, NULL);
}

/* Key and value width per head, and the options that all samples share. */
#define WIDTHS(k, v)                                                                                         \
    .width = 4, .key_width = (k), .value_width = (v), .initial = INITIAL, .output_initial = INITIAL

static const struct sample_options SELF = {.attention = {.rule.heads = 2, WIDTHS(2, 2), .bias = true}};
static const struct sample_options CAUSAL = {
    .attention = {.rule = {.heads = 2, .causal = true, .dropout = 0.3}, WIDTHS(3, 1)},
};
static const struct sample_options CROSS = {
    .attention = {.rule = {.heads = 3, .dropout = 0.1}, WIDTHS(1, 5), .bias = true},
};
static const struct sample_options WINDOW = {
    .attention = {.rule = {.heads = 4, .key_value_heads = 2, .window = 1, .global_tokens = 1, .dropout = 0.2},
                  WIDTHS(2, 3)},
};
static const struct sample_options FLASH_WINDOW = {
    .attention = {.rule = {.heads = 4,
                           .key_value_heads = 2,
                           .window = 1,
                           .global_tokens = 1,
                           .causal = true,
                           .dropout = 0.2,
                           .kernel = QKV_KERNEL_FLASH},
                  WIDTHS(2, 3)},
};
static const struct sample_options ROTARY = {
    .attention = {.rule = {.heads = 2, .key_value_heads = 1}, WIDTHS(4, 2), .bias = true},
    .positions = {.kind = QKV_POSITION_ROTARY, .length = 4, .width = 4, .base = 100},
};
static const struct sample_options ALIBI = {
    .attention = {.rule = {.heads = 3, .causal = true, .alibi = true}, WIDTHS(1, 2), .bias = true},
};
static const struct sample_options RELATIVE = {
    .attention = {.rule = {.heads = 2, .buckets = 6, .max_distance = 3, .kernel = QKV_KERNEL_FLASH},
                  WIDTHS(2, 2),
                  .bias = true},
    .positions = {.kind = QKV_POSITION_RELATIVE, .length = 6, .width = 2, .initial = INITIAL},
};

#define ONE .input = {{2, {6, 4}}}, .segments = {{3, STARTS, LENGTHS}}
#define PAIR                                                                                                 \
    .input = {{2, {6, 4}}, {2, {8, 4}}}, .segments = {{3, STARTS, LENGTHS}, {3, KEY_STARTS, KEY_LENGTHS}}
static const struct qkv_layer_sample SAMPLES[] = {
    {"self", &SELF, ONE},
    {"causal, no bias, dropout", &CAUSAL, ONE},
    {"cross, wide values, dropout", &CROSS, PAIR},
    {"window, global token, grouped heads", &WINDOW, ONE},
    {"flash, causal window, global token, grouped heads", &FLASH_WINDOW, ONE},
    {"rotary, one key head", &ROTARY, ONE},
    {"ALiBi, causal", &ALIBI, ONE},
    {"relative, flash", &RELATIVE, ONE},
    {0},
};
LAYER_SAMPLES(multi_head, layer_and_positions);
