/* The parts of a forced pass, by role. */
#include "qkv/network.h"

void qkv_trace_record(struct qkv_trace *trace, struct qkv_graph *graph, const struct qkv_part *owner,
                      enum qkv_part_role role, struct qkv_tensor *node)
{
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

static bool is_attention_role(enum qkv_part_role role)
{
    return role >= QKV_PART_INPUT;
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
