#include "layers/layer.h"

void qkv_multi_head_init(struct qkv_multi_head *layer, struct qkv_parameters *parameters,
                         const struct qkv_multi_head_options *options, const char *name)
{
    int64_t heads = options->rule.heads, key_value_heads = qkv_attention_key_value_heads(&options->rule);
    *layer = (struct qkv_multi_head){
        .name = qkv_arena_string(&parameters->arena, name),
        .rule = options->rule,
        .positions = options->positions,
    };
    struct {
        struct qkv_dense *dense;
        const char *name;
        int64_t inputs, outputs;
        struct qkv_initial initial;
    } const parts[] = {
        {&layer->query, "query", options->width, heads * options->key_width, options->initial},
        {&layer->key, "key", options->width, key_value_heads * options->key_width, options->initial},
        {&layer->value, "value", options->width, key_value_heads * options->value_width, options->initial},
        {&layer->output, "output", heads * options->value_width, options->width, options->output_initial},
    };
    for (int i = 0; i < 4; i++) {
        const struct qkv_dense_options dense = {parts[i].inputs, parts[i].outputs, options->bias,
                                                QKV_ACTIVATION_NONE, parts[i].initial};
        const char *part = qkv_arena_format(&parameters->arena, "%s.%s", name, parts[i].name);
        if (!part)
            parameters->failed = true;
        else
            qkv_dense_init(parts[i].dense, parameters, &dense, part);
    }
}

struct qkv_tensor *qkv_multi_head_query(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                        struct qkv_tensor *x, struct qkv_segments segments,
                                        const int64_t *first)
{
    return qkv_positions_rotate(layer->positions, graph, qkv_dense_apply(&layer->query, graph, x), segments,
                                first);
}

struct qkv_tensor *qkv_multi_head_key(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                      struct qkv_tensor *memory, struct qkv_segments segments,
                                      const int64_t *first)
{
    return qkv_positions_rotate(layer->positions, graph, qkv_dense_apply(&layer->key, graph, memory),
                                segments, first);
}

struct qkv_tensor *qkv_multi_head_value(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                        struct qkv_tensor *memory)
{
    return qkv_dense_apply(&layer->value, graph, memory);
}

struct qkv_tensor *qkv_multi_head_attend(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                         struct qkv_tensor *query, struct qkv_tensor *key,
                                         struct qkv_tensor *value, struct qkv_tensor *mask,
                                         struct qkv_segments queries, struct qkv_segments keys,
                                         struct qkv_tensor **node)
{
    const struct qkv_attention attention = {
        .rule = layer->rule,
        .bias = layer->rule.buckets ? qkv_graph_parameter(graph, layer->positions->table) : NULL,
        .queries = queries,
        .keys = keys,
    };
    const char *outer = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *mix = qkv_attention(graph, query, key, value, mask, attention);
    qkv_graph_scope(graph, outer);
    if (node) *node = mix;
    return qkv_dense_apply(&layer->output, graph, mix);
}

struct qkv_tensor *qkv_multi_head_apply(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                        struct qkv_tensor *x, struct qkv_tensor *memory,
                                        struct qkv_tensor *mask, struct qkv_segments queries,
                                        struct qkv_segments keys, struct qkv_tensor **node)
{
    struct qkv_tensor *query = qkv_multi_head_query(layer, graph, x, queries, NULL);
    struct qkv_tensor *key = qkv_multi_head_key(layer, graph, memory, keys, NULL);
    struct qkv_tensor *value = qkv_multi_head_value(layer, graph, memory);
    return qkv_multi_head_attend(layer, graph, query, key, value, mask, queries, keys, node);
}

/* ---- samples ---- */

/* A layer and the positions that it may use. */
struct sampled {
    struct qkv_multi_head attention;
    struct qkv_positions positions;
};

struct sample_options {
    struct qkv_multi_head_options attention;
    struct qkv_positions_options positions;
};

static void init_sample(void *layer, struct qkv_parameters *parameters, const void *given, const char *name)
{
    struct sampled *sampled = layer;
    const struct sample_options *options = given;
    struct qkv_multi_head_options attention = options->attention;
    qkv_positions_init(&sampled->positions, parameters, &options->positions, "positions");
    if (options->positions.length) attention.positions = &sampled->positions;
    qkv_multi_head_init(&sampled->attention, parameters, &attention, name);
}

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    const struct sampled *sampled = layer;
    struct qkv_tensor *memory = sample->input[1].rank ? input[1] : input[0];
    struct qkv_segments keys = sample->input[1].rank ? sample->segments[1] : sample->segments[0];
    return qkv_multi_head_apply(&sampled->attention, graph, input[0], memory, NULL, sample->segments[0], keys,
                                NULL);
}

/* Key width and value width of a sample, and what all samples have. */
#define WIDTHS(k, v)                                                                                         \
    .width = 4, .key_width = (k), .value_width = (v), .initial = SAMPLE_INITIAL,                             \
    .output_initial = SAMPLE_INITIAL

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
    .positions = {.kind = QKV_POSITION_RELATIVE, .length = 6, .width = 2, .initial = SAMPLE_INITIAL},
};

static const int64_t STARTS[] = {0, 3, 4}, LENGTHS[] = {3, 1, 2};
static const int64_t KEY_STARTS[] = {0, 1, 5}, KEY_LENGTHS[] = {1, 4, 3};
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
const struct qkv_layer_interface qkv_multi_head_layer = {"multi_head", sizeof(struct sampled), init_sample,
                                                         apply_sample, SAMPLES};
