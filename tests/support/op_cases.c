#include "op_cases.h"

#include "numbers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

void draw_from(uint64_t seed)
{
    state = seed;
}

/* splitmix64 (Steele et al. 2014) */
uint64_t draw(uint64_t bound)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (z ^ z >> 31) % bound;
}

static int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)draw((uint64_t)(high - low + 1));
}

/* Sizes: small ones, ones around the width of vectors, and any. */
static int64_t draw_size(int64_t largest)
{
    static const int64_t widths[] = {4, 8, 16, 32, 64};
    int64_t size = between(1, 7);
    if (!draw(3)) size = widths[draw(5)] + between(-1, 1);
    if (!draw(6)) size = between(1, largest);
    return size < largest ? size : largest;
}

static struct qkv_shape draw_shape(int64_t largest)
{
    struct qkv_shape shape = {.rank = (int)between(1, QKV_MAX_RANK)};
    for (int i = 0; i < shape.rank; i++)
        shape.size[i] = i + 1 == shape.rank ? draw_size(largest) : between(1, largest < 4 ? largest : 4);
    return shape;
}

static int64_t columns_of(struct qkv_shape shape)
{
    return shape.size[shape.rank - 1];
}

static void draw_indices(struct op_case *test, int64_t count, int64_t bound)
{
    for (int64_t i = 0; i < count; i++) test->indices[i] = (int32_t)draw((uint64_t)bound);
    test->options.indices = test->indices;
}

/* ---- sentences ---- */

/* Gives `count` segments, whose lengths are set, rows of their own, in any order and with gaps. Returns the
 * number of rows. */
static int64_t place_apart(struct case_segments *segments, int64_t count)
{
    int64_t order[CASE_SENTENCES], rows = draw(3) ? 0 : between(0, 2);
    for (int64_t i = 0; i < count; i++) {
        int64_t j = between(0, i);
        order[i] = order[j];
        order[j] = i;
    }
    for (int64_t i = 0; i < count; i++) {
        segments->start[order[i]] = rows;
        rows += segments->length[order[i]] + (draw(3) ? 0 : between(0, 2));
    }
    return rows;
}

/* The same with rows that segments share. */
static int64_t place_shared(struct case_segments *segments, int64_t count)
{
    int64_t rows = 1;
    for (int64_t i = 0; i < count; i++)
        if (segments->length[i] > rows) rows = segments->length[i];
    rows += between(0, 3);
    for (int64_t i = 0; i < count; i++) segments->start[i] = between(0, rows - segments->length[i]);
    return rows;
}

/* Segments with at least one row, or a count of 0. Sets *rows. */
static struct qkv_segments draw_segments(struct case_segments *segments, int64_t largest, int64_t *rows)
{
    int64_t count = between(0, CASE_SENTENCES);
    for (int64_t i = 0; i < count; i++) segments->length[i] = i && !draw(4) ? 0 : draw_size(largest);
    *rows = count ? place_apart(segments, count) : draw_size(largest);
    return (struct qkv_segments){count, segments->start, segments->length};
}

static int64_t longest_of(struct qkv_segments segments, int64_t rows)
{
    int64_t longest = segments.count ? 0 : rows;
    for (int64_t i = 0; i < segments.count; i++)
        if (segments.length[i] > longest) longest = segments.length[i];
    return longest;
}

/* ---- groups of ops ---- */

static void draw_product(struct op_case *test, int64_t largest)
{
    struct qkv_options *options = &test->options;
    int64_t m = draw_size(largest), n = draw_size(largest), k = draw_size(largest);
    int leading = (int)between(0, 2);
    bool shared = draw(2);
    options->transpose_a = draw(2), options->transpose_b = draw(2);
    struct qkv_shape a = {.rank = leading + 2}, b = {.rank = (shared ? 0 : leading) + 2};
    for (int i = 0; i < leading; i++) a.size[i] = b.size[i] = between(1, 3);
    a.size[leading] = options->transpose_a ? k : m;
    a.size[leading + 1] = options->transpose_a ? m : k;
    b.size[b.rank - 2] = options->transpose_b ? n : k;
    b.size[b.rank - 1] = options->transpose_b ? k : n;
    test->input[0] = a, test->input[1] = b;
}

static void draw_linear(struct op_case *test, struct qkv_shape x, int64_t largest)
{
    int64_t inputs = columns_of(x), outputs = draw_size(largest);
    bool transposed = test->options.transpose_b = draw(2);
    test->input[0] = x;
    test->input[1] = transposed ? QKV_SHAPE(outputs, inputs) : QKV_SHAPE(inputs, outputs);
    if (draw(2)) test->input[2] = QKV_SHAPE(outputs);
}

