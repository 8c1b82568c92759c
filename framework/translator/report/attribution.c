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

static const struct qkv_attribution_method_info METHODS[] = {
#define ATTRIBUTION_METHOD(id, name, value, help) {#name, value, help},
#include "qkv/attribution_methods.def"
#undef ATTRIBUTION_METHOD
};

const struct qkv_attribution_method_info *qkv_attribution_method_info(enum qkv_attribution_method method)
{
    return (unsigned)method < QKV_ATTRIBUTION_METHODS ? &METHODS[method] : NULL;
}

/* ---- gradients ---- */

/* Moves all embeddings of each copy to its point. */
static void interpolate(const struct attribution *a, const struct qkv_part *part)
{
    bool of_source = part->stack == QKV_STACK_ENCODER;
    for (int64_t i = 0; part->role == QKV_PART_EMBEDDING && i < a->copies; i++)
        qkv_copies_move(a, part, qkv_copies_first_row(a, of_source, i), of_source ? a->sources : a->steps,
                        a->point[i]);
}

/* Adds the gradient of a token's embedding, times the embedding (less that of <unk>, for integrated gradients), in each copy to
 * the row of a step in sums [copies, T, S + T]. */
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
        for (int64_t i = 0; i < a->copies * tokens; i++) {
            int64_t row = qkv_copies_first_row(a, of_source, i / tokens) + i % tokens;
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

/* Passes the copies at their points: gradients times embeddings, [copies, T, S + T], by a backward pass for each step, and
 * log-probabilities [copies, T]. */
static enum qkv_status differentiate(struct attribution *a, double *sums, double *log_probabilities)
{
    const struct qkv_model *model = a->collector->model;
    struct qkv_graph *graph = a->collector->graph;
    struct qkv_tensor **loss = qkv_arena_array(a->arena, a->steps, sizeof *loss);
    int32_t *rows = qkv_arena_array(a->arena, a->steps * a->copies, sizeof *rows),
            *labels = qkv_arena_array(a->arena, a->steps * a->copies, sizeof *labels);
    if (!loss || !rows || !labels) return qkv_no_memory(a->error);
    if (qkv_copies_pass(a)) return QKV_INVALID;
    struct qkv_tensor *output = qkv_graph_parameter(graph, model->output_weight),
                      *bias = qkv_graph_parameter(graph, model->output_bias);
    for (int64_t i = 0; i < a->steps * a->copies; i++) {
        rows[i] = (int32_t)(qkv_copies_first_row(a, false, i % a->copies) + i / a->copies);
        labels[i] = a->labels[i / a->copies];
    }
    for (int64_t t = 0; t < a->steps; t++)
        loss[t] = qkv_linear_cross_entropy(
            graph, qkv_gather_rows(graph, a->collector->hidden, rows + t * a->copies, a->copies), output,
            bias, model->output_tied, labels + t * a->copies, 0, -1);
    qkv_graph_set_gradients(graph, false);
    enum qkv_status status = qkv_copies_read(a, log_probabilities, NULL);
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
    int64_t next;            /* the place in the list of the point after it; 0: there is none */
    const double *gradients; /* [T, S + T]: times the embedding less that of <unk> */
    const double *value;     /* [T]: the log-probabilities */
};

/* Computes points, whose `at` is set. */
static enum qkv_status pass_points(struct attribution *a, struct point *points, int64_t count)
{
    const int64_t cells = a->steps * a->columns;
    for (int64_t done = 0; done < count; done += a->copies) {
        a->copies = qkv_copies_at_once(a, count - done, 8192);
        double *gradients = qkv_arena_zeros(a->arena, a->copies * cells, sizeof *gradients),
               *values = qkv_arena_array(a->arena, a->copies * a->steps, sizeof *values),
               *at = qkv_arena_array(a->arena, a->copies, sizeof *at);
        if (!gradients || !values || !at) return qkv_no_memory(a->error);
        for (int64_t i = 0; i < a->copies; i++) {
            at[i] = points[done + i].at;
            points[done + i].gradients = gradients + i * cells;
            points[done + i].value = values + i * a->steps;
        }
        a->point = at;
        if (differentiate(a, gradients, values)) return QKV_INVALID;
    }
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

static enum qkv_status gradient(struct attribution *a)
{
    static const double END = 1;
    double *values = qkv_arena_array(a->arena, a->steps, sizeof *values);
    a->copies = 1;
    a->point = &END;
    return values ? differentiate(a, a->result, values) : qkv_no_memory(a->error);
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
    a->change = interpolate;
    enum qkv_status status = run(a);
    for (int64_t i = 0; i < parameters->count; i++) parameters->list[i]->rate = rates[i];
    qkv_graph_reset(graph);
    qkv_graph_set_gradients(graph, false);
    qkv_graph_bind(graph, parameters, NULL, false);
    return status;
}

/* ---- value zeroing ---- */

/* Sets the value of one token to 0 in each copy but the first. */
static void zero_value(const struct attribution *a, const struct qkv_part *part)
{
    bool of_source = a->zeroed.attention != QKV_ATTENTION_DECODER;
    if (part->role != QKV_PART_VALUE || part->attention != a->zeroed.attention ||
        part->layer != a->zeroed.layer)
        return;
    const enum qkv_dtype dtype = a->collector->model->parameters.dtype;
    int64_t width = qkv_tensor_shape(part->node).size[1];
    for (int64_t i = 1; i < a->copies; i++) {
        int64_t row = qkv_copies_first_row(a, of_source, i) + a->first + i - 1;
        for (int64_t d = row * width; d < (row + 1) * width; d++)
            qkv_dtype_set(dtype, qkv_tensor_value(part->node), d, 0);
    }
}

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

/* The cosine distances of the outputs of a layer, with and without the value of each key: [rows, keys]. NULL with a message. */
static double *zero_values(struct attribution *a, enum qkv_attention_kind kind, int64_t layer)
{
    bool is_encoder = kind == QKV_ATTENTION_ENCODER;
    const enum qkv_stack_id stack = is_encoder ? QKV_STACK_ENCODER : QKV_STACK_DECODER;
    int64_t rows = is_encoder ? a->sources : a->steps,
            keys = kind == QKV_ATTENTION_DECODER ? a->steps : a->sources;
    double *distance = qkv_arena_zeros(a->arena, rows * keys, sizeof *distance);
    a->change = zero_value;
    a->zeroed = (struct qkv_part){.attention = kind, .layer = layer};
    for (a->first = 0; a->first < keys && distance; a->first += a->copies - 1) {
        a->copies = qkv_copies_at_once(a, keys - a->first, 8192) + 1;
        if (qkv_copies_pass(a)) return NULL;
        const struct qkv_part *part = qkv_copies_state(a, stack, layer);
        for (int64_t i = 0; part && i < rows * (a->copies - 1); i++) {
            int64_t row = i % rows, copy = 1 + i / rows, key = a->first + copy - 1;
            if (kind == QKV_ATTENTION_DECODER && key > row) continue;
            distance[row * keys + key] = cosine_distance(a->collector->model->parameters.dtype, part->node,
                                                         qkv_copies_first_row(a, is_encoder, 0) + row,
                                                         qkv_copies_first_row(a, is_encoder, copy) + row);
        }
    }
    if (!distance) qkv_no_memory(a->error);
    return distance;
}

/* ---- rollout, flow and value zeroing: from layer to layer ---- */

/* The map of a kind and layer that the layers are multiplied from; NULL with a message, or, without an error, if the layer has
 * no such attention. */
static double *layer_map(struct attribution *a, const struct qkv_attention_report *means,
                         enum qkv_attention_kind kind, int64_t layer, bool *failed)
{
    if (a->options->method == QKV_ATTRIBUTION_ZEROING) {
        if (!qkv_model_attention(a->collector->model, kind, layer).residual) return NULL;
        double *distance = zero_values(a, kind, layer);
        *failed |= !distance;
        return distance;
    }
    for (int64_t i = 0; i < means->map_count; i++)
        if (means->maps[i].kind == kind && means->maps[i].layer == layer)
            return (double *)means->maps[i].weights;
    return NULL;
}

/* Divides each row of the matrices of a step, together, by its sum. */
static void normalize_rows(const struct mixing *step, int64_t rows, const int64_t columns[2])
{
    double *part[] = {(double *)step->own, (double *)step->other};
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int p = 0; p < 2; p++)
            if (part[p]) sum += qkv_row_total(part[p] + r * columns[p], columns[p]);
        for (int p = 0; p < 2; p++)
            for (int64_t c = 0; c < columns[p] && part[p] && sum > 0; c++) part[p][r * columns[p] + c] /= sum;
        if (!(sum > 0) && step->own) part[0][r * columns[0] + r] = 1;
    }
}

