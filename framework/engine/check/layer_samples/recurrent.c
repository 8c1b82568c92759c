/* Samples of the layer in layers/recurrent.c. input[1] is the second input of layers with a feed, else the initial state. */
#include "check/layer_samples/layer_samples.h"

struct options {
    struct qkv_recurrent_options layer;
    bool reverse;
};

static void init_sample(void *layer, struct qkv_parameters *parameters, const void *options, const char *name)
{
    qkv_recurrent_init(layer, parameters, &((const struct options *)options)->layer, name);
}

static struct qkv_tensor *apply_sample(const void *given, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    const struct qkv_recurrent *layer = given;
    const struct options *options = sample->options;
    struct qkv_tensor *gates = qkv_recurrent_gates(layer, graph, input[0]);
    if (layer->feed) gates = qkv_recurrent_add_input(layer, graph, gates, input[1]);
    struct qkv_tensor *states = qkv_recurrent_run(layer, graph, gates, layer->feed ? NULL : input[1],
                                                  sample->segments[0], options->reverse);
    return qkv_recurrent_hidden(layer, graph, states);
}

static const struct options TANH = {{QKV_CELL_TANH, 3, 4, 0, 0, INITIAL, INITIAL}, false};
static const struct options GRU = {{QKV_CELL_GRU, 3, 4, 0, 0, INITIAL, INITIAL}, true};
static const struct options GRU_FEED = {{QKV_CELL_GRU, 3, 2, 5, 0, INITIAL, INITIAL}, false};
static const struct options LSTM = {{QKV_CELL_LSTM, 3, 4, 0, 1, INITIAL, INITIAL}, false};
static const struct options LSTM_FEED = {{QKV_CELL_LSTM, 2, 3, 3, 1, INITIAL, INITIAL}, true};
static const struct qkv_layer_sample SAMPLES[] = {
    {"tanh", &TANH, {{2, {6, 3}}}, {{3, STARTS, LENGTHS}}},
    {"gru, reverse, from a state", &GRU, {{2, {6, 3}}, {2, {3, 4}}}, {{3, STARTS, LENGTHS}}},
    {"gru, with feed", &GRU_FEED, {{2, {6, 3}}, {2, {6, 5}}}, {{3, STARTS, LENGTHS}}},
    {"lstm, from a state", &LSTM, {{2, {6, 3}}, {2, {3, 8}}}, {{3, STARTS, LENGTHS}}},
    {"lstm, reverse, with feed", &LSTM_FEED, {{2, {6, 2}}, {2, {6, 3}}}, {{3, STARTS, LENGTHS}}},
    {0},
};
LAYER_SAMPLES(recurrent, qkv_recurrent);
