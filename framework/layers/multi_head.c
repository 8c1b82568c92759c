#include "layers/layer.h"

void qkv_multi_head_init(struct qkv_multi_head *layer, struct qkv_parameters *parameters,
                         const struct qkv_multi_head_options *options, const char *name)
{
    int64_t keys = options->heads * options->key_width, values = options->heads * options->value_width;
    *layer = (struct qkv_multi_head){
        .name = qkv_arena_string(&parameters->arena, name),
        .heads = options->heads,
        .causal = options->causal,
        .dropout = options->dropout,
    };
    struct {
        struct qkv_dense *dense;
        const char *name;
        int64_t inputs, outputs;
        struct qkv_initial initial;
    } const parts[] = {
        {&layer->query, "query", options->width, keys, options->initial},
        {&layer->key, "key", options->width, keys, options->initial},
        {&layer->value, "value", options->width, values, options->initial},
        {&layer->output, "output", values, options->width, options->output_initial},
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

struct qkv_tensor *qkv_multi_head_attend(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                         struct qkv_tensor *query, struct qkv_tensor *key,
                                         struct qkv_tensor *value, struct qkv_tensor *mask,
                                         struct qkv_segments queries, struct qkv_segments keys, bool causal,
                                         struct qkv_tensor **node)
{
    const struct qkv_attention layout = {
        .heads = layer->heads,
        .queries = queries,
        .keys = keys,
        .causal = causal,
        .dropout = layer->dropout,
    };
    const char *outer = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *mix = qkv_attention(graph, query, key, value, mask, layout);
    qkv_graph_scope(graph, outer);
    if (node) *node = mix;
    return qkv_dense_apply(&layer->output, graph, mix);
}

struct qkv_tensor *qkv_multi_head_apply(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                        struct qkv_tensor *x, struct qkv_tensor *memory,
                                        struct qkv_tensor *mask, struct qkv_segments queries,
                                        struct qkv_segments keys, struct qkv_tensor **node)
{
    struct qkv_tensor *query = qkv_dense_apply(&layer->query, graph, x);      /* [Nq, H K] */
    struct qkv_tensor *key = qkv_dense_apply(&layer->key, graph, memory);     /* [Nk, H K] */
    struct qkv_tensor *value = qkv_dense_apply(&layer->value, graph, memory); /* [Nk, H V] */
    return qkv_multi_head_attend(layer, graph, query, key, value, mask, queries, keys, layer->causal, node);
}

/* ---- samples ---- */

static void init_sample(void *layer, struct qkv_parameters *parameters, const void *options, const char *name)
{
    qkv_multi_head_init(layer, parameters, options, name);
}

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    struct qkv_tensor *memory = sample->input[1].rank ? input[1] : input[0];
    struct qkv_segments keys = sample->input[1].rank ? sample->segments[1] : sample->segments[0];
    return qkv_multi_head_apply(layer, graph, input[0], memory, NULL, sample->segments[0], keys, NULL);
}

static const struct qkv_multi_head_options SELF = {
    4, 2, 2, 2, true, false, 0, SAMPLE_INITIAL, SAMPLE_INITIAL};
static const struct qkv_multi_head_options CAUSAL = {
    4, 2, 3, 1, false, true, 0.3, SAMPLE_INITIAL, SAMPLE_INITIAL};
static const struct qkv_multi_head_options CROSS = {
    4, 3, 1, 5, true, false, 0.1, SAMPLE_INITIAL, SAMPLE_INITIAL};
static const int64_t STARTS[] = {0, 3, 4}, LENGTHS[] = {3, 1, 2};
static const int64_t KEY_STARTS[] = {0, 1, 5}, KEY_LENGTHS[] = {1, 4, 3};
static const struct qkv_layer_sample SAMPLES[] = {
    {"self", &SELF, {{2, {6, 4}}}, {{3, STARTS, LENGTHS}}},
    {"causal, no bias, dropout", &CAUSAL, {{2, {6, 4}}}, {{3, STARTS, LENGTHS}}},
    {"cross, wide values, dropout",
     &CROSS,
     {{2, {6, 4}}, {2, {8, 4}}},
     {{3, STARTS, LENGTHS}, {3, KEY_STARTS, KEY_LENGTHS}}},
    {0},
};
const struct qkv_layer_kind qkv_kind_multi_head = {"multi_head", sizeof(struct qkv_multi_head), init_sample,
                                                   apply_sample, SAMPLES};
