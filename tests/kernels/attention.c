/* Compares the variants of fused attention (exact and flash, windows, global tokens, grouped heads, distance
 * biases) with the composition of scores, weights and mix: values, gradients and the weights that reports show,
 * at sizes that cross tiles, in both precisions, with the kernels of every instruction set. */
#include "numbers.h"

#include "framework/engine/graph/attention_rule.h"
#include "framework/engine/graph/internal.h"

enum { MAX_SENTENCES = 5, INPUTS = 6 };

struct test {
    const char *name;
    int64_t sentences, queries[MAX_SENTENCES],
        keys[MAX_SENTENCES]; /* lengths; no keys: those of the queries */
    int64_t key_width, value_width;
    struct qkv_attention_rule rule;
    bool masked;     /* with a random mask that hides all keys from query 2 */
    bool one_tensor; /* query, key and value are one: their gradients add up */
    bool sink;
};

/* ---- one run ---- */

/* The weights of all sentences and heads. */
static double *weights_of(const struct test *test, const struct qkv_tensor *node, enum qkv_dtype dtype,
                          int64_t *count)
{
    double *all = NULL;
    int64_t rows, columns;
    for (int64_t s = 0; s < test->sentences; s++)
        for (int64_t h = 0; h < test->rule.heads; h++) {
            const void *weights = qkv_attention_weights_of(node, s, h, &rows, &columns);
            cr_assert_not_null(weights);
            all = realloc(all, (size_t)(*count + rows * columns + 1) * sizeof *all);
            for (int64_t i = 0; i < rows * columns; i++) all[(*count)++] = qkv_dtype_get(dtype, weights, i);
        }
    return all;
}

/* Makes a mask of a random tensor; it hides all keys from query 2. */
static void make_mask(struct qkv_tensor *x)
{
    double *values RELEASED(free_memory) = malloc((size_t)qkv_tensor_count(x) * sizeof *values);
    qkv_tensor_read(x, values);
    for (int64_t i = 0; i < qkv_tensor_count(x); i++)
        values[i] = values[i] > -0.3 && i / qkv_tensor_shape(x).size[1] != 2;
    qkv_tensor_write(x, values);
}

struct run {
    struct qkv_graph *graph;
    struct qkv_tensor *input[INPUTS], *y, *weights; /* query, key, value, mask, bias, sink */
    int64_t query_start[MAX_SENTENCES], key_start[MAX_SENTENCES];
    struct qkv_attention attention;
};

static void make_inputs(struct run *run, const struct test *test)
{
    int64_t query_rows = 0, key_rows = 0, heads = test->rule.heads;
    int64_t key_value_heads = qkv_attention_key_value_heads(&test->rule);
    const int64_t *keys = test->keys[0] ? test->keys : test->queries;
    for (int64_t s = 0; s < test->sentences; s++) {
        run->query_start[s] = query_rows, run->key_start[s] = key_rows;
        query_rows += test->queries[s], key_rows += keys[s];
    }
    run->attention.rule = test->rule;
    run->attention.queries = (struct qkv_segments){test->sentences, run->query_start, test->queries};
    run->attention.keys = (struct qkv_segments){test->sentences, run->key_start, keys};
    run->input[0] = qkv_variable(run->graph, QKV_SHAPE(query_rows, heads * test->key_width));
    run->input[1] = qkv_variable(run->graph, QKV_SHAPE(key_rows, key_value_heads * test->key_width));
    run->input[2] = qkv_variable(run->graph, QKV_SHAPE(key_rows, key_value_heads * test->value_width));
    if (test->one_tensor) run->input[1] = run->input[2] = run->input[0];
    if (test->masked) run->input[3] = qkv_constant(run->graph, QKV_SHAPE(test->queries[0], keys[0]));
    if (test->rule.buckets) run->input[4] = qkv_variable(run->graph, QKV_SHAPE(test->rule.buckets, heads));
    run->attention.bias = run->input[4];
    if (test->sink) run->input[5] = qkv_variable(run->graph, QKV_SHAPE(heads));
    run->attention.sink = run->input[5];
    for (uint32_t k = 0; k < INPUTS; k++)
        if (run->input[k]) fill(run->input[k], k + 1);
    if (test->masked) make_mask(run->input[3]);
}

