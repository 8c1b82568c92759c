/* Embeddings and positions. */
#include "core/memory.h"
#include "core/numbers.h"
#include "graph/graph.h"
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

/* The position at which the angle of a column reaches 1 radian: its wavelength / (2 pi). */

static double positions_per_radian(int64_t column, int64_t width, double base)
{
    return qkv_scalar_power(base, (double)(column / 2 * 2) / (double)width);
}

static double sinusoid_of(int64_t position, int64_t column, int64_t width, double per_radian)
{
    if (width % 2 && column == width - 1) return 0;
    double angle = (double)position / per_radian;
    return column % 2 ? qkv_scalar_cos(angle) : qkv_scalar_sin(angle);
}

double qkv_sinusoid(int64_t position, int64_t column, int64_t width, double base)
{
    return sinusoid_of(position, column, width, positions_per_radian(column, width, base));
}

static void fill_sinusoids(const struct qkv_table *table)
{
    for (int64_t j = 0; j < table->columns; j++) {
        double per_radian = positions_per_radian(j, table->columns, table->base); /* one pow per column */
        for (int64_t p = 0; p < table->rows; p++)
            qkv_dtype_set(table->dtype, table->values, p * table->columns + j,
                          sinusoid_of(p, j, table->columns, per_radian));
    }
}

static void make_sinusoids(struct qkv_positions *layer, struct qkv_parameters *parameters)
{
    int64_t count = qkv_shape_count(QKV_SHAPE(layer->length, layer->width));
    if (!count && (!layer->length || !layer->width)) return; /* an empty table; every op refuses it */
    if (!count) {
        qkv_parameters_refuse(parameters, "positions %s: no table can have shape [%lld, %lld]",
                              layer->name ? layer->name : "", (long long)layer->length,
                              (long long)layer->width);
        return;
    }
    if (!(layer->base > 0 && isfinite(layer->base))) {
        qkv_parameters_refuse(parameters, "positions %s: the base is %g, but must be above 0, and finite",
                              layer->name ? layer->name : "", layer->base);
        return;
    }
    layer->sinusoids = qkv_parameters_add_table(parameters, (struct qkv_table){.rows = layer->length,
                                                                               .columns = layer->width,
                                                                               .base = layer->base,
                                                                               .fill = fill_sinusoids});
}

void qkv_positions_init(struct qkv_positions *layer, struct qkv_parameters *parameters,
                        const struct qkv_positions_options *options, const char *name)
{
    qkv_require_choice(parameters, name, "kind of positions", &qkv_position_kind_names, (int)options->kind);
    *layer = (struct qkv_positions){
        .name = qkv_arena_string(&parameters->arena, name),
        .kind = options->kind,
        .length = options->length,
        .width = options->width,
        .base = options->base,
    };
    if (layer->kind == QKV_POSITION_SINUSOIDAL || layer->kind == QKV_POSITION_ROTARY)
        make_sinusoids(layer, parameters);
    if (layer->kind == QKV_POSITION_LEARNED || layer->kind == QKV_POSITION_RELATIVE)
        layer->table = qkv_parameters_add(parameters, QKV_SHAPE(options->length, options->width),
                                          options->initial, "%s.table", name);
    qkv_parameters_mark_table(parameters, layer->table);
}

static struct qkv_tensor *sinusoids_of(const struct qkv_positions *layer, struct qkv_graph *graph)
{
    const struct qkv_table *table = layer->sinusoids;
    if (!table || !table->values)
        return qkv_graph_fail(graph,
                              "positions %s: there is no table of shape [%lld, %lld]: it is made by "
                              "qkv_positions_init and qkv_parameters_allocate, if both sizes are 1 or more",
                              layer->name ? layer->name : "", (long long)layer->length,
                              (long long)layer->width);
    if (table->dtype != qkv_graph_dtype(graph))
        return qkv_graph_fail(graph, "positions %s: the precision of the graph is not that of the parameters",
                              layer->name);
    return qkv_wrap(graph, QKV_SHAPE(layer->length, layer->width), table->values);
}

struct qkv_tensor *qkv_positions_apply(const struct qkv_positions *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *x, struct qkv_segments segments,
                                       const int64_t *first)
{
    if (layer->kind != QKV_POSITION_LEARNED && layer->kind != QKV_POSITION_SINUSOIDAL) return x;
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *table = layer->kind == QKV_POSITION_LEARNED ? qkv_graph_parameter(graph, layer->table)
                                                                   : sinusoids_of(layer, graph);
    struct qkv_tensor *y = qkv_add_positions(graph, x, table, segments, first);
    qkv_graph_scope(graph, outer_scope);
    return y;
}

struct qkv_tensor *qkv_positions_rotate(const struct qkv_positions *layer, struct qkv_graph *graph,
                                        struct qkv_tensor *x, struct qkv_segments segments,
                                        const int64_t *first)
{
    if (!layer || layer->kind != QKV_POSITION_ROTARY) return x;
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *y = qkv_rotate(graph, x, sinusoids_of(layer, graph), segments, first);
    qkv_graph_scope(graph, outer_scope);
    return y;
}
