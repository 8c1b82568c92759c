/* Attribution: how much each token that a model reads contributes to each token that it predicts. The methods that compute with
 * the model pass copies of the pair, and change values of some nodes while the pass runs. */
#include "report/attribution.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "models/network.h"
#include "qkv/attention_map.h"
#include "report/collect.h"
#include "report/words.h"

#include <math.h>

/* ---- gradients ---- */

/* Adds the gradient of a token's embedding, times the embedding (less that of <unk>, for integrated gradients), in each copy to
 * the row of a step in sums [a->copies.passed, T, S + T]. */
static enum qkv_status add_gradients(struct attribution *a, int64_t step, double *sums)
{
    const struct qkv_batch *batch = &a->collector->batch;
    const enum qkv_dtype dtype = a->collector->model->parameters.dtype;
    bool is_one = a->options->method == QKV_ATTRIBUTION_GRADIENT, found = false;
    for (const struct qkv_part *part = a->collector->trace.first; part; part = part->next) {
        const void *gradient = qkv_tensor_gradient(part->node);
        if (part->role != QKV_PART_EMBEDDING || !gradient) continue;
        bool of_source = part->stack == QKV_STACK_ENCODER;
        int64_t width = qkv_tensor_shape(part->node).size[1], tokens = of_source ? a->sources : a->steps;
        const int32_t *ids = of_source ? batch->source : batch->target_input;
        found = true;
        for (int64_t i = 0; i < a->copies.passed * tokens; i++) {
            int64_t row = qkv_copies_row(a, of_source, i / tokens) + i % tokens;
            double *sum = sums + (i / tokens * a->steps + step) * a->columns + (of_source ? 0 : a->sources) +
                          i % tokens;
            for (int64_t d = 0; d < width; d++)
                *sum += qkv_dtype_get(dtype, gradient, row * width + d) *
                        (qkv_copies_embedding(a, part->stack, ids[row], d) -
                         (is_one ? 0 : qkv_copies_embedding(a, part->stack, QKV_UNKNOWN, d)));
        }
    }
    return found ? QKV_OK
                 : qkv_error_set(a->error, "network %s: records no embeddings, which gradients need",
                                 a->collector->model->interface->name);
}

/* Reads from the last pass gradients times embeddings, [a->copies.passed, T, S + T], by a backward pass for each step, and
 * log-probabilities [a->copies.passed, T]. */
static enum qkv_status differentiate(struct attribution *a, double *sums, double *log_probabilities)
{
    const struct qkv_model *model = a->collector->model;
    struct qkv_graph *graph = a->collector->graph;
    struct qkv_tensor **loss = qkv_arena_array(a->arena, a->steps, sizeof *loss);
    int32_t *rows = qkv_arena_array(a->arena, a->steps * a->copies.passed, sizeof *rows),
            *labels = qkv_arena_array(a->arena, a->steps * a->copies.passed, sizeof *labels);
    if (!loss || !rows || !labels) return qkv_no_memory(a->error);
    struct qkv_tensor *output = qkv_graph_parameter(graph, model->output_weight),
                      *bias = qkv_graph_parameter(graph, model->output_bias);
    for (int64_t i = 0; i < a->steps * a->copies.passed; i++) {
        rows[i] = (int32_t)(qkv_copies_row(a, false, i % a->copies.passed) + i / a->copies.passed);
        labels[i] = a->labels[i / a->copies.passed];
    }
    for (int64_t t = 0; t < a->steps; t++)
        loss[t] = qkv_linear_cross_entropy(
            graph,
            qkv_gather_rows(graph, a->collector->hidden, rows + t * a->copies.passed, a->copies.passed),
            output, bias, model->output_tied, labels + t * a->copies.passed, 0, -1);
    qkv_graph_set_gradients(graph, false);
    enum qkv_status status = qkv_copies_read(a, log_probabilities);
    qkv_graph_set_gradients(graph, true);
    for (int64_t t = 0; t < a->steps && !status; t++) {
        qkv_backward(graph, loss[t], NULL);
        status = qkv_graph_check(graph, a->error);
        if (!status) status = add_gradients(a, t, sums);
    }
    return status;
}