static void build(struct run *run, bool fused)
{
    struct qkv_tensor *const *x = run->input;
    if (fused) {
        run->y = qkv_attention(run->graph, x[0], x[1], x[2], x[3], run->attention);
        return;
    }
    struct qkv_tensor *scores = qkv_attention_scores(run->graph, x[0], x[1], run->attention);
    struct qkv_tensor *used = run->weights = qkv_attention_weights(run->graph, scores, x[3], run->attention);
    if (run->attention.rule.dropout > 0) used = qkv_dropout(run->graph, used, run->attention.rule.dropout);
    run->y = qkv_attention_mix(run->graph, used, x[2], run->attention);
}

enum mode { COMPOSED, FUSED, FORWARD };

/* The value, unless only FORWARD the gradients, and as the last part the weights. Those of a graph without gradients are computed
 * on demand, here after another attention has overwritten the workspace that both share. */
static struct computed compute(enum qkv_dtype dtype, const struct test *test, enum mode mode)
{
    struct run run = {.graph = qkv_graph_new(dtype)};
    const struct qkv_random random = {.seed = 11, .step = 2};
    qkv_graph_set_gradients(run.graph, mode != FORWARD);
    qkv_graph_set_dropout(run.graph, &random);
    make_inputs(&run, test);
    build(&run, mode != COMPOSED);
    qkv_forward(run.graph);
    struct qkv_attention other = run.attention;
    other.rule = (struct qkv_attention_rule){
        .heads = test->rule.heads, .key_value_heads = test->rule.key_value_heads, .kernel = QKV_KERNEL_EXACT};
    other.bias = other.sink = NULL;
    if (mode == FORWARD) qkv_attention(run.graph, run.input[0], run.input[1], run.input[2], NULL, other);
    struct computed computed = compute_in(run.graph, run.y, INPUTS, run.input, NULL, test->name);
    int64_t *count = &computed.count[PARTS - 1];
    if (mode == COMPOSED) {
        *count = qkv_tensor_count(run.weights);
        computed.part[PARTS - 1] = malloc((size_t)*count * sizeof(double));
        qkv_tensor_read(run.weights, computed.part[PARTS - 1]);
    } else {
        computed.part[PARTS - 1] = weights_of(test, run.y, dtype, count);
    }
    qkv_graph_free(run.graph);
    return computed;
}

/* ---- comparison ---- */

static void compare(const struct test *test, enum qkv_dtype dtype, const struct computed *expected)
{
    static const char *const kernels[] = {"auto", "exact", "flash"};
    for (int mode = FUSED; mode <= FORWARD; mode++) {
        struct computed got RELEASED(computed_release) = compute(dtype, test, (enum mode)mode);
        expect_close(&got, expected, BOUND[dtype],
                     format("%s, %s, float%d%s", test->name, kernels[test->rule.kernel],
                            dtype == QKV_FLOAT32 ? 32 : 64, mode == FORWARD ? ", without gradients" : ""));
    }
}

static void expect_agreement(struct test test)
{
    static int64_t cases;
    if (is_left_out(cases++)) return;
    struct computed expected RELEASED(computed_release) = compute(QKV_FLOAT64, &test, COMPOSED);
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        for (int kernel = QKV_KERNEL_AUTO; kernel <= QKV_KERNEL_FLASH; kernel++)
            for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
                test.rule.kernel = (enum qkv_attention_kernel)kernel;
                compare(&test, (enum qkv_dtype)dtype, &expected);
            }
    }
    unsetenv("QKV_KERNELS");
}

