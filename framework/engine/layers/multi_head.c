/* Multi-head attention, and ablating heads. */
#include "core/memory.h"
#include "graph/attention_rule.h"
#include "graph/graph.h"
#include "layers/layer.h"

/* Whether heads of these options are possible; else the parameters fail. */
static bool check_heads(struct qkv_parameters *parameters, const struct qkv_multi_head_options *options,
                        const char *name)
{
    const struct qkv_attention_rule *rule = &options->rule;
    int64_t widest = options->key_width > options->value_width ? options->key_width : options->value_width;
    struct qkv_error error;
    if (qkv_attention_rule_check(rule, &error))
        qkv_parameters_refuse(parameters, "%s: %s", name, error.message);
    else if (qkv_side_by_side(rule->heads, widest) > QKV_MAX_ELEMENTS)
        qkv_parameters_refuse(
            parameters, "%s: %lld heads of %lld columns are too many: a tensor has at most 2^40 elements",
            name, (long long)rule->heads, (long long)widest);
    else
        return true;
    return false;
}

void qkv_multi_head_init(struct qkv_multi_head *layer, struct qkv_parameters *parameters,
                         const struct qkv_multi_head_options *options, const char *name)
{
    int64_t heads = options->rule.heads, key_value_heads = qkv_attention_key_value_heads(&options->rule);
    *layer = (struct qkv_multi_head){
        .name = qkv_arena_string(&parameters->arena, name),
        .rule = options->rule,
        .positions = options->positions,
        .sink = options->sink,
    };
    qkv_require_choice(parameters, name, "sink", &qkv_attention_sink_names, (int)options->sink);
    if (!check_heads(parameters, options, name)) return;
    struct {
        struct qkv_dense *dense;
        const char *name;
        int64_t inputs, outputs;
        struct qkv_initial initial;
    } const parts[] = {
        {&layer->query, "query", options->width, qkv_side_by_side(heads, options->key_width),
         options->initial},
        {&layer->key, "key", options->width, qkv_side_by_side(key_value_heads, options->key_width),
         options->initial},
        {&layer->value, "value", options->width, qkv_side_by_side(key_value_heads, options->value_width),
         options->initial},
        {&layer->output, "output", qkv_side_by_side(heads, options->value_width), options->width,
         options->output_initial},
        {&layer->gate, "gate", options->width, qkv_side_by_side(heads, options->value_width),
         options->initial},
    };
    for (int i = 0; i < (options->output_gate ? 5 : 4); i++) {
        const struct qkv_dense_options dense = {parts[i].inputs, parts[i].outputs, options->bias,
                                                i < 4 ? QKV_ACTIVATION_NONE : QKV_ACTIVATION_SIGMOID,
                                                parts[i].initial};
        qkv_dense_init_part(parts[i].dense, parameters, &dense, name, parts[i].name);
    }
    const struct qkv_norm_options norm = {QKV_NORM_RMS, options->key_width, options->norm_epsilon};
    for (int i = 0; options->qk_norm && i < 2; i++) {
        const char *norm_name = QKV_ARENA_NAME(&parameters->arena, i ? "%s.key_norm" : "%s.query_norm", name);
        qkv_norm_init(i ? &layer->key_norm : &layer->query_norm, parameters, &norm, norm_name);
    }
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 0};
    if (options->sink == QKV_ATTENTION_SINK_LEARNED)
        layer->sink_score = qkv_parameters_add(parameters, QKV_SHAPE(heads), zeros, "%s.sink", name);
    layer->is_ablated = qkv_arena_zeros(&parameters->arena, heads, sizeof(bool));
}

/* Projects x to queries or keys [N, heads K], with the norm of each head and the rotation of each position. */
static struct qkv_tensor *project(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                  const struct qkv_dense *dense, const struct qkv_norm *norm,
                                  struct qkv_tensor *x, struct qkv_segments segments, const int64_t *first)
{
    struct qkv_tensor *y = qkv_dense_apply(dense, graph, x);
    if (norm->gain && y) {
        const struct qkv_shape shape = qkv_tensor_shape(y);
        int64_t width = norm->gain->shape.size[0];
        y = qkv_reshape(graph, y, QKV_SHAPE(shape.size[0] * shape.size[1] / width, width));
        y = qkv_reshape(graph, qkv_norm_apply(norm, graph, y), shape);
    }
    return qkv_positions_rotate(layer->positions, graph, y, segments, first);
}

