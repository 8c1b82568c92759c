/* Recurrent encoder-decoders: with a fixed vector between encoder and decoder (Cho et al. 2014;
 * Sutskever et al. 2014), or with attention (Bahdanau et al. 2015; Luong et al. 2015). The query is
 * always the decoder's current hidden state h, and the output is the attentional vector tanh(W [h;
 * context]), as in Luong et al. */
#include "models/recurrent.h"

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
    struct qkv_tensor *gates =
        qkv_recurrent_embed(model, graph, batch->target_input, rows, &record->embedded);
    if (qkv_recurrent_feeds_summary(model)) {
        struct qkv_tensor *repeated =
            qkv_gather_rows(graph, source->summary, sentence_of_rows(graph, target, rows), rows);
        gates = qkv_recurrent_add_input(&network->decoder[0].cell, graph, gates, repeated);
    }
    const struct decoder_input input = {gates, source->initial, target, source, source->segments};
    return qkv_recurrent_decode(model, graph, &input, &record->attention);
}

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct encoded_source source = qkv_recurrent_encode(model, graph, batch, trace);
    struct decoder_record record = {0};
    if (!source.memory) return NULL;
    struct qkv_tensor *result =
        qkv_recurrent_feeds_attentional(model)
            ? qkv_recurrent_by_steps(model, graph, batch, &source, trace ? &record : NULL)
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

const struct qkv_network_interface qkv_network_recurrent = {
    .name = "recurrent",
    .declare = qkv_recurrent_declare,
    .forward = forward,
    .attention = attention_layers,
    .inputs = input_layers,
    .decoding = &qkv_recurrent_decoding,
};