/* Adds the steps of a layer to `step`; returns how many. Of rollout and flow, the residual connection keeps half of a row. The
 * distances of value zeroing are of outputs of a layer, in which residual connections have had their part. */
static int add_layer(struct attribution *a, const struct qkv_attention_report *means, bool of_source,
                     int64_t layer, struct mixing *step, bool *failed)
{
    bool zeroing = a->options->method == QKV_ATTRIBUTION_ZEROING, joint = qkv_has_prefix(a->collector->model);
    struct mixing both = {
        .of_source = of_source,
        .keep = zeroing ? 0 : 0.5,
        .own = layer_map(a, means, of_source ? QKV_ATTENTION_ENCODER : QKV_ATTENTION_DECODER, layer, failed),
        .other = of_source ? NULL : layer_map(a, means, QKV_ATTENTION_CROSS, layer, failed)};
    if (*failed || (!both.own && !both.other)) return 0;
    if (zeroing)
        normalize_rows(&both, of_source ? a->sources : a->steps,
                       (int64_t[]){of_source ? a->sources : a->steps, a->sources});
    step[0] = step[1] = both;
    if (zeroing || joint || !both.other) return 1; /* one attention, or one output, of both */
    step[0].other = NULL;
    step[1].own = NULL;
    return 2;
}

