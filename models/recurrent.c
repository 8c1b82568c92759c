/* Recurrent encoder-decoders: with a fixed vector between the two (Cho et al. 2014; Sutskever et al. 2014),
 * or with attention (Bahdanau et al. 2015; Luong et al. 2015). In all of them the decoder attends with the
 * state that has taken in the last word, and its output is tanh(W [state; context]), as in Luong's. */
#include "models/recurrent.h"

/* ---- declaring ---- */

/* M: the width of what the encoder leaves of a token. */
static int64_t memory_width(const struct qkv_model_config *config)
{
    return config->encoder.hidden_size * (config->encoder.bidirectional ? 2 : 1);
}

static bool feeds_summary(const struct qkv_model_config *config)
{
    return config->decoder.input_feeding && config->decoder.attention.score == QKV_ATTENTION_SCORE_NONE;
}

bool qkv_recurrent_feeds_summary(const struct qkv_model *model)
{
    return feeds_summary(&model->config);
}

bool qkv_recurrent_feeds_steps(const struct qkv_model *model)
{
    return model->config.decoder.input_feeding && !feeds_summary(&model->config);
}

static void declare_embedding(struct qkv_model *model, struct qkv_embedding *embedding,
                              const struct qkv_stack_config *config, int32_t size, const char *name)
{
    const struct qkv_embedding_options options = {
        size,
        config->embeddings.embedding_dim,
        config->embeddings.scale,
        {model->config.embed_initializer, model->config.embed_init_gain}};
    qkv_embedding_init(embedding, &model->parameters, &options, name);
}

static struct qkv_recurrent_options cell_options(const struct qkv_model_config *config,
                                                 const struct qkv_stack_config *stack, int64_t inputs)
{
    const struct qkv_initial weight = {config->initializer, config->init_gain},
                             orthogonal = {QKV_INITIALIZER_ORTHOGONAL, 1};
    return (struct qkv_recurrent_options){
        .cell = stack->rnn_type,
        .inputs = inputs,
        .width = stack->hidden_size,
        .forget_bias = config->lstm_forget_gate,
        .initial = weight,
        .recurrent = config->init_rnn_orthogonal ? orthogonal : weight,
    };
}

static void declare_encoder(struct qkv_model *model, struct recurrent *network)
{
    static const char *const ways[] = {"forward", "backward"};
    const struct qkv_stack_config *config = &model->config.encoder;
    struct qkv_parameters *parameters = &model->parameters;
    declare_embedding(model, &network->source_embedding, config, model->source_size, "encoder.embeddings");
    for (int64_t l = 0; l < config->num_layers; l++)
        for (int way = 0; way < network->ways; way++) {
            int64_t inputs = l ? memory_width(&model->config) : config->embeddings.embedding_dim;
            const struct qkv_recurrent_options options = cell_options(&model->config, config, inputs);
            /* An encoder that reads in one direction names it by what it does. */
            const char *name = qkv_arena_format(&parameters->arena, "encoder.%lld.%s", (long long)l + 1,
                                                ways[config->reverse ? 1 : way]);
            qkv_recurrent_init(&network->encoder[l].way[way], parameters, &options, name ? name : "");
        }
}

static void declare_decoder(struct qkv_model *model, struct recurrent *network)
{
    const struct qkv_stack_config *config = &model->config.decoder;
    struct qkv_parameters *parameters = &model->parameters;
    const struct qkv_initial weight = {model->config.initializer, model->config.init_gain};
    int64_t memory = memory_width(&model->config), width = config->hidden_size;
    if (model->config.tied_embeddings)
        network->target_embedding = network->source_embedding;
    else
        declare_embedding(model, &network->target_embedding, config, model->target_size,
                          "decoder.embeddings");
    for (int64_t l = 0; l < config->num_layers; l++) {
        struct qkv_recurrent_options options =
            cell_options(&model->config, config, l ? width : config->embeddings.embedding_dim);
        if (l == 0 && config->input_feeding) options.feed = network->attends ? width : memory;
        const char *name = qkv_arena_format(&parameters->arena, "decoder.%lld", (long long)l + 1);
        const char *bridge_name =
            qkv_arena_format(&parameters->arena, "decoder.%lld.bridge", (long long)l + 1);
        const struct qkv_dense_options bridge = {memory, qkv_recurrent_states(config->rnn_type, width), true,
                                                 QKV_ACTIVATION_TANH, weight};
        qkv_recurrent_init(&network->decoder[l].cell, parameters, &options, name ? name : "");
        if (config->init_hidden == QKV_INIT_HIDDEN_BRIDGE)
            qkv_dense_init(&network->decoder[l].bridge, parameters, &bridge, bridge_name ? bridge_name : "");
    }
    if (!network->attends) return;
    const struct qkv_single_head_attention_options attention = {
        .score = config->attention.score,
        .query_width = width,
        .memory_width = memory,
        .key_width = config->attention.key_width,
        .window = config->attention.local_window,
        .dropout = config->attention.dropout,
        .initial = weight,
    };
    const struct qkv_dense_options vector = {width + memory, width, true, QKV_ACTIVATION_TANH, weight};
    qkv_single_head_attention_init(&network->attention, parameters, &attention, "decoder.attention");
    qkv_dense_init(&network->attention_vector, parameters, &vector, "decoder.attention_vector");
}