/* A point of the way from <unk>, 0, to the text, 1. */
struct point {
    double at;
    int64_t next;      /* the place in the list of the point after it; 0: there is none */
    double *gradients; /* [T, S + T]: times the embedding less that of <unk> */
    double *value;     /* [T]: the log-probabilities */
};

/* Computes points, whose `at` is set, in a graph that has the gradients of embeddings, and of nothing else. */
static enum qkv_status pass_points(struct attribution *a, struct point *points, int64_t count)
{
    const int64_t cells = a->steps * a->columns;
    struct change *changes = qkv_arena_array(a->arena, 2 * count, sizeof *changes);
    double *gradients = qkv_arena_zeros(a->arena, count * cells, sizeof *gradients),
           *values = qkv_arena_array(a->arena, count * a->steps, sizeof *values);
    if (!changes || !gradients || !values) return qkv_no_memory(a->error);
    for (int64_t i = 0; i < 2 * count; i++)
        changes[i] = (struct change){
            .copy = i / 2,
            .of = {.role = QKV_PART_EMBEDDING, .stack = i % 2 ? QKV_STACK_ENCODER : QKV_STACK_DECODER},
            .rows = i % 2 ? a->sources : a->steps,
            .point = points[i / 2].at};
    for (int64_t i = 0; i < count; i++) {
        points[i].gradients = gradients + i * cells;
        points[i].value = values + i * a->steps;
    }
    a->copies = (struct copies){count, changes, 2 * count};
    while (qkv_copies_pass(a))
        a->status = differentiate(a, points[a->copies.first].gradients, points[a->copies.first].value);
    return a->status;
}

static enum qkv_status differentiate_text(struct attribution *a)
{
    struct point text = {.at = 1};
    if (pass_points(a, &text, 1)) return QKV_INVALID;
    a->result = text.gradients;
    return QKV_OK;
}

/* How far the sum of a row misses a change of log p, relative to the change on the whole way, if that is above 1. */
static double miss_of(const struct attribution *a, int64_t step, double sum, double change)
{
    return fabs(sum - change) / fmax(1, fabs(a->log_probability[step] - a->report->baseline[step]));
}

/* The same in the worst row, of the trapezoidal rule from a point to the next one. */
static double error_of(const struct attribution *a, const struct point *point, const struct point *next)
{
    double worst = 0;
    for (int64_t t = 0; t < a->steps; t++) {
        double slopes = qkv_row_total(point->gradients + t * a->columns, a->columns) +
                        qkv_row_total(next->gradients + t * a->columns, a->columns);
        worst =
            fmax(worst, miss_of(a, t, (next->at - point->at) * slopes / 2, next->value[t] - point->value[t]));
    }
    return worst;
}

/* Integrates from 0 to 1 by the trapezoidal rule. Its error between two points is known: adds points in the middle of those with
 * the largest errors, until all are small or there are 8 times as many points as the options name. */
