/* The encoder-decoder transformer (Vaswani et al. 2017), pre-norm or post-norm: its layers, the forced pass, and decoding.
 *
 * D: width; N: tokens of a batch, packed one sentence after another; Ns: of its sources; Nq, Nk:
 * tokens with queries, with keys. An `owner` is a struct qkv_part that says which stack or layer
 * tensors belong to; qkv_trace_record copies it and sets role and node. */
#include "models/transformer.h"
#include "config/config_keys.h"
#include "core/memory.h"
#include "graph/attention_rule.h"
#include "graph/graph.h"

#include <math.h>

/* ---- declaring ---- */

/* The arguments of the functions that declare a stack, its layers and its attention. */
struct stack_declaration {
    struct qkv_model *model;
    const struct qkv_stack_config *config;
    bool is_decoder;
    struct transformer_stack *stack;
    bool has_cross;
    struct qkv_initial weight;     /* of matrices */
    struct qkv_initial branch_end; /* of the last matrix of a residual branch */
    struct qkv_norm_options norm;
};

/* The table of positions has a column for each component of a hidden state (added positions), for each component
 * of a key (rotary), or for each head (relative: bias of a distance bucket). Where positions run on from the source to the
 * target, it has rows for two sentences. */
static struct qkv_positions_options position_options(const struct qkv_stack_config *config, bool runs_on)
{
    bool rotary = config->positions.type == QKV_POSITION_ROTARY,
         relative = config->positions.type == QKV_POSITION_RELATIVE;
    return (struct qkv_positions_options){
        .kind = config->positions.type,
        .length = relative ? config->positions.buckets : config->positions.max_length * (runs_on ? 2 : 1),
        .width = rotary     ? config->attention.key_width
                 : relative ? config->num_heads
                            : config->hidden_size,
        .base = config->positions.base,
        .initial = {QKV_INITIALIZER_NORMAL, 0.02},
    };
}

/* "<stack>.<layer>.<part>", or "<stack>.<part>" for layer 0, in the arena of the parameters; "" when memory runs out. */
static const char *part_name(const struct stack_declaration *d, int64_t layer, const char *part)
{
    char number[24] = "";
    if (layer) snprintf(number, sizeof number, ".%lld", (long long)layer);
    return QKV_ARENA_NAME(&d->model->parameters.arena, "%s%s.%s", d->is_decoder ? "decoder" : "encoder",
                          number, part);
}

static void declare_attention(const struct stack_declaration *d, struct attention_sublayer *sublayer,
                              enum qkv_attention_kind kind, int64_t layer)
{
    bool self = kind != QKV_ATTENTION_CROSS;
    const struct qkv_stack_config *config = d->config;
    struct qkv_parameters *parameters = &d->model->parameters;
    const struct qkv_multi_head_options options = {
        .rule = qkv_attention_rule_from_config(&d->model->config, kind),
        .width = config->hidden_size,
        .key_width = config->attention.key_width,
        .value_width = config->attention.value_width,
        .bias = config->attention.bias,
        .output_gate = config->attention.output_gate,
        .qk_norm = config->attention.qk_norm,
        .norm_epsilon = config->norm_epsilon,
        .sink = config->attention.sink,
        .initial = d->weight,
        .output_initial = d->branch_end,
        .positions = self ? &d->stack->positions : NULL,
    };
    sublayer->owner = (struct qkv_part){
        .stack = d->stack->owner.stack, .attention = kind, .layer = layer, .heads = config->num_heads};
    qkv_multi_head_init(&sublayer->attention, parameters, &options,
                        part_name(d, layer, self ? "self" : "cross"));
    qkv_residual_init(&sublayer->residual, parameters, &d->norm, config->layer_norm, config->dropout,
                      part_name(d, layer, self ? "self.norm" : "cross.norm"));
}

static void declare_layer(const struct stack_declaration *d, struct transformer_layer *layer, int64_t number)
{
    const struct qkv_stack_config *config = d->config;
    struct qkv_parameters *parameters = &d->model->parameters;
    const struct qkv_feed_forward_options options = {
        .width = config->hidden_size,
        .inner_width = config->ff_size,
        .activation = config->activation,
        .dropout = config->activation_dropout,
        .gated = config->ff_gated,
        .initial = d->weight,
        .output_initial = d->branch_end,
    };
    layer->owner = (struct qkv_part){.stack = d->stack->owner.stack, .layer = number};
    declare_attention(d, &layer->self, d->is_decoder ? QKV_ATTENTION_DECODER : QKV_ATTENTION_ENCODER, number);
    if (d->has_cross) declare_attention(d, &layer->cross, QKV_ATTENTION_CROSS, number);
    layer->has_feed_forward = config->ff_size > 0;
    if (!layer->has_feed_forward) return;
    qkv_feed_forward_init(&layer->feed_forward, parameters, &options, part_name(d, number, "feed_forward"));
    qkv_residual_init(&layer->feed_forward_residual, parameters, &d->norm, config->layer_norm,
                      config->dropout, part_name(d, number, "feed_forward.norm"));
}

