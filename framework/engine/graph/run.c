/* Running a graph: forward, backward, observers, and the search for numbers that are not finite. */
#include "core/memory.h"
#include "graph/graph.h"

#include <math.h>

void qkv_graph_observe(struct qkv_graph *graph, const struct qkv_observer *observer)
{
    graph->observer = observer ? *observer : (struct qkv_observer){0};
}

/* With guarded arenas: runs y with a workspace that ends where the graph's workspace ends, so that an access past the end
 * is caught. */
static void run_guarded(struct qkv_tensor *y, void (*function)(struct qkv_tensor *y))
{
    struct qkv_graph *graph = y->graph;
    int64_t count = y->scratch > y->scratch_forward ? y->scratch : y->scratch_forward;
    void *scratch = graph->scratch;
    graph->scratch = (char *)scratch + (size_t)(graph->scratch_count - count) * graph->size;
    function(y);
    graph->scratch = scratch;
}

/* `function` is one of the op's. */
static void run_node(struct qkv_tensor *y, void (*function)(struct qkv_tensor *y), bool backward)
{
    const struct qkv_graph *graph = y->graph;
    if (graph->guards_scratch)
        run_guarded(y, function);
    else
        function(y);
    if (graph->observer.ran) graph->observer.ran(graph->observer.context, y, backward);
}

void qkv_forward(struct qkv_graph *graph)
{
    if (graph->failed) return;
    if (graph->shares_memory && graph->first && !graph->planned) {
        qkv_graph_fail(graph, "qkv_forward: a graph that shares memory needs qkv_graph_plan first");
        return;
    }
    if (graph->rewound && !qkv_read_arrays_again(graph)) return;
    graph->rewound = false;
    qkv_note_parameters(graph);
    struct qkv_tensor *y = graph->last_run ? graph->last_run->next : graph->first;
    for (; y; y = y->next) {
        if (y->op != QKV_OP_leaf) run_node(y, graph->ops[y->op]->forward, false);
        graph->last_run = y;
    }
}

void qkv_graph_rewind(struct qkv_graph *graph)
{
    graph->last_run = NULL;
    qkv_forget_parameters(graph);
    graph->leaf_written = false;
    graph->rewound = true;
    graph->trusts_arrays = false;
}

void qkv_graph_rewind_unchecked(struct qkv_graph *graph)
{
    qkv_graph_rewind(graph);
    graph->trusts_arrays = true;
}

/* Sets the gradient of the tensor where backward starts to the cotangent. If it is a parameter whose gradient is
 * accumulated, adds the cotangent instead. */
static void start_gradient(struct qkv_tensor *tensor, const double *cotangent)
{
    enum qkv_dtype dtype = tensor->graph->dtype;
    bool add = tensor->touched;
    tensor->touched = true;
    for (int64_t i = 0; i < tensor->count; i++) {
        double value = cotangent ? cotangent[i] : 1.0;
        if (dtype == QKV_FLOAT32) {
            float *at = (float *)tensor->gradient + i;
            *at = (add ? *at : 0) + (float)value;
        } else {
            double *at = (double *)tensor->gradient + i;
            *at = (add ? *at : 0) + value;
        }
    }
}

/* Recomputes the inputs that x's backward reads and that forward has overwritten with other values. */
static void recompute_inputs(const struct qkv_tensor *x)
{
    unsigned reads = qkv_backward_reads(x);
    for (int i = 0; i < QKV_MAX_INPUTS; i++) {
        struct qkv_tensor *input = x->input[i];
        if (!input || !(reads & QKV_INPUT(i)) || !input->value_slot || input->recomputed) continue;
        input->recomputed = true;
        run_node(input, x->graph->ops[input->op]->recompute, false);
    }
}

void qkv_graph_set_progress(struct qkv_graph *graph, struct qkv_progress progress)
{
    graph->progress = progress;
}

/* Marks, after the backward of y, the gradients of parameters that are complete: those to which y is the last node to
 * add. */
static void announce_complete(const struct qkv_tensor *y)
{
    const struct qkv_progress *progress = &y->graph->progress;
    for (int i = 0; progress->is_complete && i < QKV_MAX_INPUTS; i++) {
        const struct qkv_tensor *x = y->input[i];
        if (!x || !x->binding || !x->touched || x->first_consumer != y) continue;
        if (x->binding->parameters == progress->parameters)
            atomic_store_explicit(&progress->is_complete[x->parameter->index], true, memory_order_release);
    }
}

/* Prepares all tensors for a backward pass. */
static void begin_backward(struct qkv_graph *graph)
{
    for (struct qkv_tensor *x = graph->first; x; x = x->next) {
        x->touched = x->binding && x->binding->accumulate;
        x->recomputed = false;
    }
}

void qkv_backward(struct qkv_graph *graph, struct qkv_tensor *y, const double *cotangent)
{
    if (graph->failed) return;
    const char *refusal =
        !y                  ? "y is NULL"
        : y->graph != graph ? "the tensor belongs to another graph"
        : graph->shares_memory && graph->planned != y
            ? "the graph shares memory: start from the tensor that qkv_graph_plan was called for"
        : !qkv_is_computed(y) ? "qkv_forward has not computed the tensor"
        : qkv_parameters_changed(graph)
            ? "the parameters have changed since qkv_forward: reset the graph, or call qkv_graph_rewind"
        : graph->leaf_written
            ? "a leaf has been written since qkv_forward: reset the graph, or call qkv_graph_rewind"
            : NULL;
    if (refusal) {
        qkv_graph_fail(graph, "qkv_backward: %s", refusal);
        return;
    }
    begin_backward(graph);
    if (y->op == QKV_OP_leaf) qkv_pair_before(y);
    if (y->needs_gradient) start_gradient(y, cotangent);
    for (struct qkv_tensor *x = y; x; x = x->previous) {
        if (x->op == QKV_OP_leaf || !x->touched) continue;
        recompute_inputs(x);
        qkv_pair_before(x);
        run_node(x, graph->ops[x->op]->backward, true);
        qkv_pair_after(x);
        announce_complete(x);
    }
    /* Tensors that backward has not reached get gradient zero. */
    for (struct qkv_tensor *x = graph->first; x; x = x->next)
        if (x->needs_gradient && !x->touched && (x->op == QKV_OP_leaf || !graph->shares_memory))
            memset(x->gradient, 0, (size_t)x->count * graph->size);
    qkv_clear_unused_gradients(graph);
    qkv_graph_finish_pair(graph);
}

const struct qkv_tensor *qkv_graph_find_not_finite(const struct qkv_graph *graph)
{
    if (!graph->last_run) return NULL;
    for (const struct qkv_tensor *x = graph->first; x; x = x->next) {
        for (int64_t i = 0; i < x->count; i++)
            if (!isfinite(qkv_dtype_get(graph->dtype, x->value, i))) return x;
        if (x == graph->last_run) break;
    }
    return NULL;
}