static void draw_positions(struct op_case *test, int64_t largest)
{
    int64_t rows, width = draw_size(largest);
    test->options.segments = draw_segments(&test->segments, largest, &rows);
    if (draw(2)) test->options.first = &test->first;
    test->first = between(0, 3);
    int64_t positions = longest_of(test->options.segments, rows) + test->first + between(0, 2);
    if (test->op == QKV_OP_rotate) {
        width = 2 * ((width + 1) / 2);
        test->constant = 2;
    }
    test->input[0] = QKV_SHAPE(rows, width * (test->op == QKV_OP_rotate ? between(1, 3) : 1));
    test->input[1] = QKV_SHAPE(positions, width);
}

static void draw_axes(struct op_case *test, int64_t largest)
{
    struct qkv_shape x = draw_shape(largest);
    struct qkv_options *options = &test->options;
    int axis = (int)between(0, x.rank - 1);
    test->input[0] = x;
    options->axis = axis;
    options->shape = x;
    options->permutation.count = x.rank;
    for (int i = 0; i < x.rank; i++) {
        int j = (int)between(0, i), *order = options->permutation.axis;
        order[i] = order[j], order[j] = i;
    }
    if (test->op == QKV_OP_reshape) {
        for (int i = 0; i < x.rank; i++) options->shape.size[i] = x.size[options->permutation.axis[i]];
        if (draw(2)) options->shape = QKV_SHAPE(1, qkv_shape_count(x));
    }
    if (test->op == QKV_OP_slice) {
        options->length = between(1, x.size[axis]);
        options->start = between(0, x.size[axis] - options->length);
    }
    if (test->op == QKV_OP_concat) {
        test->input[1] = x;
        test->input[1].size[axis] = draw_size(largest);
    }
    if ((test->op == QKV_OP_sum || test->op == QKV_OP_mean) && draw(2)) options->axis = QKV_ALL;
}

static void draw_cell(struct op_case *test, int64_t largest)
{
    int64_t rows, width = draw_size(largest);
    int64_t gates = test->op == QKV_OP_rnn ? 1 : test->op == QKV_OP_gru ? 3 : 4;
    test->options.segments = draw_segments(&test->segments, largest < 12 ? largest : 12, &rows);
    test->options.reverse = draw(2);
    test->low = -0.3, test->high = 0.3;
    test->input[0] = QKV_SHAPE(rows, gates * width);
    test->input[1] = QKV_SHAPE(width, gates * width);
    if (test->op == QKV_OP_gru && draw(2)) test->input[2] = QKV_SHAPE(width);
    int64_t sentences = test->options.segments.count ? test->options.segments.count : 1;
    if (draw(2))
        test->input[test->op == QKV_OP_gru ? 3 : 2] =
            QKV_SHAPE(sentences, test->op == QKV_OP_lstm ? 2 * width : width);
}

/* ---- attention ---- */

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
    rule.causal = !draw(3);
    if (!draw(3)) rule.window = between(1, 9);
    if (rule.window && draw(2)) rule.global_tokens = between(1, 3);
    if (op == QKV_OP_attention || op == QKV_OP_attention_scores) {
        rule.alibi = !draw(4);
        if (!draw(4)) rule.buckets = 2 * between(rule.causal ? 1 : 2, 5);
        rule.max_distance = qkv_attention_single_buckets(rule.buckets, rule.causal) + between(1, 20);
        if (draw(2)) rule.scale = 0.5;
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

static void draw_attention(struct op_case *test, int64_t largest)
{
    enum qkv_op_id op = test->op;
    struct qkv_attention_rule *rule = &test->options.attention;
    *rule = draw_rule(op);
    if (op == QKV_OP_attention_arrange && largest > 8) largest = 8; /* sums of few numbers */
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
        test->constant = test->mask = 8;
    }
    if (op == QKV_OP_attention_scores) inputs[2] = bias;
    if (op == QKV_OP_attention_additive) {
        inputs[2] = QKV_SHAPE(key_width);
        test->noise[2] = noise_of_sum(pairs ? pairs : rows[0] * rows[1]);
    }
    if (op == QKV_OP_attention_mix) inputs[1] = value;
    if (op == QKV_OP_attention_weights) {
        inputs[1] = mask;
        test->constant = test->mask = 2;
    }
    if (op == QKV_OP_attention_local) {
        inputs[1] = QKV_SHAPE(rows[0], 1);
        test->options.local_window = between(1, 6);
        test->low = 0.05, test->high = 0.95;
        test->noise[1] = noise_of_center(rows[1], test->options.local_window);
    }
    if (op == QKV_OP_attention_arrange) {
        inputs[0] = QKV_SHAPE(draw_size(largest));
        draw_indices(test, pairs, inputs[0].size[0]);
    }
    memcpy(test->input, inputs, sizeof inputs);
}

