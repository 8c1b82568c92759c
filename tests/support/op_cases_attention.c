#include "framework/engine/graph/attention_rule.h"
#include "op_case_draws.h"

static bool depends_on_positions(const struct qkv_attention_rule *rule)
{
    return rule->causal || rule->window || rule->alibi || rule->buckets;
}

static struct qkv_attention_rule draw_rule(enum qkv_op_id op)
{
    struct qkv_attention_rule rule = {.heads = 1};
    bool one_head = op == QKV_OP_attention_additive || op == QKV_OP_attention_local;
    if (!one_head) {
        rule.key_value_heads = draw(2) ? 0 : between(1, 2);
        rule.heads = rule.key_value_heads ? rule.key_value_heads * between(1, 3) : between(1, 5);
    }
    bool sees_all = op == QKV_OP_attention_loss;
    rule.causal = !sees_all && !draw(3);
    if (!sees_all && !draw(3)) rule.window = between(1, 9);
    if (rule.window && draw(2)) rule.global_tokens = between(1, 3);
    if (op == QKV_OP_attention || op == QKV_OP_attention_scores) {
        rule.alibi = !draw(4);
        if (!draw(4)) rule.buckets = 2 * between(rule.causal ? 1 : 2, 5);
        rule.max_distance = qkv_attention_single_buckets(rule.buckets, rule.causal) + between(1, 20);
        if (draw(2)) rule.scale = 0.5;
        if (!draw(4)) rule.soft_cap = 0.7;
    }
    rule.kernel = (enum qkv_attention_kernel)draw(3);
    rule.mask_values = (enum qkv_mask_values)draw(2);
    return rule;
}

/* Sentences that the rule allows, the first of which has queries. Sets the numbers of rows. equal: all sentences
 * have the same lengths. */
static void draw_sentences(struct op_case *test, int64_t largest, bool needed, bool equal, int64_t rows[2])
{
    int64_t count = between(needed || equal ? 1 : 0, CASE_SENTENCES), *queries = test->queries.length,
            *keys = test->keys.length;
    bool ordered = depends_on_positions(&test->options.attention);
    for (int64_t i = 0; i < (count ? count : 1); i++) {
        queries[i] = i && !draw(4) ? 0 : draw_size(largest);
        if (!draw(4)) queries[i] = 1; /* as in decoding */
        keys[i] = ordered ? queries[i] + (draw(2) ? 0 : between(0, 5)) : draw_size(largest);
        if (i && equal) queries[i] = queries[0], keys[i] = keys[0];
    }
    rows[0] = count ? place_apart(&test->queries, count) : queries[0];
    rows[1] = !count ? keys[0] : draw(2) ? place_shared(&test->keys, count) : place_apart(&test->keys, count);
    test->options.queries = (struct qkv_segments){count, test->queries.start, queries};
    test->options.keys = (struct qkv_segments){count, test->keys.start, keys};
}

/* Rounding errors of N numbers that a kernel adds one after the other. With numbers of either sign and the root mean
 * square r, the sum of the first k is about r sqrt(k), and adding the next rounds by up to u = 2^-24 of it (Higham
 * 2002, 4.2), by u / sqrt(3) in the mean square. Together:
 *     sqrt(sum over k of u^2 r^2 k / 3) = u r N / sqrt(6)
 * while the sum itself may cancel to nothing. r is 0.3 for cotangents times tanh of sums of two numbers in -1 .. 1;
 * four times the mean square error is 2.9e-8 N. */
static double noise_of_sum(int64_t numbers)
{
    return 2.9e-8 * (double)numbers;
}

/* The same for cotangents alone, numbers in -1 .. 1, whose root mean square is 0.58. */
static double noise_of_plain_sum(int64_t numbers)
{
    return 5.6e-8 * (double)numbers;
}

