/* Fills the structs of the engine from a config. */
#include "config/config_keys.h"

struct qkv_attention_rule qkv_attention_rule_from_config(const struct qkv_model_config *model,
                                                         enum qkv_attention_kind kind)
{
    const struct qkv_stack_config *stack = kind == QKV_ATTENTION_ENCODER ? &model->encoder : &model->decoder;
    const struct qkv_attention_config *attention = &stack->attention;
    bool self = kind != QKV_ATTENTION_CROSS, windowed = self && attention->window,
         relative = self && stack->positions.type == QKV_POSITION_RELATIVE;
    return (struct qkv_attention_rule){
        .heads = stack->num_heads,
        .key_value_heads = attention->key_value_heads,
        .causal = kind == QKV_ATTENTION_DECODER,
        .window = windowed ? attention->window : 0,
        .global_tokens = windowed ? attention->global_tokens : 0,
        .alibi = self && stack->positions.type == QKV_POSITION_ALIBI,
        .buckets = relative ? stack->positions.buckets : 0,
        .max_distance = relative ? stack->positions.max_distance : 0,
        .soft_cap = attention->soft_cap,
        .dropout = attention->dropout,
        .kernel = attention->kernel,
    };
}

struct qkv_sides qkv_sides_of(const struct qkv_data_config *data, const struct qkv_model_config *model)
{
    const bool is_own = model && model->network && *model->network; /* the program's */
    struct qkv_sides sides = {.has_source = data->text == QKV_TEXT_PAIRS,
                              .runs_on = data->text == QKV_TEXT_RUNNING,
                              .attention = (1u << QKV_ATTENTION_KINDS) - 1};
    if (!model) return sides;
    const struct qkv_stack_config *decoder = &model->decoder;
    sides.has_encoder = decoder->type != QKV_NETWORK_DECODER_ONLY;
    if (!is_own && !sides.has_encoder && !sides.has_source) sides.attention = 1u << QKV_ATTENTION_DECODER;
    if (!is_own && decoder->type == QKV_NETWORK_RECURRENT)
        sides.attention =
            decoder->attention.score == QKV_ATTENTION_SCORE_NONE ? 0 : 1u << QKV_ATTENTION_CROSS;
    return sides;
}

int64_t qkv_max_length(const struct qkv_model_config *model, bool is_target)
{
    bool has_encoder = model->encoder.type != QKV_NETWORK_DECODER_ONLY;
    const struct qkv_stack_config *stack = is_target || !has_encoder ? &model->decoder : &model->encoder;
    enum qkv_position_kind kind = stack->positions.type;
    bool table =
        kind == QKV_POSITION_SINUSOIDAL || kind == QKV_POSITION_LEARNED || kind == QKV_POSITION_ROTARY;
    return stack->type != QKV_NETWORK_RECURRENT && table ? stack->positions.max_length : INT32_MAX;
}

struct qkv_optimizer_options qkv_optimizer_options_from_config(const struct qkv_training_config *training)
{
    return (struct qkv_optimizer_options){
        .optimizer = training->optimizer,
        .adam_betas = {training->adam_betas[0], training->adam_betas[1]},
        .adam_epsilon = training->adam_epsilon,
        .momentum = training->momentum,
        .nesterov = training->nesterov,
        .weight_decay = training->weight_decay,
        .clip_grad_norm = training->clip_grad_norm,
        .clip_grad_val = training->clip_grad_val,
        .ema = training->ema,
    };
}

struct qkv_schedule qkv_schedule_from_config(const struct qkv_training_config *training, int64_t hidden_size)
{
    return (struct qkv_schedule){
        .kind = training->scheduling,
        .learning_rate = training->learning_rate,
        .factor = training->learning_rate_factor,
        .minimum = training->learning_rate_min,
        .decrease_factor = training->decrease_factor,
        .warmup = training->learning_rate_warmup,
        .updates = training->updates,
        .patience = training->learning_rate_patience,
        .hidden_size = hidden_size,
    };
}
