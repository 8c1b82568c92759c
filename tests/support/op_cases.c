#include "op_case_draws.h"

#include "numbers.h"

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

int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)draw((uint64_t)(high - low + 1));
}

int64_t draw_size(int64_t largest)
{
    static const int64_t widths[] = {4, 8, 16, 32, 64};
    int64_t size = between(1, 7);
    if (!draw(3)) size = widths[draw(5)] + between(-1, 1);
    if (!draw(6)) size = between(1, largest);
    return size < largest ? size : largest;
}

struct qkv_shape draw_shape(int64_t largest)
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

void draw_indices(struct op_case *test, int64_t count, int64_t bound)
{
    for (int64_t i = 0; i < count; i++) test->indices[i] = (int32_t)draw((uint64_t)bound);
    test->options.indices = test->indices;
}

/* ---- sentences ---- */

int64_t place_apart(struct case_segments *segments, int64_t count)
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

int64_t place_shared(struct case_segments *segments, int64_t count)
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
    if (draw(2)) test->options.first = test->first;
    for (int i = 0; i < CASE_SENTENCES; i++) test->first[i] = between(0, 3);
    int64_t positions = longest_of(test->options.segments, rows) + 3 + between(0, 2);
    if (test->op == QKV_OP_rotate) width = 2 * ((width + 1) / 2);
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
    if (test->op != QKV_OP_reshape && test->op != QKV_OP_permute && test->op != QKV_OP_concat &&
        test->op != QKV_OP_slice && test->op != QKV_OP_cumulative_sum && draw(2))
        options->axis = QKV_ALL;
}

static void draw_repetition(struct op_case *test, int64_t largest)
{
    struct qkv_shape to = test->options.shape = draw_shape(largest),
                     from = {.rank = (int)between(1, to.rank)};
    for (int i = 0; i < from.rank; i++) from.size[i] = draw(2) ? 1 : to.size[to.rank - from.rank + i];
    test->input[0] = from;
}

static void draw_cell(struct op_case *test, int64_t largest)
{
    int64_t rows, width = draw_size(largest);
    int64_t gates = test->op == QKV_OP_rnn ? 1 : test->op == QKV_OP_gru ? 3 : 4;
    test->options.segments = draw_segments(&test->segments, largest < 12 ? largest : 12, &rows);
    test->options.reverse = draw(2);
    test->input[0] = QKV_SHAPE(rows, gates * width);
    test->input[1] = QKV_SHAPE(width, gates * width);
    if (test->op == QKV_OP_gru && draw(2)) test->input[2] = QKV_SHAPE(width);
    int64_t sentences = test->options.segments.count ? test->options.segments.count : 1;
    if (draw(2))
        test->input[test->op == QKV_OP_gru ? 3 : 2] =
            QKV_SHAPE(sentences, test->op == QKV_OP_lstm ? 2 * width : width);
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
        break;
    default:
        test->options.index_count = count;
        test->options.factor = 1.7;
    }
    draw_indices(test, count, rows);
}

/* Inputs by letters. x: any shape; =: that of x; r: its last axis; R: the same, or none; c: that of x, with one column. */
static void draw_by_letters(struct op_case *test, int64_t largest, const char *letters)
{
    struct qkv_shape x = draw_shape(largest), row = QKV_SHAPE(columns_of(x)), column = x;
    struct qkv_options *options = &test->options;
    column.size[x.rank - 1] = 1;
    for (int i = 0; letters[i]; i++)
        if (letters[i] != 'R' || draw(2))
            test->input[i] = strchr("rR", letters[i]) ? row : letters[i] == 'c' ? column : x;
    options->factor = -1.5, options->rate = 0.3, test->drops = draw(2);
    options->addend = 0.7, options->lowest = -0.5, options->highest = 0.4;
    options->exponent = draw(2) ? 3 : 1.7;
    options->epsilon = 0.05;
    options->length = between(1, columns_of(x));
}

static void draw_segment_softmax(struct op_case *test, int64_t largest)
{
    int64_t rows;
    test->options.segments = draw_segments(&test->segments, largest, &rows);
    test->input[0] = QKV_SHAPE(rows, draw_size(largest));
}

static void draw_neighbours(struct op_case *test, int64_t largest)
{
    int64_t rows;
    test->options.segments = draw_segments(&test->segments, largest, &rows);
    test->input[0] = QKV_SHAPE(rows, draw_size(largest));
    test->options.length = between(1, 5);
    test->options.start = between(rows < 4 ? -rows : -4, rows < 2 ? rows : 2);
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
        test->options.one_sided = !draw(3);
    }
    draw_indices(test, x.size[0], classes);
    test->options.smoothing = draw(2) ? 0 : 0.1;
    test->options.factor = draw(2) ? 1 : 0.3;
}

