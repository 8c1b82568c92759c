/* The gradient check of layers, and its samples: the options and inputs with which it runs each layer. The samples of a
 * layer are an array <layer>_samples, the functions <layer>_create and <layer>_run, and LAYER_SAMPLES. */
#include "check/check.h"
#include "core/memory.h"

/* ---- what samples share ---- */

/* Defines the interface of a layer, whose struct is `storage`. */
#define LAYER_SAMPLES(layer, storage)                                                                        \
    static const struct qkv_layer_interface layer##_layer = {#layer, sizeof(struct storage), layer##_create, \
                                                             layer##_run, layer##_samples}

/* The function that creates a layer, where a sample has no other options than the layer. */
#define CREATE(layer_name)                                                                                   \
    static void layer_name##_create(void *layer, struct qkv_parameters *parameters, const void *options,     \
                                    const char *name)                                                        \
    {                                                                                                        \
        qkv_##layer_name##_init(layer, parameters, options, name);                                           \
    }

/* The head of the function that applies a layer, for which its body follows. */
#define RUN(layer_name)                                                                                      \
    static struct qkv_tensor *layer_name##_run(const void *layer, struct qkv_graph *graph,                   \
                                               struct qkv_tensor *const *input, const void *options)

/* The function of a layer that is applied to one tensor. */
#define RUN_ONE(layer_name)                                                                                  \
    RUN(layer_name)                                                                                          \
    {                                                                                                        \
        (void)options;                                                                                       \
        return qkv_##layer_name##_apply(layer, graph, input[0]);                                             \
    }

/* The options of a sample, which are a struct `type`. */
#define OPTIONS(type, ...) (&(const struct type){__VA_ARGS__})

/* The initializer of weights. */
#define INITIAL                                                                                              \
    {                                                                                                        \
        QKV_INITIALIZER_XAVIER_UNIFORM, 1.0                                                                  \
    }

/* Sentences of 3, 1 and 2 rows, and their keys. */
static const struct qkv_segments SENTENCES = {3, (const int64_t[]){0, 3, 4}, (const int64_t[]){3, 1, 2}},
                                 KEYS = {3, (const int64_t[]){0, 1, 5}, (const int64_t[]){1, 4, 3}};

/* ---- dense ---- */

CREATE(dense)
RUN_ONE(dense)

static const struct qkv_layer_sample dense_samples[] = {
    {"plain", OPTIONS(qkv_dense_options, 3, 5, true, QKV_ACTIVATION_NONE, INITIAL), {{2, {4, 3}}}},
    {"no bias, tanh", OPTIONS(qkv_dense_options, 4, 2, false, QKV_ACTIVATION_TANH, INITIAL), {{2, {3, 4}}}},
    {"relu", OPTIONS(qkv_dense_options, 3, 7, true, QKV_ACTIVATION_RELU, INITIAL), {{2, {4, 3}}}},
    {"gelu", OPTIONS(qkv_dense_options, 3, 4, true, QKV_ACTIVATION_GELU, INITIAL), {{3, {2, 2, 3}}}},
    {"gelu_tanh", OPTIONS(qkv_dense_options, 3, 4, true, QKV_ACTIVATION_GELU_TANH, INITIAL), {{2, {1, 3}}}},
    {"silu", OPTIONS(qkv_dense_options, 3, 4, true, QKV_ACTIVATION_SILU, INITIAL), {{2, {2, 3}}}},
    {"sigmoid", OPTIONS(qkv_dense_options, 3, 4, true, QKV_ACTIVATION_SIGMOID, INITIAL), {{2, {2, 3}}}},
    {0},
};
LAYER_SAMPLES(dense, qkv_dense);

/* ---- embedding ---- */

CREATE(embedding)

RUN(embedding)
{
    static const int32_t ids[] = {4, 0, 4, 2};
    (void)input, (void)options;
    return qkv_embedding_apply(layer, graph, ids, 4);
}

static const struct qkv_layer_sample embedding_samples[] = {
    {"plain", OPTIONS(qkv_embedding_options, 5, 3, false, INITIAL)},
    {"scaled", OPTIONS(qkv_embedding_options, 6, 4, true, INITIAL)},
    {0}};
LAYER_SAMPLES(embedding, qkv_embedding);

/* ---- positions ---- */

CREATE(positions)

static const struct qkv_segments TWO = {2, (const int64_t[]){0, 3}, (const int64_t[]){3, 2}};
static const int64_t FIRST[] = {1, 0}; /* position of the first row of each sentence */

