/* A model: its parameters, forced passes with their traces, the loss, and its heads. */
#include "qkv/model.h"
#include "core/memory.h"

#include "config/config_keys.h"
#include "data/batch.h"
#include "graph/graph.h"
#include "models/network.h"

#include "graph/attention_rule.h"
#include "layers/layer.h"

/* The projection onto the target vocabulary. */
static enum qkv_status declare_output(struct qkv_model *model, struct qkv_error *error)
{
    const struct qkv_model_config *config = &model->config;
    const struct qkv_initial weight = qkv_initial_scaled(
        (struct qkv_initial){config->initializer, config->init_gain}, config->decoder.hidden_size);
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 0};
    const struct qkv_embedding *embedding = qkv_model_inputs(model, QKV_STACK_DECODER).embedding;
    if (config->tied_softmax && (!embedding || !embedding->table))
        return qkv_error_set(
            error,
            "model.tied_softmax shares the embedding table of the decoder, but the network %s "
            "has none",
            model->interface->name);
    model->output_tied = config->tied_softmax;
    model->output_weight =
        config->tied_softmax ? embedding->table
                             : qkv_parameters_add(&model->parameters,
                                                  QKV_SHAPE(config->decoder.hidden_size, model->target_size),
                                                  weight, "output.weight");
    model->output_bias =
        qkv_parameters_add(&model->parameters, QKV_SHAPE(model->target_size), zeros, "output.bias");
    return QKV_OK;
}

/* Declares all parameters, of the network and of the output layer, and allocates them. */
static enum qkv_status declare(struct qkv_model *model, enum qkv_dtype dtype, struct qkv_error *error)
{
    struct qkv_error refusal = {""};
    model->interface = qkv_network_of(&model->config, error);
    if (!model->interface || qkv_network_read_settings(model, error)) return QKV_INVALID;
    model->network = model->interface->declare(model, &refusal);
    if (!model->network) {
        const char *reason = *refusal.message
                                 ? refusal.message
                                 : "declare returned NULL without a message, as where memory runs out";
        return qkv_error_set(error, "network %s: %s", model->interface->name, reason);
    }
    if (declare_output(model, error)) return QKV_INVALID;
    return qkv_parameters_allocate(&model->parameters, dtype, error);
}

struct qkv_model *qkv_model_new(const struct qkv_model_config *config, int32_t source_size,
                                int32_t target_size, enum qkv_dtype dtype, struct qkv_error *error)
{
    if (source_size < QKV_SPECIALS || target_size < QKV_SPECIALS ||
        (config->tied_embeddings && source_size != target_size)) {
        qkv_error_set(error, "a model cannot have vocabularies of %d and %d entries%s", (int)source_size,
                      (int)target_size, config->tied_embeddings ? " and tied embeddings" : "");
        return NULL;
    }
    struct qkv_model *model = calloc(1, sizeof *model);
    if (!model) {
        qkv_no_memory(error);
        return NULL;
    }
    model->config = *config;
    if (qkv_model_config_finish(&model->config, error)) {
        free(model);
        return NULL;
    }
    model->source_size = source_size;
    model->target_size = target_size;
    if (declare(model, dtype, error)) {
        qkv_model_free(model);
        return NULL;
    }
    return model;
}

void qkv_model_free(struct qkv_model *model)
{
    if (!model) return;
    qkv_parameters_release(&model->parameters);
    free(model);
}

struct qkv_attention_layers qkv_model_attention(const struct qkv_model *model, enum qkv_attention_kind kind,
                                                int64_t layer)
{
    if (!model->interface->attention || kind < 0 || kind >= QKV_ATTENTION_KINDS || layer < 1 ||
        layer > QKV_LAYERS_MAX)
        return (struct qkv_attention_layers){0};
    return model->interface->attention(model, kind, layer);
}

struct qkv_input_layers qkv_model_inputs(const struct qkv_model *model, enum qkv_stack_id stack)
{
    if (!model->interface->inputs || (stack != QKV_STACK_ENCODER && stack != QKV_STACK_DECODER))
        return (struct qkv_input_layers){0};
    return model->interface->inputs(model, stack);
}

int64_t qkv_model_max_length(const struct qkv_model *model)
{
    int64_t source = qkv_max_length(&model->config, false), target = qkv_max_length(&model->config, true);
    return source < target ? source : target;
}

/* ---- traces: the parts of a forced pass, by role ---- */