/* What draws the cases of which ops: a function, or draw_by_letters. */
static const struct {
    void (*draw)(struct op_case *test, int64_t largest);
    const char *letters;
    enum qkv_op_id ops[QKV_OP_COUNT]; /* QKV_OP_leaf: no more */
} DRAW[] = {
    {NULL,
     "x=", LIST(QKV_OP_add, QKV_OP_subtract, QKV_OP_multiply, QKV_OP_divide, QKV_OP_minimum, QKV_OP_maximum)},
    {NULL, "x",
     LIST(QKV_OP_scale, QKV_OP_relu, QKV_OP_gelu, QKV_OP_gelu_tanh, QKV_OP_silu, QKV_OP_tanh, QKV_OP_sigmoid,
          QKV_OP_exp, QKV_OP_log, QKV_OP_sqrt, QKV_OP_abs, QKV_OP_add_scalar, QKV_OP_clamp, QKV_OP_pow,
          QKV_OP_dropout, QKV_OP_dropout_rows, QKV_OP_softmax, QKV_OP_log_softmax, QKV_OP_log_sum_exp,
          QKV_OP_group_max, QKV_OP_detach, QKV_OP_top_k, QKV_OP_top_k_indices)},
    {NULL, "xr", {QKV_OP_add_row, QKV_OP_multiply_row}},
    {NULL, "xc", {QKV_OP_multiply_column}},
    {NULL, "x==", {QKV_OP_where}},
    {NULL, "xRR", {QKV_OP_layer_norm}},
    {NULL, "xR", {QKV_OP_rms_norm}},
    {draw_product, NULL, {QKV_OP_matmul}},
    {draw_layer, NULL, {QKV_OP_linear}},
    {draw_segment_softmax, NULL, {QKV_OP_segment_softmax}},
    {draw_rows, NULL, {QKV_OP_embedding, QKV_OP_gather_rows, QKV_OP_scatter_rows, QKV_OP_store_rows}},
    {draw_positions, NULL, {QKV_OP_add_positions, QKV_OP_rotate}},
    {draw_axes, NULL,
     LIST(QKV_OP_reshape, QKV_OP_permute, QKV_OP_concat, QKV_OP_slice, QKV_OP_sum, QKV_OP_mean, QKV_OP_min,
          QKV_OP_max, QKV_OP_argmin, QKV_OP_argmax, QKV_OP_cumulative_sum)},
    {draw_repetition, NULL, {QKV_OP_broadcast}},
    {draw_neighbours, NULL, {QKV_OP_neighbours}},
    {draw_loss, NULL, {QKV_OP_cross_entropy, QKV_OP_linear_cross_entropy, QKV_OP_paired_cross_entropy}},
    {draw_cell, NULL, {QKV_OP_rnn, QKV_OP_gru, QKV_OP_lstm}},
    {draw_attention, NULL,
     LIST(QKV_OP_attention_scores, QKV_OP_attention_weights, QKV_OP_attention_mix, QKV_OP_attention,
          QKV_OP_attention_additive, QKV_OP_attention_local, QKV_OP_attention_loss,
          QKV_OP_attention_arrange)},
};

/* Ops whose inputs are not all variables in -1 .. 1. */
static const struct {
    double low, high; /* 0: as of others */
    unsigned constant, mask;
} INPUTS[QKV_OP_COUNT] = {
    [QKV_OP_divide] = {0.2, 3, 0, 0},
    [QKV_OP_log] = {0.2, 3, 0, 0},
    [QKV_OP_sqrt] = {0.2, 3, 0, 0},
    [QKV_OP_pow] = {0.2, 3, 0, 0},
    [QKV_OP_rnn] = {-0.3, 0.3, 0, 0},
    [QKV_OP_gru] = {-0.3, 0.3, 0, 0},
    [QKV_OP_lstm] = {-0.3, 0.3, 0, 0},
    [QKV_OP_attention_local] = {0.05, 0.95, 0, 0},
    [QKV_OP_rotate] = {.constant = 2},
    [QKV_OP_argmin] = {.constant = 1},
    [QKV_OP_argmax] = {.constant = 1},
    [QKV_OP_top_k_indices] = {.constant = 1},
    [QKV_OP_store_rows] = {.constant = 3},
    [QKV_OP_detach] = {.constant = 1}, /* differences would see what the gradient must not */
    [QKV_OP_where] = {.constant = 1, .mask = 1},
    [QKV_OP_attention] = {.constant = 8, .mask = 8},
    [QKV_OP_attention_weights] = {.constant = 2, .mask = 2},
    [QKV_OP_attention_loss] = {.constant = 2, .mask = 2},
};

void make_op_case(struct op_case *test, enum qkv_op_id op, int64_t largest)
{
    memset(test, 0, offsetof(struct op_case, segments));
    test->op = op, test->constant = INPUTS[op].constant, test->mask = INPUTS[op].mask;
    test->low = INPUTS[op].high > 0 ? INPUTS[op].low : -1;
    test->high = INPUTS[op].high > 0 ? INPUTS[op].high : 1;
    for (size_t i = 0; i < sizeof DRAW / sizeof *DRAW; i++)
        for (int k = 0; DRAW[i].ops[k] != QKV_OP_leaf; k++) {
            if (DRAW[i].ops[k] != op) continue;
            if (DRAW[i].letters)
                draw_by_letters(test, largest, DRAW[i].letters);
            else
                DRAW[i].draw(test, largest);
            return;
        }
    cr_assert_fail("tests/support/op_cases.c draws no cases of %s", qkv_op_name(op));
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
