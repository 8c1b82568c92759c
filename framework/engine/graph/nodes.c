/* Recording: the nodes and leaves of a graph, and those of parameters. */
#include "core/memory.h"
#include "graph/graph.h"

struct qkv_tensor *qkv_tensor_new(struct qkv_graph *graph, enum qkv_op_id op)
{
    struct qkv_tensor *tensor = qkv_arena_zeroed(&graph->arena, sizeof *tensor);
    if (!tensor) return qkv_graph_fail(graph, "out of memory for a node");
    tensor->graph = graph;
    tensor->op = op;
    tensor->name = graph->scope;
    return tensor;
}

/* Sets the number of elements. False unless the shape has 1 to QKV_MAX_RANK axes, each at least 1, and at most
 * QKV_MAX_ELEMENTS elements. */
static bool set_count(struct qkv_tensor *tensor)
{
    tensor->count = tensor->shape.rank > 0 ? qkv_shape_count(tensor->shape) : 0;
    return tensor->count > 0;
}

unsigned qkv_backward_reads(const struct qkv_tensor *y)
{
    return y->graph->ops[y->op]->backward_reads | (y->keeps_result ? QKV_RESULT : 0);
}

struct qkv_tensor *qkv_early_input(const struct qkv_tensor *y)
{
    unsigned early = y->op == QKV_OP_leaf ? 0 : y->graph->ops[y->op]->forward_gradient;
    for (int i = 0; early && y->needs_gradient && i < QKV_MAX_INPUTS; i++)
        if (early & QKV_INPUT(i) && y->input[i] && y->input[i]->needs_gradient) return y->input[i];
    return NULL;
}

struct qkv_tensor *qkv_append_node(struct qkv_tensor *tensor)
{
    struct qkv_graph *graph = tensor->graph;
    if (graph->planned)
        return qkv_graph_fail(graph, "%s: no tensor can be added after qkv_graph_plan: reset the graph first",
                              qkv_tensor_name(tensor));
    size_t bytes = (size_t)tensor->count * graph->size;
    /* qkv_graph_plan will assign the memory of value and gradient. */
    bool waits_for_plan = graph->shares_memory && tensor->op != QKV_OP_leaf;
    bool own_gradient = tensor->needs_gradient && !waits_for_plan;
    if (!tensor->value && !waits_for_plan) tensor->value = qkv_arena_allocate(&graph->arena, bytes);
    if (own_gradient && !tensor->gradient) tensor->gradient = qkv_arena_allocate(&graph->arena, bytes);
    if (tensor->saved_count)
        tensor->saved = qkv_arena_allocate(&graph->arena, (size_t)tensor->saved_count * graph->size);
    const struct qkv_tensor *early = waits_for_plan ? NULL : qkv_early_input(tensor);
    if (early)
        tensor->forward_gradient = qkv_arena_allocate(&graph->arena, (size_t)early->count * graph->size);
    if ((!tensor->value && !waits_for_plan) || (early && !tensor->forward_gradient) ||
        (own_gradient && !tensor->gradient) || (tensor->saved_count && !tensor->saved))
        return qkv_graph_fail(graph, "out of memory for a tensor of shape %s", qkv_shape_text(tensor->shape));
    int64_t scratch = tensor->scratch > tensor->scratch_forward ? tensor->scratch : tensor->scratch_forward;
    if (tensor->scratch > graph->scratch_kept) graph->scratch_kept = tensor->scratch;
    if (scratch > graph->scratch_wanted) graph->scratch_wanted = scratch;
    if (graph->scratch_wanted > graph->scratch_count) {
        graph->scratch_count = graph->scratch_wanted;
        graph->scratch = qkv_arena_allocate(&graph->arena, (size_t)graph->scratch_count * graph->size);
        if (!graph->scratch) return qkv_graph_fail(graph, "out of memory for workspace");
        /* Not where tensors share memory: there the end of the workspace holds gradients. */
        graph->guards_scratch = qkv_arena_is_guarded() && !graph->shares_memory;
    }
    tensor->previous = graph->last;
    if (graph->last)
        graph->last->next = tensor;
    else
        graph->first = tensor;
    graph->last = tensor;
    return tensor;
}

/* Refuses input i of y: "linear: weight is NULL". */
static bool refuse_input(struct qkv_tensor *y, int i, const char *fault)
{
    int length;
    const char *name = qkv_op_input_name(y->op, i, &length);
    return qkv_refuse(y, "%.*s %s", length, name, fault);
}