struct qkv_tensor *qkv_multi_head_query(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                        struct qkv_tensor *x, struct qkv_segments segments,
                                        const int64_t *first)
{
    return project(layer, graph, &layer->query, &layer->query_norm, x, segments, first);
}

struct qkv_tensor *qkv_multi_head_key(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                      struct qkv_tensor *memory, struct qkv_segments segments,
                                      const int64_t *first)
{
    return project(layer, graph, &layer->key, &layer->key_norm, memory, segments, first);
}

struct qkv_tensor *qkv_multi_head_value(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                        struct qkv_tensor *memory)
{
    return qkv_dense_apply(&layer->value, graph, memory);
}

struct qkv_tensor *qkv_multi_head_gate(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *x)
{
    return layer->gate.weight ? qkv_dense_apply(&layer->gate, graph, x) : NULL;
}

struct qkv_tensor *qkv_multi_head_context(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                          const struct qkv_attention_projections *projections,
                                          struct qkv_tensor **node)
{
    bool has_bias = layer->rule.buckets && layer->positions;
    const struct qkv_attention attention = {
        .rule = layer->rule,
        .bias = has_bias ? qkv_graph_parameter(graph, layer->positions->table) : NULL,
        .queries = projections->queries,
        .keys = projections->keys,
        .sink = layer->sink == QKV_ATTENTION_SINK_ZERO ? qkv_constant(graph, QKV_SHAPE(layer->rule.heads))
                                                       : qkv_graph_parameter(graph, layer->sink_score),
    };
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *context =
        qkv_attention(graph, projections->query, projections->key, projections->value, projections->mask,
                      attention); /* [Nq, H V] */
    if (node) *node = context;
    if (layer->gate.weight) context = qkv_multiply(graph, context, projections->gate);
    context = qkv_ablation_apply(layer->is_ablated, layer->rule.heads, graph, context);
    qkv_graph_scope(graph, outer_scope);
    return context;
}

struct qkv_tensor *qkv_multi_head_attend(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                         const struct qkv_attention_projections *projections,
                                         struct qkv_tensor **node)
{
    return qkv_dense_apply(&layer->output, graph, qkv_multi_head_context(layer, graph, projections, node));
}

struct qkv_tensor *qkv_multi_head_apply(const struct qkv_multi_head *layer, struct qkv_graph *graph,
                                        const struct qkv_attention_inputs *inputs, struct qkv_tensor **node)
{
    struct qkv_attention_projections projections = {
        .mask = inputs->mask, .queries = inputs->queries, .keys = inputs->keys};
    projections.query = qkv_multi_head_query(layer, graph, inputs->x, inputs->queries, NULL);
    projections.key = qkv_multi_head_key(layer, graph, inputs->memory, inputs->keys, NULL);
    projections.value = qkv_multi_head_value(layer, graph, inputs->memory);
    projections.gate = qkv_multi_head_gate(layer, graph, inputs->x);
    return qkv_multi_head_attend(layer, graph, &projections, node);
}

/* Ablating heads of attention: their context becomes 0. */

bool qkv_ablation_any(const bool *is_ablated, int64_t heads)
{
    for (int64_t head = 0; is_ablated && head < heads; head++)
        if (is_ablated[head]) return true;
    return false;
}

struct qkv_tensor *qkv_ablation_apply(const bool *is_ablated, int64_t heads, struct qkv_graph *graph,
                                      struct qkv_tensor *context)
{
    if (!context || !qkv_ablation_any(is_ablated, heads)) return context;
    int64_t columns = qkv_tensor_shape(context).size[1];
    double *factors = qkv_graph_memory(graph, (size_t)columns * sizeof *factors);
    struct qkv_tensor *row = qkv_constant(graph, QKV_SHAPE(columns)); /* 0 for ablated heads, else 1 */
    if (!factors || !row) return NULL;
    for (int64_t i = 0; i < columns; i++) factors[i] = is_ablated[i / (columns / heads)] ? 0 : 1;
    qkv_tensor_write(row, factors);
    return qkv_multiply_row(graph, context, row);
}
