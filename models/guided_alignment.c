/* Guided alignment: trains the cross attention of a head to follow given links. */
#include "models/network.h"

#include "qkv/dtype.h"
#include "qkv/ops.h"

/* Number of weights of one head: the sum of Tq Tk over all sentences. */
static int64_t weight_count(const struct qkv_batch_view *batch)
{
    int64_t count = 0;
    for (int64_t i = 0; i < batch->count; i++) count += batch->target_length[i] * batch->source_length[i];
    return count;
}

/* Writes the shares of a sentence's links to its matrix, which begins at `at`. Leaves out links to tokens that the sentence
 * does not have: training reserves memory with sentences of other lengths, whose links do not fit. */
static void write_shares(enum qkv_dtype dtype, void *target, int64_t at,
                         const struct qkv_guided_alignment *guided, const struct qkv_batch_view *batch,
                         int64_t sentence)
{
    const struct qkv_token_links *links = guided->links;
    int64_t pair = batch->index[sentence], shift = guided->reading == QKV_READING_READ;
    if (pair < 0 || pair >= links->pairs) return;
    for (int64_t i = links->start[pair]; i < links->start[pair + 1]; i++) {
        const struct qkv_token_link *link = &links->links[i];
        int64_t row = link->target + shift;
        if (link->target >= 0 && row < batch->target_length[sentence] && link->source >= 0 &&
            link->source < batch->source_length[sentence])
            qkv_dtype_set(dtype, target, at + row * batch->source_length[sentence] + link->source,
                          link->share);
    }
}

/* The target weights that follow from the links, for attention_loss: [P]. Row t belongs to the step that predicts target
 * token t and reads token t - 1. */
static struct qkv_tensor *target_weights(struct qkv_graph *graph, const struct qkv_batch_view *batch,
                                         const struct qkv_guided_alignment *guided)
{
    enum qkv_dtype dtype = qkv_graph_dtype(graph);
    int64_t count = weight_count(batch), at = 0;
    void *target = qkv_graph_memory(graph, (size_t)count * qkv_dtype_size(dtype));
    if (!target) return NULL;
    for (int64_t i = 0; i < batch->count; i++) {
        write_shares(dtype, target, at, guided, batch, i);
        at += batch->target_length[i] * batch->source_length[i];
    }
    return qkv_wrap(graph, QKV_SHAPE(count), target);
}

/* The columns of head `head` (from 0) of `heads` in x [N, heads K]: [N, K]. */
static struct qkv_tensor *columns_of_head(struct qkv_graph *graph, struct qkv_tensor *x, int64_t head,
                                          int64_t heads)
{
    int64_t width = qkv_tensor_shape(x).size[1] / heads;
    return heads == 1 ? x : qkv_slice(graph, x, 1, head * width, width);
}

struct qkv_tensor *qkv_guided_alignment_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                             const struct qkv_batch_view *batch,
                                             const struct qkv_guided_alignment *guided, double factor,
                                             const struct qkv_trace *trace)
{
    int64_t layers = model->config.decoder.num_layers,
            layer = guided->layer ? guided->layer
                    : layers > 1  ? layers - 1
                                  : 1,
            head = guided->head < 1 ? -1 : guided->head - 1;
    const struct qkv_part *query = qkv_trace_attention(trace, QKV_PART_QUERY, QKV_ATTENTION_CROSS, layer),
                          *key = qkv_trace_attention(trace, QKV_PART_KEY, QKV_ATTENTION_CROSS, layer);
    struct qkv_attention_layers layers_of = {0};
    if (model->interface->attention)
        layers_of = model->interface->attention(model, QKV_ATTENTION_CROSS, layer);
    const struct qkv_multi_head *multi_head = layers_of.multi_head;
    struct qkv_error ignored;
    if (qkv_graph_check(graph, &ignored)) return NULL;
    if (!query || !key || !multi_head || head < 0 || head >= multi_head->rule.heads)
        return qkv_graph_fail(graph,
                              "guided alignment: the network %s has no head %lld of cross attention in layer "
                              "%lld",
                              model->interface->name, (long long)guided->head, (long long)layer);
    const struct qkv_attention_rule *rule = &multi_head->rule;
    int64_t key_value_heads = qkv_attention_key_value_heads(rule);
    const struct qkv_attention attention = {
        .rule = {.heads = 1, .scale = rule->scale},
        .queries = {batch->count, batch->target_start, batch->target_length},
        .keys = {batch->count, batch->source_start, batch->source_length},
    };
    const char *outer = qkv_graph_scope(graph, "guided_alignment");
    struct qkv_tensor *scores = qkv_attention_scores(
        graph, columns_of_head(graph, query->node, head, rule->heads),
        columns_of_head(graph, key->node, head / (rule->heads / key_value_heads), key_value_heads),
        attention); /* [P] */
    struct qkv_tensor *loss = qkv_attention_loss(graph, scores, target_weights(graph, batch, guided),
                                                 attention, guided->weight * factor);
    qkv_graph_scope(graph, outer);
    return loss;
}
