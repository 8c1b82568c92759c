/* Sentences of packed rows: keys that sentences share, rows that no op may share, a count of 0; and the masks of
 * attention. Values and gradients, in both precisions. */
#include "numbers.h"

enum { QUERY_ROWS = 6, KEY_ROWS = 8, KEYS = 16, HEADS = 2, WIDTH = 8, SENTENCES = 3 };

static const int64_t QUERY_STARTS[] = {0, 2, 3}, QUERY_LENGTHS[] = {2, 1, 3};
/* The third sentence sees the keys of both others and more. */
static const int64_t SHARED_STARTS[] = {1, 3, 0}, SHARED_LENGTHS[] = {4, 4, 8};
/* The same keys, each sentence with copies of its own. */
static const int64_t OWN_STARTS[] = {0, 4, 8};
static const int32_t COPIES[KEYS] = {1, 2, 3, 4, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 7};

static const struct qkv_segments QUERIES = {SENTENCES, QUERY_STARTS, QUERY_LENGTHS},
                                 SHARED = {SENTENCES, SHARED_STARTS, SHARED_LENGTHS},
                                 OWN = {SENTENCES, OWN_STARTS, SHARED_LENGTHS};

/* Inputs of one path through attention; its result is [QUERY_ROWS, any width]. */
struct inputs {
    struct qkv_tensor *query, *key, *value; /* [QUERY_ROWS, WIDTH], [keys, WIDTH] */
    struct qkv_tensor *mask;
    struct qkv_attention attention;
};

typedef struct qkv_tensor *attention_path(struct qkv_graph *graph, const struct inputs *inputs);

static struct qkv_tensor *fused(struct qkv_graph *graph, const struct inputs *x)
{
    struct qkv_attention attention = x->attention;
    attention.rule.heads = HEADS;
    return qkv_attention(graph, x->query, x->key, x->value, x->mask, attention);
}

static struct qkv_tensor *composed(struct qkv_graph *graph, const struct inputs *x)
{
    struct qkv_attention attention = x->attention;
    attention.rule.heads = HEADS;
    struct qkv_tensor *scores = qkv_attention_scores(graph, x->query, x->key, attention);
    struct qkv_tensor *weights = qkv_attention_weights(graph, scores, x->mask, attention);
    return qkv_attention_mix(graph, weights, x->value, attention);
}

static struct qkv_tensor *single_head(struct qkv_graph *graph, const struct inputs *x)
{
    struct qkv_attention attention = x->attention;
    attention.rule.heads = 1;
    struct qkv_tensor *vector = qkv_reshape(graph, qkv_slice(graph, x->query, 0, 0, 1), QKV_SHAPE(WIDTH));
    struct qkv_tensor *scores = qkv_attention_additive(graph, x->query, x->key, vector, attention);
    struct qkv_tensor *weights = qkv_attention_weights(graph, scores, x->mask, attention);
    return qkv_attention_mix(graph, weights, x->value, attention);
}

static struct qkv_tensor *local(struct qkv_graph *graph, const struct inputs *x)
{
    struct qkv_attention attention = x->attention;
    attention.rule.heads = 1;
    struct qkv_tensor *scores = qkv_attention_scores(graph, x->query, x->key, attention);
    struct qkv_tensor *center = qkv_sigmoid(graph, qkv_slice(graph, x->query, 1, 0, 1));
    struct qkv_tensor *weights = qkv_attention_local(graph, scores, center, attention, 2);
    return qkv_attention_mix(graph, weights, x->value, attention);
}

static const struct path {
    const char *name;
    attention_path *compute;
    struct qkv_attention_rule rule; /* for HEADS heads, where there is more than one */
    bool masked;                    /* whether it takes a mask */
} PATHS[] = {
    {"composed", composed, {0}, true},
    {"composed, causal window", composed, {.causal = true, .window = 2, .global_tokens = 1}, true},
    {"exact", fused, {.kernel = QKV_KERNEL_EXACT}, true},
    {"exact, causal", fused, {.causal = true, .alibi = true, .kernel = QKV_KERNEL_EXACT}, true},
    {"exact, window", fused, {.window = 2, .global_tokens = 1, .kernel = QKV_KERNEL_EXACT}, true},
    {"flash", fused, {.kernel = QKV_KERNEL_FLASH}, true},
    {"flash, causal", fused, {.causal = true, .alibi = true, .kernel = QKV_KERNEL_FLASH}, true},
    {"flash, window", fused, {.window = 2, .global_tokens = 1, .kernel = QKV_KERNEL_FLASH}, true},
    {"additive scores", single_head, {0}, true},
    {"local weights", local, {0}, false},
};

