/* Memory of the values and gradients of a graph whose tensors share memory (qkv_graph_share_memory).
 *
 * Three ways to share follow from the declarations of the ops (struct qkv_op):
 *  - overwrite: the result of an elementwise op is written over an input that nothing else reads later;
 *  - recompute: a value that is cheap to compute is dropped after its last use in forward and computed again in backward,
 *    from inputs that are kept (as Chen et al. 2016 do with complete layers). Without gradients every value is dropped
 *    after its last use;
 *  - gradients: the memory of a gradient is free once the backward of its node has run.
 *
 * Where the caller allows it (qkv_graph_reuse_gradients), the gradients of parameters hold values until backward
 * computes them. Backward reads a value in its node and in later nodes, and writes the gradient of a parameter in the
 * nodes that use the parameter, so a value may be stored there if its node follows all of these. */
#include "core/memory.h"
#include "graph/graph.h"

void qkv_graph_share_memory(struct qkv_graph *graph, bool share)
{
    if (graph->first && graph->shares_memory != share) {
        qkv_graph_fail(graph, "qkv_graph_share_memory: the graph already holds tensors: reset it first");
        return;
    }
    graph->shares_memory = share;
}

/* ---- slots ---- */

/* Removes the smallest slot of at least `count` numbers from the list; NULL if there is none. */
static struct qkv_slot *take_free_slot(struct qkv_slot **free_slots, int64_t count)
{
    struct qkv_slot **best = NULL;
    for (struct qkv_slot **at = free_slots; *at; at = &(*at)->next_free)
        if ((*at)->capacity >= count && (!best || (*at)->capacity < (*best)->capacity)) best = at;
    struct qkv_slot *slot = best ? *best : NULL;
    if (slot) *best = slot->next_free;
    return slot;
}

static void free_slot(struct qkv_slot **free_slots, struct qkv_slot *slot)
{
    slot->next_free = *free_slots;
    *free_slots = slot;
}

/* Counts of numbers are rounded so that all parts of a block are aligned. */
static int64_t rounded_count(int64_t count)
{
    enum { ALIGNED_NUMBERS = 16 };
    return (count + ALIGNED_NUMBERS - 1) / ALIGNED_NUMBERS * ALIGNED_NUMBERS;
}

/* ---- what may share ---- */

/* Without gradients, a value is needed until its last consumer has run forward. */
static bool is_forward_only(const struct qkv_graph *graph)
{
    return !graph->planned->needs_gradient;
}

static unsigned backward_reads(const struct qkv_tensor *y)
{
    return y->needs_gradient ? qkv_backward_reads(y) : 0;
}

/* Whether y may be written over its i-th input: nothing reads that value after y has run. */
static bool may_overwrite(const struct qkv_tensor *y, int i)
{
    const struct qkv_tensor *x = y->input[i];
    const struct qkv_graph *graph = y->graph;
    if (!x || !(graph->ops[y->op]->elementwise & QKV_INPUT(i)) || x->count != y->count) return false;
    if (x->op == QKV_OP_leaf || graph->ops[x->op]->alias || x == graph->planned) return false;
    if (x->consumers != 1 || x->needs_gradient != y->needs_gradient) return false;
    if (is_forward_only(graph)) return true;
    return !x->value_slot && !(backward_reads(x) & QKV_RESULT) && !(backward_reads(y) & QKV_INPUT(i));
}

static struct qkv_tensor *input_to_overwrite(const struct qkv_tensor *y)
{
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (may_overwrite(y, i)) return y->input[i];
    return NULL;
}

/* Whether the value of x is needed only until its last consumer has run forward: in a graph without gradients, or because
 * backward can compute it again from inputs that are kept. */
static bool is_temporary(const struct qkv_tensor *x)
{
    const struct qkv_graph *graph = x->graph;
    if (x->is_aliased || x == graph->planned) return false;
    if (is_forward_only(graph)) return true;
    if (!graph->ops[x->op]->recompute || backward_reads(x) & QKV_RESULT) return false;
    if (x->scratch_forward > x->scratch) return false; /* in backward that workspace holds gradients */
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (x->input[i] && x->input[i]->value_slot) return false;
    return true;
}