static enum qkv_status integrate(struct attribution *a)
{
    const double tolerance = 2e-5; /* between two points: 1/1000 for some 50 of them */
    const int64_t steps = a->options->steps ? a->options->steps : 50, most = 8 * steps;
    if (steps < 1 || steps > 10000)
        return qkv_error_set(a->error, "integrated gradients with %lld steps: they must be 1 to 10000",
                             (long long)steps);
    struct point *points = qkv_arena_array(a->arena, most + 1, sizeof *points), *last;
    if (!points) return qkv_no_memory(a->error);
    int64_t count = 0, added = steps + 1;
    for (int64_t i = 0; i < added; i++)
        points[i] = (struct point){.at = (double)i / (double)steps, .next = i < steps ? i + 1 : 0};
    while (added) {
        if (pass_points(a, points + count, added)) return QKV_INVALID;
        a->report->baseline = points->value;
        count += added;
        added = 0;
        double worst = 0;
        for (struct point *p = points; p->next; p = points + p->next)
            worst = fmax(worst, error_of(a, p, points + p->next));
        for (struct point *p = points, *next; p->next && count + added <= most; p = next) {
            next = points + p->next;
            if (error_of(a, p, next) <= fmax(tolerance, worst / 4)) continue;
            points[count + added] = (struct point){.at = (p->at + next->at) / 2, .next = p->next};
            p->next = count + added++;
        }
    }
    for (struct point *p = points; p->next; p = last) {
        last = points + p->next;
        for (int64_t k = 0; k < a->steps * a->columns; k++)
            a->result[k] += (last->at - p->at) * (p->gradients[k] + last->gradients[k]) / 2;
    }
    for (int64_t t = 0; t < a->steps; t++)
        a->report->missed =
            fmax(a->report->missed, miss_of(a, t, qkv_row_total(a->result + t * a->columns, a->columns),
                                            a->log_probability[t] - a->report->baseline[t]));
    return QKV_OK;
}

/* Runs a method that needs gradients, in a graph that has them: those of embeddings, and of nothing else. */
static enum qkv_status with_gradients(struct attribution *a, enum qkv_status (*run)(struct attribution *a))
{
    const struct qkv_model *model = a->collector->model;
    const struct qkv_parameters *parameters = &model->parameters;
    const struct qkv_embedding *source = qkv_model_inputs(model, QKV_STACK_ENCODER).embedding,
                               *target = qkv_model_inputs(model, QKV_STACK_DECODER).embedding;
    struct qkv_graph *graph = a->collector->graph;
    double *rates = qkv_arena_array(a->arena, parameters->count, sizeof *rates);
    void *gradients = qkv_arena_zeros(a->arena, parameters->elements, qkv_dtype_size(parameters->dtype));
    if (!rates || !gradients) return qkv_no_memory(a->error);
    if (parameters->products == QKV_PRECISION_INT8)
        return qkv_error_set(a->error,
                             "there are no gradients of int8 products: choose another method, or a run and "
                             "a --precision of float32");
    for (int64_t i = 0; i < parameters->count; i++) {
        struct qkv_parameter *parameter = parameters->list[i];
        rates[i] = parameter->rate;
        parameter->rate = (source && source->table == parameter) || target->table == parameter;
    }
    qkv_graph_reset(graph);
    qkv_graph_set_gradients(graph, true);
    qkv_graph_bind(graph, parameters, gradients, false);
    enum qkv_status status = run(a);
    for (int64_t i = 0; i < parameters->count; i++) parameters->list[i]->rate = rates[i];
    qkv_graph_reset(graph);
    qkv_graph_set_gradients(graph, false);
    qkv_graph_bind(graph, parameters, NULL, false);
    return status;
}

/* ---- rollout, flow and value zeroing: from layer to layer ---- */

/* 1 - the cosine of the angle between two rows of x. */
static double cosine_distance(enum qkv_dtype dtype, struct qkv_tensor *x, int64_t a, int64_t b)
{
    const void *value = qkv_tensor_value(x);
    int64_t width = qkv_tensor_shape(x).size[1];
    double product = 0, square_a = 0, square_b = 0;
    for (int64_t d = 0; d < width; d++) {
        double of_a = qkv_dtype_get(dtype, value, a * width + d),
               of_b = qkv_dtype_get(dtype, value, b * width + d);
        product += of_a * of_b;
        square_a += of_a * of_a;
        square_b += of_b * of_b;
    }
    return square_a > 0 && square_b > 0 ? fmax(1 - product / sqrt(square_a * square_b), 0) : 0;
}

/* The cosine distances of the outputs of a layer, with and without the value of each key: [rows, keys]. NULL: the layer has no
 * such attention, or a->status says what failed. */