static void *declare(struct qkv_model *model)
{
    const struct qkv_model_config *config = &model->config;
    struct qkv_arena *arena = &model->parameters.arena;
    struct recurrent *network = qkv_arena_zeroed(arena, sizeof *network);
    if (!network) return NULL;
    network->ways = config->encoder.bidirectional ? 2 : 1;
    network->attends = config->decoder.attention.score != QKV_ATTENTION_SCORE_NONE;
    network->encoder = qkv_arena_zeroed(arena, (size_t)config->encoder.num_layers * sizeof *network->encoder);
    network->decoder = qkv_arena_zeroed(arena, (size_t)config->decoder.num_layers * sizeof *network->decoder);
    if (!network->encoder || !network->decoder) return NULL;
    declare_encoder(model, network);
    declare_decoder(model, network);
    return network;
}

/* ---- the encoder ---- */

/* The row that a direction reads last, of each sentence. */
static const int32_t *last_rows(struct qkv_graph *graph, struct qkv_segments segments, bool backward)
{
    int32_t *rows = qkv_graph_memory(graph, (size_t)segments.count * sizeof *rows);
    for (int64_t s = 0; rows && s < segments.count; s++)
        rows[s] = (int32_t)(segments.start[s] + (backward ? 0 : segments.length[s] - 1));
    return rows;
}

/* The state that decoder layer `layer` starts from, of each sentence; `ends` is that of the encoder's layer
 * of the same number, in its first direction. */
static struct qkv_tensor *initial_state(const struct qkv_model *model, struct qkv_graph *graph, int64_t layer,
                                        struct qkv_tensor *ends, struct qkv_tensor *summary)
{
    const struct recurrent *network = model->network;
    switch (model->config.decoder.init_hidden) {
    case QKV_INIT_HIDDEN_BRIDGE:
        return qkv_dense_apply(&network->decoder[layer].bridge, graph, summary);
    case QKV_INIT_HIDDEN_LAST:
        return ends;
    case QKV_INIT_HIDDEN_ZERO:
        break;
    }
    return NULL;
}

struct source qkv_recurrent_encode(const struct qkv_model *model, struct qkv_graph *graph, const int32_t *ids,
                                   int64_t count, struct qkv_segments segments)
{
    const struct recurrent *network = model->network;
    const struct qkv_stack_config *config = &model->config.encoder;
    int64_t layers = model->config.decoder.num_layers;
    struct source source = {.segments = segments};
    struct qkv_tensor **ends = qkv_graph_memory(graph, (size_t)config->num_layers * sizeof *ends);
    source.initial = qkv_graph_memory(graph, (size_t)layers * sizeof *source.initial);
    if (!ends || !source.initial) return source;
    struct qkv_tensor *x = qkv_embedding_apply(&network->source_embedding, graph, ids, count);
    x = qkv_dropout_apply(graph, x, config->embeddings.dropout);
    for (int64_t l = 0; l < config->num_layers; l++) {
        struct qkv_tensor *both = NULL;
        if (l) x = qkv_dropout_apply(graph, x, config->dropout);
        for (int way = 0; way < network->ways; way++) {
            const struct qkv_recurrent *cell = &network->encoder[l].way[way];
            bool backward = way == 1 || config->reverse;
            struct qkv_tensor *states =
                qkv_recurrent_run(cell, graph, qkv_recurrent_gates(cell, graph, x), NULL, segments, backward);
            struct qkv_tensor *hidden = qkv_recurrent_hidden(cell, graph, states);
            struct qkv_tensor *end =
                qkv_gather_rows(graph, states, last_rows(graph, segments, backward), segments.count);
            struct qkv_tensor *end_hidden = qkv_recurrent_hidden(cell, graph, end);
            both = way ? qkv_concat(graph, both, hidden, 1) : hidden;
            source.summary = way ? qkv_concat(graph, source.summary, end_hidden, 1) : end_hidden;
            if (way == 0) ends[l] = end;
        }
        x = both;
    }
    source.memory = x;
    if (network->attends) source.keys = qkv_single_head_attention_keys(&network->attention, graph, x);
    for (int64_t l = 0; l < layers; l++)
        source.initial[l] =
            initial_state(model, graph, l, l < config->num_layers ? ends[l] : NULL, source.summary);
    return source;
}

