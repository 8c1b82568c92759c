#include "own_network.h"

struct network {
    struct qkv_embedding source, target;
    struct qkv_positions positions;
    struct qkv_multi_head before, cross;
    struct qkv_dense join;
    double gain;
};

static void *declare(struct qkv_model *model, struct qkv_error *refusal)
{
    struct qkv_parameters *parameters = &model->parameters;
    const int64_t width = model->config.decoder.hidden_size;
    if (width % 2) {
        qkv_error_set(refusal, "a width of %lld is odd", (long long)width);
        return NULL;
    }
    struct network *network = qkv_arena_zeroed(&parameters->arena, sizeof *network);
    if (!network) return NULL;
    const struct qkv_initial xavier = {QKV_INITIALIZER_XAVIER_UNIFORM, 1};
    const struct qkv_embedding_options source = {model->source_size, width, true, xavier},
                                       target = {model->target_size, width, true, xavier};
    const struct qkv_positions_options positions = {
        QKV_POSITION_SINUSOIDAL, model->config.encoder.positions.max_length, width, 10000, xavier};
    struct qkv_multi_head_options attention = {.rule = {.heads = 1},
                                               .width = width,
                                               .key_width = width,
                                               .value_width = width,
                                               .initial = xavier,
                                               .output_initial = xavier};
    qkv_embedding_init(&network->source, parameters, &source, "source");
    qkv_embedding_init(&network->target, parameters, &target, "target");
    qkv_positions_init(&network->positions, parameters, &positions, "positions");
    qkv_multi_head_init(&network->cross, parameters, &attention, "cross");
    attention.rule.causal = true;
    qkv_multi_head_init(&network->before, parameters, &attention, "before");
    const struct qkv_dense_options join = {2 * width, width, true, QKV_ACTIVATION_TANH, xavier};
    qkv_dense_init(&network->join, parameters, &join, "join");
    network->gain = qkv_model_setting(model, "gain");
    return network;
}

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct network *network = model->network;
    const struct qkv_segments source = {batch->count, batch->source_start, batch->source_length},
                              target = {batch->count, batch->target_start, batch->target_length};
    const struct qkv_part
        cross = {.stack = QKV_STACK_DECODER, .attention = QKV_ATTENTION_CROSS, .layer = 1, .heads = 1},
        before = {.stack = QKV_STACK_DECODER, .attention = QKV_ATTENTION_DECODER, .layer = 1, .heads = 1};
    struct qkv_tensor *weights;
    struct qkv_tensor *memory = qkv_positions_apply(
        &network->positions, graph,
        qkv_embedding_apply(&network->source, graph, batch->source, batch->source_tokens), source, NULL);
    struct qkv_tensor *x = qkv_positions_apply(
        &network->positions, graph,
        qkv_embedding_apply(&network->target, graph, batch->target_input, batch->target_tokens), target,
        NULL);
    x = qkv_dropout(graph, x, model->config.decoder.dropout);
    const struct qkv_attention_inputs itself = {x, x, .queries = target, .keys = target};
    struct qkv_tensor *past = qkv_multi_head_apply(&network->before, graph, &itself, &weights);
    qkv_trace_record(trace, graph, &before, QKV_PART_WEIGHTS, weights);
    x = qkv_add(graph, x, past);
    const struct qkv_attention_inputs inputs = {x, memory, .queries = target, .keys = source};
    struct qkv_tensor *context = qkv_multi_head_apply(&network->cross, graph, &inputs, &weights);
    qkv_trace_record(trace, graph, &cross, QKV_PART_WEIGHTS, weights);
    x = qkv_dense_apply(&network->join, graph, qkv_concat(graph, x, context, 1));
    return qkv_scale(graph, x, network->gain);
}

static struct qkv_attention_layers attention(const struct qkv_model *model, enum qkv_attention_kind kind,
                                             int64_t layer)
{
    const struct network *network = model->network;
    if (layer != 1 || kind == QKV_ATTENTION_ENCODER) return (struct qkv_attention_layers){0};
    return (struct qkv_attention_layers){.multi_head = kind == QKV_ATTENTION_CROSS ? &network->cross
                                                                                   : &network->before};
}

static struct qkv_input_layers inputs(const struct qkv_model *model, enum qkv_stack_id stack)
{
    const struct network *network = model->network;
    return (struct qkv_input_layers){stack == QKV_STACK_ENCODER ? &network->source : &network->target,
                                     &network->positions};
}

struct qkv_network_interface own_network(const char *name)
{
    static const struct qkv_network_setting settings[] = {{"gain", 1, 0.5, 2, false}};
    return (struct qkv_network_interface){
        .name = name,
        .settings = settings,
        .setting_count = 1,
        .declare = declare,
        .forward = forward,
        .attention = attention,
        .inputs = inputs,
    };
}

void own_network_register(void)
{
    static struct qkv_network_interface network;
    if (network.name) return;
    network = own_network("own");
    expect_done(qkv_network_register(&network, &error));
}