static const double *zero_values(struct attribution *a, enum qkv_attention_kind kind, int64_t layer)
{
    bool is_encoder = kind == QKV_ATTENTION_ENCODER;
    int64_t rows = is_encoder ? a->sources : a->steps,
            keys = kind == QKV_ATTENTION_DECODER ? a->steps : a->sources;
    if (!qkv_model_attention(a->collector->model, kind, layer).residual) return NULL;
    double *distance = qkv_arena_zeros(a->arena, rows * keys, sizeof *distance);
    struct change *changes = qkv_arena_array(a->arena, keys, sizeof *changes);
    if (!distance || !changes) a->status = qkv_no_memory(a->error);
    for (int64_t key = 0; key < keys && !a->status; key++)
        changes[key] = (struct change){.copy = key,
                                       .of = {.role = QKV_PART_VALUE, .attention = kind, .layer = layer},
                                       .row = key,
                                       .rows = 1};
    a->copies = (struct copies){keys, changes, keys, a->pair};
    while (qkv_copies_pass(a)) {
        const struct qkv_part *part = qkv_trace_stack(
            &a->collector->trace, QKV_PART_HIDDEN, is_encoder ? QKV_STACK_ENCODER : QKV_STACK_DECODER, layer);
        for (int64_t i = 0; part && i < rows * a->copies.passed; i++) {
            int64_t row = i % rows, copy = i / rows, key = a->copies.first + copy;
            if (kind == QKV_ATTENTION_DECODER && key > row) continue;
            distance[row * keys + key] = cosine_distance(a->collector->model->parameters.dtype, part->node,
                                                         qkv_copies_row(a, is_encoder, -1) + row,
                                                         qkv_copies_row(a, is_encoder, copy) + row);
        }
    }
    return distance;
}

/* The weights by which a layer mixes tokens: the mean of its heads, or, where means is NULL, distances of value zeroing. NULL: it
 * has no such attention. */
static const double *weights_of(struct attribution *a, const struct qkv_attention_report *means,
                                enum qkv_attention_kind kind, int64_t layer)
{
    for (int64_t i = 0; means && i < means->map_count; i++)
        if (means->maps[i].kind == kind && means->maps[i].layer == layer) return means->maps[i].weights;
    return means ? NULL : zero_values(a, kind, layer);
}

/* Adds a layer of a side. Of rollout and flow, the residual connection keeps half of a row. The distances of value zeroing are of
 * outputs of a layer, in which residual connections have had their part. */
static void add_layer(struct attribution *a, const struct qkv_attention_report *means, bool of_source,
                      int64_t layer, struct mixture *mixture)
{
    const double *own =
                     weights_of(a, means, of_source ? QKV_ATTENTION_ENCODER : QKV_ATTENTION_DECODER, layer),
                 *cross = of_source ? NULL : weights_of(a, means, QKV_ATTENTION_CROSS, layer);
    if (a->status) return;
    if (means && !qkv_has_prefix(a->collector->model)) { /* one attention after the other */
        qkv_mixture_add(mixture, of_source, 0.5, own, NULL);
        own = NULL;
    }
    qkv_mixture_add(mixture, of_source, means ? 0.5 : 0, own, cross);
}

