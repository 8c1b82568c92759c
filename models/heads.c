/* The heads of a model, and which of them are silent. */
#include "qkv/layers.h"
#include "qkv/model.h"

/* The heads of one attention layer; is_silent is [count]. All zero: there is no such layer. */
struct layer_heads {
    int64_t count;
    bool *is_silent;
};

static struct layer_heads heads_of_layer(const struct qkv_model *model, enum qkv_attention_kind kind,
                                         int64_t layer)
{
    const struct qkv_attention_layers layers = qkv_model_attention(model, kind, layer);
    if (layers.multi_head)
        return (struct layer_heads){layers.multi_head->rule.heads, layers.multi_head->is_silent};
    if (layers.single_head) return (struct layer_heads){1, layers.single_head->is_silent};
    return (struct layer_heads){0};
}

/* Pointer to the flag that silences the head; NULL: there is no such head. */
static bool *find(const struct qkv_model *model, struct qkv_head head)
{
    struct layer_heads heads = heads_of_layer(model, head.attention, head.layer);
    return head.head >= 1 && head.head <= heads.count ? &heads.is_silent[head.head - 1] : NULL;
}

/* Returns head `index`. If there is no such head, sets *count to the number of heads. */
static struct qkv_head head_at(const struct qkv_model *model, int64_t index, int64_t *count)
{
    *count = 0;
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++) {
        struct layer_heads heads;
        for (int64_t layer = 1;
             heads = heads_of_layer(model, (enum qkv_attention_kind)kind, layer), heads.count; layer++) {
            if (index >= *count && index < *count + heads.count)
                return (struct qkv_head){(enum qkv_attention_kind)kind, layer, index - *count + 1};
            *count += heads.count;
        }
    }
    return (struct qkv_head){0};
}

int64_t qkv_model_head_count(const struct qkv_model *model)
{
    int64_t count;
    head_at(model, -1, &count);
    return count;
}

struct qkv_head qkv_model_head(const struct qkv_model *model, int64_t index)
{
    int64_t count;
    return head_at(model, index, &count);
}

bool qkv_model_head_rows(const struct qkv_model *model, struct qkv_head head, struct qkv_rows *rows)
{
    if (!find(model, head)) return false;
    const struct qkv_attention_layers layers = qkv_model_attention(model, head.attention, head.layer);
    if (layers.multi_head) { /* [H V, D] */
        const struct qkv_parameter *weight = layers.multi_head->output.weight;
        int64_t width = weight->shape.size[0] / layers.multi_head->rule.heads;
        *rows = (struct qkv_rows){weight, (head.head - 1) * width, width};
        return true;
    }
    if (!layers.attentional) return false;
    /* [any + M, any]: the rows of the context [M] come last */
    const struct qkv_parameter *weight = layers.attentional->weight;
    int64_t width = layers.single_head->memory_width, first = weight->shape.size[0] - width;
    if (first < 0) return false;
    *rows = (struct qkv_rows){weight, first, width};
    return true;
}

bool qkv_model_silence(struct qkv_model *model, struct qkv_head head, bool is_silent)
{
    bool *found = find(model, head);
    if (found) *found = is_silent;
    return found;
}

bool qkv_model_is_silent(const struct qkv_model *model, struct qkv_head head)
{
    const bool *found = find(model, head);
    return found && *found;
}