void qkv_transformer_declare_stack(struct qkv_model *model, struct transformer_stack *stack, bool is_decoder,
                                   bool has_cross, const struct qkv_embedding *shared)
{
    const struct qkv_model_config *all = &model->config;
    const struct qkv_stack_config *config = is_decoder ? &all->decoder : &all->encoder;
    struct qkv_parameters *parameters = &model->parameters;
    struct stack_declaration d = {.model = model,
                                  .config = config,
                                  .is_decoder = is_decoder,
                                  .has_cross = has_cross,
                                  .stack = stack,
                                  .weight = {all->initializer, all->init_gain},
                                  .branch_end = {all->initializer, all->init_gain},
                                  .norm = {config->norm, config->hidden_size, config->norm_epsilon}};
    /* Each layer adds its branches to the hidden state. Smaller initial values in the last matrix of
     * a branch keep the variance of the sum independent of the depth (Radford et al. 2019). */
    if (all->init_depth_scaling) d.branch_end.gain /= sqrt(2.0 * (double)config->num_layers);
    *stack = (struct transformer_stack){
        .layers = qkv_arena_zeros(&parameters->arena, config->num_layers, sizeof *stack->layers),
        .layer_count = config->num_layers,
        .embedding_dropout = config->embeddings.dropout,
        .word_dropout = config->embeddings.word_dropout,
        .has_cross = has_cross,
        .has_final_norm = config->layer_norm == QKV_NORM_PRE,
        .owner = {.stack = is_decoder ? QKV_STACK_DECODER : QKV_STACK_ENCODER},
    };
    if (!stack->layers) return;
    const struct qkv_embedding_options embedding = {is_decoder ? model->target_size : model->source_size,
                                                    config->hidden_size,
                                                    config->embeddings.scale,
                                                    {all->embed_initializer, all->embed_init_gain}};
    const struct qkv_positions_options positions =
        position_options(config, qkv_has_prefix(model) && !config->positions.restart);
    if (shared)
        stack->embedding = *shared;
    else
        qkv_embedding_init(&stack->embedding, parameters, &embedding, part_name(&d, 0, "embeddings"));
    qkv_positions_init(&stack->positions, parameters, &positions, part_name(&d, 0, "positions"));
    for (int64_t i = 0; i < stack->layer_count; i++) declare_layer(&d, &stack->layers[i], i + 1);
    if (stack->has_final_norm)
        qkv_norm_init(&stack->final_norm, parameters, &d.norm, part_name(&d, 0, "norm"));
}

static void *declare(struct qkv_model *model, struct qkv_error *error)
{
    (void)error; /* the rules between config keys have refused invalid values */
    const struct qkv_model_config *config = &model->config;
    struct transformer *network = qkv_arena_zeroed(&model->parameters.arena, sizeof *network);
    if (!network) return NULL;
    qkv_transformer_declare_stack(model, &network->encoder, false, false, NULL);
    qkv_transformer_declare_stack(model, &network->decoder, true, true,
                                  config->tied_embeddings ? &network->encoder.embedding : NULL);
    return network;
}

/* ---- applying ---- */

/* Token ids -> embeddings with positions and dropout, [count, D]. A segment is the rows of
 * one sentence; its first token has position *first, which is read when the graph runs, or 0 when
 * first is NULL. trace may be NULL, here and below. */
static struct qkv_tensor *embed(const struct transformer_stack *stack, struct qkv_graph *graph,
                                const int32_t *ids, int64_t count, struct qkv_segments segments,
                                const int64_t *first, struct qkv_trace *trace)
{
    struct qkv_tensor *embedded = qkv_embedding_apply(&stack->embedding, graph, ids, count);
    /* Drops words before positions are added, so that the network still sees the positions of dropped words. */
    struct qkv_tensor *words = qkv_dropout_rows_apply(graph, embedded, stack->word_dropout);
    struct qkv_tensor *x = qkv_positions_apply(&stack->positions, graph, words, segments, first);
    qkv_trace_record(trace, graph, &stack->owner, QKV_PART_EMBEDDING, embedded);
    if (x != words) qkv_trace_record(trace, graph, &stack->owner, QKV_PART_POSITIONS, x);
    return qkv_dropout_apply(graph, x, stack->embedding_dropout);
}

