/* Samples of the layer in layers/positions.c. */
#include "check/layer_samples/layer_samples.h"

INIT_SAMPLE(positions)

static const int64_t FIRST = 1; /* position of the first row of each sentence */

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    struct qkv_tensor *x = qkv_positions_apply(layer, graph, input[0], sample->segments[0], &FIRST);
    return qkv_positions_rotate(layer, graph, x, sample->segments[0], &FIRST);
}

static const struct qkv_positions_options SINUSOIDAL = {QKV_POSITION_SINUSOIDAL, 6, 4, 10000, INITIAL};
static const struct qkv_positions_options ODD = {QKV_POSITION_SINUSOIDAL, 6, 3, 100, INITIAL};
static const struct qkv_positions_options LEARNED = {QKV_POSITION_LEARNED, 6, 4, 0, INITIAL};
static const struct qkv_positions_options ROTARY = {QKV_POSITION_ROTARY, 6, 2, 100, INITIAL};
static const int64_t TWO_STARTS[] = {0, 3}, TWO_LENGTHS[] = {3, 2};
static const struct qkv_layer_sample SAMPLES[] = {
    {"sinusoidal", &SINUSOIDAL, {{2, {5, 4}}}, {{2, TWO_STARTS, TWO_LENGTHS}}},
    {"sinusoidal, odd width", &ODD, {{2, {5, 3}}}, {{2, TWO_STARTS, TWO_LENGTHS}}},
    {"learned", &LEARNED, {{2, {5, 4}}}, {{2, TWO_STARTS, TWO_LENGTHS}}},
    {"rotary, two heads", &ROTARY, {{2, {5, 4}}}, {{2, TWO_STARTS, TWO_LENGTHS}}},
    {0},
};
LAYER_SAMPLES(positions, qkv_positions);
