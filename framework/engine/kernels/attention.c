/* Multi-head attention in one op, computed by one of two kernels: exact or flash. Heads are columns of
 * the packed matrices; nothing is copied into tensors per head. */
#include "kernels/attention_fused.h"

#include "graph/attention_rule.h"

/* Queries times keys of a sentence from which flash is faster, because a head's weights no longer fit the
 * first-level cache: 256 queries and 256 keys. Measured: flash is 1.05 to 1.3 times as fast there, 2.5 times
 * at 1,024 words; at 128 words it takes a sixth longer. */
enum { FLASH_PAIRS = 1 << 16 };

/* Backward computes the result again, from the kept weights, if it has at least this many columns for each key that a query
 * sees on average. Per row, the product of weights and values grows with keys times columns, and the linear layers with
 * columns times columns. Measured at 8.5 columns per key: 0.7 % of a training step; at 6.4: 1.2 %. */
enum { RECOMPUTED_WIDTH = 8 };

static struct attention attention_of(const struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1], *value = y->input[2];
    const struct qkv_options *options = &y->options;
    struct attention a = {
        .options = options,
        .rule = &options->attention,
        .query_rows = query->shape.size[0],
        .key_rows = key->shape.size[0],
        .heads = options->attention.heads,
        .query_ld = query->shape.size[1],
        .key_ld = key->shape.size[1],
        .value_ld = value->shape.size[1],
        .drops = y->graph->has_dropout && options->attention.dropout > 0,
        .keep_weights = y->needs_gradient || (y->graph->has_dropout && options->attention.dropout > 0),
        .query = query->value,
        .key = key->value,
        .value = value->value,
        .mask = mask_of(y, y->input[3]),
        .bias = y->input[4],
    };
    a.group = a.heads / qkv_attention_key_value_heads(&options->attention);
    a.key_width = a.query_ld / a.heads;
    a.value_width = a.value_ld / qkv_attention_key_value_heads(&options->attention);
    a.out_ld = a.heads * a.value_width;
    a.scale = score_scale(y, a.key_width);
    a.longest_queries = longest_segment(&options->queries, a.query_rows);
    a.longest_keys = longest_segment(&options->keys, a.key_rows);
    return a;
}

static const struct qkv_attention_kernels *kernels_of(const struct attention *a)
{
    bool flash = a->rule->kernel == QKV_KERNEL_FLASH ||
                 (a->rule->kernel == QKV_KERNEL_AUTO && a->longest_queries * a->longest_keys >= FLASH_PAIRS);
    return flash ? &VARIANT(qkv_attention_, flash) : &VARIANT(qkv_attention_, exact);
}

static bool attention_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1], *value = y->input[2];
    if (!check_rule(y) || !check_query_and_key(y, query, key) ||
        !check_heads(y, value, qkv_attention_key_value_heads(&y->options.attention), "value") ||
        !check_bias(y, y->input[4]))
        return false;
    if (key->shape.size[0] != value->shape.size[0])
        return qkv_refuse(y, "key is %s, but value is %s", qkv_shape_text(key->shape),
                          qkv_shape_text(value->shape));
    if (!check_attention(y, query->shape.size[0], key->shape.size[0], y->input[3])) return false;
    struct attention a = attention_of(y);
    y->shape = QKV_SHAPE(a.query_rows, a.out_ld);
    /* The layout of y->saved depends on the kernel, so the choice is made here and stays, even if segments are shorter when
     * the node runs. */
    y->options.attention.kernel =
        kernels_of(&a) == &VARIANT(qkv_attention_, flash) ? QKV_KERNEL_FLASH : QKV_KERNEL_EXACT;
    y->saved_count = kernels_of(&a)->saved(&a);
    y->scratch = kernels_of(&a)->scratch(&a);
    y->keeps_result =
        !kernels_of(&a)->mix || RECOMPUTED_WIDTH * y->saved_count > a.heads * a.query_rows * a.out_ld;
    return true;
}

static void attention_forward(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    y->weights = NULL;
    check_mask_values(y, y->input[3]);
    if (a.options->queries.count)
        memset(y->value, 0, (size_t)y->count * sizeof(real)); /* rows outside all segments */
    kernels_of(&a)->forward(y, &a);
}

static void attention_recompute(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    const struct qkv_segments *queries = &a.options->queries;
    int64_t rows = 0;
    for (int64_t s = 0; s < queries->count; s++) rows += queries->length[s];
    if (queries->count && rows < a.query_rows) memset(y->value, 0, (size_t)y->count * sizeof(real));
    kernels_of(&a)->mix(y, &a);
}

static void attention_backward(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    kernels_of(&a)->backward(y, &a);
}

/* Whether a leaf that the weights depend on may have been written since forward: some leaf of the graph has. */
static bool operands_may_have_changed(const struct qkv_tensor *y)
{
    if (!y->graph->leaf_written && !qkv_parameters_changed(y->graph)) return false;
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (y->graph->ops[y->op]->weights_read & INPUT(i) && y->input[i] && y->input[i]->op == QKV_OP_leaf)
            return true;
    return false;
}

static const void *attention_all_weights(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    size_t bytes = (size_t)ragged_count(a.options, a.query_rows, a.key_rows) * sizeof(real);
    bool exact = kernels_of(&a) == &VARIANT(qkv_attention_, exact);
    if (exact && a.keep_weights && !a.rule->window && !a.drops) return y->saved;
    if (y->weights || operands_may_have_changed(y)) return y->weights;
    y->weights = qkv_arena_zeroed(&y->graph->arena, bytes);
    if (y->weights) kernels_of(&a)->unpack_weights(y, &a);
    return y->weights;
}

OP(attention, .inputs = 5, .optional = INPUT(3) | INPUT(4), .random = true,
   .backward_reads = INPUT(0) | INPUT(1) | INPUT(2) | INPUT(3) | INPUT(4),
   .weights_read = INPUT(0) | INPUT(1) | INPUT(3) | INPUT(4), .shape = RULE(attention_shape),
   .forward = attention_forward, .backward = attention_backward, .recompute = attention_recompute,
   .weights = attention_all_weights);
