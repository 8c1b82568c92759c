/* Recurrent encoder-decoders: with a fixed vector between encoder and decoder (Cho et al. 2014;
 * Sutskever et al. 2014), or with attention (Bahdanau et al. 2015; Luong et al. 2015). The query is
 * always the decoder's current hidden state h, and the output is the attentional vector tanh(W [h;
 * context]), as in Luong et al.
 *
 * B: sentences of a batch; Ns, Nt: their source and target tokens, packed; E: width of embeddings;
 * H: width of the decoder's hidden states; S: width of a cell's state (LSTM: 2 H, else H); G: gates
 * of a cell (layers.h); M: width of the encoder's memory, which is the hidden states of all
 * directions side by side. The summary of a sentence is the last hidden state of each direction.
 * Input feeding: each decoder step also reads a vector: with attention the attentional vector of the
 * step before it (Luong et al. 2015), without attention the summary (Cho et al. 2014). */
#include "core/memory.h"
#include "models/network.h"

/* One layer of the encoder: a cell for each direction in which it reads. */
struct encoder_layer {
    struct qkv_recurrent direction[2]; /* bidirectional: forward, backward; else only the first is used */
};

struct decoder_layer {
    struct qkv_recurrent cell;
    struct qkv_dense bridge; /* summary [B, M] -> initial state [B, S]; for init_hidden: bridge */
};

struct recurrent {
    struct qkv_embedding source_embedding, target_embedding;
    struct encoder_layer *encoder; /* [encoder layers] */
    struct decoder_layer *decoder; /* [decoder layers] */
    int directions;                /* of the encoder: 1 or 2 */
    bool has_attention;
    struct qkv_single_head_attention attention; /* declared only if has_attention, like attentional */
    struct qkv_dense attentional; /* tanh([h; context] W), [H + M] -> [H] (Luong et al. 2015, equation 5) */
};

/* The encoder's results for the decoder: B sentences with Ns tokens in total. */
struct encoded_source {
    struct qkv_segments segments;
    struct qkv_tensor *memory;   /* [Ns, M]: hidden states of the top layer, directions side by side */
    struct qkv_tensor *keys;     /* [Ns, any]: keys of the memory (width by score); NULL without attention */
    struct qkv_tensor *summary;  /* [B, M]: last hidden state of each direction of the top layer */
    struct qkv_tensor **initial; /* [decoder layers]: initial states [B, S]; NULL: zeros */
    struct qkv_tensor *mask;     /* qkv_source_mask; NULL without attention */
};

/* Nodes of the attention in a forced pass, one row per decoder step; all NULL without attention. */
struct attention_record {
    struct qkv_tensor *weights; /* the node that qkv_attention_weights_of reads */
    struct qkv_tensor *states;  /* [rows, H]: hidden states of the top layer, which are the queries */
    struct qkv_tensor *context; /* [rows, M] */
};

/* ---- declaring ---- */

/* M: the width of a row of the encoder's memory. */
static int64_t memory_width(const struct qkv_model_config *config)
{
    return config->encoder.hidden_size * (config->encoder.bidirectional ? 2 : 1);
}

/* Whether the decoder has input feeding without attention: it reads the summary in each step. */
static bool feeds_summary(const struct qkv_model *model)
{
    const struct qkv_stack_config *config = &model->config.decoder;
    return config->input_feeding && config->attention.score == QKV_ATTENTION_SCORE_NONE;
}

/* Whether the decoder has input feeding with attention: it reads the attentional vector of the step
 * before, so that steps must run one after the other. */
