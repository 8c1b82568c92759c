/* Compares fused attention with the composition of scores, weights and mix. */
#include "composition.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct qkv_tensor *attention(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                    const struct composition_case *test)
{
    return qkv_attention(graph, x[0], x[1], x[2], x[3], test->attention);
}

static struct qkv_tensor *attention_parts(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                          const struct composition_case *test)
{
    static int64_t zero;
    static int64_t rows[2];
    struct qkv_attention attention = test->attention;
    if (!attention.queries.count) { /* the parts need segments: one sentence of all rows */
        rows[0] = test->shape[0].size[0];
        rows[1] = test->shape[1].size[0];
        attention.queries = (struct qkv_segments){1, &zero, &rows[0]};
        attention.keys = (struct qkv_segments){1, &zero, &rows[1]};
    }
    struct qkv_tensor *scores = qkv_attention_scores(graph, x[0], x[1], attention);
    struct qkv_tensor *weights = qkv_attention_weights(graph, scores, x[3], attention);
    if (attention.rule.dropout > 0) weights = qkv_dropout(graph, weights, attention.rule.dropout);
    return qkv_attention_mix(graph, weights, x[2], attention);
}

/* Three sentences (some empty if rows < 3) with `rows` queries in total, and as many keys; with up to three
 * more keys if `cross`. */
struct ragged {
    int64_t query_start[3], query_length[3], key_start[3], key_length[3];
    struct qkv_segments queries, keys;
    int64_t query_rows, key_rows;
};

static void make_ragged(struct ragged *r, int64_t rows, bool cross)
{
    int64_t first = rows / 2, second = rows > 2 ? 1 : 0;
    int64_t queries[] = {first, second, rows - first - second};
    int64_t keys[] = {first + 2, second + 1, queries[2]};
    *r = (struct ragged){0};
    for (int i = 0; i < 3; i++) {
        r->query_start[i] = r->query_rows;
        r->query_rows += r->query_length[i] = queries[i];
        r->key_start[i] = r->key_rows;
        r->key_rows += r->key_length[i] = cross ? keys[i] : queries[i];
    }
    r->queries = (struct qkv_segments){3, r->query_start, r->query_length};
    r->keys = (struct qkv_segments){3, r->key_start, r->key_length};
}

static const struct {
    int64_t heads, key_width, value_width;
} WIDTHS[] = {{1, 5, 5}, {2, 3, 3}, {3, 1, 7}, {2, 17, 9}, {1, 70, 90}};

enum { WIDTH_COUNT = 5 };

/* w: index in WIDTHS. */
static void expect_attention(const char *name, const struct ragged *r, int w, bool causal, double dropout)
{
    const struct composition_case test = {
        .name = name,
        .shape = {QKV_SHAPE(r->query_rows, WIDTHS[w].heads * WIDTHS[w].key_width),
                  QKV_SHAPE(r->key_rows, WIDTHS[w].heads * WIDTHS[w].key_width),
                  QKV_SHAPE(r->key_rows, WIDTHS[w].heads * WIDTHS[w].value_width)},
        .attention = {.rule = {.heads = WIDTHS[w].heads, .causal = causal, .dropout = dropout},
                      .queries = r->queries,
                      .keys = r->keys},
        .drops = dropout > 0,
    };
    expect_composition(&test, attention, attention_parts);
}

Test(fused, attention_is_scores_weights_and_mix)
{
    for (int n = 0; n < ROW_COUNT; n++)
        for (int w = 0; w < WIDTH_COUNT; w++) {
            const struct ragged one_sentence = {.query_rows = ROWS[n], .key_rows = ROWS[n]},
                                one_sentence_cross = {.query_rows = ROWS[n], .key_rows = ROWS[n] + 5};
            struct ragged self, cross;
            make_ragged(&self, ROWS[n], false);
            make_ragged(&cross, ROWS[n], true);
            expect_attention("self", &self, w, false, 0);
            expect_attention("causal", &self, w, true, 0);
            expect_attention("cross", &cross, w, false, 0);
            expect_attention("one sentence", &one_sentence, w, false, 0);
            expect_attention("one sentence, causal", &one_sentence, w, true, 0);
            expect_attention("one sentence, cross", &one_sentence_cross, w, false, 0);
            expect_attention("dropout", &cross, w, false, 0.3);
        }
}