/* ---- values, in the order of forward ---- */

/* Memory that is free for the values of later nodes. */
struct free_memory {
    struct qkv_slot *slots;     /* of values that no later node of forward reads */
    struct qkv_slot *gradients; /* of parameters, or parts of these: free until backward computes them */
};

/* Memory of the input that x overwrites. If it is a slot, the slot passes from the input to x, and becomes free after the
 * last consumer of x. */
static void *overwritten_memory(struct qkv_tensor *x)
{
    x->overwrites->is_overwritten = true;
    if (!x->is_aliased && x != x->graph->planned) x->value_slot = x->overwrites->value_slot;
    x->overwrites->value_slot = NULL;
    return x->overwrites->value;
}

/* Memory that holds the value of x until its last consumer has run forward: a free slot or a new one. In forward, the values
 * that share a slot occupy it one after the other, each from its own node to its last consumer. Backward visits the nodes in
 * reverse order, so the recomputed values occupy the slot one after the other as well. */
static void *temporary_memory(struct qkv_tensor *x, struct qkv_slot **free_slots)
{
    x->is_overwritten = true;
    x->value_slot = take_free_slot(free_slots, x->count);
    if (x->value_slot) return x->value_slot->memory;
    x->value_slot = &x->new_value_slot;
    x->new_value_slot.capacity = x->count;
    return x->new_value_slot.memory = qkv_arena_allocate(&x->graph->arena, (size_t)x->count * x->graph->size);
}

/* Memory that holds the value of x until backward has passed its node: the start of a free gradient, or new memory. */
static void *kept_memory(const struct qkv_tensor *x, struct qkv_slot **free_gradients)
{
    struct qkv_slot *slot = take_free_slot(free_gradients, rounded_count(x->count));
    if (!slot) return qkv_arena_allocate(&x->graph->arena, (size_t)x->count * x->graph->size);
    void *memory = slot->memory;
    slot->memory = (char *)memory + (size_t)rounded_count(x->count) * x->graph->size;
    slot->capacity -= rounded_count(x->count);
    free_slot(free_gradients, slot);
    return memory;
}

/* Chooses the memory of x's value: that of an input, if x is an alias of it or may overwrite it; a slot, if the value is
 * temporary; otherwise memory that keeps the value for backward. NULL when memory runs out. */
static void *choose_value_memory(struct qkv_tensor *x, struct free_memory *available)
{
    if (x->graph->ops[x->op]->alias) return x->input[0]->value;
    x->overwrites = input_to_overwrite(x);
    if (x->overwrites) return overwritten_memory(x);
    if (is_temporary(x)) return temporary_memory(x, &available->slots);
    return kept_memory(x, &available->gradients);
}

/* Memory for the gradient that y computes in forward: the gradient of the input itself, if y is the first node in backward
 * that computes it. */
static bool assign_early_gradient(struct qkv_tensor *y)
{
    struct qkv_tensor *x = qkv_early_input(y);
    if (!x) return true;
    bool is_first = x->binding && x->binding->is_reusable && x->last_consumer == y;
    y->forward_gradient =
        is_first ? x->gradient : qkv_arena_allocate(&y->graph->arena, (size_t)x->count * y->graph->size);
    return y->forward_gradient;
}

/* Lets later values use the gradient of x, whose last consumer is y, if x is a parameter whose gradient may be reused. */
static void offer_gradient(struct qkv_tensor *x, const struct qkv_tensor *y, struct qkv_slot **free_gradients)
{
    if (!x->binding || !x->binding->is_reusable || !x->needs_gradient || x->gradient == y->forward_gradient)
        return;
    if (qkv_arena_is_guarded()) return; /* a value in a gradient would not end at a guard */
    for (struct qkv_slot *slot = *free_gradients; slot; slot = slot->next_free)
        if ((char *)slot->memory + (size_t)slot->capacity * x->graph->size == x->gradient) {
            slot->capacity += x->count;
            return;
        }
    x->new_gradient_slot = (struct qkv_slot){NULL, x->gradient, x->count};
    free_slot(free_gradients, &x->new_gradient_slot);
}

