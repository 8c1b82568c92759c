/* The layers of the recurrent network: their parameters, the encoder, and the decoder. */
#include "models/recurrent.h"

/* ---- declaring ---- */

/* M: the width of a row of the encoder's memory. */
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

bool qkv_recurrent_feeds_attentional(const struct qkv_model *model)
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
    static const char *const directions[] = {"forward", "backward"};
    const struct qkv_stack_config *config = &model->config.encoder;
    struct qkv_parameters *parameters = &model->parameters;
    declare_embedding(model, &network->source_embedding, config, model->source_size, "encoder.embeddings");
    for (int64_t l = 0; l < config->num_layers; l++)
        for (int d = 0; d < network->directions; d++) {
            int64_t inputs = l ? memory_width(&model->config) : config->embeddings.embedding_dim;
            const struct qkv_recurrent_options options = cell_options(&model->config, config, inputs);
            /* The only direction of a reversed encoder is called backward. */
            const char *name = qkv_arena_format(&parameters->arena, "encoder.%lld.%s", (long long)l + 1,
                                                directions[config->reverse ? 1 : d]);
            qkv_recurrent_init(&network->encoder[l].direction[d], parameters, &options, name ? name : "");
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
        if (l == 0 && config->input_feeding) options.feed = network->has_attention ? width : memory;
        const char *name = qkv_arena_format(&parameters->arena, "decoder.%lld", (long long)l + 1);
        const char *bridge_name =
            qkv_arena_format(&parameters->arena, "decoder.%lld.bridge", (long long)l + 1);
        const struct qkv_dense_options bridge = {memory, qkv_recurrent_state_width(config->rnn_type, width),
                                                 true, QKV_ACTIVATION_TANH, weight};
        qkv_recurrent_init(&network->decoder[l].cell, parameters, &options, name ? name : "");
        if (config->init_hidden == QKV_INIT_HIDDEN_BRIDGE)
            qkv_dense_init(&network->decoder[l].bridge, parameters, &bridge, bridge_name ? bridge_name : "");
    }
    if (!network->has_attention) return;
    const struct qkv_single_head_attention_options attention = {
        .score = config->attention.score,
        .query_width = width,
        .memory_width = memory,
        .key_width = config->attention.key_width,
        .window = config->attention.local_window,
        .dropout = config->attention.rule.dropout,
        .initial = weight,
    };
    const struct qkv_dense_options attentional = {width + memory, width, true, QKV_ACTIVATION_TANH, weight};
    qkv_single_head_attention_init(&network->attention, parameters, &attention, "decoder.attention");
    qkv_dense_init(&network->attentional, parameters, &attentional, "decoder.attention_vector");
}

void *qkv_recurrent_declare(struct qkv_model *model, struct qkv_error *error)
{
    (void)error; /* the rules between config keys have refused invalid values */
    const struct qkv_model_config *config = &model->config;
    struct qkv_arena *arena = &model->parameters.arena;
    struct recurrent *network = qkv_arena_zeroed(arena, sizeof *network);
    if (!network) return NULL;
    network->directions = config->encoder.bidirectional ? 2 : 1;
    network->has_attention = config->decoder.attention.score != QKV_ATTENTION_SCORE_NONE;
    network->encoder = qkv_arena_zeroed(arena, (size_t)config->encoder.num_layers * sizeof *network->encoder);
    network->decoder = qkv_arena_zeroed(arena, (size_t)config->decoder.num_layers * sizeof *network->decoder);
    if (!network->encoder || !network->decoder) return NULL;
    declare_encoder(model, network);
    declare_decoder(model, network);
    return network;
}

/* ---- the encoder ---- */

/* The row of each sentence that a direction reads last: [sentences]. */
static const int32_t *last_rows(struct qkv_graph *graph, struct qkv_segments segments, bool backward)
{
    int32_t *rows = qkv_graph_memory(graph, (size_t)segments.count * sizeof *rows);
    for (int64_t s = 0; rows && s < segments.count; s++)
        rows[s] = (int32_t)(segments.start[s] + (backward ? 0 : segments.length[s] - 1));
    return rows;
}

/* Initial state of a decoder layer, [B, S]. `last`: the state after the token that the first direction of
 * encoder layer `layer` reads last; NULL where the encoder has fewer layers. */
static struct qkv_tensor *initial_state(const struct qkv_model *model, struct qkv_graph *graph, int64_t layer,
                                        struct qkv_tensor *last, struct qkv_tensor *summary)
{
    const struct recurrent *network = model->network;
    switch (model->config.decoder.init_hidden) {
    case QKV_INIT_HIDDEN_BRIDGE:
        return qkv_dense_apply(&network->decoder[layer].bridge, graph, summary);
    case QKV_INIT_HIDDEN_LAST:
        return last;
    case QKV_INIT_HIDDEN_ZERO:
        break;
    }
    return NULL;
}

/* One layer of the encoder: x [Ns, any] -> hidden states [Ns, M]. Also gives the last state of the
 * first direction [B, S] and the last hidden states of all directions [B, M]. */