static bool feeds_attentional(const struct qkv_model *model)
{
    return model->config.decoder.input_feeding && !feeds_summary(model);
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

/* "<stack>.<layer><part>", layers from 1; "" when memory runs out. */
static const char *layer_name(struct qkv_parameters *parameters, const char *stack, int64_t layer,
                              const char *part)
{
    return QKV_ARENA_NAME(&parameters->arena, "%s.%lld%s", stack, (long long)layer + 1, part);
}

static void declare_encoder(struct qkv_model *model, struct recurrent *network)
{
    static const char *const directions[] = {".forward", ".backward"};
    const struct qkv_stack_config *config = &model->config.encoder;
    struct qkv_parameters *parameters = &model->parameters;
    declare_embedding(model, &network->source_embedding, config, model->source_size, "encoder.embeddings");
    for (int64_t l = 0; l < config->num_layers; l++)
        for (int d = 0; d < network->directions; d++) {
            int64_t inputs = l ? memory_width(&model->config) : config->embeddings.embedding_dim;
            const struct qkv_recurrent_options options = cell_options(&model->config, config, inputs);
            /* The only direction of a reversed encoder is called backward. */
            qkv_recurrent_init(
                &network->encoder[l].direction[d], parameters, &options,
                layer_name(parameters, "encoder", l, config->reverse ? ".backward" : directions[d]));
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
        const struct qkv_dense_options bridge = {memory, qkv_recurrent_state_width(config->rnn_type, width),
                                                 true, QKV_ACTIVATION_TANH, weight};
        qkv_recurrent_init(&network->decoder[l].cell, parameters, &options,
                           layer_name(parameters, "decoder", l, ""));
        if (config->init_hidden == QKV_INIT_HIDDEN_BRIDGE)
            qkv_dense_init(&network->decoder[l].bridge, parameters, &bridge,
                           layer_name(parameters, "decoder", l, ".bridge"));
    }
    if (!network->has_attention) return;
    const struct qkv_single_head_attention_options attention = {
        .score = config->attention.score,
        .query_width = width,
        .memory_width = memory,
        .key_width = config->attention.key_width,
        .local_window = config->attention.local_window,
        .dropout = config->attention.dropout,
        .initial = weight,
    };
    const struct qkv_dense_options attentional = {width + memory, width, true, QKV_ACTIVATION_TANH, weight};
    qkv_single_head_attention_init(&network->attention, parameters, &attention, "decoder.attention");
    qkv_dense_init(&network->attentional, parameters, &attentional, "decoder.attention_vector");
}

static void *declare(struct qkv_model *model, struct qkv_error *error)
{
    (void)error; /* the rules between config keys have refused invalid values */
    const struct qkv_model_config *config = &model->config;
    struct qkv_arena *arena = &model->parameters.arena;
    struct recurrent *network = qkv_arena_zeroed(arena, sizeof *network);
    if (!network) return NULL;
    network->directions = config->encoder.bidirectional ? 2 : 1;
    network->has_attention = config->decoder.attention.score != QKV_ATTENTION_SCORE_NONE;
    network->encoder = qkv_arena_zeros(arena, config->encoder.num_layers, sizeof *network->encoder);
    network->decoder = qkv_arena_zeros(arena, config->decoder.num_layers, sizeof *network->decoder);
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

/* Runs the encoder. On errors, which qkv_graph_check reports, memory is NULL. trace may be NULL. */
static struct encoded_source encode(const struct qkv_model *model, struct qkv_graph *graph,
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
    for (int64_t l = 0; l < layers; l++) {
        enum qkv_init_hidden init = model->config.decoder.init_hidden;
        source.initial[l] = NULL; /* also where the encoder has no layer of this number */
        if (init == QKV_INIT_HIDDEN_BRIDGE)
            source.initial[l] = qkv_dense_apply(&network->decoder[l].bridge, graph, source.summary);
        else if (init == QKV_INIT_HIDDEN_LAST && l < config->num_layers)
            source.initial[l] = last[l];
    }
    return source;
}

/* ---- the decoder ---- */

/* Embeds target ids and multiplies the embeddings by the input weights of the first decoder layer. The
 * result, [count, G H], is the argument `gates` of qkv_recurrent_run, which adds the recurrent product.
 * Stores the embeddings [count, E] in *embedded, unless that is NULL. */
static struct qkv_tensor *embed(const struct qkv_model *model, struct qkv_graph *graph, const int32_t *ids,
                                int64_t count, struct qkv_tensor **embedded)
{
    const struct recurrent *network = model->network;
    struct qkv_tensor *x = qkv_embedding_apply(&network->target_embedding, graph, ids, count);
    if (embedded) *embedded = x;
    x = qkv_dropout_rows_apply(graph, x, model->config.decoder.embeddings.word_dropout);
    x = qkv_dropout_apply(graph, x, model->config.decoder.embeddings.dropout);
    return qkv_recurrent_gates(&network->decoder[0].cell, graph, x);
}

/* The arguments of `decode`. */
struct decoder_input {
    /* [rows, G H]: `embed`, plus qkv_recurrent_add_input if input is fed */
    struct qkv_tensor *gates;
    /* [layers]: the initial states [B, S], NULL for zeros. `decode` replaces them by the states after each row,
     * [rows, S]. */
    struct qkv_tensor **state;
    /* Of the rows: a segment has all tokens of a sentence, or the one of a step */
    struct qkv_segments queries;
    const struct encoded_source *source;
    struct qkv_segments keys; /* of source->memory: sentence i of queries attends to sentence i of keys */
};

/* Runs the decoder layers and the attention over the rows of input->queries. Returns the
 * attentional vectors, without attention the hidden states of the top layer: [rows, H]. Fills
 * *record, unless that is NULL. */
static struct qkv_tensor *decode(const struct qkv_model *model, struct qkv_graph *graph,
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

/* ---- the forced pass with input feeding ----
 * A step needs the attentional vector of the step before it, so
 * the steps of a batch run one after the other, each for all sentences that are long enough.
 * Here sentences are sorted by length, longest first: the sentences that have a token at a
 * step are then always the first rows. Rows are in step order: all first tokens, then all second
 * tokens, and so on. The results are gathered back into the packed order of the batch. */

struct steps {
    const struct qkv_batch_view *batch;
    int64_t count;   /* steps: tokens of the longest target */
    int64_t *active; /* [count]: number of sentences that have a token at a step */
    int64_t *first;  /* [count]: first row of a step */
    int32_t *order;  /* [sentences]: order[i] is the index in the batch of the i-th longest sentence */
    int64_t *key_start, *key_length;     /* [sentences], sorted: segments of the sources */
    int64_t *query_start, *query_length; /* [sentences]: segments of a step, one row for each sentence */
    int32_t *ids;                        /* [target tokens], in step order */
    int32_t *row_of;                     /* [target tokens]: packed row -> row in step order */
    struct qkv_tensor **state;           /* [layers]: states after the last step, [active, S] */
    /* [count], of each step: attentional vectors [active, H], and the nodes of its attention_record */
    struct qkv_tensor **output, **weights, **hidden, **context;
};

static bool make_room_for_steps(struct steps *s, struct qkv_graph *graph, int64_t layers)
{
    size_t sentences = (size_t)s->batch->count, tokens = (size_t)s->batch->target_tokens;
    for (int64_t i = 0; i < s->batch->count; i++)
        if (s->batch->target_length[i] > s->count) s->count = s->batch->target_length[i];
    size_t steps = (size_t)s->count;
    s->active = qkv_graph_memory(graph, steps * sizeof *s->active);
    s->first = qkv_graph_memory(graph, steps * sizeof *s->first);
    s->state = qkv_graph_memory(graph, (size_t)layers * sizeof(struct qkv_tensor *));
    s->order = qkv_graph_memory(graph, sentences * sizeof *s->order);
    s->ids = qkv_graph_memory(graph, tokens * sizeof *s->ids);
    s->row_of = qkv_graph_memory(graph, tokens * sizeof *s->row_of);
    int64_t **arrays[] = {&s->key_start, &s->key_length, &s->query_start, &s->query_length};
    struct qkv_tensor ***const lists[] = {&s->output, &s->weights, &s->hidden, &s->context};
    for (int i = 0; i < 4; i++) {
        *arrays[i] = qkv_graph_memory(graph, sentences * sizeof **arrays[i]);
        *lists[i] = qkv_graph_memory(graph, steps * sizeof(struct qkv_tensor *));
    }
    return !qkv_graph_check(graph, NULL);
}

/* Sorts the sentences, longest first and those of equal length in the order of the batch, and sets the segments, ids and
 * rows of all steps. */
static void sort_sentences(struct steps *s)
{
    const struct qkv_batch_view *batch = s->batch;
    int32_t next = 0;
    for (int64_t length = s->count; length > 0; length--) {
        for (int64_t i = 0; i < batch->count; i++) {
            if (batch->target_length[i] != length) continue;
            s->key_start[next] = batch->source_start[i];
            s->key_length[next] = batch->source_length[i];
            s->query_start[next] = next;
            s->query_length[next] = 1;
            s->order[next++] = (int32_t)i;
        }
        s->active[length - 1] = next;
    }
    int64_t row = 0;
    for (int64_t t = 0; t < s->count; t++) {
        s->first[t] = row;
        for (int64_t i = 0; i < s->active[t]; i++, row++) {
            int64_t packed = batch->target_start[s->order[i]] + t;
            s->ids[row] = batch->target_input[packed];
            s->row_of[packed] = (int32_t)row;
        }
    }
}

/* One step. Slices drop the rows of sentences that have ended. */
static void take_step(const struct qkv_model *model, struct qkv_graph *graph, struct steps *s,
                      struct qkv_tensor *gates, const struct encoded_source *source, int64_t t)
{
    const struct recurrent *network = model->network;
    int64_t active = s->active[t];
    const struct qkv_segments queries = {active, s->query_start, s->query_length};
    const struct qkv_segments keys = {active, s->key_start, s->key_length};
    struct qkv_tensor *input_gates = qkv_slice(graph, gates, 0, s->first[t], active);
    for (int64_t l = 0; t && l < model->config.decoder.num_layers; l++)
        s->state[l] = qkv_slice(graph, s->state[l], 0, 0, active);
    if (t) /* the first step is fed zeros */
        input_gates = qkv_recurrent_add_input(&network->decoder[0].cell, graph, input_gates,
                                              qkv_slice(graph, s->output[t - 1], 0, 0, active));
    const struct decoder_input input = {input_gates, s->state, queries, source, keys};
    struct attention_record record = {0};
    s->output[t] = decode(model, graph, &input, &record);
    s->weights[t] = record.weights;
    s->hidden[t] = record.states;
    s->context[t] = record.context;
}

/* The weights of all steps, rearranged into the layout of an attention op over complete sentences: one [target tokens,
 * source tokens] matrix per sentence (array [P] of ops.def). */
static struct qkv_tensor *arrange_weights(struct qkv_graph *graph, const struct steps *s,
                                          const struct encoded_source *source)
{
    const struct qkv_batch_view *batch = s->batch;
    const struct qkv_attention attention = {
        .rule.heads = 1,
        .queries = {batch->count, batch->target_start, batch->target_length},
        .keys = source->segments,
    };
    int64_t total = 0, at = 0, step_first = 0;
    for (int64_t i = 0; i < batch->count; i++) total += batch->target_length[i] * batch->source_length[i];
    /* For each number of the result, its offset in the concatenated weights of all steps. */
    int32_t *offsets = qkv_graph_memory(graph, (size_t)total * sizeof *offsets);
    /* For each row (in step order), the offset of its weights. */
    int64_t *first = qkv_graph_memory(graph, (size_t)batch->target_tokens * sizeof *first);
    if (!offsets || !first) return NULL;
    for (int64_t t = 0; t < s->count; t++)
        for (int64_t i = 0; i < s->active[t]; i++) {
            first[s->first[t] + i] = step_first;
            step_first += s->key_length[i];
        }
    for (int64_t i = 0; i < batch->count; i++)
        for (int64_t t = 0; t < batch->target_length[i]; t++)
            for (int64_t j = 0; j < batch->source_length[i]; j++)
                offsets[at++] = (int32_t)(first[s->row_of[batch->target_start[i] + t]] + j);
    return qkv_attention_arrange(graph, qkv_concat_all(graph, s->weights, s->count, 0), offsets, attention);
}

/* The rows of all steps in packed order. step: those of each step. */
static struct qkv_tensor *pack(struct qkv_graph *graph, const struct steps *s, struct qkv_tensor *const *step)
{
    return qkv_gather_rows(graph, qkv_concat_all(graph, step, s->count, 0), s->row_of,
                           s->batch->target_tokens);
}

/* The tensors of a forced pass of the decoder that the trace records. */
struct decoder_record {
    struct qkv_tensor *embedded; /* [Nt, E] */
    struct attention_record attention;
};

/* Returns the attentional vectors [Nt, H]. record may be NULL. */
static struct qkv_tensor *decode_by_steps(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch,
                                          const struct encoded_source *source, struct decoder_record *record)
{
    struct steps s = {.batch = batch};
    int64_t layers = model->config.decoder.num_layers, rows = batch->target_tokens;
    struct qkv_tensor *embedded;
    if (!make_room_for_steps(&s, graph, layers)) return NULL;
    sort_sentences(&s);
    struct qkv_tensor *gates = embed(model, graph, s.ids, rows, &embedded);
    for (int64_t l = 0; l < layers; l++)
        s.state[l] =
            source->initial[l] ? qkv_gather_rows(graph, source->initial[l], s.order, batch->count) : NULL;
    for (int64_t t = 0; t < s.count; t++) take_step(model, graph, &s, gates, source, t);
    if (record) {
        record->embedded = qkv_gather_rows(graph, embedded, s.row_of, rows);
        record->attention.weights = arrange_weights(graph, &s, source);
        record->attention.states = pack(graph, &s, s.hidden);
        record->attention.context = pack(graph, &s, s.context);
    }
    return pack(graph, &s, s.output);
}

/* ---- the network ---- */

/* The sentence that each row belongs to: [rows]. */
static const int32_t *sentence_of_rows(struct qkv_graph *graph, struct qkv_segments segments, int64_t rows)
{
    int32_t *sentences = qkv_graph_memory(graph, (size_t)rows * sizeof *sentences);
    for (int64_t s = 0; sentences && s < segments.count; s++)
        for (int64_t i = 0; i < segments.length[s]; i++) sentences[segments.start[s] + i] = (int32_t)s;
    return sentences;
}

/* Runs all decoder steps in one call, for decoders whose steps do not read the attentional vector of the previous step. */
static struct qkv_tensor *decode_at_once(const struct qkv_model *model, struct qkv_graph *graph,
                                         const struct qkv_batch_view *batch,
                                         const struct encoded_source *source, struct decoder_record *record)
{
    const struct recurrent *network = model->network;
    const struct qkv_segments target = {batch->count, batch->target_start, batch->target_length};
    int64_t rows = batch->target_tokens;
    struct qkv_tensor *gates = embed(model, graph, batch->target_input, rows, &record->embedded);
    if (feeds_summary(model)) {
        struct qkv_tensor *repeated =
            qkv_gather_rows(graph, source->summary, sentence_of_rows(graph, target, rows), rows);
        gates = qkv_recurrent_add_input(&network->decoder[0].cell, graph, gates, repeated);
    }
    const struct decoder_input input = {gates, source->initial, target, source, source->segments};
    return decode(model, graph, &input, &record->attention);
}

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct encoded_source source = encode(model, graph, batch, trace);
    struct decoder_record record = {0};
    if (!source.memory) return NULL;
    struct qkv_tensor *result = feeds_attentional(model)
                                    ? decode_by_steps(model, graph, batch, &source, trace ? &record : NULL)
                                    : decode_at_once(model, graph, batch, &source, &record);
    const struct qkv_part bottom = {.stack = QKV_STACK_DECODER};
    qkv_trace_record(trace, graph, &bottom, QKV_PART_EMBEDDING, record.embedded);
    if (!record.attention.weights) return result;
    const struct qkv_part owner = {
        .stack = QKV_STACK_DECODER, .attention = QKV_ATTENTION_CROSS, .layer = 1, .heads = 1};
    qkv_trace_record(trace, graph, &owner, QKV_PART_INPUT, record.attention.states);
    qkv_trace_record(trace, graph, &owner, QKV_PART_MEMORY, source.memory);
    qkv_trace_record(trace, graph, &owner, QKV_PART_KEY, source.keys);
    qkv_trace_record(trace, graph, &owner, QKV_PART_VALUE, source.memory);
    qkv_trace_record(trace, graph, &owner, QKV_PART_WEIGHTS, record.attention.weights);
    qkv_trace_record(trace, graph, &owner, QKV_PART_CONTEXT, record.attention.context);
    qkv_trace_record(trace, graph, &owner, QKV_PART_OUTPUT, result);
    return result;
}

/* ---- layers by role ---- */

static struct qkv_attention_layers attention_layers(const struct qkv_model *model,
                                                    enum qkv_attention_kind kind, int64_t layer)
{
    const struct recurrent *network = model->network;
    if (!network->has_attention || kind != QKV_ATTENTION_CROSS || layer != 1)
        return (struct qkv_attention_layers){0};
    return (struct qkv_attention_layers){.single_head = &network->attention,
                                         .attentional = &network->attentional};
}

static struct qkv_input_layers input_layers(const struct qkv_model *model, enum qkv_stack_id stack)
{
    const struct recurrent *network = model->network;
    return (struct qkv_input_layers){.embedding = stack == QKV_STACK_ENCODER ? &network->source_embedding
                                                                             : &network->target_embedding};
}

/* ---- decoding ----
 * The encoder runs once per batch; each step feeds one new
 * token of every hypothesis to the decoder, from the states that the step before it has stored. */

/* Numbers that each hypothesis keeps from step to step: [rows, width]. */
struct kept_rows {
    void *memory, *spare; /* reordering writes to spare and swaps the two */
    int64_t width;
};

struct recurrent_decoding {
    struct qkv_decoding base;     /* the first member: the interface passes pointers to it */
    struct encoded_source source; /* nodes of the encoder's graph */
    struct kept_rows *state;      /* [layers]: [rows, S] */
    struct kept_rows output;      /* [rows, H]: previous attentional vectors, for input feeding */
    struct qkv_tensor **tensor;   /* [layers]: `state` as tensors of the decoder's graph */

    int64_t *query_start, *query_length; /* [rows]: the query segment of row i is row i */
    int64_t *key_start, *key_length;     /* [rows]: the source of row i in the encoder's memory */
    int32_t *sentence;                   /* [rows]: number of the source in the batch */
};

static void make_rows(struct recurrent_decoding *d, struct kept_rows *kept, int64_t width)
{
    size_t bytes = (size_t)(d->base.rows * width) * d->base.element_size;
    kept->width = width;
    kept->memory = qkv_arena_zeroed(&d->base.arena, bytes);
    kept->spare = qkv_arena_allocate(&d->base.arena, bytes);
}

static bool make_room(struct recurrent_decoding *d)
{
    const struct qkv_stack_config *config = &d->base.model->config.decoder;
    size_t layers = (size_t)config->num_layers;
    d->state = qkv_arena_zeroed(&d->base.arena, layers * sizeof *d->state);
    d->tensor = qkv_arena_zeroed(&d->base.arena, layers * sizeof(struct qkv_tensor *));
    d->sentence = qkv_arena_array(&d->base.arena, d->base.rows, sizeof *d->sentence);
    for (size_t l = 0; d->state && l < layers; l++)
        make_rows(d, &d->state[l], qkv_recurrent_state_width(config->rnn_type, config->hidden_size));
    int64_t **arrays[] = {&d->query_start, &d->query_length, &d->key_start, &d->key_length};
    for (int i = 0; i < 4; i++)
        *arrays[i] = qkv_arena_array(&d->base.arena, d->base.rows, sizeof **arrays[i]);
    make_rows(d, &d->output, config->hidden_size);
    return !d->base.arena.failed;
}

static enum qkv_status start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                             struct qkv_error *error)
{
    struct recurrent_decoding *d = (struct recurrent_decoding *)decoding;
    if (!make_room(d)) return qkv_no_memory(error);
    qkv_graph_reset(d->base.encoder);
    d->source = encode(decoding->model, d->base.encoder, batch, NULL);
    if (qkv_graph_check(d->base.encoder, error)) return QKV_INVALID;
    qkv_forward(d->base.encoder);
    return qkv_graph_check(d->base.encoder, error);
}

/* Copies row number[i] of `from` to row i of `to`. */
static void copy_rows(const struct recurrent_decoding *d, int64_t rows, int64_t width, const int64_t *number,
                      const void *from, void *to)
{
    size_t bytes = (size_t)width * d->base.element_size;
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)to + (size_t)i * bytes, (const char *)from + (size_t)number[i] * bytes, bytes);
}