/* ---- the decoder ---- */

struct qkv_tensor *qkv_recurrent_embed(const struct qkv_model *model, struct qkv_graph *graph,
                                       const int32_t *ids, int64_t count)
{
    const struct recurrent *network = model->network;
    struct qkv_tensor *x = qkv_embedding_apply(&network->target_embedding, graph, ids, count);
    x = qkv_dropout_apply(graph, x, model->config.decoder.embeddings.dropout);
    return qkv_recurrent_gates(&network->decoder[0].cell, graph, x);
}

struct qkv_tensor *qkv_recurrent_decode(const struct qkv_model *model, struct qkv_graph *graph,
                                        struct qkv_tensor *gates, struct qkv_tensor **state,
                                        struct qkv_segments queries, const struct source *source,
                                        struct qkv_segments keys, struct looked *looked)
{
    const struct recurrent *network = model->network;
    const struct qkv_stack_config *config = &model->config.decoder;
    struct qkv_tensor *hidden = NULL;
    for (int64_t l = 0; l < config->num_layers; l++) {
        const struct qkv_recurrent *cell = &network->decoder[l].cell;
        if (l) gates = qkv_recurrent_gates(cell, graph, qkv_dropout_apply(graph, hidden, config->dropout));
        state[l] = qkv_recurrent_run(cell, graph, gates, state[l], queries, false);
        hidden = qkv_recurrent_hidden(cell, graph, state[l]);
    }
    if (!network->attends) return qkv_dropout_apply(graph, hidden, config->hidden_dropout);
    if (looked) looked->states = hidden;
    struct qkv_tensor *context =
        qkv_single_head_attention_apply(&network->attention, graph, hidden, source->keys, source->memory,
                                        queries, keys, looked ? &looked->weights : NULL); /* [rows, M] */
    struct qkv_tensor *both = qkv_concat(graph, hidden, context, 1);
    return qkv_dense_apply(&network->attention_vector, graph,
                           qkv_dropout_apply(graph, both, config->hidden_dropout));
}

/* The number of its sentence for each row. */
static const int32_t *sentence_of_rows(struct qkv_graph *graph, struct qkv_segments segments, int64_t rows)
{
    int32_t *numbers = qkv_graph_memory(graph, (size_t)rows * sizeof *numbers);
    for (int64_t s = 0; numbers && s < segments.count; s++)
        for (int64_t i = 0; i < segments.length[s]; i++) numbers[segments.start[s] + i] = (int32_t)s;
    return numbers;
}

/* All steps at once: no step needs what another found. */
static struct qkv_tensor *decode_whole(const struct qkv_model *model, struct qkv_graph *graph,
                                       const struct qkv_batch_view *batch, const struct source *source,
                                       struct looked *looked)
{
    const struct recurrent *network = model->network;
    const struct qkv_segments target = {batch->count, batch->target_start, batch->target_length};
    int64_t rows = batch->target_tokens;
    struct qkv_tensor *gates = qkv_recurrent_embed(model, graph, batch->target_input, rows);
    if (qkv_recurrent_feeds_summary(model)) {
        struct qkv_tensor *repeated =
            qkv_gather_rows(graph, source->summary, sentence_of_rows(graph, target, rows), rows);
        gates = qkv_recurrent_feed(&network->decoder[0].cell, graph, gates, repeated);
    }
    return qkv_recurrent_decode(model, graph, gates, source->initial, target, source, source->segments,
                                looked);
}

static struct qkv_tensor *hidden(const struct qkv_model *model, struct qkv_graph *graph,
                                 const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct recurrent *network = model->network;
    const struct qkv_segments segments = {batch->count, batch->source_start, batch->source_length};
    struct source source = qkv_recurrent_encode(model, graph, batch->source, batch->source_tokens, segments);
    struct looked looked = {0};
    if (!source.memory) return NULL;
    struct qkv_tensor *result =
        qkv_recurrent_feeds_steps(model)
            ? qkv_recurrent_by_steps(model, graph, batch, &source, trace ? &looked : NULL)
            : decode_whole(model, graph, batch, &source, &looked);
    if (trace && network->attends)
        trace->attention[trace->count++] = (struct qkv_attention_node){
            QKV_ATTENTION_CROSS, 1, looked.weights, looked.states, source.memory, result};
    return result;
}

const struct qkv_network_interface qkv_network_recurrent = {
    .name = "recurrent",
    .declare = declare,
    .hidden = hidden,
    .decoding = &qkv_recurrent_decoding,
};
