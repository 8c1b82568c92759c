/* The recurrent layer, whose cell is one of rnn, gru and lstm. */
#include "core/memory.h"
#include "layers/layer.h"

#include <math.h>

static int64_t gates_of(enum qkv_cell cell)
{
    return cell == QKV_CELL_LSTM ? 4 : cell == QKV_CELL_GRU ? 3 : 1;
}

int64_t qkv_recurrent_state_width(enum qkv_cell cell, int64_t width)
{
    if (!qkv_value_exists(&qkv_cell_names, (int)cell)) return 0;
    return cell == QKV_CELL_LSTM ? qkv_side_by_side(2, width) : width;
}

/* Corrects the gain of Xavier, which divides by sqrt(inputs + outputs) of the matrix: the matrix holds all gates side by
 * side, but only the outputs of one gate should count. */
static struct qkv_initial for_one_gate(struct qkv_initial initial, int64_t inputs, int64_t width,
                                       int64_t gates)
{
    if (initial.kind == QKV_INITIALIZER_XAVIER_UNIFORM || initial.kind == QKV_INITIALIZER_XAVIER_NORMAL)
        initial.gain *=
            sqrt(((double)inputs + (double)gates * (double)width) / ((double)inputs + (double)width));
    return initial;
}

void qkv_recurrent_init(struct qkv_recurrent *layer, struct qkv_parameters *parameters,
                        const struct qkv_recurrent_options *options, const char *name)
{
    int64_t gates = gates_of(options->cell), width = options->width, columns = qkv_side_by_side(gates, width);
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 0},
                             forget = {QKV_INITIALIZER_FORGET, options->forget_bias};
    struct qkv_initial feed = for_one_gate(options->initial, options->feed, width, gates);
    struct qkv_initial recurrent = for_one_gate(options->recurrent, width, width, gates);
    const char *input = QKV_ARENA_NAME(&parameters->arena, "%s.input", name);
    qkv_require_choice(parameters, name, "cell", &qkv_cell_names, (int)options->cell);
    *layer = (struct qkv_recurrent){
        .name = qkv_arena_string(&parameters->arena, name), .cell = options->cell, .width = width};
    layer->input = (struct qkv_dense){
        .name = input,
        .activation = QKV_ACTIVATION_NONE,
        .weight = qkv_parameters_add(
            parameters, QKV_SHAPE(options->inputs, columns),
            qkv_initial_scaled(for_one_gate(options->initial, options->inputs, width, gates),
                               options->inputs),
            "%s.weight", input),
        .bias = qkv_parameters_add(parameters, QKV_SHAPE(columns),
                                   options->cell == QKV_CELL_LSTM ? forget : zeros, "%s.bias", input),
    };
    if (options->feed)
        layer->feed = qkv_parameters_add(parameters, QKV_SHAPE(options->feed, columns),
                                         qkv_initial_scaled(feed, options->feed), "%s.feed.weight", name);
    layer->weight = qkv_parameters_add(parameters, QKV_SHAPE(width, columns),
                                       qkv_initial_scaled(recurrent, width), "%s.recurrent.weight", name);
    if (options->cell == QKV_CELL_GRU)
        layer->bias = qkv_parameters_add(parameters, QKV_SHAPE(width), zeros, "%s.recurrent.bias", name);
}

struct qkv_tensor *qkv_recurrent_gates(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *x)
{
    return qkv_dense_apply(&layer->input, graph, x);
}

struct qkv_tensor *qkv_recurrent_add_input(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                           struct qkv_tensor *gates, struct qkv_tensor *feed)
{
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *fed = qkv_linear(graph, feed, qkv_graph_parameter(graph, layer->feed), NULL, false);
    struct qkv_tensor *sum = qkv_add(graph, gates, fed);
    qkv_graph_scope(graph, outer_scope);
    return sum;
}

struct qkv_tensor *qkv_recurrent_run(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                     struct qkv_tensor *gates, struct qkv_tensor *initial,
                                     struct qkv_segments segments, bool reverse)
{
    if (!qkv_value_exists(&qkv_cell_names, (int)layer->cell))
        return qkv_graph_fail(graph, "%s: there is no cell %d", layer->name, (int)layer->cell);
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *weight = qkv_graph_parameter(graph, layer->weight), *states = NULL;
    switch (layer->cell) {
    case QKV_CELL_TANH:
        states = qkv_rnn(graph, gates, weight, initial, segments, reverse);
        break;
    case QKV_CELL_GRU:
        states = qkv_gru(graph, gates, weight, qkv_graph_parameter(graph, layer->bias), initial, segments,
                         reverse);
        break;
    case QKV_CELL_LSTM:
        states = qkv_lstm(graph, gates, weight, initial, segments, reverse);
        break;
    }
    qkv_graph_scope(graph, outer_scope);
    return states;
}

struct qkv_tensor *qkv_recurrent_hidden(const struct qkv_recurrent *layer, struct qkv_graph *graph,
                                        struct qkv_tensor *states)
{
    if (layer->cell != QKV_CELL_LSTM) return states;
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *hidden = qkv_slice(graph, states, 1, 0, layer->width);
    qkv_graph_scope(graph, outer_scope);
    return hidden;
}