/* qkv_residual_input and qkv_residual_output, which also record the norm that they apply. */
static struct qkv_tensor *enter(const struct qkv_residual *residual, struct qkv_graph *graph,
                                struct qkv_tensor *x, struct qkv_trace *trace, const struct qkv_part *owner)
{
    struct qkv_tensor *inside = qkv_residual_input(residual, graph, x);
    if (residual->place == QKV_NORM_PRE) qkv_trace_record(trace, graph, owner, QKV_PART_NORM, inside);
    return inside;
}

static struct qkv_tensor *leave(const struct qkv_residual *residual, struct qkv_graph *graph,
                                struct qkv_tensor *x, struct qkv_tensor *result, struct qkv_trace *trace,
                                const struct qkv_part *owner)
{
    struct qkv_tensor *sum = qkv_residual_output(residual, graph, x, result);
    if (residual->place == QKV_NORM_POST) qkv_trace_record(trace, graph, owner, QKV_PART_NORM, sum);
    return sum;
}

/* The feed-forward part of a layer, if it has one, with its residual connection: [N, D] -> [N, D]. */
static struct qkv_tensor *feed_forward(const struct transformer_layer *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *x, struct qkv_trace *trace)
{
    if (layer->has_feed_forward) {
        struct qkv_tensor *inside = enter(&layer->feed_forward_residual, graph, x, trace, &layer->owner);
        struct qkv_tensor *result = qkv_feed_forward_apply(&layer->feed_forward, graph, inside);
        x = leave(&layer->feed_forward_residual, graph, x, result, trace, &layer->owner);
    }
    qkv_trace_record(trace, graph, &layer->owner, QKV_PART_HIDDEN, x);
    return x;
}

/* The norm after the last layer of a pre-norm stack; x itself for post-norm. */
static struct qkv_tensor *finish(const struct transformer_stack *stack, struct qkv_graph *graph,
                                 struct qkv_tensor *x, struct qkv_trace *trace)
{
    if (!stack->has_final_norm) return x;
    x = qkv_norm_apply(&stack->final_norm, graph, x);
    qkv_trace_record(trace, graph, &stack->owner, QKV_PART_NORM, x);
    return x;
}

/* What an attention layer of the source pass has recorded with this role; NULL when the graph has failed. */
static struct qkv_tensor *source_part(const struct qkv_trace *trace, enum qkv_part_role role, int64_t layer)
{
    const struct qkv_part *part = qkv_trace_attention(trace, role, QKV_ATTENTION_ENCODER, layer);
    return part ? part->node : NULL;
}

/* Keys or values of a layer, those of each source before those of its target, `own` [Nt, any]: [Ns + Nt, any] */
static struct qkv_tensor *join_source(const struct qkv_source_prefix *prefix, struct qkv_graph *graph,
                                      enum qkv_part_role role, int64_t layer, struct qkv_tensor *own)
{
    struct qkv_tensor *both = qkv_concat(graph, source_part(prefix->trace, role, layer), own, 0);
    return qkv_gather_rows(graph, both, prefix->rows, prefix->count);
}

/* Records the parts of an attention layer, part[0] with the first role; NULL: there is no such part. */
static void record(struct qkv_trace *trace, struct qkv_graph *graph, const struct qkv_part *owner,
                   struct qkv_tensor *const part[QKV_PART_RESIDUAL - QKV_PART_INPUT + 1])
{
    for (int role = QKV_PART_INPUT; role <= QKV_PART_RESIDUAL; role++)
        qkv_trace_record(trace, graph, owner, (enum qkv_part_role)role, part[role - QKV_PART_INPUT]);
}

/* What attention reads, and which part of it is wanted. */
struct attend_options {
    struct qkv_attention_inputs inputs;     /* memory NULL: self-attention */
    const struct qkv_source_prefix *prefix; /* NULL: none */
    bool keys_only;
};

/* Attention with its residual connection over packed sentences: inputs.x [Nq, D] -> [Nq, D]. With a prefix, the weights of the
 * targets to their sources are recorded as cross-attention. */