RUN(positions)
{
    (void)options;
    struct qkv_tensor *x = qkv_positions_apply(layer, graph, input[0], TWO, FIRST);
    return qkv_positions_rotate(layer, graph, x, TWO, FIRST);
}

static const struct qkv_layer_sample positions_samples[] = {
    {"sinusoidal",
     OPTIONS(qkv_positions_options, QKV_POSITION_SINUSOIDAL, 6, 4, 10000, INITIAL),
     {{2, {5, 4}}}},
    {"sinusoidal, odd width",
     OPTIONS(qkv_positions_options, QKV_POSITION_SINUSOIDAL, 6, 3, 100, INITIAL),
     {{2, {5, 3}}}},
    {"learned", OPTIONS(qkv_positions_options, QKV_POSITION_LEARNED, 6, 4, 0, INITIAL), {{2, {5, 4}}}},
    {"rotary, two heads",
     OPTIONS(qkv_positions_options, QKV_POSITION_ROTARY, 6, 2, 100, INITIAL),
     {{2, {5, 4}}}},
    {0},
};
LAYER_SAMPLES(positions, qkv_positions);

/* ---- norm ---- */

CREATE(norm)
RUN_ONE(norm)

static const struct qkv_layer_sample norm_samples[] = {
    {"layer norm", OPTIONS(qkv_norm_options, QKV_NORM_LAYER, 5, 1e-6), {{2, {3, 5}}}},
    {"RMS norm", OPTIONS(qkv_norm_options, QKV_NORM_RMS, 5, 1e-6), {{2, {3, 5}}}},
    {0},
};
LAYER_SAMPLES(norm, qkv_norm);

/* ---- multi head ---- */

/* The layer of the gradient check: multi-head attention with the positions that it needs. */
struct layer_and_positions {
    struct qkv_multi_head attention;
    struct qkv_positions positions;
};

struct multi_head_sample {
    struct qkv_multi_head_options attention;
    struct qkv_positions_options positions;
};

static void multi_head_create(void *layer, struct qkv_parameters *parameters, const void *given,
                              const char *name)
{
    struct layer_and_positions *both = layer;
    const struct multi_head_sample *options = given;
    struct qkv_multi_head_options attention = options->attention;
    qkv_positions_init(&both->positions, parameters, &options->positions, "positions");
    if (options->positions.length) attention.positions = &both->positions;
    qkv_multi_head_init(&both->attention, parameters, &attention, name);
}

RUN(multi_head)
{
    const struct layer_and_positions *both = layer;
    const struct qkv_attention_inputs self = {input[0], input[0], NULL, SENTENCES, SENTENCES},
                                      cross = {input[0], input[1], NULL, SENTENCES, KEYS};
    (void)options;
    return qkv_multi_head_apply(&both->attention, graph, input[1] ? &cross : &self, NULL);
}

/* Key and value width per head, and the options that all samples share. */
#define WIDTHS(k, v)                                                                                         \
    .width = 4, .key_width = (k), .value_width = (v), .initial = INITIAL, .output_initial = INITIAL

