/* The attention of recurrent decoders, with one head. */
#include "core/memory.h"
#include "layers/layer.h"

#include "graph/graph.h"

void qkv_single_head_attention_init(struct qkv_single_head_attention *layer,
                                    struct qkv_parameters *parameters,
                                    const struct qkv_single_head_attention_options *options, const char *name)
{
    enum qkv_attention_score score = options->score;
    struct qkv_initial initial = options->initial;
    int64_t query = options->query_width, memory = options->memory_width, key = options->key_width;
    const struct qkv_dense_options query_to_key = {.inputs = query, .outputs = key, .initial = initial},
                                   memory_to_key = {.inputs = memory, .outputs = key, .initial = initial},
                                   memory_to_query = {.inputs = memory, .outputs = query, .initial = initial};
    qkv_require_choice(parameters, name, "score", &qkv_attention_score_names, (int)score);
    if (score == QKV_ATTENTION_SCORE_NONE)
        qkv_parameters_refuse(parameters, "%s: attention needs a score, but has none", name);
    *layer = (struct qkv_single_head_attention){
        .name = qkv_arena_string(&parameters->arena, name),
        .score = score,
        .query_width = query,
        .memory_width = memory,
        .local_window = options->local_window,
        .dropout = options->dropout,
        .is_ablated = qkv_arena_zeroed(&parameters->arena, sizeof(bool)),
    };
    if (score == QKV_ATTENTION_SCORE_SCALED_DOT || score == QKV_ATTENTION_SCORE_ADDITIVE) {
        qkv_dense_init_part(&layer->query, parameters, &query_to_key, name, "query");
        qkv_dense_init_part(&layer->key, parameters, &memory_to_key, name, "key");
    }
    if (score == QKV_ATTENTION_SCORE_GENERAL || score == QKV_ATTENTION_SCORE_LOCAL_P)
        qkv_dense_init_part(&layer->key, parameters, &memory_to_query, name, "key");
    /* INT64_MAX if the sum is larger. Declaring a parameter with a size that no tensor can have fails. */
    int64_t joint = query < 1                    ? query
                    : memory < 1                 ? memory
                    : query > INT64_MAX - memory ? INT64_MAX
                                                 : query + memory;
    if (score == QKV_ATTENTION_SCORE_CONCAT)
        layer->joint = qkv_parameters_add(parameters, QKV_SHAPE(joint, key),
                                          qkv_initial_scaled(initial, joint), "%s.joint.weight", name);
    if (score == QKV_ATTENTION_SCORE_CONCAT || score == QKV_ATTENTION_SCORE_ADDITIVE)
        layer->vector = qkv_parameters_add(parameters, QKV_SHAPE(key), qkv_initial_scaled(initial, key),
                                           "%s.vector", name);
    if (score == QKV_ATTENTION_SCORE_LOCAL_P) {
        const struct qkv_dense_options place = {query, key, .activation = QKV_ACTIVATION_TANH,
                                                .initial = initial},
                                       place_vector = {key, 1, .activation = QKV_ACTIVATION_SIGMOID,
                                                       .initial = initial};
        qkv_dense_init_part(&layer->place, parameters, &place, name, "place");
        qkv_dense_init_part(&layer->place_vector, parameters, &place_vector, name, "place_vector");
    }
}

/* One of the two terms of the score concat: for a query q and a row k of the memory, W [q; k] = W_q q + W_k k,
 * where W_q is the first rows of W and W_k the others. Returns x times the `width` rows from row `first` on. */
static struct qkv_tensor *joint_part(const struct qkv_single_head_attention *layer, struct qkv_graph *graph,
                                     struct qkv_tensor *x, int64_t first, int64_t width)
{
    struct qkv_tensor *rows = qkv_slice(graph, qkv_graph_parameter(graph, layer->joint), 0, first, width);
    return qkv_linear(graph, x, rows, NULL, false);
}

struct qkv_tensor *qkv_single_head_attention_keys(const struct qkv_single_head_attention *layer,
                                                  struct qkv_graph *graph, struct qkv_tensor *memory)
{
    if (layer->score == QKV_ATTENTION_SCORE_DOT) return memory;
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *key = layer->score == QKV_ATTENTION_SCORE_CONCAT
                                 ? joint_part(layer, graph, memory, layer->query_width, layer->memory_width)
                                 : qkv_dense_apply(&layer->key, graph, memory);
    qkv_graph_scope(graph, outer_scope);
    return key;
}

static struct qkv_tensor *scores_of(const struct qkv_single_head_attention *layer, struct qkv_graph *graph,
                                    struct qkv_tensor *x, struct qkv_tensor *key,
                                    struct qkv_attention attention)
{
    switch (layer->score) {
    case QKV_ATTENTION_SCORE_SCALED_DOT:
        attention.rule.scale = 0; /* 1 / sqrt(K) */
        return qkv_attention_scores(graph, qkv_dense_apply(&layer->query, graph, x), key, attention);
    case QKV_ATTENTION_SCORE_ADDITIVE:
        return qkv_attention_additive(graph, qkv_dense_apply(&layer->query, graph, x), key,
                                      qkv_graph_parameter(graph, layer->vector), attention);
    case QKV_ATTENTION_SCORE_CONCAT:
        return qkv_attention_additive(graph, joint_part(layer, graph, x, 0, layer->query_width), key,
                                      qkv_graph_parameter(graph, layer->vector), attention);
    case QKV_ATTENTION_SCORE_NONE:
    case QKV_ATTENTION_SCORE_DOT:
    case QKV_ATTENTION_SCORE_GENERAL:
    case QKV_ATTENTION_SCORE_LOCAL_P:
        break;
    }
    return qkv_attention_scores(graph, x, key, attention);
}

struct qkv_tensor *qkv_single_head_attention_apply(const struct qkv_single_head_attention *layer,
                                                   struct qkv_graph *graph, struct qkv_tensor *key,
                                                   const struct qkv_attention_inputs *inputs,
                                                   struct qkv_tensor **node)
{
    const struct qkv_attention attention = {
        .rule = {.heads = 1, .scale = 1}, .queries = inputs->queries, .keys = inputs->keys};
    const char *outer_scope = qkv_graph_scope(graph, layer->name);
    struct qkv_tensor *scores = scores_of(layer, graph, inputs->x, key, attention), *weights; /* [P] */
    if (layer->score == QKV_ATTENTION_SCORE_LOCAL_P) {
        if (inputs->mask) qkv_graph_fail(graph, "%s: the score local_p takes no mask", layer->name);
        struct qkv_tensor *center = qkv_dense_apply(
            &layer->place_vector, graph, qkv_dense_apply(&layer->place, graph, inputs->x)); /* [Nq, 1] */
        weights = qkv_attention_local(graph, scores, center, attention, layer->local_window);
    } else {
        weights = qkv_attention_weights(graph, scores, inputs->mask, attention);
    }
    if (node) *node = weights;
    struct qkv_tensor *context = qkv_attention_mix(graph, qkv_dropout_apply(graph, weights, layer->dropout),
                                                   inputs->memory, attention);
    context = qkv_ablation_apply(layer->is_ablated, 1, graph, context);
    qkv_graph_scope(graph, outer_scope);
    return context;
}