/* Rules with sentences of several lengths, some of one token, with and without dropout. */
static const struct test RAGGED[] = {
    {"full", .key_width = 3, .value_width = 5, .rule = {.heads = 2}},
    {"scaled", .key_width = 1, .value_width = 7, .rule = {.heads = 3, .causal = true, .scale = 0.7}},
    {"causal", .key_width = 16, .value_width = 9, .rule = {.heads = 2, .causal = true}},
    {"wide heads", .key_width = 70, .value_width = 90, .rule = {.heads = 1}},
    {"window", .key_width = 5, .value_width = 4, .rule = {.heads = 2, .window = 1}},
    {"wide window", .key_width = 5, .value_width = 4, .rule = {.heads = 2, .window = 16}},
    {"causal window", .key_width = 5, .value_width = 4, .rule = {.heads = 2, .window = 6, .causal = true}},
    {"global tokens", .key_width = 4, .value_width = 7,
     .rule = {.heads = 2, .window = 3, .global_tokens = 20}},
    {"causal global tokens", .key_width = 4, .value_width = 7,
     .rule = {.heads = 2, .window = 3, .global_tokens = 2, .causal = true}},
    {"grouped", .key_width = 3, .value_width = 2, .rule = {.heads = 6, .key_value_heads = 2}},
    {"one key and value head", .key_width = 4, .value_width = 4,
     .rule = {.heads = 3, .key_value_heads = 1, .window = 2}},
    {"ALiBi", .key_width = 3, .value_width = 3, .rule = {.heads = 6, .alibi = true}},
    {"bias", .key_width = 3, .value_width = 4,
     .rule = {.buckets = 8, .heads = 2, .max_distance = 20, .scale = 0.7}},
    {"causal bias", .key_width = 3, .value_width = 4,
     .rule = {.buckets = 8, .heads = 2, .causal = true, .max_distance = 20}},
    {"soft cap", .key_width = 3, .value_width = 5, .rule = {.heads = 2, .soft_cap = 0.5}},
    {"soft cap, causal bias, window", .key_width = 3, .value_width = 4,
     .rule = {.buckets = 8, .heads = 2, .causal = true, .max_distance = 20, .window = 5, .soft_cap = 0.5}},
    {"sink", .key_width = 3, .value_width = 5, .rule = {.heads = 3}, .sink = true},
    {"all options", .key_width = 4, .value_width = 3, .sink = true,
     .rule = LIST(.buckets = 6, .heads = 4, .key_value_heads = 2, .causal = true, .alibi = true,
                  .max_distance = 9, .window = 4, .global_tokens = 2, .soft_cap = 2)},
};

Test(attention, is_scores_weights_and_mix_for_every_rule)
{
    static const int64_t lengths[][3] = {{1, 2, 1}, {17, 1, 6}, {40, 33, 1}};
    for (size_t i = 0; i < sizeof RAGGED / sizeof *RAGGED; i++)
        for (int n = 0; n < 3; n++)
            for (int drops = 0; drops < 2; drops++) {
                struct test test = RAGGED[i];
                test.sentences = 3;
                memcpy(test.queries, lengths[n], sizeof lengths[n]);
                test.rule.dropout = drops ? 0.3 : 0;
                expect_agreement(test);
            }
}

/* More keys than queries, as in cross attention and in steps of decoding, where the queries have the last positions; masks;
 * and more rows and keys than a tile holds. */
static const struct test SHAPED[] = {
    {"one tensor", 3, {17, 1, 6}, {0}, 3, 3, {.heads = 2, .causal = true}, .one_tensor = true},
    {"cross", 3, {3, 1, 13}, {5, 2, 13}, 5, 5, {.heads = 2}},
    {"single queries", 5, {1, 1, 3, 1, 1}, {1, 3, 4, 64, 9}, 16, 16, {.heads = 4}},
    {"single queries, causal", 5, {1, 1, 3, 1, 1}, {1, 3, 4, 64, 9}, 48, 16, {.heads = 2, .causal = true}},
    {"single queries, dropout", 5, {1, 1, 3, 1, 1}, {1, 3, 4, 64, 9}, 16, 32, {.heads = 9, .dropout = 0.3}},
    {"single queries, groups", 5, LIST(1, 1, 3, 1, 1), LIST(1, 3, 4, 64, 9), 16, 16,
     LIST(.heads = 8, .key_value_heads = 2)},
    {"late", 3, {1, 2, 5}, {9, 2, 30}, 4, 4, {.buckets = 4, .heads = 2, .causal = true, .max_distance = 8}},
    {"late, window", 3, {1, 2, 5}, {9, 2, 30}, 4, 4, {.heads = 2, .causal = true, .window = 4}},
    {"masked", 2, {33, 33}, {0}, 4, 6, {.heads = 2, .dropout = 0.2}, .masked = true},
    {"masked and causal", 2, {33, 33}, {0}, 4, 6, {.heads = 2, .causal = true}, .masked = true},
    {"masked, window", 2, {33, 33}, {0}, 4, 6, {.heads = 2, .window = 5, .global_tokens = 1}, .masked = true},
    {"masked, sink", 2, {33, 33}, {0}, 4, 6, {.heads = 2, .dropout = 0.2}, .masked = true, .sink = true},
    {"several tiles", 2, {5, 601}, {0}, 3, 2, {.heads = 1, .dropout = 0.2}},
    {"several tiles, cap and sink", 2, LIST(5, 601), LIST(0), 3, 2,
     LIST(.heads = 1, .alibi = true, .soft_cap = 1), .sink = true},
    {"several tiles, causal", 2, {5, 601}, {0}, 3, 2, {.heads = 1, .causal = true, .alibi = true}},
    {"several tiles, window", 2, {5, 601}, {0}, 3, 2, {.heads = 1, .window = 270, .global_tokens = 3}},
    {"several tiles, all", 2, LIST(5, 601), LIST(0), 3, 2,
     LIST(.heads = 1, .window = 40, .global_tokens = 1, .causal = true)},
};

