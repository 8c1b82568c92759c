#include "report/recorded.h"

#include "graph/graph.h"

#include "qkv/attention_map.h"
#include "qkv/network.h"

#include <stdio.h>

static const char *const ROLES[] = {
    [QKV_PART_EMBEDDING] = "QKV_PART_EMBEDDING", [QKV_PART_POSITIONS] = "QKV_PART_POSITIONS",
    [QKV_PART_NORM] = "QKV_PART_NORM",           [QKV_PART_HIDDEN] = "QKV_PART_HIDDEN",
    [QKV_PART_INPUT] = "QKV_PART_INPUT",         [QKV_PART_MEMORY] = "QKV_PART_MEMORY",
    [QKV_PART_QUERY] = "QKV_PART_QUERY",         [QKV_PART_KEY] = "QKV_PART_KEY",
    [QKV_PART_VALUE] = "QKV_PART_VALUE",         [QKV_PART_WEIGHTS] = "QKV_PART_WEIGHTS",
    [QKV_PART_CONTEXT] = "QKV_PART_CONTEXT",     [QKV_PART_OUTPUT] = "QKV_PART_OUTPUT",
    [QKV_PART_RESIDUAL] = "QKV_PART_RESIDUAL",
};

/* Returns the part if it has the wanted shape. owner: the layer or stack of the part, for the message. */
static const struct qkv_part *check(const struct recorded_pass *pass, const struct qkv_part *part,
                                    enum qkv_part_role role, const char *owner, struct part_shape wanted)
{
    const char *network = pass->model->interface->name;
    if (!part) {
        qkv_error_set(pass->error,
                      "network %s: its function forward does not record %s of %s (qkv_trace_record), "
                      "which %s need",
                      network, ROLES[role], owner, pass->purpose);
        return NULL;
    }
    const struct qkv_shape shape = qkv_tensor_shape(part->node);
    if (shape.rank == 2 && shape.size[0] == wanted.rows &&
        (!wanted.columns || shape.size[1] == wanted.columns))
        return part;
    char columns[32] = "any";
    if (wanted.columns) snprintf(columns, sizeof columns, "%lld", (long long)wanted.columns);
    qkv_error_set(pass->error, "network %s: %s of %s has shape %s, but %s need [%lld, %s]", network,
                  ROLES[role], owner, qkv_shape_text(shape), pass->purpose, (long long)wanted.rows, columns);
    return NULL;
}

const struct qkv_part *qkv_recorded_attention(const struct recorded_pass *pass, enum qkv_part_role role,
                                              enum qkv_attention_kind kind, int64_t layer,
                                              struct part_shape shape)
{
    char owner[64];
    snprintf(owner, sizeof owner, "layer %lld of %s attention", (long long)layer,
             qkv_attention_kind_name(kind));
    return check(pass, qkv_trace_attention(pass->trace, role, kind, layer), role, owner, shape);
}

const struct qkv_part *qkv_recorded_stack(const struct recorded_pass *pass, enum qkv_part_role role,
                                          enum qkv_stack_id stack, struct part_shape shape)
{
    return check(pass, qkv_trace_stack(pass->trace, role, stack), role,
                 stack == QKV_STACK_ENCODER ? "the encoder" : "the decoder", shape);
}
