/* The layers of the transformer: their parameters, and what they compute for packed sentences. */
#include "models/transformer.h"

#include <math.h>

/* ---- declaring ---- */

/* The arguments of the functions that declare a stack, its layers and its attention. */
struct stack_declaration {
    struct qkv_model *model;
    const struct qkv_stack_config *config;
    const char *name; /* "encoder" */
    enum qkv_stack_id stack;
    bool decoder;
    const struct qkv_positions *positions;
    struct qkv_initial weight;     /* of matrices */
    struct qkv_initial branch_end; /* of the last matrix of a residual branch */
};

static struct stack_declaration stack_declaration_of(struct qkv_model *model,
                                                     const struct transformer_stack *stack, bool decoder)
{
    const struct qkv_model_config *config = &model->config;
    const struct qkv_stack_config *stack_config = decoder ? &config->decoder : &config->encoder;
    struct qkv_initial weight = {config->initializer, config->init_gain}, branch_end = weight;
    /* Each layer adds its branches to the hidden state. Smaller initial values in the last matrix of
     * a branch keep the variance of the sum independent of the depth (Radford et al. 2019). */
    if (config->init_depth_scaling) branch_end.gain /= sqrt(2.0 * (double)stack_config->num_layers);
    return (struct stack_declaration){model,
                                      stack_config,
                                      decoder ? "decoder" : "encoder",
                                      decoder ? QKV_STACK_DECODER : QKV_STACK_ENCODER,
                                      decoder,
                                      &stack->positions,
                                      weight,
                                      branch_end};
}

/* The table of positions has a column for each component of a hidden state (added positions), for each component
 * of a key (rotary), or for each head (relative: bias of a distance bucket). */
static struct qkv_positions_options position_options(const struct qkv_stack_config *config)
{
    bool rotary = config->positions.type == QKV_POSITION_ROTARY,
         relative = config->positions.type == QKV_POSITION_RELATIVE;
    return (struct qkv_positions_options){
        .kind = config->positions.type,
        .length = relative ? config->positions.buckets : config->positions.max_length,
        .width = rotary     ? config->attention.key_width
                 : relative ? config->num_heads
                            : config->hidden_size,
        .base = config->positions.base,
        .initial = {QKV_INITIALIZER_NORMAL, 0.02},
    };
}

static struct qkv_norm_options norm_options(const struct qkv_stack_config *config)
{
    return (struct qkv_norm_options){config->norm, config->hidden_size, config->norm_epsilon};
}

/* "<stack>.<layer>.<part>" in the arena of the parameters; "" when memory runs out, which
 * parameters->failed records. */
static const char *part_name(struct qkv_parameters *parameters, const char *stack, int64_t layer,
                             const char *part)
{
    const char *name = qkv_arena_format(&parameters->arena, "%s.%lld.%s", stack, (long long)layer, part);
    if (!name) parameters->failed = true;
    return name ? name : "";
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
        .initial = d->weight,
        .output_initial = d->branch_end,
        .positions = self ? d->positions : NULL,
    };
    const struct qkv_norm_options norm = norm_options(config);
    const char *name = part_name(parameters, d->name, layer, self ? "self" : "cross");
    sublayer->owner =
        (struct qkv_part){.stack = d->stack, .attention = kind, .layer = layer, .heads = config->num_heads};
    qkv_multi_head_init(&sublayer->attention, parameters, &options, name);
    const char *norm_name = qkv_arena_format(&parameters->arena, "%s.norm", name);
    qkv_residual_init(&sublayer->residual, parameters, &norm, config->layer_norm, config->dropout,
                      norm_name ? norm_name : "");
}