static enum qkv_status mix(struct attribution *a)
{
    const struct qkv_model *model = a->collector->model;
    const struct qkv_attribution_method_info *method = qkv_attribution_method_info(a->options->method);
    struct qkv_attention_report selected, *means = NULL;
    bool has_prefix = qkv_has_prefix(model);
    int64_t layers = model->config.decoder.num_layers,
            before = has_prefix ? 0 : model->config.encoder.num_layers; /* layers of an encoder */
    if (!qkv_model_attention(model, QKV_ATTENTION_DECODER, 1).multi_head)
        return qkv_error_set(a->error,
                             "%s follows attention through the layers of a transformer, but the network %s "
                             "has none: choose another method",
                             method->name, model->interface->name);
    if (method->shape == QKV_ATTRIBUTION_MIXED_WEIGHTS) {
        means = &selected;
        if (qkv_attention_select(a->report, 0, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN, a->arena, means,
                                 a->error))
            return QKV_INVALID;
    }
    struct mixture *mixture = qkv_mixture_new(a->arena, a->sources, a->steps, 2 * layers + before);
    if (!mixture) return qkv_no_memory(a->error);
    for (int64_t l = 1; l <= before; l++) add_layer(a, means, true, l, mixture);
    for (int64_t l = 1; l <= layers; l++) {
        add_layer(a, means, false, l, mixture);
        if (has_prefix) add_layer(a, means, true, l, mixture);
    }
    if (a->status) return a->status;
    (a->options->method == QKV_ATTRIBUTION_FLOW ? qkv_flow : qkv_rollout)(mixture, a->result);
    return a->arena->failed ? qkv_no_memory(a->error) : QKV_OK;
}

/* ---- methods ---- */

/* The maps of weights, or of norms, that the options name. */
static enum qkv_status weigh(struct attribution *a)
{
    if (qkv_attention_select(a->report, 0, a->options->layer, a->options->head, a->arena, a->report,
                             a->error))
        return QKV_INVALID;
    return a->options->method == QKV_ATTRIBUTION_NORMS
               ? qkv_attention_normalize(a->report, a->arena, a->report, a->error)
               : QKV_OK;
}