/* ---- all ops ---- */

static void draw_rows(struct op_case *test, int64_t largest)
{
    int64_t rows = draw_size(largest), columns = draw_size(largest), count = draw_size(largest);
    test->input[0] = QKV_SHAPE(rows, columns);
    switch ((int)test->op) {
    case QKV_OP_scatter_rows:
        test->options.rows = count;
        draw_indices(test, rows, count);
        return;
    case QKV_OP_store_rows:
        test->input[1] = QKV_SHAPE(count, columns);
        test->constant = 3;
        break;
    default:
        test->options.index_count = count;
        test->options.factor = 1.7;
    }
    draw_indices(test, count, rows);
}

static void draw_norm(struct op_case *test, int64_t largest)
{
    struct qkv_shape x = test->input[0] = draw_shape(largest);
    test->options.epsilon = 0.05;
    if (draw(2)) test->input[1] = QKV_SHAPE(columns_of(x));
    if (draw(2) && test->op == QKV_OP_layer_norm) test->input[2] = QKV_SHAPE(columns_of(x));
}

static void draw_pair(struct op_case *test, int64_t largest)
{
    test->input[0] = test->input[1] = draw_shape(largest);
    if (test->op == QKV_OP_divide) test->low = 0.2, test->high = 3;
}

static void draw_matrix_and_row(struct op_case *test, int64_t largest)
{
    test->input[0] = draw_shape(largest);
    test->input[1] = QKV_SHAPE(columns_of(test->input[0]));
}

static void draw_one(struct op_case *test, int64_t largest)
{
    test->input[0] = draw_shape(largest);
    test->options.factor = -1.5, test->options.rate = 0.3, test->drops = draw(2);
    test->options.addend = 0.7, test->options.lowest = -0.5, test->options.highest = 0.4;
    test->options.exponent = draw(2) ? 3 : 1.7;
    if (test->op == QKV_OP_log || test->op == QKV_OP_sqrt || test->op == QKV_OP_pow)
        test->low = 0.2, test->high = 3;
    if (test->op == QKV_OP_detach) test->constant = 1; /* differences would see what the gradient must not */
}

static void draw_segment_softmax(struct op_case *test, int64_t largest)
{
    int64_t rows;
    test->options.segments = draw_segments(&test->segments, largest, &rows);
    test->input[0] = QKV_SHAPE(rows, draw_size(largest));
}

static void draw_layer(struct op_case *test, int64_t largest)
{
    draw_linear(test, draw_shape(largest), largest);
}

static void draw_loss(struct op_case *test, int64_t largest)
{
    struct qkv_shape x = QKV_SHAPE(draw_size(largest), draw_size(largest));
    int64_t classes = x.size[1];
    if (test->op == QKV_OP_cross_entropy)
        test->input[0] = x;
    else {
        draw_linear(test, x, draw(4) ? largest : 8 * largest);
        classes = test->input[1].size[test->options.transpose_b ? 0 : 1];
    }
    if (test->op == QKV_OP_paired_cross_entropy) {
        memmove(test->input + 1, test->input, 3 * sizeof *test->input);
        test->options.consistency = draw(2) ? 0 : 3;
    }
    draw_indices(test, x.size[0], classes);
    test->options.smoothing = draw(2) ? 0 : 0.1;
    test->options.factor = draw(2) ? 1 : 0.3;
}