static struct qkv_tensor *attend(const struct attention_sublayer *sublayer, struct qkv_graph *graph,
                                 const struct attend_options *options, struct qkv_trace *trace)
{
    const struct qkv_multi_head *attention = &sublayer->attention;
    const struct qkv_attention_inputs *inputs = &options->inputs;
    const struct qkv_source_prefix *prefix = options->prefix;
    const struct qkv_part *owner = &sublayer->owner;
    const struct qkv_segments queries = inputs->queries, keys = inputs->keys;
    const int64_t *first = prefix ? prefix->first : NULL;
    struct qkv_tensor *inside = enter(&sublayer->residual, graph, inputs->x, trace, owner); /* [Nq, D] */
    struct qkv_tensor *memory = inputs->memory ? inputs->memory : inside, *query = NULL, *node = NULL,
                      *context = NULL, *result = NULL;
    if (!options->keys_only) query = qkv_multi_head_query(attention, graph, inside, queries, first);
    struct qkv_tensor *key = qkv_multi_head_key(attention, graph, memory, keys, first); /* [Nk, G K] */
    struct qkv_tensor *value = qkv_multi_head_value(attention, graph, memory);          /* [Nk, G V] */
    struct qkv_attention_projections projections = {query, key, value, inputs->mask, queries, keys};
    if (prefix) {
        projections.key = join_source(prefix, graph, QKV_PART_KEY, owner->layer, key);
        projections.value = join_source(prefix, graph, QKV_PART_VALUE, owner->layer, value);
        projections.mask = prefix->mask;
        projections.keys = prefix->sentences;
    }
    if (!options->keys_only) {
        projections.gate = qkv_multi_head_gate(attention, graph, inside);
        context = qkv_multi_head_context(attention, graph, &projections, &node); /* [Nq, H V] */
        result = qkv_dense_apply(&attention->output, graph, context);            /* [Nq, D] */
    }
    record(trace, graph, owner,
           (struct qkv_tensor *[]){inside, memory, query, key, value, node, context, projections.gate, result,
                                   inputs->x});
    if (prefix) {
        struct qkv_part cross = *owner;
        cross.attention = QKV_ATTENTION_CROSS;
        memory = source_part(prefix->trace, QKV_PART_MEMORY, owner->layer);
        key = source_part(prefix->trace, QKV_PART_KEY, owner->layer);
        value = source_part(prefix->trace, QKV_PART_VALUE, owner->layer);
        record(trace, graph, &cross,
               (struct qkv_tensor *[]){inside, memory, query, key, value, node, context, projections.gate,
                                       result, inputs->x});
    }
    return result ? leave(&sublayer->residual, graph, inputs->x, result, trace, owner) : NULL;
}

struct qkv_tensor *qkv_transformer_apply_stack(const struct transformer_stack *stack, struct qkv_graph *graph,
                                               const struct qkv_transformer_inputs *inputs,
                                               struct qkv_trace *trace)
{
    const struct qkv_segments own = inputs->own;
    struct attend_options self = {{.mask = inputs->own_mask, .queries = own, .keys = own},
                                  .prefix = inputs->prefix},
                          cross = {{.memory = inputs->memory,
                                    .mask = inputs->memory_mask,
                                    .queries = own,
                                    .keys = inputs->memory_segments}};
    const int64_t *first = inputs->prefix ? inputs->prefix->first : NULL;
    struct qkv_tensor *x = embed(stack, graph, inputs->ids, inputs->count, own, first, trace);
    for (int64_t i = 0; i < stack->layer_count; i++) {
        self.inputs.x = x;
        self.keys_only = inputs->keys_only && i + 1 == stack->layer_count;
        x = cross.inputs.x = attend(&stack->layers[i].self, graph, &self, trace);
        if (self.keys_only) return NULL;
        if (stack->has_cross) x = attend(&stack->layers[i].cross, graph, &cross, trace);
        x = feed_forward(&stack->layers[i], graph, x, trace);
    }
    return finish(stack, graph, x, trace);
}

struct qkv_tensor *qkv_transformer_encode(const struct transformer *network, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch, struct qkv_tensor *mask,
                                          bool keys_only, struct qkv_trace *trace)
{
    const struct qkv_transformer_inputs inputs = {
        .ids = batch->source,
        .count = batch->source_tokens,
        .own = {batch->count, batch->source_start, batch->source_length},
        .own_mask = mask,
        .keys_only = keys_only,
    };
    return qkv_transformer_apply_stack(&network->encoder, graph, &inputs, trace);
}

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct transformer *network = model->network;
    struct qkv_tensor *mask = qkv_source_mask(graph, batch);
    const struct qkv_transformer_inputs inputs = {
        .ids = batch->target_input,
        .count = batch->target_tokens,
        .own = {batch->count, batch->target_start, batch->target_length},
        .own_mask = qkv_key_mask(graph, batch->target_masked, batch->target_tokens, 1),
        .memory = qkv_transformer_encode(network, graph, batch, mask, false, trace), /* [Ns, D] */
        .memory_mask = mask,
        .memory_segments = {batch->count, batch->source_start, batch->source_length},
    };
    return qkv_transformer_apply_stack(&network->decoder, graph, &inputs, trace);
}

