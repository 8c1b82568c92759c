#include "core/memory.h"
#include "graph/internal.h"
#include "layers/layer.h"

#include <math.h>

void qkv_embedding_init(struct qkv_embedding *layer, struct qkv_parameters *parameters,
                        const struct qkv_embedding_options *options, const char *name)
{
    *layer = (struct qkv_embedding){
        .name = qkv_arena_string(&parameters->arena, name),
        .table = qkv_parameters_add(parameters, QKV_SHAPE(options->size, options->width),
                                    qkv_initial_scaled(options->initial, options->width), "%s.table", name),
        .factor = options->scale ? sqrt((double)options->width) : 1.0,
    };
    qkv_parameters_mark_table(parameters, layer->table);
}

struct qkv_tensor *qkv_embedding_apply(const struct qkv_embedding *layer, struct qkv_graph *graph,
                                       const int32_t *ids, int64_t count)
{
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *y =
        qkv_embedding(graph, qkv_graph_parameter(graph, layer->table), ids, count, layer->factor);
    y = qkv_dropout_rows_apply(graph, y, qkv_graph_token_cutoff(graph));
    qkv_graph_scope(graph, outer_scope);
    return y;
}
