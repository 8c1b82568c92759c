#include "report/value_norms.h"

#include "qkv/layers.h"

#include <math.h>
#include <string.h>

/* G of a head: the products of rows first .. first + width - 1 of a matrix [any, outputs]. */
static void multiply_rows(const struct qkv_parameters *parameters, const struct qkv_parameter *matrix,
                          int64_t first, int64_t width, double *rows, double *gram)
{
    int64_t outputs = matrix->shape.size[1];
    for (int64_t i = 0; i < width * outputs; i++)
        rows[i] = qkv_parameter_get(parameters, matrix, first * outputs + i);
    for (int64_t i = 0; i < width; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = 0; k < outputs; k++) sum += rows[i * outputs + k] * rows[j * outputs + k];
            gram[i * width + j] = gram[j * width + i] = sum;
        }
}

/* Fills one layer. In a recurrent network the value is the memory, and the attentional vector is tanh([h; context] W):
 * the last rows of W transform the value. */
static bool add_layer(struct value_norms *norms, const struct qkv_attention_layers *layers,
                      struct norm_layer *layer)
{
    const struct qkv_multi_head *multi_head = layers->multi_head;
    const struct qkv_parameter *output = multi_head ? multi_head->output.weight : layers->attentional->weight;
    int64_t inputs = output->shape.size[0], outputs = output->shape.size[1];
    layer->heads = multi_head ? multi_head->rule.heads : 1;
    layer->groups = multi_head ? multi_head->rule.key_value_heads : 1;
    layer->width = multi_head ? inputs / layer->heads : inputs - outputs;
    int64_t cells = layer->width * layer->width;
    double *gram = qkv_arena_allocate(&norms->arena, (size_t)(layer->heads * cells) * sizeof *gram);
    double *rows = qkv_arena_allocate(&norms->arena, (size_t)(layer->width * outputs) * sizeof *rows);
    if (!gram || !rows) return false;
    for (int64_t head = 0; head < layer->heads; head++)
        multiply_rows(&norms->model->parameters, output,
                      multi_head ? head * layer->width : inputs - layer->width, layer->width, rows,
                      gram + head * cells);
    layer->gram = gram;
    return true;
}

static struct qkv_attention_layers cross_layer(const struct qkv_model *model, int layer)
{
    return qkv_model_attention(model, QKV_ATTENTION_CROSS, layer);
}

enum qkv_status qkv_value_norms_init(struct value_norms *norms, const struct qkv_model *model,
                                     struct qkv_error *error)
{
    *norms = (struct value_norms){.model = model};
    struct qkv_attention_layers layers;
    while (layers = cross_layer(model, norms->layers + 1), layers.multi_head || layers.single_head)
        norms->layers++;
    norms->layer = qkv_arena_zeroed(&norms->arena, (size_t)norms->layers * sizeof *norms->layer);
    bool complete = norms->layer;
    for (int i = 0; complete && i < norms->layers; i++) {
        layers = cross_layer(model, i + 1);
        complete = add_layer(norms, &layers, &norms->layer[i]);
    }
    return complete ? QKV_OK : qkv_error_set(error, "out of memory for the norms of values");
}

void qkv_value_norms_release(struct value_norms *norms)
{
    qkv_arena_release(&norms->arena);
    *norms = (struct value_norms){0};
}

/* norm(v W) for one value; `product` holds V numbers. */
static double norm_of(const double *value, const double *gram, int64_t width, double *product)
{
    double square = 0;
    memset(product, 0, (size_t)width * sizeof *product);
    for (int64_t i = 0; i < width; i++)
        for (int64_t j = 0; j < width; j++) product[j] += value[i] * gram[i * width + j];
    for (int64_t j = 0; j < width; j++) square += product[j] * value[j];
    return square > 0 ? sqrt(square) : 0; /* below 0 by rounding */
}

/* The norms of all values of a pass for each head of a layer, [heads, rows]; NULL when memory is out. */
static double *norms_of_layer(const struct norm_layer *layer, const struct qkv_tensor *node,
                              struct qkv_arena *arena)
{
    int64_t rows = qkv_tensor_shape(node).size[0], columns = layer->groups * layer->width;
    double *values = qkv_arena_allocate(arena, (size_t)(rows * columns) * sizeof *values);
    double *norms = qkv_arena_allocate(arena, (size_t)(rows * layer->heads) * sizeof *norms);
    double *product = qkv_arena_allocate(arena, (size_t)layer->width * sizeof *product);
    if (!values || !norms || !product) return NULL;
    qkv_tensor_read(node, values);
    for (int64_t head = 0; head < layer->heads; head++) {
        int64_t group = head * layer->groups / layer->heads; /* consecutive heads share keys and values */
        for (int64_t row = 0; row < rows; row++)
            norms[head * rows + row] =
                norm_of(values + row * columns + group * layer->width,
                        layer->gram + head * layer->width * layer->width, layer->width, product);
    }
    return norms;
}

/* Multiplies the maps of one report; norms: of each layer, of which those of this sentence begin at row `first` of
 * `rows`. */
static bool multiply_maps(struct qkv_attention_report *report, const double *const *norms, int64_t first,
                          int64_t rows, struct qkv_arena *arena)
{
    struct qkv_attention_map *maps = qkv_arena_allocate(arena, (size_t)report->map_count * sizeof *maps);
    if (!maps) return false;
    for (int64_t m = 0; m < report->map_count; m++) {
        maps[m] = report->maps[m];
        int64_t columns = maps[m].columns, cells = maps[m].rows * columns;
        double *weights = qkv_arena_allocate(arena, (size_t)cells * sizeof *weights);
        if (!weights) return false;
        const double *norm = norms[maps[m].layer - 1] + (maps[m].head - 1) * rows + first;
        for (int64_t i = 0; i < cells; i++) weights[i] = maps[m].weights[i] * norm[i % columns];
        maps[m].weights = weights;
    }
    report->maps = maps;
    return true;
}

bool qkv_value_norms_apply(const struct value_norms *norms, const struct qkv_trace *trace, int64_t count,
                           struct qkv_attention_report *reports, struct qkv_arena *arena)
{
    const double **of_layer = qkv_arena_allocate(arena, (size_t)norms->layers * sizeof *of_layer);
    if (!of_layer) return false;
    int64_t rows = 0, first = 0;
    for (int64_t i = 0; i < count; i++) rows += reports[i].source_length;
    for (int i = 0; i < norms->layers; i++) {
        const struct qkv_part *part = qkv_trace_attention(trace, QKV_PART_VALUE, QKV_ATTENTION_CROSS, i + 1);
        of_layer[i] = norms_of_layer(&norms->layer[i], part->node, arena);
        if (!of_layer[i]) return false;
    }
    for (int64_t i = 0; i < count; first += reports[i++].source_length)
        if (!multiply_maps(&reports[i], of_layer, first, rows, arena)) return false;
    return true;
}
