#include "graph/graph.h"

#include "qkv/parameters.h"

#include <cblas.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the graph ---- */

struct qkv_graph *qkv_graph_new(enum qkv_dtype dtype)
{
    struct qkv_graph *graph = calloc(1, sizeof *graph);
    if (!graph) return NULL;
    graph->dtype = dtype;
    graph->size = qkv_dtype_size(dtype);
    graph->ops = qkv_registry(dtype);
    if (openblas_get_num_threads() != 1)
        openblas_set_num_threads(1); /* not if it is 1 already: the call restarts ended threads */
    graph->gradients = true;
    return graph;
}

void qkv_graph_free(struct qkv_graph *graph)
{
    if (!graph) return;
    qkv_arena_release(&graph->arena);
    free(graph);
}

void qkv_graph_reset(struct qkv_graph *graph)
{
    qkv_arena_reset(&graph->arena);
    graph->first = graph->last = graph->last_run = NULL;
    graph->scratch = NULL;
    graph->scratch_count = graph->scratch_wanted = graph->scratch_kept = 0;
    graph->dropout_count = 0;
    graph->leaf = NULL;
    graph->planned = NULL;
    graph->turns_done = false;
    graph->failed = false;
    graph->scope = NULL;
}

enum qkv_dtype qkv_graph_dtype(const struct qkv_graph *graph)
{
    return graph->dtype;
}

void qkv_graph_set_gradients(struct qkv_graph *graph, bool gradients)
{
    graph->gradients = gradients;
}

void qkv_graph_set_workers(struct qkv_graph *graph, struct qkv_workers *workers)
{
    graph->workers = workers;
}

void qkv_graph_set_dropout(struct qkv_graph *graph, const struct qkv_random *random)
{
    graph->has_dropout = random != NULL;
    if (random) graph->random = *random;
}

bool qkv_graph_has_dropout(const struct qkv_graph *graph)
{
    return graph->has_dropout;
}

enum qkv_status qkv_graph_check(const struct qkv_graph *graph, struct qkv_error *error)
{
    return graph->failed ? qkv_error_set(error, "%s", graph->error.message) : QKV_OK;
}

const char *qkv_graph_scope(struct qkv_graph *graph, const char *name)
{
    const char *outer = graph->scope;
    graph->scope = name;
    return outer;
}

size_t qkv_graph_peak_bytes(const struct qkv_graph *graph)
{
    return graph->arena.peak;
}

/* ---- errors and memory ---- */

struct qkv_tensor *qkv_graph_fail(struct qkv_graph *graph, const char *format, ...)
{
    if (graph->failed) return NULL;
    graph->failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(graph->error.message, sizeof graph->error.message, format, arguments);
    va_end(arguments);
    return NULL;
}

void *qkv_graph_memory(struct qkv_graph *graph, size_t size)
{
    if (graph->failed) return NULL;
    void *memory = qkv_arena_zeroed(&graph->arena, size);
    if (!memory) qkv_graph_fail(graph, "out of memory for %zu bytes", size);
    return memory;
}

bool qkv_refuse(struct qkv_tensor *y, const char *format, ...)
{
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    const char *op = qkv_op_name(y->op);
    if (y->graph->scope)
        qkv_graph_fail(y->graph, "%s (%s): %s", op, y->graph->scope, sentence);
    else
        qkv_graph_fail(y->graph, "%s: %s", op, sentence);
    return false;
}

const char *qkv_shape_text(struct qkv_shape shape)
{
    static _Thread_local char texts[4][96];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 4];
    int used = snprintf(text, sizeof texts[0], "[");
    for (int i = 0; i < shape.rank; i++)
        used += snprintf(text + used, sizeof texts[0] - (size_t)used, "%s%lld", i ? ", " : "",
                         (long long)shape.size[i]);
    snprintf(text + used, sizeof texts[0] - (size_t)used, "]");
    return text;
}

/* ---- nodes ---- */

int64_t qkv_shape_count(struct qkv_shape shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) count *= shape.size[i];
    return count;
}

/* Largest number of elements of a tensor: products of axes and sizes in bytes stay within int64_t. */
#define MAX_ELEMENTS ((int64_t)1 << 40)

static bool shape_is_valid(struct qkv_shape shape)
{
    if (shape.rank < 1 || shape.rank > QKV_MAX_RANK) return false;
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.size[i] < 1 || shape.size[i] > MAX_ELEMENTS / count) return false;
        count *= shape.size[i];
    }
    return true;
}

static struct qkv_tensor *tensor_new(struct qkv_graph *graph, enum qkv_op_id op)
{
    struct qkv_tensor *tensor = qkv_arena_zeroed(&graph->arena, sizeof *tensor);
    if (!tensor) return qkv_graph_fail(graph, "out of memory for a node");
    tensor->graph = graph;
    tensor->op = op;
    tensor->name = graph->scope;
    return tensor;
}

