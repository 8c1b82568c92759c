/* Passes over copies of a pair in which values are changed on their way. */
#include "report/attribution.h"

#include "core/memory.h"
#include "graph/graph.h"
#include "models/network.h"

enum qkv_status qkv_copies_begin(struct attribution *a, unsigned kinds)
{
    enum qkv_status status = qkv_attention_collect(a->collector, 1, a->pair, kinds, a->report, a->error);
    a->arena = &a->collector->arena;
    a->sources = a->report->source_length;
    a->steps = a->report->target_length;
    a->columns = a->sources + a->steps;
    return status;
}

static void node_ran(void *context, const struct qkv_tensor *tensor, bool backward)
{
    const struct attribution *a = context;
    for (const struct qkv_part *part = a->collector->trace.first; part && !backward; part = part->next)
        if (part->node == tensor) a->change(a, part);
}

int64_t qkv_copies_first_row(const struct attribution *a, bool of_source, int64_t copy)
{
    return (of_source ? a->collector->batch.source_start : a->collector->batch.target_start)[copy];
}

double qkv_copies_embedding(const struct attribution *a, enum qkv_stack_id stack, int64_t token, int64_t d)
{
    const struct qkv_model *model = a->collector->model;
    const struct qkv_embedding *layer = qkv_model_inputs(model, stack).embedding;
    return layer->factor *
           qkv_parameter_get(&model->parameters, layer->table, token * layer->table->shape.size[1] + d);
}

void qkv_copies_move(const struct attribution *a, const struct qkv_part *part, int64_t first, int64_t count,
                     double point)
{
    const enum qkv_dtype dtype = a->collector->model->parameters.dtype;
    int64_t width = qkv_tensor_shape(part->node).size[1];
    void *value = qkv_tensor_value(part->node);
    for (int64_t i = first * width; i < (first + count) * width && point != 1; i++) {
        double unknown = qkv_copies_embedding(a, part->stack, QKV_UNKNOWN, i % width);
        qkv_dtype_set(dtype, value, i, unknown + point * (qkv_dtype_get(dtype, value, i) - unknown));
    }
}

const struct qkv_part *qkv_copies_state(const struct attribution *a, enum qkv_stack_id stack, int64_t layer)
{
    const struct qkv_part *part = a->collector->trace.first;
    while (part && (part->role != QKV_PART_HIDDEN || part->stack != stack || part->layer != layer))
        part = part->next;
    return part;
}

enum qkv_status qkv_copies_pass(struct attribution *a)
{
    struct qkv_attention_pair *pairs = qkv_arena_array(a->arena, a->copies, sizeof *pairs);
    bool *masks = qkv_arena_zeros(a->arena, a->hidden ? a->copies * a->columns : 1, sizeof *masks);
    if (!pairs || !masks) return qkv_no_memory(a->error);
    for (int64_t i = 0; i < a->copies; i++) {
        pairs[i] = a->other && !i ? *a->other : *a->pair;
        pairs[i].vocabulary = NULL;
        if (!a->hidden) continue;
        const bool *of_source = pairs[i].source_masked, *of_target = pairs[i].target_masked;
        bool *mask = masks + i * a->columns;
        for (int64_t c = 0; c < a->columns; c++)
            mask[c] = a->hidden[i * a->columns + c] ||
                      (c < a->sources ? of_source && of_source[c] : of_target && of_target[c - a->sources]);
        if (a->sources) pairs[i].source_masked = mask;
        pairs[i].target_masked = mask + a->sources;
    }
    const struct qkv_observer observer = {node_ran, a};
    qkv_graph_observe(a->collector->graph, a->change ? &observer : NULL);
    enum qkv_status status = qkv_attention_collector_run(a->collector, a->copies, pairs, a->error);
    qkv_graph_observe(a->collector->graph, NULL);
    for (const struct qkv_part *part = a->collector->trace.first; part && a->change && !status;
         part = part->next)
        if ((part->role == QKV_PART_EMBEDDING || part->role == QKV_PART_CONTEXT) && !part->node->consumers)
            status = qkv_error_set(a->error,
                                   "network %s: computes step by step, with copies of what it records, which "
                                   "cannot be changed: choose attention or norms",
                                   a->collector->model->interface->name);
    return status;
}

