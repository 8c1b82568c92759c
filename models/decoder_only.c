/* The decoder of a transformer alone (Radford et al. 2018): a language model. It has the layers of transformer.c, without
 * encoder and cross-attention. */
#include "core/memory.h"
#include "models/transformer.h"

static void *declare(struct qkv_model *model, struct qkv_error *error)
{
    struct transformer *network = qkv_arena_zeroed(&model->parameters.arena, sizeof *network);
    (void)error; /* the rules between config keys have refused invalid values */
    if (network) qkv_transformer_declare_stack(model, &network->decoder, true, false, NULL);
    return network;
}

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct transformer *network = model->network;
    const struct qkv_transformer_inputs inputs = {
        .ids = batch->target_input,
        .count = batch->target_tokens,
        .own = {batch->count, batch->target_start, batch->target_length},
        .own_mask = qkv_key_mask(graph, batch->target_masked, batch->target_tokens, 1),
    };
    if (batch->source_tokens)
        return qkv_graph_fail(graph, "a decoder_only model is a language model: its batches have no sources");
    return qkv_transformer_apply_stack(&network->decoder, graph, &inputs, trace);
}

const struct qkv_network_interface qkv_network_decoder_only = {
    .name = "decoder_only",
    .declare = declare,
    .forward = forward,
    .attention = qkv_transformer_attention,
    .inputs = qkv_transformer_inputs,
    .decoding = &qkv_transformer_decoding,
};