/* ---- layers by role ---- */

struct qkv_attention_layers qkv_transformer_attention(const struct qkv_model *model,
                                                      enum qkv_attention_kind kind, int64_t layer)
{
    const struct transformer *network = model->network;
    const struct transformer_stack *stack =
        kind == QKV_ATTENTION_ENCODER ? &network->encoder : &network->decoder;
    bool is_cross = kind == QKV_ATTENTION_CROSS && !stack->has_prefix;
    if (layer < 1 || layer > stack->layer_count || (is_cross && !stack->has_cross))
        return (struct qkv_attention_layers){0};
    const struct transformer_layer *found = &stack->layers[layer - 1];
    const struct attention_sublayer *sublayer = is_cross ? &found->cross : &found->self;
    bool is_last = layer == stack->layer_count, has_cross = kind == QKV_ATTENTION_DECODER && stack->has_cross,
         has_feed_forward = found->has_feed_forward && !has_cross;
    if (is_last && stack == &network->encoder && network->decoder.has_prefix) /* only its keys are read */
        return (struct qkv_attention_layers){.multi_head = &sublayer->attention};
    return (struct qkv_attention_layers){
        .multi_head = &sublayer->attention,
        .residual = &sublayer->residual,
        .feed_forward = has_feed_forward ? &found->feed_forward : NULL,
        .feed_forward_residual = has_feed_forward ? &found->feed_forward_residual : NULL,
        .cross_follows = has_cross,
        .last_norm = is_last && stack->has_final_norm ? &stack->final_norm : NULL,
        .is_last = is_last,
    };
}

struct qkv_input_layers qkv_transformer_inputs(const struct qkv_model *model, enum qkv_stack_id stack)
{
    const struct transformer *network = model->network;
    const struct transformer_stack *found =
        stack == QKV_STACK_ENCODER ? &network->encoder : &network->decoder;
    if (!found->layer_count) return (struct qkv_input_layers){0};
    return (struct qkv_input_layers){&found->embedding, &found->positions};
}

/* ---- decoding ----
 * The encoder runs once per batch; each step runs the decoder on one
 * new token of every hypothesis and stores its keys and values in caches. The graph of the decoder
 * is built once and runs again for every step with the same number of rows. */

/* Keys or values of the tokens so far: [slots, room, width]. Each hypothesis has one slot, which has room
 * for the tokens of all steps and, before them, those of a prefix. */
struct cache {
    void *memory;
    int64_t width;
};

struct layer_state {
    struct cache keys, values;                  /* of self-attention */
    struct qkv_tensor *cross_key, *cross_value; /* of the sources: nodes of the encoder's graph */
};

struct transformer_decoding {
    struct qkv_decoding base; /* the first member: the interface passes pointers to it */
    struct layer_state *layers;
    struct qkv_batch_view batch; /* the sources: arrays of base.arena */
    struct qkv_segments sources; /* of the batch */
    int64_t graph_rows;          /* rows of the decoder's graph; 0: not built */
    int64_t room;                /* rows of a slot */
    struct cache mask;           /* of the keys, if words of a prefix are masked */

    /* Slot of each row in the caches. Reordering changes slots; it copies keys and values only when
     * several rows continue the same row. */
    int64_t *slot, *next_slot;
    /* Used by reorder. */
    bool *is_taken; /* [rows], by old row: a new row has taken over its slot */
    bool *is_busy;  /* [rows], by slot: its old row is continued by some new row */

    /* Segments of one step. The query of hypothesis i is row i; its keys are rows 0 .. step of its
     * slot, after those of a prefix, and for cross-attention its source. */
    int64_t *query_start, *query_length, *self_start, *self_length, *cross_start, *cross_length;
    int64_t *position;  /* of the new tokens */
    int32_t *cache_row; /* rows of the caches for the new keys and values */
    int32_t *ids;       /* the tokens fed */
};

static void make_cache(struct transformer_decoding *d, struct cache *cache, int64_t heads, int64_t width)
{
    cache->width = heads * width;
    size_t bytes = (size_t)(d->base.rows * d->room * cache->width) * d->base.element_size;
    cache->memory = qkv_arena_allocate(&d->base.arena, bytes);
}