/* Before the first step: copies the initial states of the sentence of each hypothesis. Layers
 * without an initial state start from zeros. */
static void start_states(struct recurrent_decoding *d, int64_t rows, const int64_t *sentences)
{
    for (int64_t l = 0; l < d->base.model->config.decoder.num_layers; l++)
        if (d->source.initial[l])
            copy_rows(d, rows, d->state[l].width, sentences, qkv_tensor_value(d->source.initial[l]),
                      d->state[l].memory);
}

static void set_segments(struct recurrent_decoding *d, int64_t rows, const int64_t *sentences)
{
    for (int64_t i = 0; i < rows; i++) {
        d->query_start[i] = i;
        d->query_length[i] = 1;
        d->sentence[i] = (int32_t)sentences[i];
        d->key_start[i] = d->source.segments.start[sentences[i]];
        d->key_length[i] = d->source.segments.length[sentences[i]];
    }
}

static struct qkv_tensor *gates_of(struct recurrent_decoding *d, int64_t rows, const int32_t *ids)
{
    const struct qkv_model *model = d->base.model;
    const struct recurrent *network = model->network;
    struct qkv_tensor *gates = embed(model, d->base.decoder, ids, rows, NULL), *fed = NULL;
    if (feeds_summary(model))
        fed = qkv_gather_rows(d->base.decoder, qkv_decoding_from_encoder(&d->base, d->source.summary),
                              d->sentence, rows);
    else if (feeds_attentional(model))
        fed = qkv_wrap(d->base.decoder, QKV_SHAPE(rows, d->output.width), d->output.memory);
    else
        return gates;
    return qkv_recurrent_add_input(&network->decoder[0].cell, d->base.decoder, gates, fed);
}