static enum qkv_status mix(struct attribution *a)
{
    const struct qkv_model *model = a->collector->model;
    struct qkv_attention_report means = {0};
    const struct qkv_multi_head *self = qkv_model_attention(model, QKV_ATTENTION_DECODER, 1).multi_head;
    bool has_prefix = qkv_has_prefix(model), failed = false;
    if (!self)
        return qkv_error_set(a->error,
                             "%s follows attention through the layers of a transformer, but the network %s "
                             "has none: choose another method",
                             METHODS[a->options->method].name, model->interface->name);
    if (a->options->method != QKV_ATTRIBUTION_ZEROING &&
        qkv_attention_select(a->report, 0, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN, a->arena, &means,
                             a->error))
        return QKV_INVALID;
    int64_t layers[] = {model->config.decoder.num_layers, !a->sources  ? 0
                                                          : has_prefix ? model->config.decoder.num_layers
                                                                       : model->config.encoder.num_layers};
    struct mixing *step = qkv_arena_array(a->arena, 2 * layers[0] + layers[1] + 2, sizeof *step);
    if (!step) return qkv_no_memory(a->error);
    int64_t count = 0;
    for (int64_t l = 1; !has_prefix && l <= layers[1]; l++)
        count += add_layer(a, &means, true, l, step + count, &failed);
    for (int64_t l = 1; l <= layers[0]; l++) {
        count += add_layer(a, &means, false, l, step + count, &failed);
        if (has_prefix) count += add_layer(a, &means, true, l, step + count, &failed);
    }
    if (failed) return QKV_INVALID;
    const struct mixings mixings = {a->sources, a->steps, count, step};
    bool is_flow = a->options->method == QKV_ATTRIBUTION_FLOW;
    return (is_flow ? qkv_flow : qkv_rollout)(&mixings, a->result) ? QKV_OK : qkv_no_memory(a->error);
}

/* ---- maps ---- */

/* The weights of attention, or their norms: the maps of each kind that the model has. */
static enum qkv_status select_weights(struct attribution *a)
{
    const unsigned kinds = 1u << QKV_ATTENTION_CROSS | 1u << QKV_ATTENTION_DECODER;
    struct qkv_attention_report all;
    const struct value_norms *before = a->collector->norms;
    enum qkv_status status = QKV_OK;
    bool norms = a->options->method == QKV_ATTRIBUTION_NORMS;
    if (norms && !before) status = qkv_attention_collector_measure_norms(a->collector, a->error);
    if (!norms) a->collector->norms = NULL;
    if (!status) status = qkv_attention_collect(a->collector, 1, a->pair, kinds, &all, a->error);
    a->collector->norms = before;
    if (status) return status;
    unsigned found = 0;
    for (int64_t i = 0; i < all.map_count; i++) found |= 1u << all.maps[i].kind;
    if (qkv_attention_select(&all, found, a->options->layer, a->options->head, a->arena, a->report, a->error))
        return QKV_INVALID;
    return norms ? qkv_attention_normalize(a->report, a->arena, a->report, a->error) : QKV_OK;
}