/* Allocates the arrays; the arena reuses its memory from batch to batch. */
static bool make_room(struct transformer_decoding *d, const struct transformer_stack *stack)
{
    const struct qkv_attention_config *attention = &d->base.model->config.decoder.attention;
    struct qkv_arena *arena = &d->base.arena;
    size_t rows = (size_t)d->base.rows;
    d->layers = qkv_arena_zeros(arena, stack->layer_count, sizeof *d->layers);
    for (int64_t i = 0; d->layers && i < stack->layer_count; i++) {
        int64_t heads = qkv_attention_key_value_heads(&stack->layers[i].self.attention.rule);
        make_cache(d, &d->layers[i].keys, heads, attention->key_width);
        make_cache(d, &d->layers[i].values, heads, attention->value_width);
    }
    int64_t **numbers[] = {&d->query_start, &d->query_length, &d->self_start,
                           &d->self_length, &d->cross_start,  &d->cross_length,
                           &d->slot,        &d->next_slot,    &d->position};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = qkv_arena_allocate(arena, rows * sizeof **numbers[i]);
    d->cache_row = qkv_arena_allocate(arena, rows * sizeof *d->cache_row);
    d->ids = qkv_arena_allocate(arena, rows * sizeof *d->ids);
    d->is_taken = qkv_arena_allocate(arena, rows * sizeof *d->is_taken);
    d->is_busy = qkv_arena_allocate(arena, rows * sizeof *d->is_busy);
    for (int64_t i = 0; !arena->failed && i < d->base.rows; i++) d->slot[i] = i;
    d->mask = (struct cache){0};
    if (stack->has_prefix && (d->batch.source_masked || d->batch.target_masked))
        make_cache(d, &d->mask, 1, 1);
    for (int64_t i = 0; d->mask.memory && i < d->base.rows * d->room; i++)
        qkv_dtype_set(d->base.model->parameters.dtype, d->mask.memory, i, 1);
    return !arena->failed;
}

static int64_t longest_source(const struct transformer_decoding *d)
{
    int64_t longest = 0;
    for (int64_t s = 0; s < d->sources.count; s++)
        if (d->sources.length[s] > longest) longest = d->sources.length[s];
    return longest;
}

static enum qkv_status start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                             struct qkv_error *error)
{
    struct transformer_decoding *d = (struct transformer_decoding *)decoding;
    const struct transformer *network = decoding->model->network;
    bool has_prefix = network->decoder.has_prefix;
    struct qkv_trace trace = {0};
    d->graph_rows = 0;
    d->batch = *batch;
    d->sources = (struct qkv_segments){batch->count, batch->source_start, batch->source_length};
    d->room = d->base.length + (has_prefix ? longest_source(d) : 0);
    if (d->room > INT32_MAX / d->base.rows || !make_room(d, &network->decoder)) return qkv_no_memory(error);
    if (!network->decoder.has_cross && !has_prefix && batch->source_tokens)
        return qkv_error_set(error, "a language model has no sources: decode an empty batch");
    if (!network->decoder.has_cross && !has_prefix) return QKV_OK;
    qkv_graph_reset(d->base.encoder);
    qkv_graph_share_memory(d->base.encoder, !has_prefix); /* all keys and values of a prefix are kept */
    struct qkv_tensor *mask = qkv_source_mask(d->base.encoder, batch),
                      *memory = qkv_transformer_encode(network, d->base.encoder, batch, mask, has_prefix,
                                                       has_prefix ? &trace : NULL);
    for (int64_t i = 0; i < network->decoder.layer_count; i++) {
        if (has_prefix) {
            d->layers[i].cross_key = source_part(&trace, QKV_PART_KEY, i + 1);
            d->layers[i].cross_value = source_part(&trace, QKV_PART_VALUE, i + 1);
            continue;
        }
        const struct qkv_multi_head *cross = &network->decoder.layers[i].cross.attention;
        d->layers[i].cross_key = qkv_multi_head_key(cross, d->base.encoder, memory, d->sources, NULL);
        d->layers[i].cross_value = qkv_multi_head_value(cross, d->base.encoder, memory);
    }
    qkv_graph_plan(d->base.encoder, memory);
    if (qkv_graph_check(d->base.encoder, error)) return QKV_INVALID;
    qkv_forward(d->base.encoder);
    return qkv_graph_check(d->base.encoder, error);
}

/* The cache in which the rows of the new tokens, x, are stored. */
static struct qkv_tensor *store(struct transformer_decoding *d, const struct cache *cache,
                                struct qkv_tensor *x)
{
    struct qkv_graph *graph = d->base.decoder;
    const struct qkv_shape shape = QKV_SHAPE(d->base.rows * d->room, cache->width);
    return qkv_store_rows(graph, qkv_wrap(graph, shape, cache->memory), x, d->cache_row);
}

/* Attention of the new tokens, x [rows, D] -> [rows, D]: to all tokens of their hypotheses, whose keys and values are in
 * caches, or to the sources. mask: of these keys. */