#define ONE  .input = {{2, {6, 4}}}
#define PAIR .input = {{2, {6, 4}}, {2, {8, 4}}}
static const struct qkv_layer_sample multi_head_samples[] = {
    {"self", OPTIONS(multi_head_sample, .attention = {.rule.heads = 2, WIDTHS(2, 2), .bias = true}), ONE},
    {"causal, no bias, dropout",
     OPTIONS(multi_head_sample,
             .attention = {.rule = {.heads = 2, .causal = true, .dropout = 0.3}, WIDTHS(3, 1)}),
     ONE},
    {"cross, wide values, dropout",
     OPTIONS(multi_head_sample,
             .attention = {.rule = {.heads = 3, .dropout = 0.1}, WIDTHS(1, 5), .bias = true}),
     PAIR},
    {"window, global token, grouped heads",
     OPTIONS(multi_head_sample,
             .attention =
                 {.rule = {.heads = 4, .key_value_heads = 2, .window = 1, .global_tokens = 1, .dropout = 0.2},
                  WIDTHS(2, 3)}),
     ONE},
    {"flash, causal window, global token, grouped heads",
     OPTIONS(multi_head_sample, .attention = {.rule = {.heads = 4,
                                                       .key_value_heads = 2,
                                                       .window = 1,
                                                       .global_tokens = 1,
                                                       .causal = true,
                                                       .dropout = 0.2,
                                                       .kernel = QKV_KERNEL_FLASH},
                                              WIDTHS(2, 3)}),
     ONE},
    {"rotary, one key head",
     OPTIONS(multi_head_sample,
             .attention = {.rule = {.heads = 2, .key_value_heads = 1}, WIDTHS(4, 2), .bias = true},
             .positions = {.kind = QKV_POSITION_ROTARY, .length = 4, .width = 4, .base = 100}),
     ONE},
    {"ALiBi, causal",
     OPTIONS(multi_head_sample,
             .attention = {.rule = {.heads = 3, .causal = true, .alibi = true}, WIDTHS(1, 2), .bias = true}),
     ONE},
    {"relative, flash",
     OPTIONS(multi_head_sample,
             .attention = {.rule = {.heads = 2, .buckets = 6, .max_distance = 3, .kernel = QKV_KERNEL_FLASH},
                           WIDTHS(2, 2),
                           .bias = true},
             .positions = {.kind = QKV_POSITION_RELATIVE, .length = 6, .width = 2, .initial = INITIAL}),
     ONE},
    {"QK-norm, rotary",
     OPTIONS(multi_head_sample,
             .attention = {.rule = {.heads = 4, .key_value_heads = 2},
                           WIDTHS(2, 3),
                           .bias = true,
                           .qk_norm = true,
                           .norm_epsilon = 1e-6},
             .positions = {.kind = QKV_POSITION_ROTARY, .length = 4, .width = 2, .base = 100}),
     ONE},
    {"soft cap, learned sink, dropout",
     OPTIONS(multi_head_sample, .attention = {.rule = {.heads = 2, .soft_cap = 0.4, .dropout = 0.2},
                                              WIDTHS(2, 3),
                                              .sink = QKV_ATTENTION_SINK_LEARNED}),
     ONE},
    {"soft cap, sink of 0, flash",
     OPTIONS(multi_head_sample,
             .attention = {.rule = {.heads = 2, .soft_cap = 0.4, .kernel = QKV_KERNEL_FLASH},
                           WIDTHS(2, 3),
                           .sink = QKV_ATTENTION_SINK_ZERO}),
     PAIR},
    {"output gate, cross",
     OPTIONS(multi_head_sample,
             .attention = {.rule = {.heads = 2}, WIDTHS(2, 3), .bias = true, .output_gate = true}),
     PAIR},
    {0},
};
LAYER_SAMPLES(multi_head, layer_and_positions);

/* ---- feed forward ---- */

CREATE(feed_forward)
RUN_ONE(feed_forward)

static const struct qkv_layer_sample feed_forward_samples[] = {
    {"relu",
     OPTIONS(qkv_feed_forward_options, 3, 7, QKV_ACTIVATION_RELU, 0, INITIAL, INITIAL),
     {{2, {4, 3}}}},
    {"gelu with dropout",
     OPTIONS(qkv_feed_forward_options, 3, 8, QKV_ACTIVATION_GELU, 0.4, INITIAL, INITIAL),
     {{2, {4, 3}}}},
    {"SwiGLU with dropout",
     OPTIONS(qkv_feed_forward_options, 3, 5, QKV_ACTIVATION_SILU, 0.4, INITIAL, INITIAL, true),
     {{2, {4, 3}}}},
    {"GLU without activation",
     OPTIONS(qkv_feed_forward_options, 3, 5, QKV_ACTIVATION_NONE, 0, INITIAL, INITIAL, true),
     {{2, {4, 3}}}},
    {0},
};
LAYER_SAMPLES(feed_forward, qkv_feed_forward);

/* ---- residual: the sublayer is tanh ---- */

struct residual_sample {
    struct qkv_norm_options norm;
    enum qkv_norm_place place;
    double dropout;
};

static void residual_create(void *layer, struct qkv_parameters *parameters, const void *given,
                            const char *name)
{
    const struct residual_sample *options = given;
    qkv_residual_init(layer, parameters, &options->norm, options->place, options->dropout, name);
}

RUN(residual)
{
    (void)options;
    struct qkv_tensor *inside = qkv_residual_input(layer, graph, input[0]);
    return qkv_residual_output(layer, graph, input[0], qkv_tanh(graph, inside));
}