enum { PATH_COUNT = sizeof PATHS / sizeof *PATHS };

/* Query, key and value of a graph. */
static struct inputs inputs_of(struct qkv_graph *graph, const struct path *path, int64_t queries)
{
    return (struct inputs){.query = fill(qkv_variable(graph, QKV_SHAPE(queries, WIDTH)), 1),
                           .key = fill(qkv_variable(graph, QKV_SHAPE(KEY_ROWS, WIDTH)), 2),
                           .value = fill(qkv_variable(graph, QKV_SHAPE(KEY_ROWS, WIDTH)), 3),
                           .attention = {.rule = path->rule, .queries = QUERIES, .keys = SHARED}};
}

static struct qkv_tensor *written(struct qkv_graph *graph, struct qkv_shape shape, const double *values)
{
    struct qkv_tensor *x = qkv_constant(graph, shape);
    qkv_tensor_write(x, values);
    return x;
}

/* The result of a path, and the gradients of query, key and value before anything was done to them. */
static struct computed results_of(struct qkv_graph *graph, const struct path *path,
                                  struct qkv_tensor *const x[3], const struct inputs *inputs)
{
    return compute_in(graph, path->compute(graph, inputs), 3, x, NULL, path->name);
}

/* copied: every sentence gets copies of its keys, so that no two share any. decodes: as in beam search, hypotheses of one query
 * each read the same stored keys, and new rows are stored first. */
static struct computed with_shared_keys(const struct path *path, enum qkv_dtype dtype, bool copied,
                                        bool decodes)
{
    static const int64_t starts[] = {0, 1, 2}, ones[] = {1, 1, 1};
    static const int32_t stored_rows[] = {6, 7};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(dtype);
    qkv_graph_set_gradients(graph, !decodes);
    struct inputs inputs = inputs_of(graph, path, decodes ? SENTENCES : QUERY_ROWS);
    struct qkv_tensor *const x[3] = {inputs.query, inputs.key, inputs.value};
    if (decodes) {
        struct qkv_tensor *rows = fill(qkv_constant(graph, QKV_SHAPE(2, WIDTH)), 4);
        inputs.key = qkv_store_rows(graph, x[1], rows, stored_rows);
        inputs.value = qkv_store_rows(graph, x[2], qkv_scale(graph, rows, -1), stored_rows);
        inputs.attention.queries = (struct qkv_segments){SENTENCES, starts, ones};
    }
    if (copied) {
        inputs.key = qkv_gather_rows(graph, inputs.key, COPIES, KEYS);
        inputs.value = qkv_gather_rows(graph, inputs.value, COPIES, KEYS);
        inputs.attention.keys = OWN;
    }
    return results_of(graph, path, x, &inputs);
}

Test(segments, sentences_may_share_keys)
{
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        for (int dtype = 0; dtype < 2; dtype++)
            for (int i = 0; i < 2 * PATH_COUNT; i++) {
                const struct path *path = &PATHS[i / 2];
                struct computed shared RELEASED(computed_release) =
                    with_shared_keys(path, (enum qkv_dtype)dtype, false, i % 2),
                                       copied RELEASED(computed_release) =
                                           with_shared_keys(path, (enum qkv_dtype)dtype, true, i % 2);
                expect_close(&shared, &copied, BOUND[dtype], path->name);
            }
    }
    unsetenv("QKV_KERNELS");
}

/* ---- a count of 0 ---- */

static const struct qkv_segments NONE = {0};