static void declare_layer(const struct stack_declaration *d, struct transformer_layer *layer, int64_t number)
{
    const struct qkv_stack_config *config = d->config;
    struct qkv_parameters *parameters = &d->model->parameters;
    layer->owner = (struct qkv_part){.stack = d->stack, .layer = number};
    declare_attention(d, &layer->self, d->decoder ? QKV_ATTENTION_DECODER : QKV_ATTENTION_ENCODER, number);
    if (d->decoder) declare_attention(d, &layer->cross, QKV_ATTENTION_CROSS, number);
    const struct qkv_feed_forward_options options = {
        .width = config->hidden_size,
        .inner_width = config->ff_size,
        .activation = config->activation,
        .dropout = config->activation_dropout,
        .initial = d->weight,
        .output_initial = d->branch_end,
    };
    const struct qkv_norm_options norm = norm_options(config);
    qkv_feed_forward_init(&layer->feed_forward, parameters, &options,
                          part_name(parameters, d->name, number, "feed_forward"));
    qkv_residual_init(&layer->feed_forward_residual, parameters, &norm, config->layer_norm, config->dropout,
                      part_name(parameters, d->name, number, "feed_forward.norm"));
}

/* shared: the embedding of the other stack, if the two are tied; else NULL. */
static void declare_stack(struct qkv_model *model, struct transformer_stack *stack, bool decoder,
                          const struct qkv_embedding *shared)
{
    const struct qkv_stack_config *config = decoder ? &model->config.decoder : &model->config.encoder;
    const char *name = decoder ? "decoder" : "encoder";
    int32_t size = decoder ? model->target_size : model->source_size;
    const struct stack_declaration d = stack_declaration_of(model, stack, decoder);
    struct qkv_parameters *parameters = &model->parameters;
    const char *embedding_name = qkv_arena_format(&parameters->arena, "%s.embeddings", name);
    const char *positions_name = qkv_arena_format(&parameters->arena, "%s.positions", name);
    const char *norm_name = qkv_arena_format(&parameters->arena, "%s.norm", name);
    *stack = (struct transformer_stack){
        .layers = qkv_arena_zeroed(&parameters->arena, (size_t)config->num_layers * sizeof *stack->layers),
        .layer_count = config->num_layers,
        .embedding_dropout = config->embeddings.dropout,
        .word_dropout = config->embeddings.word_dropout,
        .has_final_norm = config->layer_norm == QKV_NORM_PRE,
        .owner = {.stack = d.stack},
    };
    if (!embedding_name || !positions_name || !norm_name || !stack->layers) {
        parameters->failed = true;
        return;
    }
    const struct qkv_embedding_options embedding = {
        size,
        config->hidden_size,
        config->embeddings.scale,
        {model->config.embed_initializer, model->config.embed_init_gain}};
    const struct qkv_positions_options positions = position_options(config);
    if (shared)
        stack->embedding = *shared;
    else
        qkv_embedding_init(&stack->embedding, parameters, &embedding, embedding_name);
    qkv_positions_init(&stack->positions, parameters, &positions, positions_name);
    for (int64_t i = 0; i < stack->layer_count; i++) declare_layer(&d, &stack->layers[i], i + 1);
    const struct qkv_norm_options norm = norm_options(config);
    if (stack->has_final_norm) qkv_norm_init(&stack->final_norm, parameters, &norm, norm_name);
}

void *qkv_transformer_declare(struct qkv_model *model, struct qkv_error *error)
{
    (void)error; /* the rules between config keys have refused invalid values */
    const struct qkv_model_config *config = &model->config;
    struct transformer *network = qkv_arena_zeroed(&model->parameters.arena, sizeof *network);
    if (!network) return NULL;
    declare_stack(model, &network->encoder, false, NULL);
    declare_stack(model, &network->decoder, true,
                  config->tied_embeddings ? &network->encoder.embedding : NULL);
    return network;
}

/* ---- applying ---- */

