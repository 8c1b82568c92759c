/* Passes over copies of a pair in which values are changed on their way. */
#include "report/attribution.h"

#include "core/memory.h"
#include "graph/graph.h"
#include "models/network.h"

int64_t qkv_copies_row(const struct attribution *a, bool of_source, int64_t copy)
{
    const struct qkv_batch *batch = &a->collector->batch;
    return (of_source ? batch->source_start : batch->target_start)[copy + (a->copies.base != NULL)];
}

double qkv_copies_embedding(const struct attribution *a, enum qkv_stack_id stack, int64_t token, int64_t d)
{
    const struct qkv_model *model = a->collector->model;
    const struct qkv_embedding *layer = qkv_model_inputs(model, stack).embedding;
    return layer->factor *
           qkv_parameter_get(&model->parameters, layer->table, token * layer->table->shape.size[1] + d);
}

/* ---- changes ---- */

/* The copy of a change in the present pass; -1: it has none. */
static int64_t copy_of(const struct attribution *a, const struct change *change)
{
    int64_t copy = change->copy - a->copies.first;
    return copy >= 0 && copy < a->copies.passed ? copy : -1;
}

static bool concerns(const struct change *change, const struct qkv_part *part)
{
    bool of_stack = part->role < QKV_PART_INPUT;
    return part->role == change->of.role && part->layer == change->of.layer &&
           (of_stack ? part->stack == change->of.stack : part->attention == change->of.attention);
}

/* Changes the value of a part, which has just been computed, in a copy. */
static void apply(const struct attribution *a, const struct change *change, int64_t copy,
                  const struct qkv_part *part)
{
    const enum qkv_dtype dtype = a->collector->model->parameters.dtype;
    const bool is_value = part->role == QKV_PART_VALUE, is_embedding = part->role == QKV_PART_EMBEDDING,
               of_source =
                   is_value ? part->attention != QKV_ATTENTION_DECODER : part->stack == QKV_STACK_ENCODER;
    const int64_t width = qkv_tensor_shape(part->node).size[1],
                  columns = change->head ? width / part->heads : width,
                  first = change->head ? (change->head - 1) * columns : 0;
    void *value = qkv_tensor_value(part->node);
    for (int64_t i = 0; i < change->rows * columns; i++) {
        int64_t row = change->row + i / columns, d = first + i % columns,
                at = (qkv_copies_row(a, of_source, copy) + row) * width + d;
        double base = is_embedding ? qkv_copies_embedding(a, part->stack, QKV_UNKNOWN, d)
                      : is_value
                          ? 0
                          : qkv_dtype_get(dtype, value, (qkv_copies_row(a, of_source, -1) + row) * width + d);
        qkv_dtype_set(dtype, value, at, base + change->point * (qkv_dtype_get(dtype, value, at) - base));
    }
}

static void node_ran(void *context, const struct qkv_tensor *tensor, bool backward)
{
    const struct attribution *a = context;
    for (const struct qkv_part *part = a->collector->trace.first; part && !backward; part = part->next)
        for (int64_t i = 0; part->node == tensor && i < a->copies.change_count; i++) {
            const struct change *change = &a->copies.changes[i];
            int64_t copy = copy_of(a, change);
            if (copy >= 0 && change->point != 1 && concerns(change, part)) apply(a, change, copy, part);
        }
}

/* Lets no attention see a token of a copy: adds it to the masks of the pair. */
static enum qkv_status hide(const struct attribution *a, const struct change *change,
                            struct qkv_attention_pair *copy)
{
    bool of_source = change->of.stack == QKV_STACK_ENCODER;
    const bool **mask = of_source ? &copy->source_masked : &copy->target_masked;
    int64_t tokens = of_source ? a->sources : a->steps;
    bool *masked = qkv_arena_zeros(a->arena, tokens, sizeof *masked);
    if (!masked) return qkv_no_memory(a->error);
    if (*mask) memcpy(masked, *mask, (size_t)tokens * sizeof *masked);
    masked[change->row] = true;
    *mask = masked;
    return QKV_OK;
}

/* ---- passes ---- */

static enum qkv_status pass(struct attribution *a)
{
    const int64_t before = a->copies.base != NULL;
    const struct qkv_observer observer = {node_ran, a};
    struct qkv_attention_pair *pairs = qkv_arena_array(a->arena, before + a->copies.passed, sizeof *pairs);
    enum qkv_status status = pairs ? QKV_OK : qkv_no_memory(a->error);
    for (int64_t i = 0; i < before + a->copies.passed && !status; i++) {
        pairs[i] = i < before ? *a->copies.base : *a->pair;
        pairs[i].vocabulary = NULL;
    }
    for (int64_t i = 0; i < a->copies.change_count && !status; i++) {
        const struct change *change = &a->copies.changes[i];
        int64_t copy = copy_of(a, change);
        if (copy >= 0 && change->hides) status = hide(a, change, &pairs[before + copy]);
    }
    if (status) return status;
    qkv_graph_observe(a->collector->graph, &observer);
    status = qkv_attention_collector_run(a->collector, before + a->copies.passed, pairs, a->error);
    qkv_graph_observe(a->collector->graph, NULL);
    for (const struct qkv_part *part = a->collector->trace.first; part && !status; part = part->next)
        if ((part->role == QKV_PART_EMBEDDING || part->role == QKV_PART_CONTEXT) && !part->node->consumers)
            status = qkv_error_set(a->error,
                                   "network %s: computes step by step, with copies of what it records, which "
                                   "cannot be changed: choose attention or norms",
                                   a->collector->model->interface->name);
    return status;
}