/* Frees the memory that the inputs whose last consumer is y no longer need in forward. */
static void free_input_memory(const struct qkv_tensor *y, struct free_memory *available)
{
    for (int i = 0; i < QKV_MAX_INPUTS; i++) {
        struct qkv_tensor *x = y->input[i];
        if (!x || x->last_consumer != y || qkv_is_repeated_input(y, i)) continue;
        if (x->value_slot) free_slot(&available->slots, x->value_slot);
        offer_gradient(x, y, &available->gradients);
    }
}

static bool assign_values(struct qkv_graph *graph)
{
    struct free_memory available = {NULL, NULL};
    for (struct qkv_tensor *x = graph->first; x; x = x->next) {
        if (x->op == QKV_OP_leaf) continue;
        x->value = choose_value_memory(x, &available);
        if (!x->value || !assign_early_gradient(x)) {
            qkv_graph_fail(graph, "out of memory for a tensor of shape %s", qkv_shape_text(x->shape));
            return false;
        }
        free_input_memory(x, &available);
    }
    return true;
}

/* ---- gradients, in the order of backward ---- */

/* Memory for a gradient: a part of the workspace that only forward needs, as long as there is one, or new memory. */
static void *gradient_memory(struct qkv_graph *graph, int64_t count)
{
    int64_t at = rounded_count(graph->scratch_kept);
    if (at + count > graph->scratch_count)
        return qkv_arena_allocate(&graph->arena, (size_t)count * graph->size);
    graph->scratch_kept = at + count;
    return (char *)graph->scratch + (size_t)at * graph->size;
}

static bool needs_gradient_slot(const struct qkv_tensor *x)
{
    return x && x->needs_gradient && x->op != QKV_OP_leaf && !x->gradient_slot;
}

/* Returns false, with the graph's error set, when memory runs out. */
static bool assign_gradient_slot(struct qkv_tensor *x, struct qkv_slot **free_slots)
{
    x->gradient_slot = take_free_slot(free_slots, x->count);
    if (!x->gradient_slot) {
        x->new_gradient_slot.capacity = x->count;
        x->new_gradient_slot.memory = gradient_memory(x->graph, x->count);
        x->gradient_slot = &x->new_gradient_slot;
    }
    x->gradient = x->gradient_slot->memory;
    if (!x->gradient)
        qkv_graph_fail(x->graph, "out of memory for a gradient of shape %s", qkv_shape_text(x->shape));
    return x->gradient != NULL;
}

void qkv_graph_plan(struct qkv_graph *graph, struct qkv_tensor *y)
{
    struct qkv_slot *free_slots = NULL;
    if (graph->failed || !graph->shares_memory) return;
    if (graph->planned || !y || y->graph != graph) {
        qkv_graph_fail(graph, "qkv_graph_plan: %s",
                       graph->planned ? "it was called already: reset the graph first"
                       : !y           ? "y is NULL"
                                      : "the tensor belongs to another graph");
        return;
    }
    graph->planned = y;
    if (!assign_values(graph) || (needs_gradient_slot(y) && !assign_gradient_slot(y, &free_slots))) return;
    for (struct qkv_tensor *x = y; x; x = x->previous) {
        if (!x->gradient_slot) continue;
        if (x->overwrites) {
            x->overwrites->gradient_slot = x->gradient_slot;
            x->overwrites->gradient = x->gradient;
        }
        for (int i = 0; i < QKV_MAX_INPUTS; i++)
            if (needs_gradient_slot(x->input[i]) && !assign_gradient_slot(x->input[i], &free_slots)) return;
        if (!x->overwrites) free_slot(&free_slots, x->gradient_slot);
    }
}