/* Splits the result into a map of the source tokens and one of those that the decoder reads. */
static enum qkv_status make_maps(struct attribution *a)
{
    static const struct qkv_attention_rule CAUSAL = {.heads = 1, .causal = true};
    struct qkv_attention_map *maps = qkv_arena_zeros(a->arena, 2, sizeof *maps);
    const int64_t widths[] = {a->steps, a->sources};
    a->report->maps = maps;
    a->report->map_count = 0;
    for (int side = 1; side >= 0 && maps; side--) {
        const int64_t width = widths[side], cells = a->steps * width;
        if (!width) continue;
        double *weights = qkv_arena_array(a->arena, cells, sizeof *weights);
        for (int64_t i = 0; i < cells && weights; i++) {
            int64_t t = i / width, c = i % width;
            weights[i] = side     ? a->result[t * a->columns + c]
                         : c <= t ? a->result[t * a->columns + a->sources + c]
                                  : 0;
        }
        maps[a->report->map_count++] = (struct qkv_attention_map){
            .kind = side ? QKV_ATTENTION_CROSS : QKV_ATTENTION_DECODER,
            .rows = a->steps,
            .columns = width,
            .weights = weights,
            .name = qkv_arena_format(a->arena, "%s.%s", METHODS[a->options->method].name,
                                     side ? "source" : "target"),
            .label =
                side ? "contributions of the source" : "contributions of the words before, to the next one",
            .rule = side ? NULL : &CAUSAL};
    }
    return a->arena->failed ? qkv_no_memory(a->error) : QKV_OK;
}

enum qkv_status qkv_attribute(struct qkv_attention_collector *collector,
                              const struct qkv_attention_pair *pair,
                              const struct qkv_attribution_options *options,
                              struct qkv_attention_report *report, struct qkv_error *error)
{
    struct attribution a = {
        .collector = collector,
        .pair = pair,
        .options = options,
        .report = report,
        .arena = &collector->arena,
        .error = error,
    };
    const enum qkv_attribution_method method = options->method;
    if ((unsigned)method >= QKV_ATTRIBUTION_METHODS)
        return qkv_error_set(error, "there is no attribution method %d", (int)method);
    bool is_weights = method == QKV_ATTRIBUTION_ATTENTION || method == QKV_ATTRIBUTION_NORMS,
         mixes = method == QKV_ATTRIBUTION_ROLLOUT || method == QKV_ATTRIBUTION_FLOW ||
                 method == QKV_ATTRIBUTION_ZEROING;
    enum qkv_status status =
        is_weights ? select_weights(&a) : qkv_copies_begin(&a, mixes ? 0 : 1u << QKV_ATTENTION_CROSS);
    if (status) return status;
    report->value_name = METHODS[method].value;
    if (is_weights) return QKV_OK;
    a.result = qkv_arena_zeros(a.arena, a.steps * a.columns, sizeof *a.result);
    if (!a.result) return qkv_no_memory(error);
    if (!mixes && !qkv_model_inputs(collector->model, QKV_STACK_DECODER).embedding)
        return qkv_error_set(error, "network %s: its function inputs gives no embeddings, which %s needs",
                             collector->model->interface->name, METHODS[method].name);
    if (!mixes && qkv_copies_predict(&a)) return QKV_INVALID;
    if (mixes ? mix(&a)
        : method == QKV_ATTRIBUTION_ERASURE
            ? qkv_copies_erase(&a)
            : with_gradients(&a, method == QKV_ATTRIBUTION_GRADIENT ? gradient : integrate))
        return QKV_INVALID;
    return make_maps(&a);
}

enum qkv_status qkv_attribution_shares(struct qkv_attention_report *report,
                                       enum qkv_attribution_method method, struct qkv_arena *arena,
                                       struct qkv_error *error)
{
    const bool nats = method == QKV_ATTRIBUTION_GRADIENT || method == QKV_ATTRIBUTION_INTEGRATED ||
                      method == QKV_ATTRIBUTION_ERASURE;
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
        if (nats) maps[m].nats = total;
        maps[m].weights = shares;
    }
    report->maps = maps;
    report->value_name = qkv_arena_format(arena, "share of the row, by %s", METHODS[method].name);
    return arena->failed ? qkv_no_memory(error) : QKV_OK;
}