/* Rounding errors of the gradient of a center, Tk sum(dw w (j - p)) / sigma^2, with p = Tk center and sigma = D / 2,
 * where D is the window. p is rounded by up to u p, by u Tk / (2 sqrt(3)) in the mean square, which changes the
 * gradient by that times
 *     Tk / sigma^2 sum(dw w ((j - p)^2 / sigma^2 - 1)), about 0.5 Tk / sigma^2,
 * as the sum of w is at most 1 and dw is about 0.6. Together 0.58 u (Tk / D)^2; four times that is 1.4e-7 (Tk / D)^2. */
static double noise_of_center(int64_t keys, int64_t window)
{
    double ratio = (double)keys / (double)window;
    return 1.4e-7 * ratio * ratio;
}

void draw_attention(struct op_case *test, int64_t largest)
{
    enum qkv_op_id op = test->op;
    struct qkv_attention_rule *rule = &test->options.attention;
    *rule = draw_rule(op);
    if (op == QKV_OP_attention_arrange && largest > 8)
        largest = 8; /* CASE_INDICES holds a number of every pair */
    bool equal = !draw(4), needs_segments = op != QKV_OP_attention && op != QKV_OP_attention_scores &&
                                            op != QKV_OP_attention_additive;
    int64_t rows[2], pairs = 0, groups = qkv_attention_key_value_heads(rule);
    int64_t key_width = draw_size(largest), value_width = draw_size(largest);
    draw_sentences(test, largest, needs_segments, equal, rows);
    for (int64_t i = 0; i < test->options.queries.count; i++)
        pairs += rule->heads * test->queries.length[i] * test->keys.length[i];
    struct qkv_shape query = QKV_SHAPE(rows[0], rule->heads * key_width),
                     key = QKV_SHAPE(rows[1], groups * key_width),
                     value = QKV_SHAPE(rows[1], groups * value_width), ragged = QKV_SHAPE(pairs), mask = {0};
    if (!draw(3)) mask = QKV_SHAPE(rows[1]);
    if (equal && draw(2)) mask = QKV_SHAPE(test->queries.length[0], test->keys.length[0]);
    struct qkv_shape bias = rule->buckets ? QKV_SHAPE(rule->buckets, rule->heads) : (struct qkv_shape){0};
    struct qkv_shape inputs[QKV_MAX_INPUTS] = {ragged};
    if (op == QKV_OP_attention || op == QKV_OP_attention_scores || op == QKV_OP_attention_additive)
        inputs[0] = query, inputs[1] = key;
    if (op == QKV_OP_attention) {
        inputs[2] = value, inputs[3] = mask, inputs[4] = bias;
        if ((test->drops = draw(2))) rule->dropout = 0.3;
    }
    if (op == QKV_OP_attention_scores) inputs[2] = bias;
    if (op == QKV_OP_attention_additive) {
        inputs[2] = QKV_SHAPE(key_width);
        test->noise[2] = noise_of_sum(pairs ? pairs : rows[0] * rows[1]);
    }
    if (op == QKV_OP_attention_mix) inputs[1] = value;
    if (op == QKV_OP_attention_weights) inputs[1] = mask;
    if ((op == QKV_OP_attention || op == QKV_OP_attention_weights) && !draw(3))
        inputs[op == QKV_OP_attention ? 5 : 2] = QKV_SHAPE(rule->heads);
    if (op == QKV_OP_attention_loss) {
        inputs[1] = ragged;
        test->options.factor = 0.5;
    }
    if (op == QKV_OP_attention_local) {
        inputs[1] = QKV_SHAPE(rows[0], 1);
        test->options.local_window = between(1, 6);
        test->noise[1] = noise_of_center(rows[1], test->options.local_window);
    }
    if (op == QKV_OP_attention_arrange) {
        inputs[0] = QKV_SHAPE(draw_size(largest));
        draw_indices(test, pairs, inputs[0].size[0]);
        test->noise[0] = noise_of_plain_sum(pairs);
    }
    memcpy(test->input, inputs, sizeof inputs);
}
