/* The encoder-decoder transformer (Vaswani et al. 2017), pre-norm or post-norm. */
#include "models/transformer.h"

#include <math.h>

/* ---- declaring ---- */

/* Everything that the declarations of one stack need. */
struct declaring {
    struct qkv_model *model;
    const struct qkv_stack_config *config;
    const char *name; /* "encoder" */
    bool decoder;
    const struct qkv_positions *positions;
    struct qkv_initial weight, branch_end;
};

static struct declaring declaring_of(struct qkv_model *model, const struct stack *stack, bool decoder)
{
    const struct qkv_model_config *whole = &model->config;
    const struct qkv_stack_config *config = decoder ? &whole->decoder : &whole->encoder;
    struct qkv_initial weight = {whole->initializer, whole->init_gain}, branch_end = weight;
    /* Matrices that end a residual branch start smaller, so that the sum over the depth does not grow with it
     * (Radford et al. 2019). */
    if (whole->init_depth_scaling) branch_end.gain /= sqrt(2.0 * (double)config->num_layers);
    return (struct declaring){model,  config,    decoder ? "decoder" : "encoder", decoder, &stack->positions,
                              weight, branch_end};
}

/* Tables of positions are as wide as what they are for. */
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
        .distance = config->positions.max_distance,
        .initial = {QKV_INITIALIZER_NORMAL, 0.02},
    };
}

static struct qkv_norm_options norm_options(const struct qkv_stack_config *config)
{
    return (struct qkv_norm_options){config->norm, config->hidden_size, config->norm_epsilon};
}

/* "<stack>.<layer>.<part>", in the parameters' arena; "" where memory is out, which sticks. */
static const char *part_name(struct qkv_parameters *parameters, const char *stack, int64_t layer,
                             const char *part)
{
    const char *name = qkv_arena_format(&parameters->arena, "%s.%lld.%s", stack, (long long)layer, part);
    if (!name) parameters->failed = true;
    return name ? name : "";
}

/* `self`: self attention, which the window, causality and positions are for. */
static void declare_attention(const struct declaring *d, struct qkv_multi_head *attention,
                              struct qkv_residual *residual, int64_t layer, const char *part, bool self)
{
    const struct qkv_stack_config *config = d->config;
    struct qkv_parameters *parameters = &d->model->parameters;
    bool windowed = self && config->attention.window < QKV_WINDOW_NONE;
    const struct qkv_multi_head_options options = {
        .width = config->hidden_size,
        .heads = config->num_heads,
        .key_width = config->attention.key_width,
        .value_width = config->attention.value_width,
        .bias = config->attention.bias,
        .causal = self && d->decoder,
        .dropout = config->attention.dropout,
        .initial = d->weight,
        .output_initial = d->branch_end,
        .key_value_heads = config->attention.key_value_heads,
        .window = windowed ? config->attention.window : 0,
        .global_tokens = windowed ? config->attention.global_tokens : 0,
        .kernel = config->attention.kernel,
        .positions = self ? d->positions : NULL,
    };
    const struct qkv_norm_options norm = norm_options(config);
    const char *name = part_name(parameters, d->name, layer, part);
    qkv_multi_head_init(attention, parameters, &options, name);
    const char *norm_name = qkv_arena_format(&parameters->arena, "%s.norm", name);
    qkv_residual_init(residual, parameters, &norm, config->layer_norm, config->dropout,
                      norm_name ? norm_name : "");
}

static void declare_block(const struct declaring *d, struct block *block, int64_t layer)
{
    const struct qkv_stack_config *config = d->config;
    struct qkv_parameters *parameters = &d->model->parameters;
    declare_attention(d, &block->self, &block->self_residual, layer, "self", true);
    if (d->decoder) declare_attention(d, &block->cross, &block->cross_residual, layer, "cross", false);
    const struct qkv_feed_forward_options options = {
        .width = config->hidden_size,
        .inner_width = config->ff_size,
        .activation = config->activation,
        .dropout = config->dropout,
        .initial = d->weight,
        .output_initial = d->branch_end,
    };
    const struct qkv_norm_options norm = norm_options(config);
    qkv_feed_forward_init(&block->feed_forward, parameters, &options,
                          part_name(parameters, d->name, layer, "feed_forward"));
    qkv_residual_init(&block->feed_forward_residual, parameters, &norm, config->layer_norm, config->dropout,
                      part_name(parameters, d->name, layer, "feed_forward.norm"));
}