struct qkv_tensor *qkv_transformer_embed(const struct transformer_stack *stack, struct qkv_graph *graph,
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

struct qkv_tensor *qkv_transformer_feed_forward(const struct transformer_layer *layer,
                                                struct qkv_graph *graph, struct qkv_tensor *x,
                                                struct qkv_trace *trace)
{
    struct qkv_tensor *inside = enter(&layer->feed_forward_residual, graph, x, trace, &layer->owner);
    struct qkv_tensor *result = qkv_feed_forward_apply(&layer->feed_forward, graph, inside);
    x = leave(&layer->feed_forward_residual, graph, x, result, trace, &layer->owner);
    qkv_trace_record(trace, graph, &layer->owner, QKV_PART_HIDDEN, x);
    return x;
}

struct qkv_tensor *qkv_transformer_finish(const struct transformer_stack *stack, struct qkv_graph *graph,
                                          struct qkv_tensor *x, struct qkv_trace *trace)
{
    if (!stack->has_final_norm) return x;
    x = qkv_norm_apply(&stack->final_norm, graph, x);
    qkv_trace_record(trace, graph, &stack->owner, QKV_PART_NORM, x);
    return x;
}

struct qkv_tensor *qkv_transformer_attend(const struct attention_sublayer *sublayer, struct qkv_graph *graph,
                                          const struct qkv_attention_inputs *inputs, struct qkv_trace *trace)
{
    const struct qkv_multi_head *attention = &sublayer->attention;
    const struct qkv_part *owner = &sublayer->owner;
    const struct qkv_segments queries = inputs->queries, keys = inputs->keys;
    struct qkv_tensor *inside = enter(&sublayer->residual, graph, inputs->x, trace, owner); /* [Nq, D] */
    struct qkv_tensor *memory = inputs->memory ? inputs->memory : inside, *node;
    struct qkv_attention_projections projections = {.mask = inputs->mask, .queries = queries, .keys = keys};
    projections.query = qkv_multi_head_query(attention, graph, inside, queries, NULL); /* [Nq, H K] */
    projections.key = qkv_multi_head_key(attention, graph, memory, keys, NULL);        /* [Nk, G K] */
    projections.value = qkv_multi_head_value(attention, graph, memory);                /* [Nk, G V] */
    struct qkv_tensor *context =
        qkv_multi_head_context(attention, graph, &projections, &node);               /* [Nq, H V] */
    struct qkv_tensor *result = qkv_dense_apply(&attention->output, graph, context); /* [Nq, D] */
    qkv_trace_record(trace, graph, owner, QKV_PART_INPUT, inside);
    qkv_trace_record(trace, graph, owner, QKV_PART_MEMORY, memory);
    qkv_trace_record(trace, graph, owner, QKV_PART_QUERY, projections.query);
    qkv_trace_record(trace, graph, owner, QKV_PART_KEY, projections.key);
    qkv_trace_record(trace, graph, owner, QKV_PART_VALUE, projections.value);
    qkv_trace_record(trace, graph, owner, QKV_PART_WEIGHTS, node);
    qkv_trace_record(trace, graph, owner, QKV_PART_CONTEXT, context);
    qkv_trace_record(trace, graph, owner, QKV_PART_OUTPUT, result);
    qkv_trace_record(trace, graph, owner, QKV_PART_RESIDUAL, inputs->x);
    return leave(&sublayer->residual, graph, inputs->x, result, trace, owner);
}

struct qkv_tensor *qkv_transformer_encode(const struct transformer *network, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch, struct qkv_tensor *mask,
                                          struct qkv_trace *trace)
{
    const struct transformer_stack *stack = &network->encoder;
    const struct qkv_segments segments = {batch->count, batch->source_start, batch->source_length};
    struct qkv_attention_inputs self = {.mask = mask, .queries = segments, .keys = segments};
    struct qkv_tensor *x =
        qkv_transformer_embed(stack, graph, batch->source, batch->source_tokens, segments, NULL, trace);
    for (int64_t i = 0; i < stack->layer_count; i++) {
        self.x = x;
        x = qkv_transformer_attend(&stack->layers[i].self, graph, &self, trace);
        x = qkv_transformer_feed_forward(&stack->layers[i], graph, x, trace);
    }
    return qkv_transformer_finish(stack, graph, x, trace);
}
