/* The fused attention against scores, weights and mix. */
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
    if (!attention.queries.count) { /* the parts want their one sentence spelled out */
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

/* Three sentences with `rows` queries in all (one, when there are too few rows), and `rows` + 3 keys for
 * cross. */
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

static void expect_attention(const char *name, struct qkv_segments queries, struct qkv_segments keys,
                             int64_t query_rows, int64_t key_rows, int w, bool causal, double dropout)
{
    const struct composition_case test = {
        .name = name,
        .shape = {QKV_SHAPE(query_rows, WIDTHS[w].heads * WIDTHS[w].key_width),
                  QKV_SHAPE(key_rows, WIDTHS[w].heads * WIDTHS[w].key_width),
                  QKV_SHAPE(key_rows, WIDTHS[w].heads * WIDTHS[w].value_width)},
        .attention = {.rule = {.heads = WIDTHS[w].heads, .causal = causal, .dropout = dropout},
                      .queries = queries,
                      .keys = keys},
        .drops = dropout > 0,
    };
    expect_composition(&test, attention, attention_parts);
}

Test(fused, attention_is_scores_weights_and_mix)
{
    const struct qkv_segments whole = {0};
    for (int n = 0; n < ROW_COUNT; n++)
        for (int w = 0; w < WIDTH_COUNT; w++) {
            struct ragged self, cross;
            make_ragged(&self, ROWS[n], false);
            make_ragged(&cross, ROWS[n], true);
            expect_attention("self", self.queries, self.keys, ROWS[n], ROWS[n], w, false, 0);
            expect_attention("causal", self.queries, self.keys, ROWS[n], ROWS[n], w, true, 0);
            expect_attention("cross", cross.queries, cross.keys, cross.query_rows, cross.key_rows, w, false,
                             0);
            expect_attention("whole", whole, whole, ROWS[n], ROWS[n], w, false, 0);
            expect_attention("whole, causal", whole, whole, ROWS[n], ROWS[n], w, true, 0);
            expect_attention("whole, cross", whole, whole, ROWS[n], ROWS[n] + 5, w, false, 0);
            expect_attention("dropout", cross.queries, cross.keys, cross.query_rows, cross.key_rows, w, false,
                             0.3);
        }
}

/* What every step of decoding runs: sentences of one query, short and long ones, between a longer one. */
Test(fused, attention_of_single_queries)
{
    /* Heads, heads of keys and values, width of a key, of a value. */
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

/* A mask in which row 2 sees nothing. */
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

Test(fused, a_row_that_sees_nothing_gives_nothing)
{
    enum { ROWS_HERE = 7, WIDTH = 6 };
    double *mask = make_mask(ROWS_HERE, ROWS_HERE), cotangent[ROWS_HERE * WIDTH];
    const struct composition_case test = {.mask = mask};
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
        struct qkv_tensor *x[3], *marks = qkv_constant(graph, QKV_SHAPE(ROWS_HERE, ROWS_HERE));
        write_input(marks, &test, 3);
        for (int k = 0; k < 3; k++)
            write_input(x[k] = qkv_variable(graph, QKV_SHAPE(ROWS_HERE, WIDTH)), &test, k);
        struct qkv_tensor *y =
            qkv_attention(graph, x[0], x[1], x[2], marks, (struct qkv_attention){.rule.heads = 2});
        qkv_forward(graph);
        /* Only the blind row is looked at: nothing may flow anywhere. */
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