/* Allocates the tensor's memory and appends the tensor to the list of nodes. */
static struct qkv_tensor *append_node(struct qkv_tensor *tensor)
{
    struct qkv_graph *graph = tensor->graph;
    tensor->count = qkv_shape_count(tensor->shape);
    size_t bytes = (size_t)tensor->count * graph->size;
    bool planned = graph->shares_memory && tensor->op != QKV_OP_leaf; /* qkv_graph_plan will assign it */
    bool own_gradient = tensor->needs_gradient && !planned;
    if (!tensor->value && !planned) tensor->value = qkv_arena_allocate(&graph->arena, bytes);
    if (own_gradient && !tensor->gradient) tensor->gradient = qkv_arena_allocate(&graph->arena, bytes);
    if (tensor->saved_count)
        tensor->saved = qkv_arena_allocate(&graph->arena, (size_t)tensor->saved_count * graph->size);
    if ((!tensor->value && !planned) || (own_gradient && !tensor->gradient) ||
        (tensor->saved_count && !tensor->saved))
        return qkv_graph_fail(graph, "out of memory for a tensor of shape %s", qkv_shape_text(tensor->shape));
    int64_t scratch = tensor->scratch > tensor->scratch_forward ? tensor->scratch : tensor->scratch_forward;
    if (tensor->scratch > graph->scratch_kept) graph->scratch_kept = tensor->scratch;
    if (scratch > graph->scratch_wanted) graph->scratch_wanted = scratch;
    if (graph->scratch_wanted > graph->scratch_count) {
        graph->scratch_count = graph->scratch_wanted;
        graph->scratch = qkv_arena_allocate(&graph->arena, (size_t)graph->scratch_count * graph->size);
        if (!graph->scratch) return qkv_graph_fail(graph, "out of memory for workspace");
    }
    tensor->previous = graph->last;
    if (graph->last)
        graph->last->next = tensor;
    else
        graph->first = tensor;
    graph->last = tensor;
    return tensor;
}

struct qkv_tensor *qkv_node(struct qkv_graph *graph, enum qkv_op_id op, struct qkv_tensor *const *inputs,
                            const struct qkv_options *options)
{
    if (graph->failed) return NULL;
    const struct qkv_op *rule = graph->ops[op];
    struct qkv_tensor *y = tensor_new(graph, op);
    if (!y) return NULL;
    y->options = *options;
    for (int i = 0; i < rule->inputs; i++) {
        y->input[i] = inputs[i];
        if (!inputs[i]) {
            if (rule->optional >> i & 1) continue;
            qkv_refuse(y, "input %d is NULL", i + 1);
            return NULL;
        }
        if (inputs[i]->graph != graph) {
            qkv_refuse(y, "input %d belongs to another graph", i + 1);
            return NULL;
        }
        if (!inputs[i]->consumers++) inputs[i]->first_consumer = y;
        inputs[i]->last_consumer = y;
        inputs[i]->is_aliased |= (rule->alias & QKV_INPUT(i)) != 0;
        y->needs_gradient |= inputs[i]->needs_gradient;
    }
    if (y->needs_gradient && !rule->backward) {
        qkv_refuse(y, "has no gradient, but an input needs one");
        return NULL;
    }
    if (!qkv_op_rule(op)->shape(y)) return NULL;
    if (!shape_is_valid(y->shape)) {
        qkv_refuse(y, "the result would have shape %s", qkv_shape_text(y->shape));
        return NULL;
    }
    if (rule->random && graph->has_dropout) y->dropout_index = graph->dropout_count++;
    if (rule->alias) {
        if (qkv_shape_count(y->shape) != y->input[0]->count) {
            qkv_refuse(
                y, "the result has shape %s, so it cannot be stored in the memory of input 1, which is %s",
                qkv_shape_text(y->shape), qkv_shape_text(y->input[0]->shape));
            return NULL;
        }
        y->value = y->input[0]->value; /* with shared memory NULL until qkv_graph_plan */
    }
    return append_node(y);
}

static struct qkv_tensor *leaf(struct qkv_graph *graph, struct qkv_shape shape, bool variable, void *memory)
{
    if (graph->failed) return NULL;
    if (!shape_is_valid(shape))
        return qkv_graph_fail(graph,
                              "a tensor cannot have shape %s: it needs 1 to %d axes, each of size 1 or more",
                              qkv_shape_text(shape), QKV_MAX_RANK);
    struct qkv_tensor *tensor = tensor_new(graph, QKV_OP_leaf);
    if (!tensor) return NULL;
    tensor->shape = shape;
    tensor->needs_gradient = variable && graph->gradients;
    tensor->value = memory;
    if (!append_node(tensor)) return NULL;
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
    QKV_BUG(!memory, "qkv_wrap: memory is NULL");
    return leaf(graph, shape, false, memory);
}

/* ---- parameters ---- */

void qkv_graph_bind(struct qkv_graph *graph, const struct qkv_parameters *parameters, void *gradients,
                    bool accumulate)
{
    QKV_BUG(parameters->dtype != graph->dtype, "qkv_graph_bind: parameters and graph have different dtypes");
    graph->parameters = parameters;
    graph->parameter_gradients = gradients;
    graph->accumulate = accumulate;
}

