#include "report/value_norms.h"

#include "qkv/layers.h"

#include <math.h>
#include <string.h>

/* G of a head: the products of rows of a matrix [any, outputs]; `values` holds these rows. */
static void multiply_rows(const struct qkv_parameters *parameters, struct qkv_rows rows, double *values,
                          double *gram)
{
    int64_t outputs = rows.parameter->shape.size[1], width = rows.count;
    for (int64_t i = 0; i < width * outputs; i++)
        values[i] = qkv_parameter_get(parameters, rows.parameter, rows.first * outputs + i);
    for (int64_t i = 0; i < width; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = 0; k < outputs; k++) sum += values[i * outputs + k] * values[j * outputs + k];
            gram[i * width + j] = gram[j * width + i] = sum;
        }
}

/* Fills one layer. In a recurrent network the value is the memory. */
static bool add_layer(struct value_norms *norms, const struct qkv_attention_layers *layers,
                      struct qkv_head head, struct norm_layer *layer)
{
    const struct qkv_multi_head *multi_head = layers->multi_head;
    struct qkv_rows rows;
    bool found = qkv_model_head_rows(norms->model, head, &rows);
    QKV_BUG(!found, "attention layer %lld has no heads", (long long)head.layer);
    layer->heads = multi_head ? multi_head->rule.heads : 1;
    layer->groups = multi_head ? qkv_attention_key_value_heads(&multi_head->rule) : 1;
    layer->width = rows.count;
    int64_t cells = layer->width * layer->width, outputs = rows.parameter->shape.size[1];
    double *gram = qkv_arena_allocate(&norms->arena, (size_t)(layer->heads * cells) * sizeof *gram);
    double *values = qkv_arena_allocate(&norms->arena, (size_t)(layer->width * outputs) * sizeof *values);
    if (!gram || !values) return false;
    for (; qkv_model_head_rows(norms->model, head, &rows); head.head++)
        multiply_rows(&norms->model->parameters, rows, values, gram + (head.head - 1) * cells);
    layer->gram = gram;
    return true;
}

/* Fills the layers of one kind. */
static bool add_kind(struct value_norms *norms, enum qkv_attention_kind kind)
{
    struct norm_layers *kept = &norms->of_kind[kind];
    struct qkv_attention_layers layers;
    while (layers = qkv_model_attention(norms->model, kind, kept->count + 1),
           layers.multi_head || layers.single_head)
        kept->count++;
    kept->layer = qkv_arena_zeroed(&norms->arena, (size_t)kept->count * sizeof *kept->layer);
    bool complete = kept->layer;
    for (int i = 0; complete && i < kept->count; i++) {
        layers = qkv_model_attention(norms->model, kind, i + 1);
        complete = add_layer(norms, &layers, (struct qkv_head){kind, i + 1, 1}, &kept->layer[i]);
    }
    return complete;
}

enum qkv_status qkv_value_norms_init(struct value_norms *norms, const struct qkv_model *model, unsigned kinds,
                                     struct qkv_error *error)
{
    *norms = (struct value_norms){.model = model};
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
        if (kinds & 1u << kind && !add_kind(norms, (enum qkv_attention_kind)kind))
            return qkv_error_set(error, "out of memory for the norms of values");
    return QKV_OK;
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

/* The norms of all values of a pass, by kind and layer, and where those of a sentence begin. */
struct pass_norms {
    double **of_layer[QKV_ATTENTION_KINDS]; /* [layers]: [heads, rows] */
    int64_t rows[QKV_ATTENTION_KINDS],
        first[QKV_ATTENTION_KINDS]; /* keys of the pass, and of the sentences before */
};

static int64_t key_count(const struct qkv_attention_report *report, int kind)
{
    return kind == QKV_ATTENTION_DECODER ? report->target_length : report->source_length;
}

static bool norms_of_pass(const struct value_norms *norms, const struct qkv_trace *trace,
                          struct pass_norms *pass, struct qkv_arena *arena)
{
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++) {
        const struct norm_layers *layers = &norms->of_kind[kind];
        double **of_layer = qkv_arena_allocate(arena, (size_t)layers->count * sizeof *of_layer);
        if (!of_layer) return false;
        for (int i = 0; i < layers->count; i++) {
            const struct qkv_part *part =
                qkv_trace_attention(trace, QKV_PART_VALUE, (enum qkv_attention_kind)kind, i + 1);
            of_layer[i] = norms_of_layer(&layers->layer[i], part->node, arena);
            if (!of_layer[i]) return false;
        }
        pass->of_layer[kind] = of_layer;
    }
    return true;
}

/* Multiplies the maps of one report. */
static bool multiply_maps(struct qkv_attention_report *report, const struct pass_norms *pass,
                          struct qkv_arena *arena)
{
    struct qkv_attention_map *maps = qkv_arena_allocate(arena, (size_t)report->map_count * sizeof *maps);
    if (!maps) return false;
    for (int64_t m = 0; m < report->map_count; m++) {
        maps[m] = report->maps[m];
        int64_t columns = maps[m].columns, cells = maps[m].rows * columns;
        double *weights = qkv_arena_allocate(arena, (size_t)cells * sizeof *weights);
        if (!weights) return false;
        const double *norm = pass->of_layer[maps[m].kind][maps[m].layer - 1] +
                             (maps[m].head - 1) * pass->rows[maps[m].kind] + pass->first[maps[m].kind];
        for (int64_t i = 0; i < cells; i++) weights[i] = maps[m].weights[i] * norm[i % columns];
        maps[m].weights = weights;
    }
    report->maps = maps;
    return true;
}

bool qkv_value_norms_apply(const struct value_norms *norms, const struct qkv_trace *trace, int64_t count,
                           struct qkv_attention_report *reports, struct qkv_arena *arena)
{
    struct pass_norms pass = {0};
    if (!norms_of_pass(norms, trace, &pass, arena)) return false;
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
        for (int64_t i = 0; i < count; i++) pass.rows[kind] += key_count(&reports[i], kind);
    for (int64_t i = 0; i < count; i++) {
        if (!multiply_maps(&reports[i], &pass, arena)) return false;
        for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
            pass.first[kind] += key_count(&reports[i], kind);
    }
    return true;
}