/* What draws the cases of each op. */
static void (*const DRAW[QKV_OP_COUNT])(struct op_case *test, int64_t largest) = {
    [QKV_OP_matmul] = draw_product,
    [QKV_OP_linear] = draw_layer,
    [QKV_OP_add] = draw_pair,
    [QKV_OP_subtract] = draw_pair,
    [QKV_OP_multiply] = draw_pair,
    [QKV_OP_divide] = draw_pair,
    [QKV_OP_minimum] = draw_pair,
    [QKV_OP_maximum] = draw_pair,
    [QKV_OP_scale] = draw_one,
    [QKV_OP_add_row] = draw_matrix_and_row,
    [QKV_OP_multiply_row] = draw_matrix_and_row,
    [QKV_OP_relu] = draw_one,
    [QKV_OP_gelu] = draw_one,
    [QKV_OP_gelu_tanh] = draw_one,
    [QKV_OP_silu] = draw_one,
    [QKV_OP_tanh] = draw_one,
    [QKV_OP_sigmoid] = draw_one,
    [QKV_OP_exp] = draw_one,
    [QKV_OP_log] = draw_one,
    [QKV_OP_sqrt] = draw_one,
    [QKV_OP_abs] = draw_one,
    [QKV_OP_add_scalar] = draw_one,
    [QKV_OP_clamp] = draw_one,
    [QKV_OP_pow] = draw_one,
    [QKV_OP_dropout] = draw_one,
    [QKV_OP_dropout_rows] = draw_one,
    [QKV_OP_softmax] = draw_one,
    [QKV_OP_log_softmax] = draw_one,
    [QKV_OP_log_sum_exp] = draw_one,
    [QKV_OP_group_max] = draw_one,
    [QKV_OP_segment_softmax] = draw_segment_softmax,
    [QKV_OP_layer_norm] = draw_norm,
    [QKV_OP_rms_norm] = draw_norm,
    [QKV_OP_embedding] = draw_rows,
    [QKV_OP_add_positions] = draw_positions,
    [QKV_OP_rotate] = draw_positions,
    [QKV_OP_gather_rows] = draw_rows,
    [QKV_OP_scatter_rows] = draw_rows,
    [QKV_OP_store_rows] = draw_rows,
    [QKV_OP_reshape] = draw_axes,
    [QKV_OP_detach] = draw_one,
    [QKV_OP_permute] = draw_axes,
    [QKV_OP_concat] = draw_axes,
    [QKV_OP_slice] = draw_axes,
    [QKV_OP_sum] = draw_axes,
    [QKV_OP_mean] = draw_axes,
    [QKV_OP_cross_entropy] = draw_loss,
    [QKV_OP_linear_cross_entropy] = draw_loss,
    [QKV_OP_paired_cross_entropy] = draw_loss,
    [QKV_OP_rnn] = draw_cell,
    [QKV_OP_gru] = draw_cell,
    [QKV_OP_lstm] = draw_cell,
    [QKV_OP_attention_scores] = draw_attention,
    [QKV_OP_attention_weights] = draw_attention,
    [QKV_OP_attention_mix] = draw_attention,
    [QKV_OP_attention] = draw_attention,
    [QKV_OP_attention_additive] = draw_attention,
    [QKV_OP_attention_local] = draw_attention,
    [QKV_OP_attention_arrange] = draw_attention,
};

void make_op_case(struct op_case *test, enum qkv_op_id op, int64_t largest)
{
    memset(test, 0, offsetof(struct op_case, segments));
    test->op = op, test->low = -1, test->high = 1;
    cr_assert_not_null(DRAW[op], "tests/support/op_cases.c draws no cases of %s", qkv_op_name(op));
    DRAW[op](test, largest);
}

static double input_value(const struct op_case *test, int k, int64_t i)
{
    double value = number((uint32_t)k + 1, i); /* -1 .. 1 */
    if (test->mask >> k & 1) {
        if (test->options.attention.mask_values == QKV_MASK_VALUES_ADDITIVE)
            return value > -0.4 ? 0 : -HUGE_VAL;
        return value > -0.4;
    }
    return (double)(float)(test->low + (value + 1) / 2 * (test->high - test->low));
}

void make_case_inputs(struct qkv_graph *graph, const struct op_case *test,
                      struct qkv_tensor *inputs[QKV_MAX_INPUTS])
{
    for (int k = 0; k < QKV_MAX_INPUTS; k++) {
        inputs[k] = NULL;
        if (!test->input[k].rank) continue;
        struct qkv_tensor *x = test->constant >> k & 1 ? qkv_constant(graph, test->input[k])
                                                       : qkv_variable(graph, test->input[k]);
        int64_t count = x ? qkv_tensor_count(x) : 0;
        double *values = malloc((size_t)(count + 1) * sizeof *values);
        for (int64_t i = 0; values && i < count; i++) values[i] = input_value(test, k, i);
        if (values && x) qkv_tensor_write(x, values);
        free(values);
        inputs[k] = x;
    }
}