/* Runs the graph and expects that a and b have the same values. */
static void expect_same_values(const char *name, struct qkv_graph *graph, const struct qkv_tensor *a,
                               const struct qkv_tensor *b)
{
    qkv_forward(graph);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", name, error.message);
    int64_t count = qkv_tensor_count(a);
    double *x RELEASED(free_memory) = calloc((size_t)count, sizeof *x),
              *y RELEASED(free_memory) = calloc((size_t)count, sizeof *y);
    cr_assert_eq(qkv_tensor_count(b), count, "%s", name);
    qkv_tensor_read(a, x);
    qkv_tensor_read(b, y);
    for (int64_t i = 0; i < count; i++) cr_expect_eq(x[i], y[i], "%s, element %d", name, (int)i);
}

Test(segments, a_count_of_zero_is_one_sentence_of_all_rows)
{
    static const int64_t zero = 0, query_rows = QUERY_ROWS, key_rows = KEY_ROWS;
    const struct qkv_segments all_queries = {1, &zero, &query_rows}, all_keys = {1, &zero, &key_rows};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    const struct inputs of_all = inputs_of(graph, &PATHS[0], QUERY_ROWS);
    struct qkv_tensor *x = of_all.query, *table = fill(qkv_constant(graph, QKV_SHAPE(KEY_ROWS, WIDTH)), 4),
                      *square = fill(qkv_variable(graph, QKV_SHAPE(WIDTH, WIDTH)), 5);
#define EXPECT_SAME(op, none, all) expect_same_values(#op, graph, qkv_##op none, qkv_##op all)
    EXPECT_SAME(segment_softmax, (graph, x, NONE), (graph, x, all_queries));
    EXPECT_SAME(add_positions, (graph, x, table, NONE, NULL), (graph, x, table, all_queries, NULL));
    EXPECT_SAME(rotate, (graph, x, table, NONE, NULL), (graph, x, table, all_queries, NULL));
    EXPECT_SAME(rnn, (graph, x, square, NULL, NONE, false), (graph, x, square, NULL, all_queries, false));
    for (int i = 0; i < PATH_COUNT; i++) {
        struct inputs inputs = of_all;
        inputs.attention = (struct qkv_attention){.rule = PATHS[i].rule};
        struct qkv_tensor *y = PATHS[i].compute(graph, &inputs);
        inputs.attention.queries = all_queries;
        inputs.attention.keys = all_keys;
        expect_same_values(PATHS[i].name, graph, y, PATHS[i].compute(graph, &inputs));
    }
}

/* ---- masks ---- */

/* A key mask [KEY_ROWS] that leaves every sentence a key, and the sentences without the hidden keys. */
static const double KEY_MASK[KEY_ROWS] = {0, 1, 0, 1, 1, 0, 0, 1};
static const int32_t VISIBLE[] = {1, 3, 4, 7};
static const int64_t VISIBLE_STARTS[] = {0, 1, 0}, VISIBLE_LENGTHS[] = {3, 2, 4};

static void write_mask(double *to, int64_t count, const double *binary, bool additive)
{
    for (int64_t i = 0; i < count; i++) to[i] = !additive ? binary[i] : binary[i] > 0 ? 0.0 : -HUGE_VAL;
}

enum removal { MASK_BINARY, MASK_ADDITIVE, KEYS_REMOVED };

static struct computed with_key_mask(const struct path *path, enum qkv_dtype dtype, enum removal removal)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(dtype);
    struct inputs inputs = inputs_of(graph, path, QUERY_ROWS);
    struct qkv_tensor *const x[3] = {inputs.query, inputs.key, inputs.value};
    double mask[KEY_ROWS];
    if (removal == KEYS_REMOVED) {
        inputs.key = qkv_gather_rows(graph, x[1], VISIBLE, 4);
        inputs.value = qkv_gather_rows(graph, x[2], VISIBLE, 4);
        inputs.attention.keys = (struct qkv_segments){SENTENCES, VISIBLE_STARTS, VISIBLE_LENGTHS};
    } else {
        write_mask(mask, KEY_ROWS, KEY_MASK, removal == MASK_ADDITIVE);
        inputs.mask = written(graph, QKV_SHAPE(KEY_ROWS), mask);
        if (removal == MASK_ADDITIVE) inputs.attention.rule.mask_values = QKV_MASK_VALUES_ADDITIVE;
    }
    return results_of(graph, path, x, &inputs);
}