/* Makes x input i of y. */
static bool set_input(struct qkv_tensor *y, int i, struct qkv_tensor *x)
{
    const struct qkv_op *op = y->graph->ops[y->op];
    if (i >= op->inputs)
        return !x || qkv_refuse(y, "input %d is given, but the op has only %d", i + 1, op->inputs);
    y->input[i] = x;
    if (!x) return op->optional >> i & 1 || refuse_input(y, i, "is NULL");
    if (x->graph != y->graph) return refuse_input(y, i, "belongs to another graph");
    y->needs_gradient |= x->needs_gradient;
    return true;
}

/* Records in the inputs of y that y uses them. */
static void count_uses(struct qkv_tensor *y)
{
    const struct qkv_op *op = y->graph->ops[y->op];
    for (int i = 0; i < op->inputs; i++) {
        struct qkv_tensor *x = y->input[i];
        if (!x) continue;
        if (y->needs_gradient && !x->first_consumer) x->first_consumer = y;
        x->last_consumer = y;
        x->consumers++;
        x->is_aliased |= (op->alias & QKV_INPUT(i)) != 0;
    }
}

/* Stores the result of an alias op in the memory of its first input. */
static bool set_alias(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    if (y->count != x->count)
        return qkv_refuse(
            y, "the result has shape %s, so it cannot be stored in the memory of input 1, which is %s",
            qkv_shape_text(y->shape), qkv_shape_text(x->shape));
    y->value = x->value; /* with shared memory NULL until qkv_graph_plan */
    return true;
}

struct qkv_tensor *qkv_node(struct qkv_graph *graph, enum qkv_op_id id, struct qkv_tensor *const *inputs,
                            const struct qkv_options *options)
{
    if (graph->failed) return NULL;
    if ((int)id <= QKV_OP_leaf || (int)id >= QKV_OP_COUNT)
        return qkv_graph_fail(graph, "there is no op %d", (int)id);
    if (!inputs || !options)
        return qkv_graph_fail(graph, "%s: the list of inputs or the options are NULL", qkv_op_name(id));
    const struct qkv_op *op = graph->ops[id];
    struct qkv_tensor *y = qkv_tensor_new(graph, id);
    if (!y) return NULL;
    y->options = *options;
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (!set_input(y, i, inputs[i])) return NULL;
    y->needs_gradient &= graph->needs_gradients && !op->stops_gradient;
    if (y->needs_gradient && !op->backward) {
        qkv_refuse(y, "has no gradient, but an input needs one: use constants or qkv_detach");
        return NULL;
    }
    if (!qkv_keep_arrays(y) || !qkv_op_rule(id)->shape(y)) return NULL;
    if (!set_count(y)) {
        qkv_refuse(y, "the result would have shape %s, but must have %s", qkv_shape_text(y->shape),
                   qkv_shape_fault(y->shape));
        return NULL;
    }
    if (op->random && graph->has_dropout) y->dropout_index = graph->dropout_count++;
    if (op->alias && !set_alias(y)) return NULL;
    count_uses(y);
    return qkv_append_node(y);
}

static struct qkv_tensor *leaf(struct qkv_graph *graph, struct qkv_shape shape, bool variable, void *memory)
{
    if (graph->failed) return NULL;
    struct qkv_tensor *tensor = qkv_tensor_new(graph, QKV_OP_leaf);
    if (!tensor) return NULL;
    tensor->shape = shape;
    if (!set_count(tensor))
        return qkv_graph_fail(graph, "a tensor cannot have shape %s: it must have %s", qkv_shape_text(shape),
                              qkv_shape_fault(shape));
    tensor->needs_gradient = variable && graph->needs_gradients;
    tensor->value = memory;
    if (!qkv_append_node(tensor)) return NULL;
    if (!memory) memset(tensor->value, 0, (size_t)tensor->count * graph->size);
    return tensor;
}

struct qkv_tensor *qkv_constant(struct qkv_graph *graph, struct qkv_shape shape)
{
    return leaf(graph, shape, false, NULL);
}

struct qkv_tensor *qkv_variable(struct qkv_graph *graph, struct qkv_shape shape)
{
    return leaf(graph, shape, true, NULL);
}

struct qkv_tensor *qkv_wrap(struct qkv_graph *graph, struct qkv_shape shape, void *memory)
{
    if (!memory) return qkv_graph_fail(graph, "qkv_wrap: the memory is NULL");
    return leaf(graph, shape, false, memory);
}

/* Blocks of parameters that are bound to a graph, and the leaves of their parameters. */

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
