/* Fills the engine's structs from a config. */
#include "qkv/config.h"

struct qkv_attention_rule qkv_attention_rule_from_config(const struct qkv_model_config *model,
                                                         enum qkv_attention_kind kind)
{
    const struct qkv_stack_config *stack = kind == QKV_ATTENTION_ENCODER ? &model->encoder : &model->decoder;
    struct qkv_attention_rule rule = stack->attention.rule;
    bool self = kind != QKV_ATTENTION_CROSS;
    rule.heads = stack->num_heads;
    rule.causal = kind == QKV_ATTENTION_DECODER;
    if (!self || rule.window == QKV_WINDOW_NONE) rule.window = rule.global_tokens = 0;
    rule.alibi = self && stack->positions.type == QKV_POSITION_ALIBI;
    if (self && stack->positions.type == QKV_POSITION_RELATIVE) {
        rule.buckets = stack->positions.buckets;
        rule.max_distance = stack->positions.max_distance;
    }
    return rule;
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
