/* The parts of a forced pass, by role. */
#include "graph/graph.h"
#include "qkv/network.h"

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
                                       enum qkv_stack_id stack)
{
    for (const struct qkv_part *part = trace->first; part; part = part->next)
        if (part->role == role && part->stack == stack && !part->layer) return part;
    return NULL;
}

bool qkv_trace_has(const struct qkv_trace *trace, enum qkv_part_role role, const struct qkv_tensor *node)
{
    for (const struct qkv_part *part = trace->first; part; part = part->next)
        if (part->role == role && part->node == node) return true;
    return false;
}
