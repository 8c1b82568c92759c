#include "layers/layer.h"

#include "graph/graph.h"
#include "qkv/scalar_math.h"

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

/* Computes the table in both precisions: the layer does not know which graphs will use it. */
static void make_sinusoids(struct qkv_positions *layer, struct qkv_parameters *parameters, double base)
{
    size_t count = (size_t)qkv_shape_count(QKV_SHAPE(layer->length, layer->width));
    if (!count && (!layer->length || !layer->width)) return; /* an empty table; every op refuses it */
    if (!count) {
        qkv_parameters_refuse(parameters, "positions %s: no table can have shape [%lld, %lld]",
                              layer->name ? layer->name : "", (long long)layer->length,
                              (long long)layer->width);
        return;
    }
    float *float32 = qkv_arena_allocate(&parameters->arena, count * sizeof *float32);
    double *float64 = qkv_arena_allocate(&parameters->arena, count * sizeof *float64);
    if (!float32 || !float64) {
        parameters->failed = true;
        return;
    }
    for (int64_t j = 0; j < layer->width; j++) {
        double per_radian = positions_per_radian(j, layer->width, base); /* one pow per column */
        for (int64_t p = 0; p < layer->length; p++) {
            double value = sinusoid_of(p, j, layer->width, per_radian);
            float32[p * layer->width + j] = (float)value;
            float64[p * layer->width + j] = value;
        }
    }
    layer->sinusoids[QKV_FLOAT32] = float32;
    layer->sinusoids[QKV_FLOAT64] = float64;
}

void qkv_positions_init(struct qkv_positions *layer, struct qkv_parameters *parameters,
                        const struct qkv_positions_options *options, const char *name)
{
    qkv_require_choice(parameters, name, "kind of positions", &qkv_position_kind_choices, (int)options->kind);
    *layer = (struct qkv_positions){
        .name = qkv_arena_string(&parameters->arena, name),
        .kind = options->kind,
        .length = options->length,
        .width = options->width,
    };
    if (layer->kind == QKV_POSITION_SINUSOIDAL || layer->kind == QKV_POSITION_ROTARY)
        make_sinusoids(layer, parameters, options->base);
    if (layer->kind == QKV_POSITION_LEARNED || layer->kind == QKV_POSITION_RELATIVE)
        layer->table = qkv_parameters_add(parameters, QKV_SHAPE(options->length, options->width),
                                          options->initial, "%s.table", name);
    qkv_parameters_mark_table(parameters, layer->table);
}

static struct qkv_tensor *sinusoids_of(const struct qkv_positions *layer, struct qkv_graph *graph)
{
    return qkv_wrap(graph, QKV_SHAPE(layer->length, layer->width), layer->sinusoids[qkv_graph_dtype(graph)]);
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

/* ---- samples ---- */

static void init_sample(void *layer, struct qkv_parameters *parameters, const void *options, const char *name)
{
    qkv_positions_init(layer, parameters, options, name);
}

static const int64_t FIRST = 1; /* position of the first row of each sentence of the samples */

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    struct qkv_tensor *x = qkv_positions_apply(layer, graph, input[0], sample->segments[0], &FIRST);
    return qkv_positions_rotate(layer, graph, x, sample->segments[0], &FIRST);
}

static const struct qkv_positions_options SINUSOIDAL = {QKV_POSITION_SINUSOIDAL, 6, 4, 10000, SAMPLE_INITIAL};
static const struct qkv_positions_options ODD = {QKV_POSITION_SINUSOIDAL, 6, 3, 100, SAMPLE_INITIAL};
static const struct qkv_positions_options LEARNED = {QKV_POSITION_LEARNED, 6, 4, 0, SAMPLE_INITIAL};
static const struct qkv_positions_options ROTARY = {QKV_POSITION_ROTARY, 6, 2, 100, SAMPLE_INITIAL};
static const int64_t STARTS[] = {0, 3}, LENGTHS[] = {3, 2};
static const struct qkv_layer_sample SAMPLES[] = {
    {"sinusoidal", &SINUSOIDAL, {{2, {5, 4}}}, {{2, STARTS, LENGTHS}}},
    {"sinusoidal, odd width", &ODD, {{2, {5, 3}}}, {{2, STARTS, LENGTHS}}},
    {"learned", &LEARNED, {{2, {5, 4}}}, {{2, STARTS, LENGTHS}}},
    {"rotary, two heads", &ROTARY, {{2, {5, 4}}}, {{2, STARTS, LENGTHS}}},
    {0},
};
const struct qkv_layer_interface qkv_positions_layer = {"positions", sizeof(struct qkv_positions),
                                                        init_sample, apply_sample, SAMPLES};