static bool is_attention_role(enum qkv_part_role role)
{
    return role >= QKV_PART_INPUT;
}

/* Refuses parts that cannot be used for attention maps. Checked in every pass, so that errors already show in training. */
static bool check_part(struct qkv_graph *graph, const struct qkv_part *part, enum qkv_part_role role,
                       const struct qkv_tensor *node)
{
    if (graph->failed || !node || !is_attention_role(role)) return true;
    if (part->layer < 1)
        qkv_graph_fail(graph, "qkv_trace_record: the layer of an attention is %lld, but layers count from 1",
                       (long long)part->layer);
    else if (part->attention < 0 || part->attention >= QKV_ATTENTION_KINDS)
        qkv_graph_fail(graph, "qkv_trace_record: there is no attention of kind %d", (int)part->attention);
    else if (role == QKV_PART_WEIGHTS && !graph->ops[node->op]->weights)
        qkv_graph_fail(graph, "qkv_trace_record: %s (%s) has no attention weights: record the attention node",
                       qkv_tensor_name(node), qkv_tensor_op(node));
    else if (role == QKV_PART_WEIGHTS && part->heads != node->options.attention.heads)
        qkv_graph_fail(graph, "qkv_trace_record: heads is %lld, but %s has %lld", (long long)part->heads,
                       qkv_tensor_name(node), (long long)node->options.attention.heads);
    return !graph->failed;
}

void qkv_trace_record(struct qkv_trace *trace, struct qkv_graph *graph, const struct qkv_part *owner,
                      enum qkv_part_role role, struct qkv_tensor *node)
{
    if (!check_part(graph, owner, role, node)) return;
    struct qkv_part *part = trace && node ? qkv_graph_memory(graph, sizeof *part) : NULL;
    if (!part) return;
    *part = *owner;
    part->role = role;
    part->node = node;
    part->next = NULL;
    if (trace->last)
        trace->last->next = part;
    else
        trace->first = part;
    trace->last = part;
}

const struct qkv_part *qkv_trace_attention(const struct qkv_trace *trace, enum qkv_part_role role,
                                           enum qkv_attention_kind attention, int64_t layer)
{
    for (const struct qkv_part *part = trace->first; part && is_attention_role(role); part = part->next)
        if (part->role == role && part->attention == attention && part->layer == layer) return part;
    return NULL;
}

const struct qkv_part *qkv_trace_stack(const struct qkv_trace *trace, enum qkv_part_role role,
                                       enum qkv_stack_id stack, int64_t layer)
{
    for (const struct qkv_part *part = trace->first; part; part = part->next)
        if (part->role == role && part->stack == stack && part->layer == layer) return part;
    return NULL;
}

bool qkv_trace_has(const struct qkv_trace *trace, enum qkv_part_role role, const struct qkv_tensor *node)
{
    for (const struct qkv_part *part = trace->first; part; part = part->next)
        if (part->role == role && part->node == node) return true;
    return false;
}

/* ---- passes ---- */

struct qkv_tensor *qkv_model_forward(const struct qkv_model *model, struct qkv_graph *graph,
                                     const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    struct qkv_error error;
    if (trace) *trace = (struct qkv_trace){0};
    if (qkv_batch_view_check(batch, true, &error)) return qkv_graph_fail(graph, "%s", error.message);
    struct qkv_tensor *hidden = model->interface->forward(model, graph, batch, trace);
    const struct qkv_shape wanted = QKV_SHAPE(batch->target_tokens, model->config.decoder.hidden_size),
                           shape = qkv_tensor_shape(hidden);
    /* The loss reads one label per row, and search one row per token. */
    if (hidden && shape.rank == 2 && shape.size[0] == wanted.size[0] && shape.size[1] == wanted.size[1])
        return hidden;
    return qkv_graph_fail(graph,
                          "network %s: forward returned %s, but must return a row of "
                          "model.decoder.hidden_size for each target token: %s",
                          model->interface->name, hidden ? qkv_shape_text(shape) : "NULL",
                          qkv_shape_text(wanted));
}

struct qkv_tensor *qkv_key_mask(struct qkv_graph *graph, const bool *masked, int64_t count, int64_t times)
{
    if (!masked) return NULL;
    double *numbers = qkv_graph_memory(graph, (size_t)(times * count) * sizeof *numbers);
    struct qkv_tensor *mask = qkv_constant(graph, QKV_SHAPE(times * count));
    if (!numbers || !mask) return NULL;
    for (int64_t i = 0; i < times * count; i++) numbers[i] = masked[i % count] ? 0 : 1;
    qkv_tensor_write(mask, numbers);
    return mask;
}

