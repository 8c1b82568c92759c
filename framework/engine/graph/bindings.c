/* Blocks of parameters that are bound to a graph, and the leaves of their parameters. */
#include "graph/graph.h"

#include "qkv/graph.h"

#include <string.h>

struct qkv_binding *qkv_binding_of(struct qkv_graph *graph, const struct qkv_parameters *parameters)
{
    for (int i = 0; i < graph->binding_count; i++)
        if (graph->binding[i].parameters == parameters) return &graph->binding[i];
    return NULL;
}

void qkv_graph_bind(struct qkv_graph *graph, const struct qkv_parameters *parameters, void *gradients,
                    bool accumulate)
{
    if (!parameters || !parameters->values || parameters->failed) {
        bool is_refused = parameters && parameters->failed && *parameters->error.message;
        qkv_graph_fail(graph, "qkv_graph_bind: %s",
                       is_refused ? parameters->error.message
                                  : "the parameters are not allocated: call qkv_parameters_allocate");
        return;
    }
    if (parameters->dtype != graph->dtype) {
        qkv_graph_fail(graph, "qkv_graph_bind: parameters and graph have different precisions");
        return;
    }
    if (parameters->products == QKV_PRECISION_INT8 && gradients) {
        qkv_graph_fail(graph, "qkv_graph_bind: int8 parameters have no gradients");
        return;
    }
    if (graph->replaces_bindings) graph->binding_count = 0;
    graph->replaces_bindings = false;
    struct qkv_binding *binding = qkv_binding_of(graph, parameters);
    if (!binding && graph->binding_count == QKV_MAX_BLOCKS) {
        qkv_graph_fail(graph, "qkv_graph_bind: more than %d blocks of parameters", QKV_MAX_BLOCKS);
        return;
    }
    if (!binding) {
        binding = &graph->binding[graph->binding_count++];
        *binding =
            (struct qkv_binding){.parameters = parameters, .gradients = gradients, .accumulate = accumulate};
    }
    if (binding->leaf && (binding->gradients != (char *)gradients || binding->accumulate != accumulate))
        qkv_graph_fail(graph, "qkv_graph_bind: the graph already uses these parameters with other gradients: "
                              "reset it first");
    binding->gradients = gradients; /* after that error they hold from the next reset on */
    binding->accumulate = accumulate;
}

void qkv_note_parameters(struct qkv_graph *graph)
{
    for (int i = 0; i < graph->binding_count; i++) {
        struct qkv_binding *binding = &graph->binding[i];
        if (!binding->leaf || binding->is_read) continue;
        binding->is_read = true;
        binding->changes = binding->parameters->changes;
    }
}

void qkv_forget_parameters(struct qkv_graph *graph)
{
    for (int i = 0; i < graph->binding_count; i++) graph->binding[i].is_read = false;
}

bool qkv_parameters_changed(const struct qkv_graph *graph)
{
    for (int i = 0; i < graph->binding_count; i++) {
        const struct qkv_binding *binding = &graph->binding[i];
        if (binding->is_read && binding->changes != binding->parameters->changes) return true;
    }
    return false;
}

void qkv_graph_reuse_gradients(struct qkv_graph *graph, const struct qkv_parameters *parameters)
{
    struct qkv_binding *binding = qkv_binding_of(graph, parameters);
    if (binding) binding->is_reusable = binding->gradients && !binding->accumulate;
}

/* The bound block that contains the parameter; NULL: there is none. */
static struct qkv_binding *holder_of(struct qkv_graph *graph, const struct qkv_parameter *parameter)
{
    for (int i = 0; i < graph->binding_count; i++) {
        const struct qkv_parameters *all = graph->binding[i].parameters;
        if (parameter->index >= 0 && parameter->index < all->count &&
            all->list[parameter->index] == parameter)
            return &graph->binding[i];
    }
    return NULL;
}

static struct qkv_tensor *leaf_new(struct qkv_graph *graph, const struct qkv_binding *binding,
                                   const struct qkv_parameter *parameter)
{
    struct qkv_tensor *tensor = qkv_tensor_new(graph, QKV_OP_leaf);
    if (!tensor) return NULL;
    size_t offset = (size_t)parameter->offset * graph->size;
    tensor->shape = parameter->shape;
    tensor->count = parameter->count;
    tensor->parameter = parameter;
    tensor->binding = binding;
    tensor->name = parameter->name;
    tensor->value = (char *)binding->parameters->values + offset;
    /* Even while gradients are off: a later node with gradient may use the same leaf. */
    tensor->needs_gradient = binding->gradients && parameter->rate > 0;
    if (tensor->needs_gradient) tensor->gradient = binding->gradients + offset;
    return qkv_append_node(tensor);
}

struct qkv_tensor *qkv_graph_parameter(struct qkv_graph *graph, const struct qkv_parameter *parameter)
{
    if (graph->failed || !parameter) return NULL;
    struct qkv_binding *binding = holder_of(graph, parameter);
    if (!binding)
        return qkv_graph_fail(graph,
                              "%s does not belong to the parameters that are bound to the graph: call "
                              "qkv_graph_bind with the block that declares it",
                              parameter->name);
    graph->replaces_bindings = false;
    if (binding->gradients && binding->parameters->products == QKV_PRECISION_INT8)
        return qkv_graph_fail(graph, "%s: int8 parameters have no gradients: bind them anew, without",
                              parameter->name);
    if (!binding->leaf) {
        size_t bytes = (size_t)binding->parameters->count * sizeof *binding->leaf;
        binding->leaf = qkv_arena_zeroed(&graph->arena, bytes);
        if (!binding->leaf) return qkv_graph_fail(graph, "out of memory for the list of parameters");
    }
    struct qkv_tensor **leaf = &binding->leaf[parameter->index];
    if (!*leaf) *leaf = leaf_new(graph, binding, parameter);
    return *leaf;
}

static void clear_unused_of(const struct qkv_binding *binding)
{
    const struct qkv_parameters *all = binding->parameters;
    size_t size = qkv_dtype_size(all->dtype);
    for (int64_t i = 0; i < all->count; i++) {
        if (binding->leaf && binding->leaf[i] && binding->leaf[i]->needs_gradient) continue;
        const struct qkv_parameter *unused = all->list[i];
        memset(binding->gradients + (size_t)unused->offset * size, 0, (size_t)unused->count * size);
    }
}

void qkv_clear_unused_gradients(const struct qkv_graph *graph)
{
    for (int i = 0; i < graph->binding_count; i++)
        if (graph->binding[i].gradients && !graph->binding[i].accumulate) clear_unused_of(&graph->binding[i]);
}