static struct qkv_tensor *attend_in_step(struct transformer_decoding *d,
                                         const struct attention_sublayer *sublayer, struct layer_state *state,
                                         struct qkv_tensor *x, struct qkv_tensor *mask)
{
    struct qkv_graph *graph = d->base.decoder;
    const struct qkv_multi_head *attention = &sublayer->attention;
    bool is_cross = sublayer->owner.attention == QKV_ATTENTION_CROSS;
    int64_t rows = qkv_tensor_shape(x).size[0];
    const int64_t *position = is_cross ? NULL : d->position;
    struct qkv_attention_projections projections = {.mask = mask,
                                                    .queries = {rows, d->query_start, d->query_length}};
    struct qkv_tensor *normed = qkv_residual_input(&sublayer->residual, graph, x);
    projections.query = qkv_multi_head_query(attention, graph, normed, projections.queries, position);
    projections.gate = qkv_multi_head_gate(attention, graph, normed);
    if (is_cross) {
        projections.keys = (struct qkv_segments){rows, d->cross_start, d->cross_length};
        projections.key = qkv_decoding_from_encoder(&d->base, state->cross_key);
        projections.value = qkv_decoding_from_encoder(&d->base, state->cross_value);
    } else {
        /* The query of a hypothesis has the last position of its keys (qkv/graph.h). */
        projections.keys = (struct qkv_segments){rows, d->self_start, d->self_length};
        projections.key = store(d, &state->keys,
                                qkv_multi_head_key(attention, graph, normed, projections.queries, position));
        projections.value = store(d, &state->values, qkv_multi_head_value(attention, graph, normed));
    }
    struct qkv_tensor *result = qkv_multi_head_attend(attention, graph, &projections, NULL);
    return qkv_residual_output(&sublayer->residual, graph, x, result);
}

/* Sets the segments, positions and cache rows of this step. */
static void set_segments(struct transformer_decoding *d, int64_t rows, const int64_t *sentences)
{
    const struct qkv_model *model = d->base.model;
    bool has_prefix = qkv_has_prefix(model), runs_on = !model->config.decoder.positions.restart;
    for (int64_t i = 0; i < rows; i++) {
        int64_t source = d->sources.length[sentences[i]], before = d->base.step + (has_prefix ? source : 0);
        d->query_start[i] = i;
        d->query_length[i] = 1;
        d->position[i] = runs_on ? before : d->base.step;
        d->self_start[i] = d->slot[i] * d->room;
        d->self_length[i] = before + 1;
        d->cross_start[i] = d->sources.start[sentences[i]];
        d->cross_length[i] = source;
        d->cache_row[i] = (int32_t)(d->self_start[i] + before);
    }
}

/* Sets the longest segments that a later step may have: the graph plans its memory for these. */
static void set_longest_segments(struct transformer_decoding *d, int64_t rows)
{
    int64_t longest = longest_source(d);
    for (int64_t i = 0; i < rows; i++) {
        d->self_length[i] = d->room;
        d->cross_start[i] = 0;
        d->cross_length[i] = longest;
    }
}

/* Builds the graph of a step with `rows` rows. */
static enum qkv_status build(struct transformer_decoding *d, int64_t rows, const int64_t *sentences,
                             struct qkv_error *error)
{
    const struct transformer *network = d->base.model->network;
    const struct transformer_stack *stack = &network->decoder;
    const struct qkv_segments tokens = {rows, d->query_start, d->query_length};
    struct qkv_graph *graph = d->base.decoder;
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, true);
    set_segments(d, rows, sentences);
    set_longest_segments(d, rows);
    struct qkv_tensor *mask = stack->has_cross ? qkv_source_mask(graph, &d->batch) : NULL; /* [Ns] */
    struct qkv_tensor *self_mask =                                                         /* of the caches */
        d->mask.memory ? qkv_wrap(graph, QKV_SHAPE(d->base.rows * d->room), d->mask.memory)
                       : qkv_key_mask(graph, d->batch.target_masked, d->base.length, d->base.rows);
    struct qkv_tensor *x = embed(stack, graph, d->ids, rows, tokens, d->position, NULL); /* [rows, D] */
    for (int64_t i = 0; i < stack->layer_count; i++) {
        x = attend_in_step(d, &stack->layers[i].self, &d->layers[i], x, self_mask);
        if (stack->has_cross) x = attend_in_step(d, &stack->layers[i].cross, &d->layers[i], x, mask);
        x = feed_forward(&stack->layers[i], graph, x, NULL);
    }
    qkv_decoding_add_output(&d->base, finish(stack, graph, x, NULL));
    enum qkv_status status = qkv_graph_check(graph, error);
    d->graph_rows = status ? 0 : rows;
    return status;
}

