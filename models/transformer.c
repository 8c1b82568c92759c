/* The encoder-decoder transformer (Vaswani et al. 2017), pre-norm or post-norm: its network
 * interface. */
#include "models/transformer.h"

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct transformer *network = model->network;
    const struct transformer_stack *stack = &network->decoder;
    const struct qkv_segments source = {batch->count, batch->source_start, batch->source_length};
    const struct qkv_segments target = {batch->count, batch->target_start, batch->target_length};
    struct qkv_tensor *mask = qkv_source_mask(graph, batch),
                      *memory = qkv_transformer_encode(network, graph, batch, mask, trace); /* [Ns, D] */
    struct qkv_attention_inputs self = {.queries = target, .keys = target},
                                cross = {.memory = memory, .mask = mask, .queries = target, .keys = source};
    struct qkv_tensor *x =
        qkv_transformer_embed(stack, graph, batch->target_input, batch->target_tokens, target, NULL, trace);
    for (int64_t i = 0; i < stack->layer_count; i++) {
        self.x = x;
        cross.x = qkv_transformer_attend(&stack->layers[i].self, graph, &self, trace);
        x = qkv_transformer_attend(&stack->layers[i].cross, graph, &cross, trace);
        x = qkv_transformer_feed_forward(&stack->layers[i], graph, x, trace);
    }
    return qkv_transformer_finish(stack, graph, x, trace);
}

/* ---- layers by role ---- */

static struct qkv_attention_layers attention_layers(const struct qkv_model *model,
                                                    enum qkv_attention_kind kind, int64_t layer)
{
    const struct transformer *network = model->network;
    const struct transformer_stack *stack =
        kind == QKV_ATTENTION_ENCODER ? &network->encoder : &network->decoder;
    if (layer < 1 || layer > stack->layer_count) return (struct qkv_attention_layers){0};
    const struct transformer_layer *found = &stack->layers[layer - 1];
    const struct attention_sublayer *sublayer = kind == QKV_ATTENTION_CROSS ? &found->cross : &found->self;
    bool is_last = layer == stack->layer_count, has_cross = kind == QKV_ATTENTION_DECODER;
    return (struct qkv_attention_layers){
        .multi_head = &sublayer->attention,
        .residual = &sublayer->residual,
        .feed_forward = has_cross ? NULL : &found->feed_forward,
        .feed_forward_residual = has_cross ? NULL : &found->feed_forward_residual,
        .last_norm = is_last && stack->has_final_norm ? &stack->final_norm : NULL,
        .is_last = is_last,
    };
}

static struct qkv_input_layers input_layers(const struct qkv_model *model, enum qkv_stack_id stack)
{
    const struct transformer *network = model->network;
    const struct transformer_stack *found =
        stack == QKV_STACK_ENCODER ? &network->encoder : &network->decoder;
    return (struct qkv_input_layers){&found->embedding, &found->positions};
}

const struct qkv_network_interface qkv_network_transformer = {
    .name = "transformer",
    .declare = qkv_transformer_declare,
    .forward = forward,
    .attention = attention_layers,
    .inputs = input_layers,
    .decoding = &qkv_transformer_decoding,
};