struct qkv_tensor *qkv_source_mask(struct qkv_graph *graph, const struct qkv_batch_view *batch)
{
    return qkv_key_mask(graph, batch->source_masked, batch->source_tokens, 1);
}

struct qkv_tensor *qkv_model_logits(const struct qkv_model *model, struct qkv_graph *graph,
                                    struct qkv_tensor *hidden)
{
    const char *outer = qkv_graph_scope(graph, "output");
    struct qkv_tensor *logits =
        qkv_linear(graph, hidden, qkv_graph_parameter(graph, model->output_weight),
                   qkv_graph_parameter(graph, model->output_bias), model->output_tied);
    qkv_graph_scope(graph, outer);
    return logits;
}

/* ---- guided alignment: trains the cross attention of a head to follow given links ---- */

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
    int64_t count = 0, at = 0; /* count: of one head, the sum of Tq Tk over all sentences */
    for (int64_t i = 0; i < batch->count; i++) count += batch->target_length[i] * batch->source_length[i];
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

/* The loss of guided alignment on a batch (struct qkv_guided_alignment), times factor: [1]. `trace`: of the pass. NULL when
 * the graph has failed, as for a head that the network does not have. */
static struct qkv_tensor *guided_alignment_loss(const struct qkv_model *model, struct qkv_graph *graph,
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
        .rule = {.heads = 1, .scale = rule->scale, .soft_cap = rule->soft_cap},
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

/* ---- the loss ---- */

struct qkv_objective qkv_objective_from_config(const struct qkv_training_config *training)
{
    return (struct qkv_objective){
        .smoothing = training->label_smoothing,
        .r_drop = training->r_drop,
        .simcut = training->simcut,
        .simcut_rate = training->simcut_rate,
        .guided = {.weight = training->guided_alignment,
                   .layer = training->guided_alignment_layer,
                   .head = training->guided_alignment_head,
                   .reading = training->guided_alignment_reading},
    };
}

/* The hidden states of the second pass; with SimCut, tokens are cut off in it. */
static struct qkv_tensor *second_hidden(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct qkv_batch_view *batch,
                                        const struct qkv_objective *objective, struct qkv_trace *trace)
{
    qkv_graph_set_token_cutoff(graph, objective->simcut > 0 ? objective->simcut_rate : 0);
    struct qkv_tensor *hidden = qkv_model_forward(model, graph, batch, trace);
    qkv_graph_set_token_cutoff(graph, 0);
    return hidden;
}

/* The cross entropy of one pass, or the loss of two: hidden states [Nt, D], second NULL for one pass. */
static struct qkv_tensor *cross_entropy(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct qkv_batch_view *batch,
                                        const struct qkv_objective *objective, double factor,
                                        struct qkv_tensor *hidden, struct qkv_tensor *second)
{
    const char *outer = qkv_graph_scope(graph, "output");
    struct qkv_tensor *weight = qkv_graph_parameter(graph, model->output_weight),
                      *bias = qkv_graph_parameter(graph, model->output_bias), *loss;
    bool one_sided = objective->simcut > 0;
    if (second)
        loss = qkv_paired_cross_entropy(graph, hidden, second, weight, bias, model->output_tied,
                                        batch->target_output, objective->smoothing,
                                        one_sided ? objective->simcut : objective->r_drop, one_sided, factor);
    else if (model->parameters.products == QKV_PRECISION_INT8)
        loss = qkv_cross_entropy(graph, qkv_model_logits(model, graph, hidden), batch->target_output,
                                 objective->smoothing, factor);
    else
        loss = qkv_linear_cross_entropy(graph, hidden, weight, bias, model->output_tied, batch->target_output,
                                        objective->smoothing, factor);
    qkv_graph_scope(graph, outer);
    return loss;
}

struct qkv_tensor *qkv_model_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, const struct qkv_objective *objective,
                                  double factor, struct qkv_trace *trace)
{
    const struct qkv_objective wanted = objective ? *objective : (struct qkv_objective){0};
    bool has_second = (wanted.r_drop > 0 || wanted.simcut > 0) && qkv_graph_has_dropout(graph);
    bool is_mutual = has_second && wanted.r_drop > 0;
    bool is_guided = wanted.guided.weight > 0 && wanted.guided.links;
    struct qkv_trace pass[2] = {{0}};
    struct qkv_tensor *hidden = qkv_model_forward(model, graph, batch, trace || is_guided ? &pass[0] : NULL);
    struct qkv_tensor *second =
        has_second ? second_hidden(model, graph, batch, &wanted, is_guided && is_mutual ? &pass[1] : NULL)
                   : NULL;
    struct qkv_tensor *loss = cross_entropy(model, graph, batch, &wanted, factor, hidden, second);
    pass[0].cross_entropy = loss;
    for (int i = 0; is_guided && i < (is_mutual ? 2 : 1); i++) {
        struct qkv_tensor *alignment = guided_alignment_loss(model, graph, batch, &wanted.guided,
                                                             is_mutual ? factor / 2 : factor, &pass[i]);
        pass[0].alignment[i] = alignment;
        loss = qkv_add(graph, loss, alignment);
    }
    if (trace) *trace = pass[0];
    return loss;
}

