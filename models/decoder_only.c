/* The decoder of a transformer alone (Radford et al. 2018), with the layers of transformer.c: a language model, or a translator,
 * for which source and target are one sequence (Wang et al. 2022). No word of the source sees the target, so that the layers
 * pass over the sources first; a target then sees the keys and values of its source and those of its own words before. */
#include "core/memory.h"
#include "graph/graph.h"
#include "models/transformer.h"

/* Declares the pass over the sources: the layers of the decoder, with embeddings of the source's words. */
static void declare_source(struct qkv_model *model, struct transformer *network)
{
    const struct qkv_model_config *config = &model->config;
    struct qkv_parameters *parameters = &model->parameters;
    struct transformer_stack *source = &network->encoder, *decoder = &network->decoder;
    const struct qkv_embedding_options embedding = {model->source_size,
                                                    config->decoder.hidden_size,
                                                    config->decoder.embeddings.scale,
                                                    {config->embed_initializer, config->embed_init_gain}};
    bool is_causal = config->decoder.prefix == QKV_PREFIX_CAUSAL;
    *source = *decoder;
    source->owner.stack = QKV_STACK_ENCODER;
    source->layers = qkv_arena_zeros(&parameters->arena, source->layer_count, sizeof *source->layers);
    for (int64_t i = 0; !parameters->arena.failed && i < source->layer_count; i++) {
        struct transformer_layer *layer = &source->layers[i];
        *layer = decoder->layers[i];
        layer->owner.stack = layer->self.owner.stack = QKV_STACK_ENCODER;
        layer->self.owner.attention = QKV_ATTENTION_ENCODER;
        layer->self.attention.rule.causal = is_causal;
    }
    if (!config->tied_embeddings)
        qkv_embedding_init(&source->embedding, parameters, &embedding, "decoder.source_embeddings");
    decoder->has_prefix = true;
}

static void *declare(struct qkv_model *model, struct qkv_error *error)
{
    struct transformer *network = qkv_arena_zeroed(&model->parameters.arena, sizeof *network);
    (void)error; /* the rules between config keys have refused invalid values */
    if (network) qkv_transformer_declare_stack(model, &network->decoder, true, false, NULL);
    if (network && qkv_has_prefix(model)) declare_source(model, network);
    return network;
}

/* Describes the sequences of source and target, and the masked words among them. */
static bool join(struct qkv_graph *graph, const struct qkv_batch_view *batch,
                 struct qkv_source_prefix *prefix)
{
    const bool *of_source = batch->source_masked, *of_target = batch->target_masked;
    int64_t count = batch->source_tokens + batch->target_tokens, at = 0;
    int32_t *rows = qkv_graph_memory(graph, (size_t)count * sizeof *rows);
    bool *masked = qkv_graph_memory(graph, (size_t)count * sizeof *masked);
    int64_t *start = qkv_graph_memory(graph, (size_t)batch->count * sizeof *start),
            *length = qkv_graph_memory(graph, (size_t)batch->count * sizeof *length);
    if (!rows || !masked || !start || !length) return false;
    for (int64_t s = 0; s < batch->count; s++) {
        int64_t source = batch->source_start[s], target = batch->target_start[s];
        start[s] = at;
        length[s] = batch->source_length[s] + batch->target_length[s];
        for (int64_t i = source; i < source + batch->source_length[s]; i++, at++) {
            rows[at] = (int32_t)i;
            masked[at] = of_source && of_source[i];
        }
        for (int64_t i = target; i < target + batch->target_length[s]; i++, at++) {
            rows[at] = (int32_t)(batch->source_tokens + i);
            masked[at] = of_target && of_target[i];
        }
    }
    prefix->rows = rows;
    prefix->count = count;
    prefix->sentences = (struct qkv_segments){batch->count, start, length};
    prefix->mask = of_source || of_target ? qkv_key_mask(graph, masked, count, 1) : NULL;
    return true;
}

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct transformer *network = model->network;
    struct qkv_trace own = {0};
    struct qkv_source_prefix prefix = {.trace = trace ? trace : &own};
    struct qkv_transformer_inputs inputs = {
        .ids = batch->target_input,
        .count = batch->target_tokens,
        .own = {batch->count, batch->target_start, batch->target_length},
        .own_mask = qkv_key_mask(graph, batch->target_masked, batch->target_tokens, 1),
    };
    if (!network->decoder.has_prefix && batch->source_tokens)
        return qkv_graph_fail(graph,
                              "a decoder_only model without words of a source is a language model: its "
                              "batches have no sources");
    if (network->decoder.has_prefix) {
        if (!join(graph, batch, &prefix)) return NULL;
        if (!model->config.decoder.positions.restart) prefix.first = batch->source_length;
        inputs.prefix = &prefix;
        /* The last layer attends in the source only for its maps. */
        qkv_transformer_encode(network, graph, batch, qkv_source_mask(graph, batch),
                               !trace || graph->needs_gradients, trace ? trace : &own);
    }
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