struct qkv_tensor *qkv_graph_parameter(struct qkv_graph *graph, const struct qkv_parameter *parameter)
{
    if (graph->failed) return NULL;
    if (!parameter) return NULL;
    const struct qkv_parameters *all = graph->parameters;
    QKV_BUG(!all || all->list[parameter->index] != parameter,
            "%s does not belong to the parameters that are bound to the graph", parameter->name);
    if (!graph->leaf) {
        graph->leaf = qkv_arena_zeroed(&graph->arena, (size_t)all->count * sizeof *graph->leaf);
        if (!graph->leaf) return qkv_graph_fail(graph, "out of memory for the list of parameters");
    }
    struct qkv_tensor **slot = &graph->leaf[parameter->index];
    if (*slot) return *slot;
    struct qkv_tensor *tensor = tensor_new(graph, QKV_OP_leaf);
    if (!tensor) return NULL;
    size_t offset = (size_t)parameter->offset * graph->size;
    tensor->shape = parameter->shape;
    tensor->parameter = parameter;
    tensor->name = parameter->name;
    tensor->value = (char *)all->values + offset;
    tensor->needs_gradient = graph->gradients && graph->parameter_gradients;
    if (tensor->needs_gradient) tensor->gradient = graph->parameter_gradients + offset;
    return *slot = append_node(tensor);
}

/* ---- running ---- */

void qkv_graph_observe(struct qkv_graph *graph, const struct qkv_observer *observer)
{
    graph->observer = observer ? *observer : (struct qkv_observer){0};
}

static void run(struct qkv_tensor *y, bool backward)
{
    const struct qkv_graph *graph = y->graph;
    const struct qkv_op *op = graph->ops[y->op];
    (backward ? op->backward : op->forward)(y);
    if (graph->observer.ran) graph->observer.ran(graph->observer.context, y, backward);
}

void qkv_forward(struct qkv_graph *graph)
{
    if (graph->failed) return;
    struct qkv_tensor *y = graph->last_run ? graph->last_run->next : graph->first;
    for (; y; y = y->next) {
        if (y->op != QKV_OP_leaf) run(y, false);
        graph->last_run = y;
    }
}

void qkv_graph_rewind(struct qkv_graph *graph)
{
    graph->last_run = NULL;
}

/* Sets the gradient of y, where backward starts, to the cotangent. If y is a parameter whose
 * gradient is accumulated, adds to it instead. */
static void start_gradient(struct qkv_tensor *tensor, const double *cotangent)
{
    bool add = tensor->touched;
    tensor->touched = true;
    for (int64_t i = 0; i < tensor->count; i++) {
        double value = cotangent ? cotangent[i] : 1.0;
        if (tensor->graph->dtype == QKV_FLOAT32) {
            float *at = (float *)tensor->gradient + i;
            *at = (add ? *at : 0) + (float)value;
        } else {
            double *at = (double *)tensor->gradient + i;
            *at = (add ? *at : 0) + value;
        }
    }
}

/* Parameters that the graph does not use get gradient zero. */
static void clear_unused_parameters(struct qkv_graph *graph)
{
    const struct qkv_parameters *all = graph->parameters;
    if (!all || !graph->parameter_gradients || graph->accumulate) return;
    for (int64_t i = 0; i < all->count; i++) {
        if (graph->leaf && graph->leaf[i]) continue;
        const struct qkv_parameter *unused = all->list[i];
        memset(graph->parameter_gradients + (size_t)unused->offset * graph->size, 0,
               (size_t)unused->count * graph->size);
    }
}

/* Recomputes the inputs that x's backward reads and whose memory forward has given to other
 * values. */
static void recompute_inputs(const struct qkv_tensor *x)
{
    unsigned reads = x->graph->ops[x->op]->backward_reads;
    for (int i = 0; i < QKV_MAX_INPUTS; i++) {
        struct qkv_tensor *input = x->input[i];
        if (!input || !(reads & QKV_INPUT(i)) || !input->value_slot || input->recomputed) continue;
        input->recomputed = true;
        run(input, false);
    }
}

void qkv_backward(struct qkv_graph *graph, struct qkv_tensor *y, const double *cotangent)
{
    if (graph->failed || !y) return;
    QKV_BUG(graph->shares_memory && graph->planned != y,
            "qkv_backward needs the tensor that qkv_graph_plan was called for");
    for (struct qkv_tensor *x = graph->first; x; x = x->next) {
        x->touched = x->parameter && graph->accumulate;
        x->recomputed = false;
    }
    if (y->needs_gradient) start_gradient(y, cotangent);
    for (struct qkv_tensor *x = y; x; x = x->previous) {
        if (x->op == QKV_OP_leaf || !x->touched) continue;
        recompute_inputs(x);
        qkv_turns_before(x);
        run(x, true);
        qkv_turns_after(x);
    }
    /* Tensors that backward has not reached get gradient zero. */
    for (struct qkv_tensor *x = graph->first; x; x = x->next)
        if (x->needs_gradient && !x->touched && (x->op == QKV_OP_leaf || !graph->shares_memory))
            memset(x->gradient, 0, (size_t)x->count * graph->size);
    clear_unused_parameters(graph);
    qkv_graph_finish_turns(graph);
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