static const struct method {
    struct qkv_attribution_method_info info;
    enum qkv_status (*run)(struct attribution *a); /* sets a->result, or, of weights, the maps */
} METHODS[] = {
#define ATTRIBUTION_METHOD(id, name, shape, run, value, help)                                                \
    {{#name, value, help, QKV_ATTRIBUTION_##shape}, run},
#include "qkv/attribution_methods.def"
#undef ATTRIBUTION_METHOD
};

const struct qkv_attribution_method_info *qkv_attribution_method_info(enum qkv_attribution_method method)
{
    return (unsigned)method < QKV_ATTRIBUTION_METHODS ? &METHODS[method].info : NULL;
}

/* Splits the result into a map of the source tokens and one of those that the decoder reads. */
static enum qkv_status make_maps(struct attribution *a, const char *method)
{
    static const struct qkv_attention_rule CAUSAL = {.heads = 1, .causal = true};
    struct qkv_attention_map *maps = qkv_arena_zeros(a->arena, 2, sizeof *maps);
    a->report->maps = maps;
    a->report->map_count = 0;
    for (int of_source = 1; of_source >= 0 && maps; of_source--) {
        const int64_t width = of_source ? a->sources : a->steps, first = of_source ? 0 : a->sources;
        double *weights = qkv_arena_zeros(a->arena, a->steps * width, sizeof *weights);
        for (int64_t i = 0; i < a->steps * width && weights; i++)
            if (of_source || i % width <= i / width)
                weights[i] = a->result[i / width * a->columns + first + i % width];
        if (!width) continue;
        maps[a->report->map_count++] = (struct qkv_attention_map){
            .kind = of_source ? QKV_ATTENTION_CROSS : QKV_ATTENTION_DECODER,
            .rows = a->steps,
            .columns = width,
            .weights = weights,
            .name = qkv_arena_format(a->arena, "%s.%s", method, of_source ? "source" : "target"),
            .label = of_source ? "contributions of the source"
                               : "contributions of the words before, to the next one",
            .rule = of_source ? NULL : &CAUSAL};
    }
    return a->arena->failed ? qkv_no_memory(a->error) : QKV_OK;
}

/* Runs a method, in which the collector's maps hold weights, or norms. */
static enum qkv_status attribute(struct attribution *a, const struct method *method)
{
    static const unsigned KINDS[] = {[QKV_ATTRIBUTION_WEIGHTS] =
                                         1u << QKV_ATTENTION_CROSS | 1u << QKV_ATTENTION_DECODER,
                                     [QKV_ATTRIBUTION_MIXED_WEIGHTS] = 0, /* all */
                                     [QKV_ATTRIBUTION_TURNS] = 1u << QKV_ATTENTION_CROSS,
                                     [QKV_ATTRIBUTION_NATS] = 1u << QKV_ATTENTION_CROSS,
                                     [QKV_ATTRIBUTION_GRADIENTS] = 1u << QKV_ATTENTION_CROSS};
    const struct qkv_model *model = a->collector->model;
    const enum qkv_attribution_shape shape = method->info.shape;
    if (qkv_copies_begin(a, KINDS[shape])) return QKV_INVALID;
    a->report->value_name = method->info.value;
    a->result = qkv_arena_zeros(a->arena, a->steps * a->columns, sizeof *a->result);
    if (!a->result) return qkv_no_memory(a->error);
    if (shape >= QKV_ATTRIBUTION_NATS && !qkv_model_inputs(model, QKV_STACK_DECODER).embedding)
        return qkv_error_set(a->error, "network %s: its function inputs gives no embeddings, which %s needs",
                             model->interface->name, method->info.name);
    if (shape == QKV_ATTRIBUTION_GRADIENTS ? with_gradients(a, method->run) : method->run(a))
        return QKV_INVALID;
    return shape == QKV_ATTRIBUTION_WEIGHTS ? QKV_OK : make_maps(a, method->info.name);
}

enum qkv_status qkv_attribute(struct qkv_attention_collector *collector,
                              const struct qkv_attention_pair *pair,
                              const struct qkv_attribution_options *options,
                              struct qkv_attention_report *report, struct qkv_error *error)
{
    struct attribution a = {
        .collector = collector, .pair = pair, .options = options, .report = report, .error = error};
    const bool norms = options->method == QKV_ATTRIBUTION_NORMS, before = collector->has_norms;
    if ((unsigned)options->method >= QKV_ATTRIBUTION_METHODS)
        return qkv_error_set(error, "there is no attribution method %d", (int)options->method);
    if (norms != before) qkv_attention_collector_measure_norms(collector, norms);
    enum qkv_status status = attribute(&a, &METHODS[options->method]);
    collector->has_norms = before;
    return status;
}

enum qkv_status qkv_attribution_shares(struct qkv_attention_report *report,
                                       enum qkv_attribution_method method, struct qkv_arena *arena,
                                       struct qkv_error *error)
{
    const struct qkv_attribution_method_info *info = qkv_attribution_method_info(method);
    const int64_t rows = report->maps->rows;
    struct qkv_attention_map *maps = qkv_arena_array(arena, report->map_count, sizeof *maps);
    double *total = qkv_arena_zeros(arena, rows, sizeof *total);
    if (arena->failed) return qkv_no_memory(error);
    memcpy(maps, report->maps, (size_t)report->map_count * sizeof *maps);
    for (int64_t m = 0; m < report->map_count; m++)
        for (int64_t i = 0; i < rows * maps[m].columns; i++)
            total[i / maps[m].columns] += fabs(maps[m].weights[i]);
    for (int64_t m = 0; m < report->map_count; m++) {
        double *shares = qkv_arena_zeros(arena, rows * maps[m].columns, sizeof *shares);
        for (int64_t i = 0; i < rows * maps[m].columns && shares; i++) {
            double sum = total[i / maps[m].columns];
            shares[i] = sum > 0 ? maps[m].weights[i] / sum : 0;
        }
        if (info->shape >= QKV_ATTRIBUTION_NATS) maps[m].nats = total;
        maps[m].weights = shares;
    }
    report->maps = maps;
    report->value_name = qkv_arena_format(arena, "share of the row, by %s", info->name);
    return arena->failed ? qkv_no_memory(error) : QKV_OK;
}