/* ---- heads, and which of them are ablated ---- */

/* The heads of one attention layer; is_ablated is [count]. All zero: there is no such layer. */
struct layer_heads {
    int64_t count;
    bool *is_ablated;
};

static struct layer_heads heads_of_layer(const struct qkv_model *model, enum qkv_attention_kind kind,
                                         int64_t layer)
{
    const struct qkv_attention_layers layers = qkv_model_attention(model, kind, layer);
    if (layers.multi_head)
        return (struct layer_heads){layers.multi_head->rule.heads, layers.multi_head->is_ablated};
    if (layers.single_head) return (struct layer_heads){1, layers.single_head->is_ablated};
    return (struct layer_heads){0};
}

/* Pointer to the flag that ablates the head; NULL: there is no such head. */
static bool *ablation_of(const struct qkv_model *model, struct qkv_head head)
{
    struct layer_heads heads = heads_of_layer(model, head.attention, head.layer);
    return head.head >= 1 && head.head <= heads.count ? &heads.is_ablated[head.head - 1] : NULL;
}

/* Returns head `index`. If there is no such head, sets *count to the number of heads. */
static struct qkv_head head_at(const struct qkv_model *model, int64_t index, int64_t *count)
{
    *count = 0;
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++) {
        struct layer_heads heads;
        for (int64_t layer = 1;
             heads = heads_of_layer(model, (enum qkv_attention_kind)kind, layer), heads.count; layer++) {
            if (index >= *count && index < *count + heads.count)
                return (struct qkv_head){(enum qkv_attention_kind)kind, layer, index - *count + 1};
            *count += heads.count;
        }
    }
    return (struct qkv_head){0};
}

int64_t qkv_model_head_count(const struct qkv_model *model)
{
    int64_t count;
    head_at(model, -1, &count);
    return count;
}

struct qkv_head qkv_model_head(const struct qkv_model *model, int64_t index)
{
    int64_t count;
    return head_at(model, index, &count);
}

bool qkv_model_head_rows(const struct qkv_model *model, struct qkv_head head, struct qkv_rows *rows)
{
    if (!ablation_of(model, head)) return false;
    const struct qkv_attention_layers layers = qkv_model_attention(model, head.attention, head.layer);
    if (layers.multi_head) { /* [H V, D] */
        const struct qkv_parameter *weight = layers.multi_head->output.weight;
        int64_t width = weight->shape.size[0] / layers.multi_head->rule.heads;
        *rows = (struct qkv_rows){weight, (head.head - 1) * width, width};
        return true;
    }
    if (!layers.attentional) return false;
    /* [any + M, any]: the rows of the context [M] come last */
    const struct qkv_parameter *weight = layers.attentional->weight;
    int64_t width = layers.single_head->memory_width, first = weight->shape.size[0] - width;
    if (first < 0) return false;
    *rows = (struct qkv_rows){weight, first, width};
    return true;
}

bool qkv_model_ablate(struct qkv_model *model, struct qkv_head head, bool is_ablated)
{
    bool *found = ablation_of(model, head);
    if (found) *found = is_ablated;
    return found;
}

bool qkv_model_is_ablated(const struct qkv_model *model, struct qkv_head head)
{
    const bool *found = ablation_of(model, head);
    return found && *found;
}
