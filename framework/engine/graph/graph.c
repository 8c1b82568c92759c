/* The graph: settings, errors, memory, shapes. Nodes are recorded in nodes.c and run in run.c. */
#include "graph/graph.h"
#include "core/memory.h"
#include "core/system.h"

#include <stdarg.h>

/* ---- the graph ---- */

struct qkv_graph *qkv_graph_new(enum qkv_dtype dtype)
{
    if (dtype != QKV_FLOAT32 && dtype != QKV_FLOAT64) return NULL;
    struct qkv_graph *graph = calloc(1, sizeof *graph);
    if (!graph) return NULL;
    graph->dtype = dtype;
    graph->size = qkv_dtype_size(dtype);
    graph->ops = qkv_registry(dtype);
    qkv_limit_matrix_threads();
    graph->needs_gradients = true;
    graph->replaces_bindings = true;
    graph->failed = graph->lacks_kernels = qkv_kernels_check(&graph->error) != QKV_OK;
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
    graph->guards_scratch = false;
    graph->dropout_count = 0;
    for (int i = 0; i < graph->binding_count; i++) {
        graph->binding[i].leaf = NULL;
        graph->binding[i].is_read = false;
    }
    graph->replaces_bindings = true;
    graph->arrays = NULL;
    graph->rewound = graph->leaf_written = false;
    graph->planned = NULL;
    graph->failed = graph->lacks_kernels;
    graph->scope = NULL;
}

enum qkv_dtype qkv_graph_dtype(const struct qkv_graph *graph)
{
    return graph->dtype;
}

void qkv_graph_set_gradients(struct qkv_graph *graph, bool gradients)
{
    graph->needs_gradients = gradients;
}

void qkv_graph_set_workers(struct qkv_graph *graph, struct qkv_workers *workers)
{
    graph->workers = workers;
}

static bool is_same_random(const struct qkv_random *a, const struct qkv_random *b)
{
    return a->seed == b->seed && a->step == b->step;
}

void qkv_graph_set_dropout(struct qkv_graph *graph, const struct qkv_random *random)
{
    if (graph->first && graph->has_dropout != (random != NULL)) {
        qkv_graph_fail(graph, "dropout cannot be turned %s in a graph that holds tensors: reset it first",
                       random ? "on" : "off");
        return;
    }
    if (random && graph->last_run && !is_same_random(random, &graph->random)) {
        qkv_graph_fail(
            graph, "the seed of dropout cannot change after qkv_forward: rewind or reset the graph first");
        return;
    }
    graph->has_dropout = random != NULL;
    if (random) graph->random = *random;
}

bool qkv_graph_has_dropout(const struct qkv_graph *graph)
{
    return graph->has_dropout;
}

void qkv_graph_set_token_cutoff(struct qkv_graph *graph, double rate)
{
    graph->token_cutoff = rate;
}

double qkv_graph_token_cutoff(const struct qkv_graph *graph)
{
    return graph->token_cutoff;
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
    if (!format) format = "";
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
    if (y->name)
        qkv_graph_fail(y->graph, "%s (%s): %s", op, y->name, sentence);
    else
        qkv_graph_fail(y->graph, "%s: %s", op, sentence);
    return false;
}

/* ---- shapes ---- */

int64_t qkv_shape_count(struct qkv_shape shape)
{
    int64_t count = 1;
    if (shape.rank < 0 || shape.rank > QKV_MAX_RANK) return 0;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.size[i] < 1 || __builtin_mul_overflow(count, shape.size[i], &count)) return 0;
    }
    if (count > QKV_MAX_ELEMENTS) return 0;
    return count;
}

const char *qkv_shape_fault(struct qkv_shape shape)
{
    bool has_axes = shape.rank > 0 && shape.rank <= QKV_MAX_RANK;
    for (int i = 0; has_axes && i < shape.rank; i++) has_axes = shape.size[i] >= 1;
    return has_axes ? "at most 2^40 elements" : "1 to 4 axes, each of size 1 or more";
}

const char *qkv_shape_text(struct qkv_shape shape)
{
    static _Thread_local char texts[4][96];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 4];
    if (shape.rank < 0 || shape.rank > QKV_MAX_RANK) {
        snprintf(text, sizeof texts[0], "[%d axes]", shape.rank);
        return text;
    }
    int used = snprintf(text, sizeof texts[0], "[");
    for (int i = 0; i < shape.rank; i++)
        used += snprintf(text + used, sizeof texts[0] - (size_t)used, "%s%lld", i ? ", " : "",
                         (long long)shape.size[i]);
    snprintf(text + used, sizeof texts[0] - (size_t)used, "]");
    return text;
}

/* Names of the ops and of their inputs, from ops.def. */

static const char *const NAMES[QKV_OP_COUNT] = {
    [QKV_OP_leaf] = "leaf",
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = #name,
#include "qkv/ops.def"
#undef OP
};

/* "(x, weight, bias)" */
static const char *const INPUTS[QKV_OP_COUNT] = {
    [QKV_OP_leaf] = "()",
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = #inputs,
#include "qkv/ops.def"
#undef OP
};

const char *qkv_op_name(enum qkv_op_id op)
{
    return (int)op >= 0 && (int)op < QKV_OP_COUNT ? NAMES[op] : "unknown op";
}

const char *qkv_op_input_name(enum qkv_op_id op, int i, int *length)
{
    const char *name = INPUTS[op] + 1;
    for (; i > 0 && strchr(name, ','); i--) name = strchr(name, ',') + 2;
    *length = (int)strcspn(name, ",)");
    return name;
}