static const struct qkv_layer_sample residual_samples[] = {
    {"pre-norm", OPTIONS(residual_sample, {QKV_NORM_LAYER, 5, 1e-6}, QKV_NORM_PRE, 0), {{2, {3, 5}}}},
    {"post-norm with dropout",
     OPTIONS(residual_sample, {QKV_NORM_LAYER, 5, 1e-6}, QKV_NORM_POST, 0.2),
     {{2, {3, 5}}}},
    {"pre-norm RMS with dropout",
     OPTIONS(residual_sample, {QKV_NORM_RMS, 5, 1e-6}, QKV_NORM_PRE, 0.2),
     {{2, {3, 5}}}},
    {0},
};
LAYER_SAMPLES(residual, qkv_residual);

/* ---- recurrent: input[1] is the second input of layers with a feed, else the initial state ---- */

struct recurrent_sample {
    struct qkv_recurrent_options layer;
    bool reverse;
};

static void recurrent_create(void *layer, struct qkv_parameters *parameters, const void *options,
                             const char *name)
{
    qkv_recurrent_init(layer, parameters, &((const struct recurrent_sample *)options)->layer, name);
}

RUN(recurrent)
{
    const struct qkv_recurrent *cell = layer;
    bool reverse = ((const struct recurrent_sample *)options)->reverse;
    struct qkv_tensor *gates = qkv_recurrent_gates(cell, graph, input[0]);
    if (cell->feed) gates = qkv_recurrent_add_input(cell, graph, gates, input[1]);
    struct qkv_tensor *states =
        qkv_recurrent_run(cell, graph, gates, cell->feed ? NULL : input[1], SENTENCES, reverse);
    return qkv_recurrent_hidden(cell, graph, states);
}

static const struct qkv_layer_sample recurrent_samples[] = {
    {"tanh", OPTIONS(recurrent_sample, {QKV_CELL_TANH, 3, 4, 0, 0, INITIAL, INITIAL}, false), {{2, {6, 3}}}},
    {"gru, reverse, from a state",
     OPTIONS(recurrent_sample, {QKV_CELL_GRU, 3, 4, 0, 0, INITIAL, INITIAL}, true),
     {{2, {6, 3}}, {2, {3, 4}}}},
    {"gru, with feed",
     OPTIONS(recurrent_sample, {QKV_CELL_GRU, 3, 2, 5, 0, INITIAL, INITIAL}, false),
     {{2, {6, 3}}, {2, {6, 5}}}},
    {"lstm, from a state",
     OPTIONS(recurrent_sample, {QKV_CELL_LSTM, 3, 4, 0, 1, INITIAL, INITIAL}, false),
     {{2, {6, 3}}, {2, {3, 8}}}},
    {"lstm, reverse, with feed",
     OPTIONS(recurrent_sample, {QKV_CELL_LSTM, 2, 3, 3, 1, INITIAL, INITIAL}, true),
     {{2, {6, 2}}, {2, {6, 3}}}},
    {0},
};
LAYER_SAMPLES(recurrent, qkv_recurrent);

/* ---- single head attention ---- */

CREATE(single_head_attention)

RUN(single_head_attention)
{
    const struct qkv_attention_inputs inputs = {input[0], input[1], NULL, SENTENCES, KEYS};
    (void)options;
    struct qkv_tensor *key = qkv_single_head_attention_keys(layer, graph, inputs.memory);
    return qkv_single_head_attention_apply(layer, graph, key, &inputs, NULL);
}

#define RAGGED .input = {{2, {6, 4}}, {2, {8, 5}}}
static const struct qkv_layer_sample single_head_attention_samples[] = {
    {"scaled dot, dropout",
     OPTIONS(qkv_single_head_attention_options, QKV_ATTENTION_SCORE_SCALED_DOT, 4, 5, 3, 0, 0.2, INITIAL),
     RAGGED},
    {"additive",
     OPTIONS(qkv_single_head_attention_options, QKV_ATTENTION_SCORE_ADDITIVE, 4, 5, 3, 0, 0, INITIAL),
     RAGGED},
    {"dot", OPTIONS(qkv_single_head_attention_options, QKV_ATTENTION_SCORE_DOT, 5, 5, 0, 0, 0, INITIAL),
     .input = {{2, {6, 5}}, {2, {8, 5}}}},
    {"general, dropout",
     OPTIONS(qkv_single_head_attention_options, QKV_ATTENTION_SCORE_GENERAL, 4, 5, 0, 0, 0.3, INITIAL),
     RAGGED},
    {"concat", OPTIONS(qkv_single_head_attention_options, QKV_ATTENTION_SCORE_CONCAT, 4, 5, 3, 0, 0, INITIAL),
     RAGGED},
    {"local-p, dropout",
     OPTIONS(qkv_single_head_attention_options, QKV_ATTENTION_SCORE_LOCAL_P, 4, 5, 3, 2, 0.2, INITIAL),
     RAGGED},
    {0},
};
LAYER_SAMPLES(single_head_attention, qkv_single_head_attention);

