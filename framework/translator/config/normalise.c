#include "config/normalise.h"

static void normalise_stack(struct qkv_stack_config *stack)
{
    bool recurrent = stack->type == QKV_NETWORK_RECURRENT;
    int64_t width =
        recurrent || stack->num_heads < 1 ? stack->hidden_size : stack->hidden_size / stack->num_heads;
    if (!stack->attention.key_width) stack->attention.key_width = width;
    if (!stack->attention.value_width && !recurrent) stack->attention.value_width = width;
    if (!stack->attention.rule.key_value_heads && !recurrent)
        stack->attention.rule.key_value_heads = stack->num_heads;
    if (stack->activation_dropout == QKV_SAME_AS_DROPOUT && !recurrent)
        stack->activation_dropout = stack->dropout;
    if (!stack->embeddings.embedding_dim) stack->embeddings.embedding_dim = stack->hidden_size;
}

void qkv_model_config_normalise(struct qkv_model_config *model)
{
    normalise_stack(&model->encoder);
    normalise_stack(&model->decoder);
}

bool qkv_config_normalise(struct qkv_config *config, struct qkv_arena *arena)
{
    qkv_model_config_normalise(&config->model);
    if (!config->training.model_dir || !*config->training.model_dir)
        config->training.model_dir = qkv_arena_format(arena, "runs/%s", config->name ? config->name : "");
    return config->training.model_dir;
}