static enum qkv_status step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *error)
{
    struct recurrent_decoding *d = (struct recurrent_decoding *)decoding;
    const struct qkv_model *model = decoding->model;
    int64_t layers = model->config.decoder.num_layers;
    struct qkv_graph *graph = d->base.decoder;
    qkv_graph_reset(graph);
    if (!d->base.step) start_states(d, rows, sentences);
    set_segments(d, rows, sentences);
    const struct encoded_source source = {.memory = qkv_decoding_from_encoder(&d->base, d->source.memory),
                                          .keys = qkv_decoding_from_encoder(&d->base, d->source.keys),
                                          .mask = qkv_decoding_from_encoder(&d->base, d->source.mask)};
    const struct qkv_segments queries = {rows, d->query_start, d->query_length},
                              keys = {rows, d->key_start, d->key_length};
    for (int64_t l = 0; l < layers; l++)
        d->tensor[l] = qkv_wrap(graph, QKV_SHAPE(rows, d->state[l].width), d->state[l].memory);
    const struct decoder_input input = {gates_of(d, rows, ids), d->tensor, queries, &source, keys};
    struct qkv_tensor *output = decode(model, graph, &input, NULL);
    qkv_decoding_add_output(decoding, output);
    qkv_forward(graph);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    for (int64_t l = 0; l < layers; l++)
        memcpy(d->state[l].memory, qkv_tensor_value(d->tensor[l]),
               (size_t)(rows * d->state[l].width) * d->base.element_size);
    memcpy(d->output.memory, qkv_tensor_value(output),
           (size_t)(rows * d->output.width) * d->base.element_size);
    return QKV_OK;
}

static void reorder_rows(const struct recurrent_decoding *d, struct kept_rows *kept, int64_t rows,
                         const int64_t *parents)
{
    copy_rows(d, rows, kept->width, parents, kept->memory, kept->spare);
    void *memory = kept->memory;
    kept->memory = kept->spare;
    kept->spare = memory;
}

static void reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct recurrent_decoding *d = (struct recurrent_decoding *)decoding;
    for (int64_t l = 0; l < decoding->model->config.decoder.num_layers; l++)
        reorder_rows(d, &d->state[l], rows, parents);
    reorder_rows(d, &d->output, rows, parents);
}

static const struct qkv_decoding_interface DECODING = {
    .size = sizeof(struct recurrent_decoding),
    .start = start,
    .step = step,
    .reorder = reorder,
};

const struct qkv_network_interface qkv_network_recurrent = {
    .name = "recurrent",
    .declare = declare,
    .forward = forward,
    .attention = attention_layers,
    .inputs = input_layers,
    .decoding = &DECODING,
};