/* Whether all ids are in the target vocabulary. If not, `step` builds the graph again: the embedding op checks its ids when
 * it is recorded, and reports the invalid id. */
static bool are_valid(const struct transformer_decoding *d, int64_t rows, const int32_t *ids)
{
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] < 0 || ids[i] >= d->base.model->target_size) return false;
    return true;
}

/* Copies rows from row `first` of `from` on to the rows from row `to` of a cache on. */
static void copy_rows(const struct transformer_decoding *d, const struct cache *cache, int64_t to,
                      const void *from, int64_t first, int64_t count)
{
    size_t row = (size_t)cache->width * d->base.element_size;
    memcpy((char *)cache->memory + (size_t)to * row, (const char *)from + (size_t)first * row,
           (size_t)count * row);
}

/* Copies the keys and values of the source of each hypothesis to the beginning of its slot. */
static void store_prefix(struct transformer_decoding *d, int64_t rows, const int64_t *sentences)
{
    int64_t layers = d->base.model->config.decoder.num_layers;
    for (int64_t i = 0; i < rows; i++) {
        int64_t first = d->sources.start[sentences[i]], count = d->sources.length[sentences[i]],
                to = d->slot[i] * d->room;
        for (int64_t l = 0; l < layers; l++) {
            const struct layer_state *layer = &d->layers[l];
            copy_rows(d, &layer->keys, to, qkv_tensor_value(layer->cross_key), first, count);
            copy_rows(d, &layer->values, to, qkv_tensor_value(layer->cross_value), first, count);
        }
        for (int64_t j = 0; d->mask.memory && j < count + d->base.length; j++) {
            const bool *masked = j < count ? d->batch.source_masked : d->batch.target_masked;
            bool is_masked = masked && masked[j < count ? first + j : j - count];
            qkv_dtype_set(d->base.model->parameters.dtype, d->mask.memory, to + j, is_masked ? 0 : 1);
        }
    }
}

static enum qkv_status step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *error)
{
    struct transformer_decoding *d = (struct transformer_decoding *)decoding;
    if (!d->base.step && qkv_has_prefix(d->base.model)) store_prefix(d, rows, sentences);
    memcpy(d->ids, ids, (size_t)rows * sizeof *ids);
    if ((rows != d->graph_rows || !are_valid(d, rows, ids)) && build(d, rows, sentences, error))
        return QKV_INVALID;
    set_segments(d, rows, sentences);
    qkv_graph_rewind_unchecked(d->base.decoder); /* reads the arrays of this step */
    qkv_forward(d->base.decoder);
    return qkv_graph_check(d->base.decoder, error);
}

/* The first row that continues a parent takes over its slot; each further row gets a copy in a free
 * slot. */
static void reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct transformer_decoding *d = (struct transformer_decoding *)decoding;
    int64_t layers = ((const struct transformer *)decoding->model->network)->decoder.layer_count, unused = 0;
    memset(d->is_taken, 0, (size_t)d->base.rows * sizeof *d->is_taken);
    memset(d->is_busy, 0, (size_t)d->base.rows * sizeof *d->is_busy);
    for (int64_t i = 0; i < rows; i++) d->is_busy[d->slot[parents[i]]] = true;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = d->slot[parents[i]], count = d->self_length[parents[i]];
        if (!d->is_taken[parents[i]]) {
            d->is_taken[parents[i]] = true;
            d->next_slot[i] = from;
            continue;
        }
        while (d->is_busy[unused]) unused++;
        d->next_slot[i] = unused++;
        int64_t to = d->next_slot[i] * d->room, first = from * d->room;
        for (int64_t l = 0; l < layers; l++) {
            copy_rows(d, &d->layers[l].keys, to, d->layers[l].keys.memory, first, count);
            copy_rows(d, &d->layers[l].values, to, d->layers[l].values.memory, first, count);
        }
        if (d->mask.memory) copy_rows(d, &d->mask, to, d->mask.memory, first, d->room);
    }
    int64_t *previous = d->slot;
    d->slot = d->next_slot;
    d->next_slot = previous;
}

const struct qkv_decoding_interface qkv_transformer_decoding = {
    .size = sizeof(struct transformer_decoding),
    .start = start,
    .step = step,
    .reorder = reorder,
};

const struct qkv_network_interface qkv_network_transformer = {
    .name = "transformer",
    .declare = declare,
    .forward = forward,
    .attention = qkv_transformer_attention,
    .inputs = qkv_transformer_inputs,
    .decoding = &qkv_transformer_decoding,
};
