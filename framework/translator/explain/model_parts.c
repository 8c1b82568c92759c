/* Checks that a network provides all layers and records all parts that the walk through one of its attention layers reads. The
 * networks of qkv do so, but a network that is defined by another program may not. */
#include "explain/model_walk.h"

#include "qkv/network.h"
#include "report/collect.h"

static enum qkv_status no_layer(const struct model_walk *m, const char *function, const char *layer,
                                const char *owner)
{
    return qkv_error_set(m->error, "network %s: its function %s gives no %s of %s, which explanations need",
                         m->model->interface->name, function, layer, owner);
}

/* Checks the embeddings of a stack and, if they are recorded, its positions. */
static enum qkv_status check_inputs(const struct model_walk *m, const struct recorded_pass *pass,
                                    enum qkv_stack_id stack, int64_t words)
{
    const struct qkv_input_layers layers = qkv_model_inputs(m->model, stack);
    const struct part_shape shape = {words, 0};
    const char *owner = stack == QKV_STACK_ENCODER ? "the encoder" : "the decoder";
    if (!qkv_recorded_stack(pass, QKV_PART_EMBEDDING, stack, shape)) return QKV_INVALID;
    if (!layers.embedding) return no_layer(m, "inputs", "embedding", owner);
    if (!qkv_trace_stack(m->trace, QKV_PART_POSITIONS, stack)) return QKV_OK;
    if (!qkv_recorded_stack(pass, QKV_PART_POSITIONS, stack, shape)) return QKV_INVALID;
    if (!layers.positions || !(layers.positions->table || layers.positions->sinusoids))
        return no_layer(m, "inputs", "positions", owner);
    return QKV_OK;
}

/* Checks the parts of the layer that the walk reads. */
static enum qkv_status check_layer(const struct model_walk *m, const struct recorded_pass *pass)
{
    const struct qkv_attention_layers *layers = &m->layers;
    const struct qkv_multi_head *multi_head = layers->multi_head;
    const struct qkv_single_head_attention *single_head = layers->single_head;
    int64_t queries = m->query_words.count, keys = m->key_words.count,
            input = multi_head ? multi_head->query.weight->shape.size[0] : single_head->query_width,
            memory = multi_head ? multi_head->key.weight->shape.size[0] : single_head->memory_width;
    if (!qkv_recorded_attention(pass, QKV_PART_INPUT, m->kind, m->layer,
                                (struct part_shape){queries, input}) ||
        !qkv_recorded_attention(pass, QKV_PART_MEMORY, m->kind, m->layer, (struct part_shape){keys, memory}))
        return QKV_INVALID;
    if (!multi_head) {
        if (!layers->attentional) return no_layer(m, "attention", "attentional layer", "its single head");
        if (m->model->config.decoder.input_feeding &&
            !qkv_recorded_attention(pass, QKV_PART_OUTPUT, m->kind, m->layer,
                                    (struct part_shape){queries, 0}))
            return QKV_INVALID;
        return QKV_OK;
    }
    if (!layers->residual) return QKV_OK;
    if (layers->residual->place == QKV_NORM_PRE &&
        !qkv_recorded_attention(pass, QKV_PART_RESIDUAL, m->kind, m->layer,
                                (struct part_shape){queries, multi_head->output.weight->shape.size[1]}))
        return QKV_INVALID;
    if (layers->feed_forward && !layers->feed_forward_residual)
        return no_layer(m, "attention", "feed_forward_residual", "a layer with feed_forward");
    return QKV_OK;
}

enum qkv_status qkv_model_walk_check(const struct model_walk *m)
{
    const struct recorded_pass pass = {m->model, m->trace, "explanations", m->error};
    bool is_single = !m->layers.multi_head, is_encoder = m->kind == QKV_ATTENTION_ENCODER && !is_single,
         reads_source = m->kind == QKV_ATTENTION_CROSS || is_single;
    if (check_layer(m, &pass) ||
        check_inputs(m, &pass, is_encoder ? QKV_STACK_ENCODER : QKV_STACK_DECODER, m->input_words.count))
        return QKV_INVALID;
    return reads_source ? check_inputs(m, &pass, QKV_STACK_ENCODER, m->key_words.count) : QKV_OK;
}