/* As in steps of decoding: sentences of one query with few or many keys, around one with three queries. */
Test(fused, attention_of_single_queries)
{
    /* heads, key and value heads, key width, value width */
    static const int64_t widths[][4] = {{1, 1, 16, 16}, {3, 3, 16, 5},  {2, 2, 64, 32},
                                        {2, 2, 48, 16}, {4, 4, 5, 7},   {4, 4, 16, 16},
                                        {9, 9, 32, 8},  {9, 9, 16, 32}, {8, 2, 16, 16}};
    static const int64_t query_start[] = {0, 1, 2, 5, 6}, query_length[] = {1, 1, 3, 1, 1};
    static const int64_t key_start[] = {0, 1, 4, 8, 72}, key_length[] = {1, 3, 4, 64, 9};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (int causal = 0; causal < 2; causal++) {
            struct composition_case test = {
                .name = causal ? "single queries, causal" : "single queries",
                .shape = {QKV_SHAPE(7, widths[w][0] * widths[w][2]),
                          QKV_SHAPE(81, widths[w][1] * widths[w][2]),
                          QKV_SHAPE(81, widths[w][1] * widths[w][3])},
                .attention = {.rule = {.heads = widths[w][0],
                                       .key_value_heads = widths[w][1],
                                       .causal = causal},
                              .queries = {5, query_start, query_length},
                              .keys = {5, key_start, key_length}},
            };
            expect_composition(&test, attention, attention_parts);
            test.name = "single queries, dropout";
            test.attention.rule.dropout = 0.3;
            test.drops = true;
            expect_composition(&test, attention, attention_parts);
        }
}

Test(fused, attention_of_a_tensor_to_itself)
{
    for (int n = 0; n < ROW_COUNT; n++) {
        struct ragged r;
        make_ragged(&r, ROWS[n], false);
        const struct composition_case test = {
            .name = "one tensor",
            .shape = {QKV_SHAPE(ROWS[n], 6)},
            .one_tensor = true,
            .attention = {.rule = {.heads = 2, .causal = true, .scale = 0.7},
                          .queries = r.queries,
                          .keys = r.keys},
        };
        expect_composition(&test, attention, attention_parts);
    }
}

/* A random mask that hides all keys from query 2. */
static double *make_mask(int64_t queries, int64_t keys)
{
    double *mask = malloc((size_t)(queries * keys) * sizeof *mask);
    for (int64_t i = 0; i < queries * keys; i++) mask[i] = i / keys != 2 && number(8, i) > -0.3;
    return mask;
}

Test(fused, attention_with_a_mask)
{
    for (int n = 1; n < ROW_COUNT; n++) {
        int64_t rows = ROWS[n];
        double *mask = make_mask(rows, rows);
        for (int causal = 0; causal < 2; causal++) {
            const int64_t start[] = {0, rows}, length[] = {rows, rows};
            const struct qkv_segments segments = {2, start, length};
            const struct composition_case test = {
                .name = causal ? "masked and causal" : "masked",
                .shape = {QKV_SHAPE(2 * rows, 6), QKV_SHAPE(2 * rows, 6), QKV_SHAPE(2 * rows, 10),
                          QKV_SHAPE(rows, rows)},
                .attention = {.rule = {.heads = 2, .causal = causal}, .queries = segments, .keys = segments},
                .mask = mask,
            };
            expect_composition(&test, attention, attention_parts);
        }
        free(mask);
    }
}

Test(fused, a_fully_masked_query_has_zero_result_and_gradients)
{
    enum { ROWS_HERE = 7, WIDTH = 6 };
    double *mask = make_mask(ROWS_HERE, ROWS_HERE), cotangent[ROWS_HERE * WIDTH];
    const struct composition_case test = {.mask = mask};
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
        struct qkv_tensor *x[3], *masking = qkv_constant(graph, QKV_SHAPE(ROWS_HERE, ROWS_HERE));
        write_input(masking, &test, 3);
        for (int k = 0; k < 3; k++)
            write_input(x[k] = qkv_variable(graph, QKV_SHAPE(ROWS_HERE, WIDTH)), &test, k);
        struct qkv_tensor *y =
            qkv_attention(graph, x[0], x[1], x[2], masking, (struct qkv_attention){.rule.heads = 2});
        qkv_forward(graph);
        /* The loss depends on the masked query only, so all gradients must be 0. */
        for (int i = 0; i < ROWS_HERE * WIDTH; i++) cotangent[i] = i / WIDTH == 2;
        qkv_backward(graph, y, cotangent);
        for (int head = 0; head < 2; head++) {
            int64_t queries, keys;
            const double *weights = qkv_attention_weights_of(y, 0, head, &queries, &keys);
            for (int64_t j = 0; j < keys; j++) cr_expect_eq(weights[2 * keys + j], 0.0);
        }
        const double *value = qkv_tensor_value(y);
        for (int j = 0; j < WIDTH; j++) cr_expect_eq(value[2 * WIDTH + j], 0.0);
        for (int k = 0; k < 3; k++) {
            const double *gradient = qkv_tensor_gradient(x[k]);
            for (int i = 0; i < ROWS_HERE * WIDTH; i++) cr_expect_eq(gradient[i], 0.0, "%s", VARIANTS[v]);
        }
        qkv_graph_free(graph);
    }
    unsetenv("QKV_KERNELS");
    free(mask);
}