int64_t qkv_copies_at_once(const struct attribution *a, int64_t wanted, int64_t numbers_per_token)
{
    enum { NUMBERS = 1 << 24 };
    int64_t copies = NUMBERS / (a->columns * numbers_per_token);
    return copies < 1 ? 1 : copies < wanted ? copies : wanted;
}

enum qkv_status qkv_copies_read(const struct attribution *a, double *result, double *all)
{
    struct qkv_graph *graph = a->collector->graph;
    const struct qkv_model *model = a->collector->model;
    struct qkv_tensor *node = qkv_log_softmax(graph, qkv_model_logits(model, graph, a->collector->hidden));
    if (qkv_graph_check(graph, a->error)) return QKV_INVALID;
    qkv_forward(graph);
    if (qkv_graph_check(graph, a->error)) return QKV_INVALID;
    const void *value = qkv_tensor_value(node);
    const int64_t classes = qkv_tensor_shape(node).size[1];
    for (int64_t i = 0; i < a->steps * classes && all; i++)
        all[i] = qkv_dtype_get(model->parameters.dtype, value, i);
    for (int64_t i = 0; i < a->copies * a->steps; i++)
        result[i] = qkv_dtype_get(model->parameters.dtype, value, i * classes + a->labels[i % a->steps]);
    return QKV_OK;
}

enum qkv_status qkv_copies_predict(struct attribution *a)
{
    const int64_t classes = a->collector->model->target_size;
    const struct qkv_ids target = a->pair->target;
    double *all = qkv_arena_array(a->arena, a->steps * classes, sizeof *all);
    a->labels = qkv_arena_zeros(a->arena, a->steps, sizeof *a->labels);
    a->log_probability = qkv_arena_array(a->arena, a->steps, sizeof *a->log_probability);
    a->copies = 1;
    if (!all || !a->labels || !a->log_probability) return qkv_no_memory(a->error);
    if (qkv_copies_pass(a) || qkv_copies_read(a, a->log_probability, all)) return QKV_INVALID;
    for (int64_t t = 0; t < a->steps; t++) {
        const double *of = all + t * classes;
        int32_t best = 0;
        for (int32_t i = 0; i < classes; i++) best = of[i] > of[best] ? i : best;
        a->labels[t] = t < target.length ? target.ids[t] : a->pair->before ? best : QKV_END;
        a->log_probability[t] = of[a->labels[t]];
    }
    return QKV_OK;
}

/* Reads <unk> in place of the hidden tokens of each copy: their own rows do not need attention to see them. */
static void erase(const struct attribution *a, const struct qkv_part *part)
{
    bool of_source = part->stack == QKV_STACK_ENCODER;
    int64_t tokens = of_source ? a->sources : a->steps;
    for (int64_t i = 0; part->role == QKV_PART_EMBEDDING && i < a->copies * tokens; i++)
        if (a->hidden[i / tokens * a->columns + (of_source ? 0 : a->sources) + i % tokens])
            qkv_copies_move(a, part, qkv_copies_first_row(a, of_source, i / tokens) + i % tokens, 1, 0);
}

enum qkv_status qkv_copies_without(struct attribution *a, int64_t count, const bool *hidden, double *result)
{
    enum qkv_status status = QKV_OK;
    a->change = erase;
    for (int64_t at = 0; at < count && !status; at += a->copies) {
        a->copies = qkv_copies_at_once(a, count - at, a->collector->model->target_size);
        a->hidden = hidden + at * a->columns;
        status = qkv_copies_pass(a);
        if (!status) status = qkv_copies_read(a, result + at * a->steps, NULL);
    }
    a->hidden = NULL;
    a->change = NULL;
    return status;
}

enum qkv_status qkv_copies_erase(struct attribution *a)
{
    double *without = qkv_arena_array(a->arena, a->columns * a->steps, sizeof *without);
    bool *hidden = qkv_arena_zeros(a->arena, a->columns * a->columns, sizeof *hidden);
    if (!without || !hidden) return qkv_no_memory(a->error);
    for (int64_t c = 0; c < a->columns; c++) hidden[c * a->columns + c] = true;
    if (qkv_copies_without(a, a->columns, hidden, without)) return QKV_INVALID;
    for (int64_t i = 0; i < a->columns * a->steps; i++)
        a->result[i % a->steps * a->columns + i / a->steps] = a->log_probability[i % a->steps] - without[i];
    return QKV_OK;
}
