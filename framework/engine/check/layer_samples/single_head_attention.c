/* Samples of the layer in layers/single_head_attention.c. */
#include "check/layer_samples/layer_samples.h"

INIT_SAMPLE(single_head_attention)

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    const struct qkv_attention_inputs inputs = {
        .x = input[0], .memory = input[1], .queries = sample->segments[0], .keys = sample->segments[1]};
    struct qkv_tensor *key = qkv_single_head_attention_keys(layer, graph, inputs.memory);
    return qkv_single_head_attention_apply(layer, graph, key, &inputs, NULL);
}

static const struct qkv_single_head_attention_options SCALED = {
    QKV_ATTENTION_SCORE_SCALED_DOT, 4, 5, 3, 0, 0.2, INITIAL};
static const struct qkv_single_head_attention_options ADDITIVE = {
    QKV_ATTENTION_SCORE_ADDITIVE, 4, 5, 3, 0, 0, INITIAL};
static const struct qkv_single_head_attention_options DOT = {QKV_ATTENTION_SCORE_DOT, 5, 5, 0, 0, 0, INITIAL};
static const struct qkv_single_head_attention_options GENERAL = {
    QKV_ATTENTION_SCORE_GENERAL, 4, 5, 0, 0, 0.3, INITIAL};
static const struct qkv_single_head_attention_options CONCAT = {
    QKV_ATTENTION_SCORE_CONCAT, 4, 5, 3, 0, 0, INITIAL};
static const struct qkv_single_head_attention_options LOCAL = {
    QKV_ATTENTION_SCORE_LOCAL_P, 4, 5, 3, 2, 0.2, INITIAL};
#define BOTH   .segments = {{3, STARTS, LENGTHS}, {3, KEY_STARTS, KEY_LENGTHS}}
#define RAGGED .input = {{2, {6, 4}}, {2, {8, 5}}}, BOTH
static const struct qkv_layer_sample SAMPLES[] = {
    {"scaled dot, dropout", &SCALED, RAGGED},
    {"additive", &ADDITIVE, RAGGED},
    {"dot", &DOT, .input = {{2, {6, 5}}, {2, {8, 5}}}, BOTH},
    {"general, dropout", &GENERAL, RAGGED},
    {"concat", &CONCAT, RAGGED},
    {"local-p, dropout", &LOCAL, RAGGED},
    {0},
};
LAYER_SAMPLES(single_head_attention, qkv_single_head_attention);