Test(attention, is_scores_weights_and_mix_for_other_shapes)
{
    for (size_t i = 0; i < sizeof SHAPED / sizeof *SHAPED; i++) expect_agreement(SHAPED[i]);
}

/* ---- memory, slopes ---- */

/* Bytes that one attention over `tokens` needs besides its inputs, its result and their gradients. */
static double extra_bytes(int64_t tokens, struct qkv_attention_rule rule)
{
    struct run run = {.graph = qkv_graph_new(QKV_FLOAT32)};
    struct test test = {
        .sentences = 1, .queries = {tokens}, .key_width = 64, .value_width = 64, .rule = rule};
    make_inputs(&run, &test);
    build(&run, true);
    double bytes = (double)qkv_graph_peak_bytes(run.graph);
    qkv_graph_free(run.graph);
    return bytes - 8.0 * 64 * (double)(rule.heads * tokens) * sizeof(float);
}

Test(attention, memory_of_flash_and_windows_is_linear_in_length)
{
    const struct qkv_attention_rule exact = {.heads = 8, .kernel = QKV_KERNEL_EXACT},
                                    flash = {.heads = 8, .kernel = QKV_KERNEL_FLASH},
                                    window = {.heads = 8, .kernel = QKV_KERNEL_EXACT, .window = 128};
    cr_expect_lt(extra_bytes(4096, flash), extra_bytes(4096, exact) / 50);
    cr_expect_lt(extra_bytes(8192, flash), 2.2 * extra_bytes(4096, flash));
    cr_expect_lt(extra_bytes(4096, window), extra_bytes(4096, exact) / 10);
    cr_expect_lt(extra_bytes(8192, window), 2.2 * extra_bytes(4096, window));
}

/* Press et al. 2022: a geometric sequence that starts at 2^(-8/H); 6 heads take the slopes of 4 heads and
 * every other slope of 8 heads. */
Test(attention, alibi_slopes)
{
    static const double slopes[][8] = {{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125},
                                       {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625}};
    for (int n = 0; n < 2; n++) {
        struct run run = {.graph = qkv_graph_new(QKV_FLOAT64)};
        int64_t heads = n ? 8 : 6, rows, columns;
        struct test test = {"slopes", 1, LIST(2), LIST(0), 1, 1, LIST(.heads = heads, .alibi = true)};
        make_inputs(&run, &test);
        memset(qkv_tensor_value(run.input[0]), 0, (size_t)qkv_tensor_count(run.input[0]) * sizeof(double));
        build(&run, true);
        qkv_forward(run.graph);
        for (int64_t h = 0; h < heads; h++) {
            const double *weights = qkv_attention_weights_of(run.y, 0, h, &rows, &columns);
            cr_expect_float_eq(log(weights[0] / weights[1]), slopes[n][h], 1e-14);
        }
        qkv_graph_free(run.graph);
    }
}