/* ---- the check ---- */

static const struct qkv_layer_interface *const LAYERS[QKV_LAYER_COUNT] = {
#define LAYER(name) [QKV_LAYER_##name] = &name##_layer,
#include "qkv/layers.def"
#undef LAYER
};

const struct qkv_layer_interface *qkv_layer_interface(enum qkv_layer_id layer)
{
    return (int)layer >= 0 && (int)layer < QKV_LAYER_COUNT ? LAYERS[layer] : NULL;
}

enum qkv_layer_id qkv_layer_find(const char *name)
{
    for (int layer = 0; layer < QKV_LAYER_COUNT; layer++)
        if (name && !strcmp(qkv_layer_interface((enum qkv_layer_id)layer)->name, name))
            return (enum qkv_layer_id)layer;
    return QKV_LAYER_COUNT;
}

/* Sets numbers to random ones in -1 .. 1. */
static void fill(int64_t count, double *numbers, uint64_t seed, uint32_t random_step)
{
    const struct qkv_random random = {seed, QKV_STREAM_CHECK, random_step};
    for (int64_t i = 0; i < count; i++) numbers[i] = 2 * qkv_random_uniform(random, (uint64_t)i) - 1;
}

/* Checks one sample: creates a layer with random parameters and inputs. Biases are random too,
 * because zeros would hide faults. */
static enum qkv_status check_sample(struct qkv_check_report *report,
                                    const struct qkv_layer_interface *interface,
                                    const struct qkv_layer_sample *sample,
                                    const struct qkv_check_options *options, struct qkv_error *error)
{
    struct qkv_parameters parameters = {0};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    void *layer = graph ? qkv_graph_memory(graph, interface->size) : NULL;
    const char *subject = qkv_arena_format(&report->arena, "layer %s (%s)", interface->name, sample->name);
    enum qkv_status status = QKV_INVALID;
    if (layer && subject) {
        interface->init(layer, &parameters, sample->options, interface->name);
        status = qkv_parameters_allocate(&parameters, QKV_FLOAT64, error);
    } else {
        qkv_error_set(error, "out of memory for layer %s", interface->name);
    }
    if (!status) {
        const struct qkv_random random = {.seed = options->seed, .step = 3};
        fill(parameters.elements, parameters.values, options->seed, 9);
        qkv_graph_bind(graph, &parameters,
                       qkv_graph_memory(graph, (size_t)parameters.elements * sizeof(double)), false);
        qkv_graph_set_dropout(graph, &random);
        struct qkv_tensor *input[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++) {
            if (!sample->input[i].rank) continue;
            input[i] = qkv_variable(graph, sample->input[i]);
            fill(qkv_tensor_count(input[i]), qkv_tensor_value(input[i]), options->seed, (uint32_t)i + 1);
        }
        status = qkv_check_graph(report, subject, graph,
                                 interface->apply(layer, graph, input, sample->options), options, error);
    }
    qkv_graph_free(graph);
    qkv_parameters_release(&parameters);
    return status;
}

enum qkv_status qkv_check_layer(struct qkv_check_report *report, enum qkv_layer_id layer,
                                const struct qkv_check_options *options, struct qkv_error *error)
{
    if (qkv_check_arguments(report, options, "qkv_check_layer", error)) return QKV_INVALID;
    if ((int)layer < 0 || layer >= QKV_LAYER_COUNT)
        return qkv_error_set(error, "qkv_check_layer: there is no layer %d", (int)layer);
    const struct qkv_layer_interface *interface = qkv_layer_interface(layer);
    if (!interface->samples || !interface->samples[0].name) {
        struct qkv_check_row *row = qkv_check_add(report, interface->name, "samples");
        if (!row) return qkv_error_set(error, "out of memory");
        qkv_check_fail(report, row, "the layer has no samples");
    }
    enum qkv_status status = QKV_OK;
    for (const struct qkv_layer_sample *s = interface->samples; !status && s && s->name; s++)
        status = check_sample(report, interface, s, options, error);
    return status;
}