bool qkv_copies_pass(struct attribution *a)
{
    enum { NUMBERS = 1 << 24, OF_A_TOKEN = 8192 };
    struct copies *copies = &a->copies;
    const int64_t most = NUMBERS / (a->columns * (OF_A_TOKEN + a->collector->model->target_size));
    copies->first += copies->passed;
    copies->passed = copies->count - copies->first;
    if (copies->passed > most) copies->passed = most < 1 ? 1 : most;
    if (copies->passed > 0 && !a->status) a->status = pass(a);
    return copies->passed > 0 && !a->status;
}

/* ---- predictions ---- */

/* The log-probabilities of all tokens in all rows of the last pass; NULL with a message. */
static struct qkv_tensor *log_probabilities(const struct attribution *a)
{
    struct qkv_graph *graph = a->collector->graph;
    struct qkv_tensor *node =
        qkv_log_softmax(graph, qkv_model_logits(a->collector->model, graph, a->collector->hidden));
    if (qkv_graph_check(graph, a->error)) return NULL;
    qkv_forward(graph);
    return qkv_graph_check(graph, a->error) ? NULL : node;
}

static double log_probability(const struct attribution *a, struct qkv_tensor *node, int64_t row,
                              int64_t token)
{
    return qkv_dtype_get(a->collector->model->parameters.dtype, qkv_tensor_value(node),
                         row * a->collector->model->target_size + token);
}

enum qkv_status qkv_copies_begin(struct attribution *a, unsigned kinds)
{
    const struct qkv_ids target = a->pair->target;
    enum qkv_status status = qkv_attention_collect(a->collector, 1, a->pair, kinds, a->report, a->error);
    if (status) return status;
    a->arena = &a->collector->arena;
    a->sources = a->report->source_length;
    a->steps = a->report->target_length;
    a->columns = a->sources + a->steps;
    a->labels = qkv_arena_zeros(a->arena, a->steps, sizeof *a->labels);
    a->log_probability = qkv_arena_array(a->arena, a->steps, sizeof *a->log_probability);
    if (!a->labels || !a->log_probability) return qkv_no_memory(a->error);
    struct qkv_tensor *node = log_probabilities(a);
    for (int64_t t = 0; t < a->steps && node; t++) {
        int32_t best = 0;
        for (int32_t i = 0; i < a->collector->model->target_size; i++)
            if (log_probability(a, node, t, i) > log_probability(a, node, t, best)) best = i;
        a->labels[t] = t < target.length ? target.ids[t] : a->pair->before ? best : QKV_END;
        a->log_probability[t] = log_probability(a, node, t, a->labels[t]);
    }
    return node ? QKV_OK : QKV_INVALID;
}

enum qkv_status qkv_copies_read(const struct attribution *a, double *result)
{
    struct qkv_tensor *node = log_probabilities(a);
    for (int64_t i = 0; i < a->copies.passed * a->steps && node; i++)
        result[i] = log_probability(a, node, qkv_copies_row(a, false, i / a->steps) + i % a->steps,
                                    a->labels[i % a->steps]);
    return node ? QKV_OK : QKV_INVALID;
}

enum qkv_status qkv_copies_measure(struct attribution *a, struct copies copies, double *result)
{
    a->copies = copies;
    while (qkv_copies_pass(a)) a->status = qkv_copies_read(a, result + a->copies.first * a->steps);
    return a->status;
}

enum qkv_status qkv_copies_without(struct attribution *a, int64_t count, const bool *hidden, double *result)
{
    struct change *changes = qkv_arena_array(a->arena, count * a->columns, sizeof *changes);
    int64_t hides = 0;
    if (!changes) return qkv_no_memory(a->error);
    for (int64_t i = 0; i < count * a->columns; i++) {
        int64_t token = i % a->columns;
        bool of_source = token < a->sources;
        if (!hidden[i]) continue;
        changes[hides++] = (struct change){
            .copy = i / a->columns,
            .of = {.role = QKV_PART_EMBEDDING, .stack = of_source ? QKV_STACK_ENCODER : QKV_STACK_DECODER},
            .row = of_source ? token : token - a->sources,
            .rows = 1,
            .hides = true};
    }
    return qkv_copies_measure(a, (struct copies){count, changes, hides}, result);
}

enum qkv_status qkv_copies_erase(struct attribution *a)
{
    double *without = qkv_arena_array(a->arena, a->columns * a->steps, sizeof *without);
    bool *hidden = qkv_arena_zeros(a->arena, a->columns * a->columns, sizeof *hidden);
    a->result = qkv_arena_array(a->arena, a->steps * a->columns, sizeof *a->result);
    if (!without || !hidden || !a->result) return qkv_no_memory(a->error);
    for (int64_t c = 0; c < a->columns; c++) hidden[c * a->columns + c] = true;
    if (qkv_copies_without(a, a->columns, hidden, without)) return QKV_INVALID;
    for (int64_t i = 0; i < a->columns * a->steps; i++)
        a->result[i % a->steps * a->columns + i / a->steps] = a->log_probability[i % a->steps] - without[i];
    return QKV_OK;
}