static struct qkv_tensor *encode_layer(const struct qkv_model *model, struct qkv_graph *graph, int64_t layer,
                                       struct qkv_tensor *x, struct qkv_segments segments,
                                       struct qkv_tensor **last, struct qkv_tensor **summary)
{
    const struct recurrent *network = model->network;
    struct qkv_tensor *all = NULL;
    for (int d = 0; d < network->directions; d++) {
        const struct qkv_recurrent *cell = &network->encoder[layer].direction[d];
        bool backward = d == 1 || model->config.encoder.reverse;
        struct qkv_tensor *states =
            qkv_recurrent_run(cell, graph, qkv_recurrent_gates(cell, graph, x), NULL, segments, backward);
        struct qkv_tensor *hidden = qkv_recurrent_hidden(cell, graph, states);
        struct qkv_tensor *end =
            qkv_gather_rows(graph, states, last_rows(graph, segments, backward), segments.count);
        struct qkv_tensor *end_hidden = qkv_recurrent_hidden(cell, graph, end);
        all = d ? qkv_concat(graph, all, hidden, 1) : hidden;
        *summary = d ? qkv_concat(graph, *summary, end_hidden, 1) : end_hidden;
        if (d == 0) *last = end;
    }
    return all;
}

struct encoded_source qkv_recurrent_encode(const struct qkv_model *model, struct qkv_graph *graph,
                                           const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct recurrent *network = model->network;
    const struct qkv_stack_config *config = &model->config.encoder;
    const struct qkv_segments segments = {batch->count, batch->source_start, batch->source_length};
    int64_t layers = model->config.decoder.num_layers;
    struct encoded_source source = {.segments = segments};
    struct qkv_part owner = {.stack = QKV_STACK_ENCODER};
    struct qkv_tensor **last = qkv_graph_memory(graph, (size_t)config->num_layers * sizeof *last);
    source.initial = qkv_graph_memory(graph, (size_t)layers * sizeof *source.initial);
    if (!last || !source.initial) return source;
    struct qkv_tensor *x =
        qkv_embedding_apply(&network->source_embedding, graph, batch->source, batch->source_tokens);
    qkv_trace_record(trace, graph, &owner, QKV_PART_EMBEDDING, x);
    x = qkv_dropout_rows_apply(graph, x, config->embeddings.word_dropout);
    x = qkv_dropout_apply(graph, x, config->embeddings.dropout);
    for (int64_t l = 0; l < config->num_layers; l++) {
        if (l) x = qkv_dropout_apply(graph, x, config->dropout);
        x = encode_layer(model, graph, l, x, segments, &last[l], &source.summary);
        owner.layer = l + 1;
        qkv_trace_record(trace, graph, &owner, QKV_PART_HIDDEN, x);
    }
    source.memory = x;
    if (network->has_attention) {
        source.keys = qkv_single_head_attention_keys(&network->attention, graph, x);
        source.mask = qkv_source_mask(graph, batch);
    }
    for (int64_t l = 0; l < layers; l++)
        source.initial[l] =
            initial_state(model, graph, l, l < config->num_layers ? last[l] : NULL, source.summary);
    return source;
}

/* ---- the decoder ---- */

struct qkv_tensor *qkv_recurrent_embed(const struct qkv_model *model, struct qkv_graph *graph,
                                       const int32_t *ids, int64_t count, struct qkv_tensor **embedded)
{
    const struct recurrent *network = model->network;
    struct qkv_tensor *x = qkv_embedding_apply(&network->target_embedding, graph, ids, count);
    if (embedded) *embedded = x;
    x = qkv_dropout_rows_apply(graph, x, model->config.decoder.embeddings.word_dropout);
    x = qkv_dropout_apply(graph, x, model->config.decoder.embeddings.dropout);
    return qkv_recurrent_gates(&network->decoder[0].cell, graph, x);
}

struct qkv_tensor *qkv_recurrent_decode(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct decoder_input *input, struct attention_record *record)
{
    const struct recurrent *network = model->network;
    const struct qkv_stack_config *config = &model->config.decoder;
    const struct encoded_source *source = input->source;
    struct qkv_tensor *gates = input->gates, *hidden = NULL, *weights = NULL;
    for (int64_t l = 0; l < config->num_layers; l++) {
        const struct qkv_recurrent *cell = &network->decoder[l].cell;
        if (l) gates = qkv_recurrent_gates(cell, graph, qkv_dropout_apply(graph, hidden, config->dropout));
        input->state[l] = qkv_recurrent_run(cell, graph, gates, input->state[l], input->queries, false);
        hidden = qkv_recurrent_hidden(cell, graph, input->state[l]);
    }
    if (!network->has_attention) return qkv_dropout_apply(graph, hidden, config->hidden_dropout);
    const struct qkv_attention_inputs inputs = {.x = hidden,
                                                .memory = source->memory,
                                                .mask = source->mask,
                                                .queries = input->queries,
                                                .keys = input->keys};
    struct qkv_tensor *context = qkv_single_head_attention_apply(&network->attention, graph, source->keys,
                                                                 &inputs, &weights); /* [rows, M] */
    if (record) *record = (struct attention_record){weights, hidden, context};
    struct qkv_tensor *joined = qkv_concat(graph, hidden, context, 1); /* [rows, H + M] */
    return qkv_dense_apply(&network->attentional, graph,
                           qkv_dropout_apply(graph, joined, config->hidden_dropout));
}