/* `shared`: the embedding of the other side, when the two are tied. */
static void declare_stack(struct qkv_model *model, struct stack *stack, bool decoder,
                          const struct qkv_embedding *shared)
{
    const struct qkv_stack_config *config = decoder ? &model->config.decoder : &model->config.encoder;
    const char *name = decoder ? "decoder" : "encoder";
    int32_t size = decoder ? model->target_size : model->source_size;
    const struct declaring d = declaring_of(model, stack, decoder);
    struct qkv_parameters *parameters = &model->parameters;
    const char *embedding_name = qkv_arena_format(&parameters->arena, "%s.embeddings", name);
    const char *positions_name = qkv_arena_format(&parameters->arena, "%s.positions", name);
    const char *norm_name = qkv_arena_format(&parameters->arena, "%s.norm", name);
    *stack = (struct stack){
        .layers = config->num_layers,
        .blocks = qkv_arena_zeroed(&parameters->arena, (size_t)config->num_layers * sizeof *stack->blocks),
        .embedding_dropout = config->embeddings.dropout,
        .normed = config->layer_norm == QKV_NORM_PRE,
        .name = name,
    };
    if (!embedding_name || !positions_name || !norm_name || !stack->blocks) {
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
    for (int64_t i = 0; i < stack->layers; i++) declare_block(&d, &stack->blocks[i], i + 1);
    const struct qkv_norm_options norm = norm_options(config);
    if (stack->normed) qkv_norm_init(&stack->final_norm, parameters, &norm, norm_name);
}

static void *declare(struct qkv_model *model)
{
    const struct qkv_model_config *config = &model->config;
    struct transformer *network = qkv_arena_zeroed(&model->parameters.arena, sizeof *network);
    if (!network) return NULL;
    declare_stack(model, &network->encoder, false, NULL);
    declare_stack(model, &network->decoder, true,
                  config->tied_embeddings ? &network->encoder.embedding : NULL);
    return network;
}

/* ---- the forced pass ---- */

struct qkv_tensor *qkv_transformer_embed(const struct stack *stack, struct qkv_graph *graph,
                                         const int32_t *ids, int64_t count, struct qkv_segments segments,
                                         const int64_t *first)
{
    struct qkv_tensor *x = qkv_embedding_apply(&stack->embedding, graph, ids, count);
    x = qkv_positions_apply(&stack->positions, graph, x, segments, first);
    return qkv_dropout_apply(graph, x, stack->embedding_dropout);
}

struct qkv_tensor *qkv_transformer_feed_forward(const struct block *block, struct qkv_graph *graph,
                                                struct qkv_tensor *x)
{
    struct qkv_tensor *inside = qkv_residual_enter(&block->feed_forward_residual, graph, x);
    return qkv_residual_leave(&block->feed_forward_residual, graph, x,
                              qkv_feed_forward_apply(&block->feed_forward, graph, inside));
}

struct qkv_tensor *qkv_transformer_finish(const struct stack *stack, struct qkv_graph *graph,
                                          struct qkv_tensor *x)
{
    return stack->normed ? qkv_norm_apply(&stack->final_norm, graph, x) : x;
}

static void note(struct qkv_trace *trace, enum qkv_attention_kind kind, int64_t layer,
                 struct qkv_tensor *node)
{
    if (trace && trace->count < QKV_MOST_ATTENTIONS)
        trace->attention[trace->count++] = (struct qkv_attention_node){kind, layer, node};
}

/* Self attention with its residual, over packed sentences. */
static struct qkv_tensor *attend_self(const struct block *block, struct qkv_graph *graph,
                                      struct qkv_tensor *x, struct qkv_segments segments,
                                      struct qkv_tensor **node)
{
    struct qkv_tensor *inside = qkv_residual_enter(&block->self_residual, graph, x);
    struct qkv_tensor *result =
        qkv_multi_head_apply(&block->self, graph, inside, inside, NULL, segments, segments, node);
    return qkv_residual_leave(&block->self_residual, graph, x, result);
}

struct qkv_tensor *qkv_transformer_encode(const struct transformer *network, struct qkv_graph *graph,
                                          const int32_t *ids, int64_t count, struct qkv_segments segments,
                                          struct qkv_trace *trace)
{
    const struct stack *stack = &network->encoder;
    struct qkv_tensor *x = qkv_transformer_embed(stack, graph, ids, count, segments, NULL), *node = NULL;
    for (int64_t i = 0; i < stack->layers; i++) {
        x = attend_self(&stack->blocks[i], graph, x, segments, &node);
        note(trace, QKV_ATTENTION_ENCODER, i + 1, node);
        x = qkv_transformer_feed_forward(&stack->blocks[i], graph, x);
    }
    return qkv_transformer_finish(stack, graph, x);
}

static struct qkv_tensor *hidden(const struct qkv_model *model, struct qkv_graph *graph,
                                 const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct transformer *network = model->network;
    const struct stack *stack = &network->decoder;
    const struct qkv_segments source = {batch->count, batch->source_start, batch->source_length};
    const struct qkv_segments target = {batch->count, batch->target_start, batch->target_length};
    struct qkv_tensor *memory = qkv_transformer_encode(network, graph, batch->source, batch->source_tokens,
                                                       source, trace); /* [Ns, D] */
    struct qkv_tensor *x =
        qkv_transformer_embed(stack, graph, batch->target_input, batch->target_tokens, target, NULL);
    struct qkv_tensor *node = NULL;
    for (int64_t i = 0; i < stack->layers; i++) {
        const struct block *block = &stack->blocks[i];
        x = attend_self(block, graph, x, target, &node);
        note(trace, QKV_ATTENTION_DECODER, i + 1, node);
        struct qkv_tensor *inside = qkv_residual_enter(&block->cross_residual, graph, x);
        struct qkv_tensor *mixed =
            qkv_multi_head_apply(&block->cross, graph, inside, memory, NULL, target, source, &node);
        note(trace, QKV_ATTENTION_CROSS, i + 1, node);
        x = qkv_residual_leave(&block->cross_residual, graph, x, mixed);
        x = qkv_transformer_feed_forward(block, graph, x);
    }
    return qkv_transformer_finish(stack, graph, x);
}

const struct qkv_network_interface qkv_network_transformer = {
    .name = "transformer",
    .declare = declare,
    .hidden = hidden,
    .decoding = &qkv_transformer_decoding,
};