Test(segments, a_key_mask_removes_keys_of_sentences_of_a_packed_batch)
{
    for (int dtype = 0; dtype < 2; dtype++)
        for (int i = 0; i < PATH_COUNT; i++) {
            const struct path *path = &PATHS[i];
            if (!path->masked) continue;
            struct computed binary RELEASED(computed_release) =
                with_key_mask(path, (enum qkv_dtype)dtype, MASK_BINARY),
                                   additive RELEASED(computed_release) =
                                       with_key_mask(path, (enum qkv_dtype)dtype, MASK_ADDITIVE);
            expect_close(&binary, &additive, 0, path->name);
            /* Without the hidden keys, others have other positions, which matters for some rules. */
            if (path->rule.causal || path->rule.window) continue;
            struct computed removed RELEASED(computed_release) =
                with_key_mask(path, (enum qkv_dtype)dtype, KEYS_REMOVED);
            expect_close(&binary, &removed, BOUND[dtype], path->name);
        }
}

Test(segments, a_mask_of_queries_by_keys_has_the_same_bits_in_both_conventions)
{
    static const int64_t starts[] = {0, 3}, key_starts[] = {0, 4}, threes[] = {3, 3}, fours[] = {4, 4};
    static const double visible[12] = {1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0};
    for (int i = 0; i < PATH_COUNT && PATHS[i].masked; i++) {
        struct computed results[2];
        for (int additive = 0; additive < 2; additive++) {
            struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
            struct inputs inputs = inputs_of(graph, &PATHS[i], QUERY_ROWS);
            double mask[12];
            write_mask(mask, 12, visible, additive);
            inputs.mask = written(graph, QKV_SHAPE(3, 4), mask);
            inputs.attention.queries = (struct qkv_segments){2, starts, threes};
            inputs.attention.keys = (struct qkv_segments){2, key_starts, fours};
            inputs.attention.rule.mask_values = additive ? QKV_MASK_VALUES_ADDITIVE : QKV_MASK_VALUES_BINARY;
            results[additive] = results_of(
                graph, &PATHS[i], (struct qkv_tensor *[]){inputs.query, inputs.key, inputs.value}, &inputs);
        }
        expect_close(&results[0], &results[1], 0, PATHS[i].name);
        for (int j = 0; j < WIDTH; j++)
            cr_expect_eq(results[0].part[0][WIDTH + j], 0.0, "%s: query 1 sees no key", PATHS[i].name);
        for (int k = 0; k < 2; k++) computed_release(&results[k]);
    }
}

Test(segments, a_mask_with_other_values_makes_the_graph_fail)
{
    static const struct {
        double value;
        bool additive;
        const char *message;
    } cases[] = {
        {0.5, false, "element 5 of the mask is 0.5, but must be 0 or 1"},
        {-INFINITY, false, "element 5 of the mask is -inf, but must be 0 or 1"},
        {NAN, false, "but must be 0 or 1"},
        {1, true, "element 5 of the mask is 1, but must be 0 or -infinity"},
        {-1e9, true, "element 5 of the mask is -1e+09, but must be 0 or -infinity"},
        {NAN, true, "but must be 0 or -infinity"},
    };
    for (int i = 0; i < PATH_COUNT; i++)
        for (size_t c = 0; PATHS[i].masked && c < sizeof cases / sizeof *cases; c++) {
            struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
            double mask[KEY_ROWS] = {0};
            mask[5] = cases[c].value;
            struct inputs inputs = inputs_of(graph, &PATHS[i], QUERY_ROWS);
            inputs.mask = written(graph, QKV_SHAPE(KEY_ROWS), mask);
            inputs.attention.rule.mask_values =
                cases[c].additive ? QKV_MASK_VALUES_ADDITIVE : QKV_MASK_VALUES_BINARY;
            struct qkv_tensor *y = PATHS[i].compute(graph, &inputs);
            cr_expect_not_null(y, "%s", PATHS[i].name);
            cr_expect_eq(qkv_graph_check(graph, &error), QKV_OK, "%s: %s", PATHS[i].name, error.message);
            qkv_forward(graph);
            cr_expect(qkv_graph_check(graph, &error) == QKV_INVALID &&
                          strstr(error.message, cases[c].message),
                      "%s: %s", PATHS[i].name, error.message);
        }
}
